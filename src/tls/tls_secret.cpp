#include "tls/tls_secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <string_view>

namespace atbus::detail {
namespace {

constexpr std::string_view identity_label = "atbus tls 1.3 psk identity";
constexpr std::string_view key_label = "atbus tls 1.3 psk key";

bool labelled_hmac(bytes_view secret, std::string_view label,
                   std::array<std::byte, tls_secret::hash_size>& out) noexcept {
  unsigned size = 0;
  return HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
              reinterpret_cast<const unsigned char*>(label.data()), label.size(),
              reinterpret_cast<unsigned char*>(out.data()), &size) != nullptr &&
         size == out.size();
}

}  // namespace

tls_secret::~tls_secret() {
  OPENSSL_cleanse(key.data(), key.size());
}

bool tls_secret::derive(bytes_view secret) noexcept {
  std::array<std::byte, hash_size> hash{};
  if (!labelled_hmac(secret, identity_label, hash) || !labelled_hmac(secret, key_label, key))
    return false;
  constexpr std::string_view digits = "0123456789abcdef";
  for (std::size_t i = 0; i != hash.size(); ++i) {
    const auto value = std::to_integer<std::size_t>(hash[i]);
    identity[2 * i] = digits[value >> 4];
    identity[2 * i + 1] = digits[value & 15];
  }
  return true;
}

}  // namespace atbus::detail
