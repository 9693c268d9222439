#include "protocol/token.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <string>
#include <string_view>
#include <utility>

namespace atbus::detail {
namespace {

constexpr std::string_view name_label = "atbus token name";

}  // namespace

result<token> token::make(bytes_view secret) {
  if (secret.size() < token_size_min || secret.size() > token_size_max) {
    return error{errc::invalid_argument, "a token has " + std::to_string(secret.size()) +
                                             " bytes; it needs " + std::to_string(token_size_min) +
                                             " to " + std::to_string(token_size_max)};
  }
  const auto name = hmac_sha256(secret, {as_bytes(name_label)});
  if (!name)
    return error{errc::system_error, "HMAC-SHA-256 can't be computed here"};
  return token{secret, *name};
}

std::optional<message_mac> hmac_sha256(bytes_view key, std::initializer_list<bytes_view> parts) {
  byte_buffer input;
  for (const bytes_view part : parts)
    input.insert(input.end(), part.begin(), part.end());
  message_mac mac{};
  unsigned size = 0;
  const unsigned char* const computed =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(input.data()), input.size(),
           reinterpret_cast<unsigned char*>(mac.data()), &size);
  if (computed == nullptr || size != mac.size())
    return std::nullopt;
  return mac;
}

bool can_compute_hmac() {
  const std::string_view any = "any";
  return hmac_sha256(as_bytes(any), {as_bytes(any)}).has_value();
}

bool equal_in_constant_time(const message_mac& left, const message_mac& right) noexcept {
  return CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

}  // namespace atbus::detail
