// What the library makes of a user's credentials.
#pragma once

#include <memory>

#include "atbus/address.hpp"
#include "atbus/status.hpp"
#include "atbus/tls.hpp"
#include "tls/tls_socket.h"

namespace atbus::detail {

struct tls_access {
  [[nodiscard]] static const std::shared_ptr<const tls_context>& context_of(
      const tls_credentials& credentials) noexcept {
    return credentials.context_;
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
  explicit operator bool() const noexcept { return context_ != nullptr; }
  // A new session; null if connections are not encrypted. Errors: as tls_socket::make.
  [[nodiscard]] result<std::unique_ptr<tls_socket>> begin(tls_buffers& buffers) const noexcept;

 private:
  std::shared_ptr<const tls_context> context_;
  tls_role role_ = tls_role::client;
  std::string host_;  // that the certificate of the other end must have; empty: any
};

}  // namespace atbus::detail
