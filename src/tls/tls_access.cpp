#include "tls/tls_access.h"

#include <utility>

#include "core/address_kinds.h"

namespace atbus::detail {

result<tls_sessions> tls_sessions::make(const address& where, const tls_credentials& wanted,
                                        tls_role role) {
  tls_sessions made;
  const auto& context = tls_access::context_of(wanted);
  const bool is_tcp = is_stream(where.kind()) && where.kind() != address_kind::unix_socket;
  const bool asked = where.flag(address_option::tls).value_or(context != nullptr);
  if (!is_tcp || !asked)
    return made;
  if (context == nullptr) {
    return error{errc::invalid_argument,
                 where.to_string() + ": tls=true needs a token or certificates"};
  }
  if (role == tls_role::server && !context->can_accept()) {
    return error{errc::invalid_argument,
                 where.to_string() + ": who accepts connections needs a certificate and its key"};
  }
  made.context_ = context;
  made.role_ = role;
  if (role == tls_role::client && !context->uses_secrets())
    made.host_ = where.name();
  return made;
}

result<std::unique_ptr<tls_socket>> tls_sessions::begin(tls_buffers& buffers) const noexcept {
  if (context_ == nullptr)
    return std::unique_ptr<tls_socket>{};
  return tls_socket::make(context_, buffers, role_, host_);
}

}  // namespace atbus::detail
