#include "atbus/node_sender.hpp"

#include <cstring>

#include "node/thread_inboxes.h"

namespace atbus {
namespace {

// What a lane says of the end of its receiver, which is the node.
status as_of_node(status how) noexcept {
  return how == errc::retired ? status{errc::closed} : how;
}

}  // namespace

node_sender::node_sender(result<sender> lane) {
  if (lane)
    lane_ = std::move(*lane);
  else
    why_ = lane.error().code();
}

status node_sender::send(bus_id to, std::uint32_t type, bytes_view bytes) noexcept {
  if (!lane_)
    return why_;
  if (const status how = lane_->look(); !how)
    return as_of_node(how);
  const detail::thread_message_head head{to.value(), type, 0};
  const status sent =
      lane_->send({bytes_view{reinterpret_cast<const std::byte*>(&head), sizeof head}, bytes});
  if (sent == errc::message_too_large)
    return {errc::message_too_large, bytes.size(), lane_->message_limit() - sizeof head};
  return as_of_node(sent);
}

status node_sender::wait_writable(std::chrono::nanoseconds timeout) {
  return lane_ ? as_of_node(lane_->wait_writable(timeout)) : why_;
}

std::size_t node_sender::take_back(
    const std::function<void(bus_id, std::uint32_t, bytes_view)>& each) {
  if (!lane_)
    return 0;
  const auto taken = lane_->take_back([&](bytes_view message, errc) {
    detail::thread_message_head head;
    std::memcpy(&head, message.data(), sizeof head);
    each(bus_id{head.to}, head.type, message.subspan(sizeof head));
  });
  return taken ? *taken : 0;
}

}  // namespace atbus
