// Messages of any length that carry a number.
#pragma once

#include "atbus/bytes.hpp"
#include "numbered_message.h"
#include "test.h"

namespace atbus {

inline std::string numbered(std::size_t size, std::uint64_t number) {
  std::string message(size, '\0');
  test::write_message({reinterpret_cast<std::byte*>(message.data()), size}, 1, number);
  return message;
}

// Its number, or 0 if it is not whole.
inline std::uint64_t number_of(std::string_view message) {
  test::message_stamp stamp;
  return test::read_message(as_bytes(message), stamp) ? stamp.number : 0;
}

}  // namespace atbus
