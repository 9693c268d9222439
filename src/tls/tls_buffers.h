// Output buffers that the sessions of one context take in turns.
//
// A session needs one only while it encrypts and until the kernel has taken the ciphertext, so an idle
// session has none. Bounded: the pool keeps at most `spares_max` unused ones.
//
// One thread.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace atbus::detail {

// Most plaintext of a record, and most of what a record adds to it (RFC 8446, 5.2).
inline constexpr std::size_t tls_record_plain_max = 16 * 1024;
inline constexpr std::size_t tls_record_added_max = 5 + 256;
// Plaintext that is encrypted before a system call. doc/design/tls.md has the figures.
inline constexpr std::size_t tls_batch_plain_max = 128 * 1024;
// A batch, and room for an alert, a key update and handshake messages before it.
inline constexpr std::size_t tls_output_size =
    tls_batch_plain_max + tls_batch_plain_max / tls_record_plain_max * tls_record_added_max +
    4 * 1024;

using tls_output = std::unique_ptr<std::byte[]>;

class tls_buffers {
 public:
  // A buffer of tls_output_size bytes; null if there is no memory.
  [[nodiscard]] tls_output take() noexcept {
    if (spare_count_ != 0)
      return std::move(spares_[--spare_count_]);
    return tls_output{new (std::nothrow) std::byte[tls_output_size]};
  }
  void give_back(tls_output buffer) noexcept {
    if (spare_count_ != spares_.size())
      spares_[spare_count_++] = std::move(buffer);
  }

 private:
  static constexpr std::size_t spares_max = 4;
  std::array<tls_output, spares_max> spares_;
  std::size_t spare_count_ = 0;
};

}  // namespace atbus::detail
