#include "atbus/tls.hpp"

#include <array>
#include <utility>
#include <vector>

#include "atbus/bytes.hpp"
#include "tls/tls_access.h"
#include "tls/tls_context.h"

namespace atbus {

result<tls_credentials> tls_credentials::from_token(std::string_view secret) {
  const std::array secrets{as_bytes(secret)};
  auto made = detail::tls_context::from_secrets(secrets);
  if (!made)
    return made.error();
  return tls_credentials{std::move(*made)};
}

result<tls_credentials> tls_credentials::from_tokens(std::span<const std::string> secrets) {
  std::vector<bytes_view> all;
  for (const std::string& one : secrets)
    all.push_back(as_bytes(one));
  auto made = detail::tls_context::from_secrets(all);
  if (!made)
    return made.error();
  return tls_credentials{std::move(*made)};
}

result<tls_credentials> tls_credentials::from_files(const tls_files& files) {
  auto made =
      detail::tls_context::from_files({.chain = files.chain,
                                       .key = files.key,
                                       .authority = files.authority,
                                       .require_peer_certificate = files.require_peer_certificate});
  if (!made)
    return made.error();
  return tls_credentials{std::move(*made)};
}

std::optional<std::chrono::system_clock::time_point> tls_credentials::expires() const noexcept {
  return context_ == nullptr ? std::nullopt : context_->expires();
}

}  // namespace atbus
