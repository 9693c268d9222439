// Bodies of control messages made by hand, without the library and without msgpack-c.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string_view>

#include "atbus/bytes.hpp"
#include "protocol/control.h"

namespace atbus::detail {

inline byte_buffer raw(std::initializer_list<int> values) {
  byte_buffer bytes;
  for (const int value : values)
    bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

// Pairs of hexadecimal digits; spaces are passed over.
inline byte_buffer from_hex(std::string_view digits) {
  byte_buffer bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    while (digits[i] == ' ')
      ++i;
    unsigned value = 0;
    std::from_chars(digits.data() + i, digits.data() + i + 2, value, 16);
    bytes.push_back(static_cast<std::byte>(value));
  }
  return bytes;
}

inline void append_bytes(byte_buffer& to, bytes_view bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

inline byte_buffer joined(std::initializer_list<bytes_view> parts) {
  byte_buffer bytes;
  for (const bytes_view part : parts)
    append_bytes(bytes, part);
  return bytes;
}

inline byte_buffer big_endian(int form, std::uint64_t value, unsigned size) {
  byte_buffer bytes = raw({form});
  for (unsigned i = size; i > 0; --i)
    bytes.push_back(static_cast<std::byte>(value >> (8 * (i - 1))));
  return bytes;
}

inline byte_buffer raw_number(std::uint64_t value) {
  return big_endian(0xcf, value, 8);
}
inline byte_buffer raw_text(std::string_view text) {
  return joined({big_endian(0xdb, text.size(), 4), as_bytes(text)});
}
inline byte_buffer raw_bytes(std::size_t count) {
  return joined({big_endian(0xc6, count, 4), byte_buffer(count, std::byte{7})});
}
inline byte_buffer raw_array(std::size_t announced) {
  return big_endian(0xdd, announced, 4);
}
inline byte_buffer raw_map(std::size_t announced) {
  return big_endian(0xdf, announced, 4);
}
inline byte_buffer repeated(const byte_buffer& part, std::size_t times) {
  byte_buffer bytes;
  for (std::size_t i = 0; i < times; ++i)
    append_bytes(bytes, part);
  return bytes;
}

// Key to value.
using raw_fields = std::map<int, byte_buffer>;

inline byte_buffer raw_body(const raw_fields& fields) {
  byte_buffer body = raw_map(fields.size());
  for (const auto& [key, value] : fields)
    append_bytes(body, joined({raw({key}), value}));
  return body;
}

inline byte_buffer raw_message(message_kind kind, bytes_view body) {
  return joined({raw({static_cast<int>(kind), 0, 0, 0, 0, 0, 0, 0}), body});
}

// A hello that lacks nothing.
inline raw_fields hello_fields() {
  return {{1, raw_number(1)},
          {2, raw_number(1)},
          {3, raw_number(0)},
          {4, raw_number(1)},
          {5, raw_number(1001)},
          {6, raw_bytes(32)},
          {7, joined({raw_array(1), raw_text("shm://node")})},
          {8, raw_bytes(16)},
          {9, raw_number(65536)},
          {10, raw_number(0)},
          {12, raw_number(0)},
          {13, raw_number(0)},
          {14, raw_number(0)}};
}

}  // namespace atbus::detail
