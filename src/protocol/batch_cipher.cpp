#include "protocol/batch_cipher.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <array>
#include <cstring>
#include <new>
#include <string_view>

#include "atbus/detail/little_endian.hpp"
#include "protocol/token.h"

namespace atbus::detail {
namespace {

constexpr std::string_view key_label = "atbus circuit";

using nonce = std::array<unsigned char, 12>;

nonce nonce_of(std::uint64_t counter) noexcept {
  nonce made{};
  for (std::size_t i = made.size(); counter != 0; counter >>= 8U)
    made[--i] = static_cast<unsigned char>(counter);
  return made;
}

std::array<std::byte, 34> covered_by_tag(const routed_head& head) noexcept {
  std::array<std::byte, 34> bytes{};
  store_little_endian(bytes.data(), head.destination.value());
  store_little_endian(bytes.data() + 8, head.source.value());
  store_little_endian(bytes.data() + 16, head.circuit);
  store_little_endian(bytes.data() + 24, head.number);
  store_little_endian(bytes.data() + 32, head.messages);
  return bytes;
}

const unsigned char* raw(const std::byte* bytes) noexcept {
  return reinterpret_cast<const unsigned char*>(bytes);
}
unsigned char* raw(std::byte* bytes) noexcept {
  return reinterpret_cast<unsigned char*>(bytes);
}

}  // namespace

void batch_cipher::context_free::operator()(evp_cipher_ctx_st* context) const noexcept {
  EVP_CIPHER_CTX_free(context);  // wipes the key
}

std::optional<batch_cipher> batch_cipher::make(bytes_view secret, const routed_head& of,
                                               std::uint64_t salt) noexcept try {
  std::array<std::byte, 32> which{};
  store_little_endian(which.data(), of.circuit);
  store_little_endian(which.data() + 8, of.source.value());
  store_little_endian(which.data() + 16, of.destination.value());
  store_little_endian(which.data() + 24, salt);
  context made{EVP_CIPHER_CTX_new()};
  auto key = hmac_sha256(secret, {as_bytes(key_label), which});
  if (made == nullptr || !key)
    return std::nullopt;
  const bool is_set =
      EVP_CipherInit_ex(made.get(), EVP_aes_256_gcm(), nullptr, raw(key->data()), nullptr, 1) == 1;
  OPENSSL_cleanse(key->data(), key->size());
  if (!is_set)
    return std::nullopt;
  return batch_cipher{std::move(made), salt};
} catch (const std::bad_alloc&) {
  return std::nullopt;
}

std::uint64_t batch_cipher::salt_of(bytes_view sealed) noexcept {
  return load_little_endian<std::uint64_t>(sealed.data());
}

bool batch_cipher::seal(const routed_head& head, bytes_view plain, std::byte* to) noexcept {
  const nonce with = nonce_of(++counter_);
  const auto covered = covered_by_tag(head);
  store_little_endian(to, salt_);
  std::memcpy(to + 8, with.data() + 4, 8);
  std::byte* const text = to + prefix_size;
  int size = 0;
  return EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr, with.data(), 1) == 1 &&
         EVP_CipherUpdate(context_.get(), nullptr, &size, raw(covered.data()),
                          static_cast<int>(covered.size())) == 1 &&
         EVP_CipherUpdate(context_.get(), raw(text), &size, raw(plain.data()),
                          static_cast<int>(plain.size())) == 1 &&
         EVP_CipherFinal_ex(context_.get(), raw(text + plain.size()), &size) == 1 &&
         EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, static_cast<int>(tag_size),
                             text + plain.size()) == 1;
}

bool batch_cipher::open(const routed_head& head, bytes_view sealed, std::byte* to) noexcept {
  if (sealed.size() < overhead || salt_of(sealed) != salt_)
    return false;
  nonce with{};
  std::memcpy(with.data() + 4, sealed.data() + 8, 8);
  std::array<std::byte, tag_size> tag{};
  std::memcpy(tag.data(), sealed.last(tag_size).data(), tag_size);
  const auto covered = covered_by_tag(head);
  const bytes_view text = sealed.subspan(prefix_size, sealed.size() - overhead);
  int size = 0;
  return EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr, with.data(), 0) == 1 &&
         EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, static_cast<int>(tag_size),
                             tag.data()) == 1 &&
         EVP_CipherUpdate(context_.get(), nullptr, &size, raw(covered.data()),
                          static_cast<int>(covered.size())) == 1 &&
         EVP_CipherUpdate(context_.get(), raw(to), &size, raw(text.data()),
                          static_cast<int>(text.size())) == 1 &&
         EVP_CipherFinal_ex(context_.get(), raw(to + text.size()), &size) == 1;
}

}  // namespace atbus::detail
