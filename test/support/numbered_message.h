// Messages that carry who sent them, which one it is, and proof that they are whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace atbus::test {

struct message_stamp {
  std::uint32_t sender = 0;  // one per incarnation of a sending process
  std::uint32_t length = 0;  // of the whole message
  std::uint64_t number = 0;  // 1, 2, 3, ...
  std::uint64_t check = 0;   // over the fields above and the bytes behind the stamp
};
inline constexpr std::size_t smallest_message = sizeof(message_stamp);

namespace detail_of_message {
inline std::uint64_t mix(std::uint64_t x) noexcept {
  x = (x ^ x >> 29) * 0x9e3779b97f4a7c15U;  // 2^64 over the golden ratio: spreads any input
  return x ^ x >> 32;
}
inline std::uint64_t start(const message_stamp& s) noexcept {
  return mix(s.number * 0x9e3779b97f4a7c15U + (std::uint64_t{s.sender} << 32) + s.length);
}
}  // namespace detail_of_message

// Fills all of `out` (at least `smallest_message` bytes).
inline void write_message(std::span<std::byte> out, std::uint32_t sender,
                          std::uint64_t number) noexcept {
  message_stamp stamp{sender, static_cast<std::uint32_t>(out.size()), number, 0};
  std::uint64_t state = detail_of_message::start(stamp);
  stamp.check = state;
  std::memcpy(out.data(), &stamp, sizeof stamp);
  for (std::size_t i = sizeof stamp; i < out.size(); ++i) {
    if (i % 8 == 0)
      state = detail_of_message::mix(state + i);
    out[i] = static_cast<std::byte>(state >> (8 * (i % 8)));
  }
}

// Reads the stamp; false if any byte of the message is not what its sender wrote.
[[nodiscard]] inline bool read_message(std::span<const std::byte> message,
                                       message_stamp& stamp) noexcept {
  if (message.size() < sizeof stamp)
    return false;
  std::memcpy(&stamp, message.data(), sizeof stamp);
  if (stamp.length != message.size())
    return false;
  std::uint64_t state = detail_of_message::start(stamp);
  if (stamp.check != state)
    return false;
  for (std::size_t i = sizeof stamp; i < message.size(); ++i) {
    if (i % 8 == 0)
      state = detail_of_message::mix(state + i);
    if (message[i] != static_cast<std::byte>(state >> (8 * (i % 8))))
      return false;
  }
  return true;
}

}  // namespace atbus::test
