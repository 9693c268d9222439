#include "node/channels.h"

#include <algorithm>

#include "node/stream_transport.h"
#include "protocol/control.h"

namespace atbus::detail {

std::unique_ptr<transport> make_channels(const node_options& options) {
  stream_transport_options streams;
  streams.message_limit =
      std::max<std::size_t>(options.message_limit() + message_head_size, control_size_max);
  streams.send_buffer_size = options.send_buffer_size();
  if (options.send_buffer_number() != 0) {
    streams.buffer = send_buffer_kind::fixed;
    streams.send_buffer_number = options.send_buffer_number();
  }
  streams.confirm_timeout = options.first_idle_timeout();
  return std::make_unique<stream_transport>(streams);
}

}  // namespace atbus::detail
