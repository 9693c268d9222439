// Errors of functions that must not throw: without memory for a text, the code is left.
#pragma once

#include <new>
#include <string_view>

#include "atbus/status.hpp"

namespace atbus::detail {

// "where: what", and errno where there is one.
[[nodiscard]] error error_at(errc code, std::string_view where, std::string_view what,
                             int system_code = 0) noexcept;
// The same cause with "where: " before its text.
[[nodiscard]] error error_at(std::string_view where, const error& why) noexcept;

// What `make` returns, or an error of that code if it throws std::bad_alloc.
template <class Make>
[[nodiscard]] error error_of(errc without_memory, const Make& make) noexcept {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    return {without_memory};
  }
}

}  // namespace atbus::detail
