#include "tls/tls_access.h"

#include <utility>

#include "core/address_kinds.h"

namespace atbus::detail {

result<tls_sessions> tls_sessions::make(const address& where, const tls_credentials& wanted,
                                        tls_role role) {
  tls_sessions made;
  const auto& source = tls_access::source_of(wanted);
  const bool is_network = is_stream(where.kind()) && where.kind() != address_kind::unix_socket;
  const bool asked = where.flag(address_option::tls).value_or(source != nullptr);
  if (!is_network || !asked)
    return made;
  if (source == nullptr) {
    return error{errc::invalid_argument,
                 where.to_string() + ": tls=true needs a token or certificates"};
  }
  if (role == tls_role::server && !source->current()->can_accept()) {
    return error{errc::invalid_argument,
                 where.to_string() + ": who accepts connections needs a certificate and its key"};
  }
  made.source_ = source;
  made.role_ = role;
  // A subject is no host, and the NATS server's own name is not the listener's.
  if (role == tls_role::client && where.kind() != address_kind::nats) {
    made.host_ = where.name();
    // The dot that keeps a resolver from completing a name is in no certificate.
    if (made.host_.ends_with('.'))
      made.host_.pop_back();
  }
  return made;
}

result<std::unique_ptr<tls_socket>> tls_sessions::begin(tls_buffers& buffers) const noexcept {
  if (source_ == nullptr)
    return std::unique_ptr<tls_socket>{};
  auto context = source_->current();
  if (context->uses_secrets())
    return tls_socket::make(std::move(context), buffers, role_);
  return tls_socket::make(std::move(context), buffers, role_, host_);
}

}  // namespace atbus::detail
