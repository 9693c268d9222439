/// @file
/// Views of bytes. A view owns nothing and is valid as long as the bytes it refers to.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace atbus {

/// Read-only bytes that something else owns.
using bytes_view = std::span<const std::byte>;
/// Writable bytes that something else owns.
using mutable_bytes = std::span<std::byte>;

/// The bytes of `text`, without a terminating NUL.
inline bytes_view as_bytes(std::string_view text) noexcept {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

/// The bytes as characters. Not checked for any encoding; may contain NUL.
inline std::string_view as_text(bytes_view bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace atbus
