#include "atbus/tls.hpp"

#include <array>
#include <new>
#include <utility>
#include <vector>

#include "atbus/bytes.hpp"
#include "tls/tls_access.h"
#include "tls/tls_context.h"
#include "tls/tls_source.h"

namespace atbus {

result<tls_credentials> tls_credentials::of(
    result<std::shared_ptr<const detail::tls_context>> made) noexcept try {
  if (!made)
    return made.error();
  return tls_credentials{std::make_shared<detail::tls_source>(*std::move(made))};
} catch (const std::bad_alloc&) {
  return error{errc::out_of_memory};
}

result<tls_credentials> tls_credentials::from_token(std::string_view secret) {
  const std::array secrets{as_bytes(secret)};
  auto made = detail::tls_context::from_secrets(secrets);
  return of(std::move(made));
}

result<tls_credentials> tls_credentials::from_tokens(std::span<const std::string> secrets) {
  std::vector<bytes_view> all;
  for (const std::string& one : secrets)
    all.push_back(as_bytes(one));
  auto made = detail::tls_context::from_secrets(all);
  return of(std::move(made));
}

result<tls_credentials> tls_credentials::from_files(const tls_files& files) {
  auto made =
      detail::tls_context::from_files({.chain = files.chain,
                                       .key = files.key,
                                       .authority = files.authority,
                                       .require_peer_certificate = files.require_peer_certificate});
  return of(std::move(made));
}

error tls_credentials::replace(const tls_credentials& by) const {
  if (source_ == nullptr || by.source_ == nullptr)
    return {errc::invalid_argument, "credentials that hold nothing can't be replaced, nor replace"};
  auto fresh = by.source_->current();
  if (source_->current()->can_accept() && !fresh->can_accept()) {
    return {errc::invalid_argument,
            "credentials with a certificate can't be replaced by some without"};
  }
  source_->replace(std::move(fresh));
  return {};
}

std::optional<std::chrono::system_clock::time_point> tls_credentials::expires() const noexcept {
  return source_ == nullptr ? std::nullopt : source_->current()->expires();
}

}  // namespace atbus
