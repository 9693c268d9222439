/// @file
/// What cache clients ask and what the server answers: the bodies of requests and responses.
///
///     get       key                                      head, value
///     get_many  count, then a length and a key each      head, a length each, then the values
///     set       set_head, key, value                     head
///     erase     key                                      head
///     stats     nothing                                  text, a line "name value" each
///
/// Numbers are little endian, lengths are u32. head::found counts what was there. A request that the
/// server can't carry out fails with a text.
#pragma once

#include <atbus/bytes.hpp>
#include <cstdint>
#include <cstring>

namespace cache {

enum request_type : std::uint32_t { get = 1, get_many, set, erase, stats };

/// In front of each answer but that of stats; 8 bytes, so that a value behind it is aligned.
struct answer_head {
  std::uint32_t found = 0;
  std::uint32_t count = 0;  ///< of get_many: keys that were asked for
};
/// In front of the key and the value to set.
struct set_head {
  std::uint32_t key_bytes = 0;
  std::uint32_t reserved = 0;
  std::int64_t time_to_live_ms = 0;  ///< 0: for ever
};
/// A length in the answer of get_many: there is no such item,
inline constexpr std::uint32_t not_found = 0xffffffff;
/// or its value did not fit into this answer: ask for it again.
inline constexpr std::uint32_t ask_again = 0xfffffffe;
/// The most keys of one get_many.
inline constexpr std::uint32_t keys_max = 1024;

/// Reads a struct from the front of `from` and takes it away. False: there are too few bytes.
template <class T>
[[nodiscard]] bool take(atbus::bytes_view& from, T& to) noexcept {
  if (from.size() < sizeof(T))
    return false;
  std::memcpy(&to, from.data(), sizeof(T));
  from = from.subspan(sizeof(T));
  return true;
}
/// Reads bytes from the front. False: there are too few.
[[nodiscard]] inline bool take(atbus::bytes_view& from, std::size_t length,
                               atbus::bytes_view& to) noexcept {
  if (from.size() < length)
    return false;
  to = from.first(length);
  from = from.subspan(length);
  return true;
}
/// Writes a struct at the front of `to` and takes its room away; there must be enough.
template <class T>
void put(atbus::mutable_bytes& to, const T& value) noexcept {
  std::memcpy(to.data(), &value, sizeof(T));
  to = to.subspan(sizeof(T));
}
/// Writes bytes at the front.
inline void put(atbus::mutable_bytes& to, atbus::bytes_view bytes) noexcept {
  if (!bytes.empty())
    std::memcpy(to.data(), bytes.data(), bytes.size());
  to = to.subspan(bytes.size());
}

}  // namespace cache
