// What one NATS message of the carrier holds (doc/design/nats.md):
//
//      0  "ATB" and the version, 1
//      4  kind
//      5  zero
//      8  number, little endian
//     16  body
//    end  tag of 16 bytes, over all before it; not in `open`
//
// Pure functions. No byte that they read is trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "atbus/bytes.hpp"

namespace atbus::detail {

using byte_buffer = std::vector<std::byte>;

enum class carrier_kind : std::uint8_t {
  open = 1,  // to a listener: a public key and the inbox of a dialling end
  accept,    // its answer: the same of the listening end
  data,      // bytes of the link
  credit,    // up to which byte of the link the other end may send; also a sign of life
  end,       // no further data comes from this end
  close,     // this end has no further use for data either
};

inline constexpr std::size_t carrier_head_size = 16;
inline constexpr std::size_t carrier_tag_size = 16;
inline constexpr std::size_t carrier_key_size = 32;
inline constexpr std::size_t carrier_inbox_max = 200;
inline constexpr std::size_t carrier_data_max = 60 * 1024;  // bytes of the link in one message
// The longest message, and the longest of those that open a link.
inline constexpr std::size_t carrier_message_max =
    carrier_head_size + carrier_data_max + carrier_tag_size;
inline constexpr std::size_t carrier_opening_max =
    carrier_head_size + carrier_key_size + carrier_inbox_max;

struct carrier_frame {
  carrier_kind kind = carrier_kind::open;
  std::uint64_t number = 0;
  bytes_view body;
};

// Head and body; the tag, if there is one, is to be checked by the caller. No value: it is none of ours.
[[nodiscard]] std::optional<carrier_frame> read_frame(bytes_view message) noexcept;

// A head, and room for a body behind it.
void write_head(carrier_kind kind, std::uint64_t number, byte_buffer& to);

// The body of `open` and `accept`.
struct carrier_opening {
  bytes_view key;
  std::string_view inbox;
};
// No value: the key has another size, or the inbox is none of a carrier's.
[[nodiscard]] std::optional<carrier_opening> read_opening(bytes_view body) noexcept;

// Tokens of A-Z a-z 0-9 _ - between dots.
[[nodiscard]] bool is_subject(std::string_view text) noexcept;

// "PREFIX.atbus.<32 hexadecimal digits>.<16 hexadecimal digits>". Nothing else is published to: a stranger can
// name an inbox, but not a subject that means something to others.
[[nodiscard]] bool is_inbox(std::string_view subject) noexcept;

[[nodiscard]] std::optional<std::uint64_t> read_credit(bytes_view body) noexcept;
void append_number(std::uint64_t number, byte_buffer& to);

}  // namespace atbus::detail
