// What the library makes of a user's credentials.
#pragma once

#include <memory>

#include "atbus/address.hpp"
#include "atbus/status.hpp"
#include "atbus/tls.hpp"
#include "tls/tls_socket.h"
#include "tls/tls_source.h"

namespace atbus::detail {

struct tls_access {
  // Null: there are none.
  [[nodiscard]] static const std::shared_ptr<tls_source>& source_of(
      const tls_credentials& credentials) noexcept {
    return credentials.source_;
  }
  // Whether the other end of that session would be accepted with what the credentials hold now.
  [[nodiscard]] static bool trusts(const tls_credentials& credentials,
                                   const tls_socket& session) noexcept {
    return credentials.source_ == nullptr || session.is_trusted_by(*credentials.source_->current());
  }
};

// The TLS sessions of one channel: what its connections share. One thread.
class tls_sessions {
 public:
  // Not encrypted.
  tls_sessions() = default;

  // What an address and its options ask for. Errors: invalid_argument (tls=true without credentials; a listener
  // without a certificate or a secret).
  [[nodiscard]] static result<tls_sessions> make(const address& where,
                                                 const tls_credentials& wanted, tls_role role);

  // Whether connections are encrypted.
  explicit operator bool() const noexcept { return source_ != nullptr; }
  // A new session; null if connections are not encrypted. Errors: as tls_socket::make.
  [[nodiscard]] result<std::unique_ptr<tls_socket>> begin(tls_buffers& buffers) const noexcept;

 private:
  std::shared_ptr<tls_source> source_;
  tls_role role_ = tls_role::client;
  std::string host_;  // that a certificate of the other end must have; empty: any
};

}  // namespace atbus::detail
