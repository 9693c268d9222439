// The bytes of a message of libnats.
#pragma once

#include <nats/nats.h>

#include <cstddef>

#include "atbus/bytes.hpp"

namespace atbus::detail {

inline bytes_view bytes_of(const natsMsg& message) noexcept {
  return {reinterpret_cast<const std::byte*>(natsMsg_GetData(&message)),
          static_cast<std::size_t>(natsMsg_GetDataLength(&message))};
}

}  // namespace atbus::detail
