// Numbers as they lie in messages and in shared memory: little endian, at any address.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>

namespace atbus::detail {

static_assert(std::endian::native == std::endian::little,
              "the formats of atbus are little endian, and so far only such processors are met");

template <class Word>
[[nodiscard]] Word load_little_endian(const std::byte* at) noexcept {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}
template <class Word>
void store_little_endian(std::byte* at, Word word) noexcept {
  std::memcpy(at, &word, sizeof word);
}

}  // namespace atbus::detail
