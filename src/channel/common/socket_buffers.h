// The kernel's buffers of a stream's sockets.
#pragma once

#include "atbus/address.hpp"
#include "atbus/channel_options.hpp"

namespace atbus::detail {

// In bytes; 0: the kernel's choice.
[[nodiscard]] inline int send_buffer_for(const address& where, const socket_options& wanted) {
  return wanted.send_buffer.value_or(where.kind() == address_kind::unix_socket
                                         ? socket_options::unix_send_buffer
                                         : socket_options::tcp_send_buffer);
}

}  // namespace atbus::detail
