/// @file
/// How TCP channels are encrypted: TLS 1.3 from a shared secret, or with certificates.
///
/// ```cpp
/// auto keys = atbus::tls_credentials::from_token(secret);
/// auto in = atbus::receiver::open("ipv6://[::]:4711", {.socket = {.tls = *keys}});
/// ```
///
/// A node with a token needs none of this: it encrypts its TCP links by itself.
///
/// Ownership and threads: a value; copies share what they hold. Copy, use and destroy them on any thread. To rotate,
/// replace() what they hold: channels that are open take it too.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "atbus/detail/export.hpp"
#include "atbus/status.hpp"

namespace atbus {

namespace detail {
class tls_context;
class tls_source;
struct tls_access;
}  // namespace detail

/// PEM files of one end. They are read when the credentials are made.
struct tls_files {
  /// This end's certificate, then those between it and its CA. Empty: none; then it can only dial.
  std::string chain = {};
  /// The private key of the first certificate in `chain`. It must not need a password.
  std::string key = {};
  /// The CAs from one of which the other end's certificate must come.
  std::string authority = {};
  /// Whether an end that accepts connections wants a certificate of the other end too.
  bool require_peer_certificate = true;
};

/// What this end proves of itself, and what it expects of the other end.
class tls_credentials {
 public:
  /// None: channels are not encrypted.
  tls_credentials() noexcept = default;

  /// From a secret that both ends have: 16 to 1024 random bytes. Without it one can't connect or read along, and
  /// recorded bytes stay secret if it becomes known later. An attacker that sees a connection begin can try guesses
  /// against it: a secret that can be guessed is none. Errors: invalid_argument, out_of_memory, system_error.
  ATBUS_API static result<tls_credentials> from_token(std::string_view secret);
  /// The same, to rotate: an end that dials offers the first secret, an end that accepts takes any.
  ATBUS_API static result<tls_credentials> from_tokens(std::span<const std::string> secrets);
  /// From certificates. An end that dials accepts only a certificate with the host of the address. Errors, which name
  /// the file: not_found, denied, invalid_argument (not PEM, expired, not valid yet, the key of another certificate,
  /// no authority), out_of_memory, system_error.
  ATBUS_API static result<tls_credentials> from_files(const tls_files& files);

  /// Whether there are any.
  explicit operator bool() const noexcept { return source_ != nullptr; }
  /// Connections that begin from now on use what `by` holds, wherever a copy of this object is in use; those that
  /// exist keep what they have. Any thread. Errors: invalid_argument (one of the two holds nothing; `by` has no
  /// certificate where this one has).
  ATBUS_API error replace(const tls_credentials& by) const;
  /// When the first certificate of the chain expires; nothing without one.
  [[nodiscard]] ATBUS_API std::optional<std::chrono::system_clock::time_point> expires()
      const noexcept;

 private:
  friend struct detail::tls_access;
  static result<tls_credentials> of(
      result<std::shared_ptr<const detail::tls_context>> made) noexcept;
  explicit tls_credentials(std::shared_ptr<detail::tls_source> source) noexcept
      : source_(std::move(source)) {}

  std::shared_ptr<detail::tls_source> source_;
};

}  // namespace atbus
