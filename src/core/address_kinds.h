// Properties of the kinds of address.
#pragma once

#include "atbus/address.hpp"

namespace atbus::detail {

// Whether channels of this kind go through sockets; otherwise through a segment.
[[nodiscard]] constexpr bool is_stream(address_kind kind) noexcept {
  return kind != address_kind::mem && kind != address_kind::shm;
}

}  // namespace atbus::detail
