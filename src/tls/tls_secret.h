// What a shared secret becomes in TLS: a public name, and a key.
//
//     identity = hex(HMAC-SHA-256(secret, "atbus tls 1.3 psk identity"))
//     key      =     HMAC-SHA-256(secret, "atbus tls 1.3 psk key")
//
// The identity crosses the network in clear. Who sees it can try secrets against it offline, as with any
// HMAC: a secret needs real entropy, at least 128 random bits. Neither value tells the other one.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "atbus/bytes.hpp"

namespace atbus::detail {

// Bytes of a secret.
inline constexpr std::size_t tls_secret_size_min = 16;
inline constexpr std::size_t tls_secret_size_max = 1024;

// Wiped when destroyed.
struct tls_secret {
  static constexpr std::size_t hash_size = 32;
  std::array<char, 2 * hash_size> identity{};
  std::array<std::byte, hash_size> key{};

  tls_secret() = default;
  tls_secret(const tls_secret&) = delete;
  tls_secret& operator=(const tls_secret&) = delete;
  ~tls_secret();

  // False: OpenSSL can't compute it.
  [[nodiscard]] bool derive(bytes_view secret) noexcept;
};

}  // namespace atbus::detail
