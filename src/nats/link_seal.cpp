#include "nats/link_seal.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <string_view>

namespace atbus::detail {
namespace {

constexpr std::string_view purpose = "atbus nats carrier 1";

unsigned char* raw(std::byte* bytes) noexcept {
  return reinterpret_cast<unsigned char*>(bytes);
}
const unsigned char* raw(const std::byte* bytes) noexcept {
  return reinterpret_cast<const unsigned char*>(bytes);
}
bytes_view bytes_of(std::string_view text) noexcept {
  return std::as_bytes(std::span{text});
}

bool hmac(bytes_view key, bytes_view of, seal_key& out) noexcept {
  unsigned length = 0;
  return HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), raw(of.data()), of.size(),
              raw(out.data()), &length) != nullptr &&
         length == out.size();
}

}  // namespace

std::optional<key_pair> key_pair::make() {
  key_pair made;
  made.key_.reset(EVP_PKEY_Q_keygen(nullptr, nullptr, "X25519"));
  std::size_t size = made.public_.size();
  if (made.key_ == nullptr ||
      EVP_PKEY_get_raw_public_key(made.key_.get(), raw(made.public_.data()), &size) != 1)
    return std::nullopt;
  return made;
}

std::optional<seal_keys> key_pair::agree(bytes_view theirs, bytes_view opening,
                                         bytes_view answer) const {
  const std::unique_ptr<EVP_PKEY, freed> other{
      EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, raw(theirs.data()), theirs.size())};
  struct context_freed {
    void operator()(EVP_PKEY_CTX* context) const noexcept { EVP_PKEY_CTX_free(context); }
  };
  const std::unique_ptr<EVP_PKEY_CTX, context_freed> context{EVP_PKEY_CTX_new(key_.get(), nullptr)};
  std::array<std::byte, 32> shared{};
  std::size_t size = shared.size();
  // Refuses keys that make the shared secret zero.
  if (other == nullptr || context == nullptr || EVP_PKEY_derive_init(context.get()) != 1 ||
      EVP_PKEY_derive_set_peer(context.get(), other.get()) != 1 ||
      EVP_PKEY_derive(context.get(), raw(shared.data()), &size) != 1 || size != shared.size())
    return std::nullopt;
  byte_buffer all;
  for (const bytes_view part : {bytes_view{shared}, opening, answer}) {
    append_number(part.size(), all);
    all.insert(all.end(), part.begin(), part.end());
  }
  seal_key both{};
  seal_keys made{};
  const bool done = hmac(bytes_of(purpose), all, both) &&
                    hmac(both, bytes_of("dialler"), made.of_dialler) &&
                    hmac(both, bytes_of("listener"), made.of_listener);
  OPENSSL_cleanse(shared.data(), shared.size());
  OPENSSL_cleanse(all.data(), all.size());
  OPENSSL_cleanse(both.data(), both.size());
  return done ? std::optional{made} : std::nullopt;
}

bool seal(const seal_key& key, byte_buffer& message) {
  seal_key tag{};
  if (!hmac(key, message, tag))
    return false;
  message.insert(message.end(), tag.begin(), tag.begin() + carrier_tag_size);
  return true;
}

bool is_sealed(const seal_key& key, bytes_view message) noexcept {
  seal_key tag{};
  return message.size() >= carrier_tag_size &&
         hmac(key, message.first(message.size() - carrier_tag_size), tag) &&
         CRYPTO_memcmp(tag.data(), message.last(carrier_tag_size).data(), carrier_tag_size) == 0;
}

}  // namespace atbus::detail
