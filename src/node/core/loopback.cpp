#include "node/core/loopback.h"

#include <utility>

namespace atbus::detail {

bool loopback::fits(std::size_t length) const noexcept {
  return bytes_ == 0 || bytes_ + outgoing_flow::cost(length) <= node_.options.send_buffer_size();
}

void loopback::push(std::list<held_message>& message) noexcept {
  message.front().number = ++accepted_;
  bytes_ += outgoing_flow::cost(message.front().bytes.size());
  messages_.splice(messages_.end(), message);
}

held_message loopback::pop() {
  held_message own = std::move(messages_.front());
  messages_.pop_front();
  bytes_ -= outgoing_flow::cost(own.bytes.size());
  return own;
}

void loopback::tell_room() {
  if (!wants_room_ || bytes_ > node_.options.send_buffer_size() / 2)
    return;
  events_.tell_writable(node_.self.id);
  wants_room_ = false;
}

std::list<held_message> loopback::take_all() noexcept {
  bytes_ = 0;
  return std::exchange(messages_, {});
}

}  // namespace atbus::detail
