// The key that the two ends of a carried link agree on (X25519), and the tags of their messages (HMAC-SHA256).
// Not what keeps the link secret: that is TLS inside of it. The tags keep everyone who was not part of the opening
// from ending a link or from making it read anything.
#pragma once

#include <openssl/evp.h>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "atbus/bytes.hpp"
#include "nats/carrier_frame.h"

namespace atbus::detail {

using seal_key = std::array<std::byte, 32>;

struct seal_keys {
  seal_key of_dialler;   // seals what the dialling end says
  seal_key of_listener;  // and the listening one
};

// Used once, for one link.
class key_pair {
 public:
  // No value: libcrypto fails.
  [[nodiscard]] static std::optional<key_pair> make();

  [[nodiscard]] const std::array<std::byte, carrier_key_size>& public_key() const noexcept {
    return public_;
  }
  // `opening` and `answer`: the bodies of the two messages, which the keys depend on. No value: `theirs` is no
  // key.
  [[nodiscard]] std::optional<seal_keys> agree(bytes_view theirs, bytes_view opening,
                                               bytes_view answer) const;

 private:
  struct freed {
    void operator()(EVP_PKEY* key) const noexcept { EVP_PKEY_free(key); }
  };
  std::unique_ptr<EVP_PKEY, freed> key_;
  std::array<std::byte, carrier_key_size> public_{};
};

// Appends the tag. False: libcrypto fails.
[[nodiscard]] bool seal(const seal_key& key, byte_buffer& message);
// Whether a message that read_frame has taken ends with the right tag.
[[nodiscard]] bool is_sealed(const seal_key& key, bytes_view message) noexcept;

}  // namespace atbus::detail
