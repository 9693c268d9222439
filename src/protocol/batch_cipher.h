// Encrypts the batches of one direction of a circuit between its two ends, so that relays can't read or change them.
//
//   | salt, u64 | counter, u64, big-endian | ciphertext, as long as the batch | tag, 16 bytes |
//
//   key   = HMAC-SHA-256(secret, "atbus circuit" | circuit | source | destination | salt)
//   nonce = 4 zero bytes | counter
//
// AES-256-GCM. The salt is random and new for each direction of a circuit, the counter for each time that a batch is
// sent: no nonce is used twice. The tag also covers the destination, source, circuit, number and messages of the
// routed head; relays change none of these. There is no forward secrecy: a relay that records a circuit and learns
// the secret later can read it.
//
// One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "atbus/bytes.hpp"
#include "protocol/routed_head.h"

struct evp_cipher_ctx_st;

namespace atbus::detail {

class batch_cipher {
 public:
  static constexpr std::size_t prefix_size = 16;
  static constexpr std::size_t tag_size = 16;
  static constexpr std::size_t overhead = prefix_size + tag_size;
  static_assert(overhead % frame_alignment == 0);

  // For the batches that go with such a head. Nothing: there is no memory.
  [[nodiscard]] static std::optional<batch_cipher> make(bytes_view secret, const routed_head& of,
                                                        std::uint64_t salt) noexcept;
  // That the sender of an encrypted batch has drawn. At least overhead bytes.
  [[nodiscard]] static std::uint64_t salt_of(bytes_view sealed) noexcept;

  // Writes plain.size() + overhead bytes at `to`. False: it can't be computed.
  [[nodiscard]] bool seal(const routed_head& head, bytes_view plain, std::byte* to) noexcept;
  // Writes sealed.size() - overhead bytes at `to`. False: its sender does not have the secret, or something has
  // been changed; what is at `to` then means nothing.
  [[nodiscard]] bool open(const routed_head& head, bytes_view sealed, std::byte* to) noexcept;

 private:
  struct context_free {
    void operator()(evp_cipher_ctx_st* context) const noexcept;
  };
  using context = std::unique_ptr<evp_cipher_ctx_st, context_free>;

  batch_cipher(context made, std::uint64_t salt) noexcept
      : context_(std::move(made)), salt_(salt) {}

  context context_;  // has the key
  std::uint64_t salt_;
  std::uint64_t counter_ = 0;
};

}  // namespace atbus::detail
