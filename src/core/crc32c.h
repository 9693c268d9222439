// CRC-32C (Castagnoli; polynomial 0x1edc6f41, reflected, as in RFC 3720): the checksum of frames.
//
// Uses the processor's instruction (SSE4.2, the CRC extension of ARMv8) if there is one, else tables with
// eight bytes per step; the first use detects which. Long inputs run as
// three interleaved streams, because the instruction takes three cycles and can start every cycle
// (Gopal et al., "Fast CRC Computation for iSCSI Polynomial Using CRC32 Instruction", Intel 2011).
// doc/design/frame.md has the figures.
//
// Any thread, no errors, no allocation.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "atbus/bytes.hpp"

namespace atbus::detail {

using crc32c_extend_function = std::uint32_t(std::uint32_t crc, const std::byte* data,
                                             std::size_t size) noexcept;
using crc32c_frame_function = std::uint32_t(const std::byte* frame, std::size_t length) noexcept;

struct crc32c_implementation {
  std::string_view name;
  crc32c_extend_function* extend;
  crc32c_frame_function* frame;
};

// The implementations that this processor can execute, fastest first; the first one is in use.
[[nodiscard]] std::span<const crc32c_implementation> crc32c_implementations() noexcept;

// Extends the checksum `crc` by `bytes`. The checksum of an empty input is 0.
[[nodiscard]] std::uint32_t crc32c_extend(std::uint32_t crc, bytes_view bytes) noexcept;

[[nodiscard]] inline std::uint32_t crc32c(bytes_view bytes) noexcept {
  return crc32c_extend(0, bytes);
}

// Finds the fastest implementation when first called, then replaces itself.
extern std::atomic<crc32c_frame_function*> crc32c_frame_entry;

// The checksum of a frame: of its first word and `length` bytes of payload, without the field between them.
// `frame` is readable up to the end of its padding (frame_size(length) bytes).
[[nodiscard]] inline std::uint32_t crc32c_frame(const std::byte* frame,
                                                std::size_t length) noexcept {
  // Relaxed: pairs with the store at the first use; both the old and the new function work.
  return crc32c_frame_entry.load(std::memory_order_relaxed)(frame, length);
}

}  // namespace atbus::detail
