#include "node/thread_inboxes.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "atbus/bus_id.hpp"
#include "channel/lane_handles.h"
#include "node/core/node_core.h"
#include "system/kernel.h"

namespace atbus::detail {

result<sender> thread_inboxes::open(const node_instance& self, std::size_t message_limit,
                                    int epoll) {
  if (epoll < 0)
    return error{errc::not_supported, "a simulated node has one thread"};
  const std::string where = "mem://atbus-" + self.id.to_hex() + "-" +
                            bus_id{self.incarnation}.to_hex() + "-thread-" +
                            std::to_string(++opened_);
  receiver_options options;
  options.lanes = 1;
  options.message_limit = sizeof(thread_message_head) + message_limit;
  auto in = receiver::open(where, options);
  if (!in)
    return in.error();
  auto made = std::make_unique<inbox>(std::move(*in));
  auto out = sender::open(where);
  if (!out)
    return out;
  epoll_event interest{.events = EPOLLIN, .data = {}};
  if (kernel().epoll_ctl(epoll, EPOLL_CTL_ADD, made->in.descriptor(), &interest) != 0)
    return error{errc::system_error, where + ": can't watch its doorbell", errno};
  made->in.poll([](bytes_view) {});  // it knows its sender from here on, and sees its end
  inboxes_.push_back(std::move(made));
  return out;
}

taken thread_inboxes::receive(inbox& from, node_core& to, bytes_view message) {
  thread_message_head head;
  std::memcpy(&head, message.data(), sizeof head);
  const bytes_view payload = message.subspan(sizeof head);
  if (to.send_for_thread(bus_id{head.to}, head.type, payload))
    return taken::yes;
  from.waits = true;
  from.in.pause(0);
  return taken::no;
}

void thread_inboxes::pass_on_all(node_core& to, std::size_t most) {
  for (const auto& from : inboxes_) {
    if (std::exchange(from->waits, false))
      from->in.resume(0);
    const std::size_t handled =
        from->in.poll([&](const received_message& what) { return receive(*from, to, what.bytes); },
                      {.messages = most});
    from->empty = handled == 0 && !from->waits;
  }
  std::erase_if(inboxes_, [](const auto& one) { return one->empty && one->in.session(0) == 0; });
}

bool thread_inboxes::is_empty() const noexcept {
  return std::all_of(inboxes_.begin(), inboxes_.end(), [](const auto& one) { return one->empty; });
}

bool thread_inboxes::has_messages() noexcept {
  return std::ranges::any_of(inboxes_,
                             [](const auto& one) { return lane_handles::has_messages(one->in); });
}

bool thread_inboxes::prepare_sleep() {
  // A message that waits needs no watch: the link that has room for it again wakes the node, which passes it
  // on after that.
  for (const auto& one : inboxes_) {
    if (!one->in.prepare_sleep()) {
      finish_sleep();
      return false;
    }
  }
  return true;
}

void thread_inboxes::finish_sleep() {
  for (const auto& one : inboxes_)
    one->in.finish_sleep();
}

std::chrono::nanoseconds thread_inboxes::longest_sleep() const noexcept {
  std::chrono::nanoseconds longest{-1};
  for (const auto& one : inboxes_) {
    const auto own = one->in.longest_sleep();
    if (own >= std::chrono::nanoseconds{0} &&
        (longest < std::chrono::nanoseconds{0} || own < longest))
      longest = own;
  }
  return longest;
}

}  // namespace atbus::detail
