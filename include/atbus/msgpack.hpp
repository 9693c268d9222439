/// @file
/// Messages that are msgpack: any type with MSGPACK_DEFINE that has a number (typed.hpp).
///
/// ```cpp
/// struct order {
///   static constexpr std::uint32_t message_type = 20;
///   std::string item;
///   int count = 0;
///   MSGPACK_DEFINE(item, count)
/// };
/// ```
///
/// The program has to find msgpack-c (the headers of msgpack-cxx). Fields may be added at the end:
/// msgpack-c leaves what is missing as it was, and ignores what is too much. Bytes from outside
/// can't bring about more memory than a few times their own size, and no deep recursion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <msgpack.hpp>
#include <vector>

#include "atbus/bytes.hpp"
#include "atbus/typed.hpp"

namespace atbus {

namespace detail {

struct byte_sink {
  std::vector<std::byte>& bytes;
  void write(const char* from, std::size_t size) {
    const auto* const first = reinterpret_cast<const std::byte*>(from);
    bytes.insert(bytes.end(), first, first + size);
  }
};

// Stops where more elements are announced than there are bytes: msgpack-c makes room for all of them.
struct announced_elements : msgpack::null_visitor {
  explicit announced_elements(std::size_t bytes) : left(bytes) {}
  bool start_array(std::uint32_t items) { return take(items); }
  bool start_map(std::uint32_t pairs) { return take(std::uint64_t{2} * pairs); }
  bool take(std::uint64_t elements) {
    const bool fits = elements <= left;
    left -= fits ? elements : 0;
    return fits;
  }
  std::uint64_t left;
};

}  // namespace detail

/// A type with MSGPACK_DEFINE, MSGPACK_DEFINE_ARRAY or MSGPACK_DEFINE_MAP.
template <class T>
concept has_msgpack = requires(const T& value, T& to, msgpack::packer<detail::byte_sink>& packer,
                               const msgpack::object& from) {
  value.msgpack_pack(packer);
  to.msgpack_unpack(from);
};

/// The codec of these types.
template <has_msgpack T>
struct codec<T> {
  /// Appends the value as msgpack.
  static void append(const T& value, std::vector<std::byte>& to) {
    detail::byte_sink sink{to};
    msgpack::pack(sink, value);
  }
  /// Reads the value. False: the bytes are no msgpack, too many, or of other types.
  static bool read(bytes_view from, T& value) {
    const std::string_view text = as_text(from);
    std::size_t end = 0;
    detail::announced_elements announced{text.size()};
    if (!msgpack::parse(text.data(), text.size(), end, announced) || end != text.size())
      return false;
    // An announced length is at most the bytes there are; nesting is bounded.
    const msgpack::unpack_limit limit{text.size(), text.size(), text.size(),
                                      text.size(), text.size(), 32};
    try {
      std::size_t read = 0;
      const msgpack::object_handle parsed =
          msgpack::unpack(text.data(), text.size(), read, nullptr, nullptr, limit);
      if (read != text.size())
        return false;
      parsed.get().convert(value);
      return true;
    } catch (const msgpack::unpack_error&) {
      return false;
    } catch (const msgpack::type_error&) {
      return false;
    }
  }
};

}  // namespace atbus
