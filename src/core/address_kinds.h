// What kinds of address have in common.
#pragma once

#include "atbus/address.hpp"

namespace atbus::detail {

// Whether channels there go through sockets; else through a segment.
[[nodiscard]] constexpr bool is_stream(address_kind kind) noexcept {
  return kind != address_kind::mem && kind != address_kind::shm;
}

}  // namespace atbus::detail
