#include "node/link/channels.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/address_kinds.h"
#include "protocol/control.h"
#include "protocol/routed_head.h"

namespace atbus::detail {
namespace {

error cant_watch(const address& at, int code) {
  return {errc::system_error, at.to_string() + ": no epoll instance watches the channels", code};
}

}  // namespace

channels::channels(const channels_options& options)
    : lanes_(options.lanes),
      streams_(options.streams, &lanes_),
      epoll_(guarded_file::make([] { return kernel().epoll_create(EPOLL_CLOEXEC); })) {}

void channels::start(const node_instance& self, link_events& events) {
  streams_.start(self, events);
  lanes_.start(self, events);
  for (const transport* const part :
       {static_cast<transport*>(&streams_), static_cast<transport*>(&lanes_)}) {
    epoll_event interest{.events = EPOLLIN, .data = {}};
    if (kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, part->descriptor(), &interest) != 0)
      epoll_failure_ = errno;
  }
}

int channels::watch_descriptor(int descriptor) {
  epoll_event interest{.events = EPOLLIN, .data = {}};
  const bool done = kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &interest) == 0;
  return done ? 0 : errno;
}

void channels::unwatch_descriptor(int descriptor) noexcept {
  epoll_event none{};
  (void)kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, &none);
}

transport& channels::part_for(const address& at) noexcept {
  return is_stream(at.kind()) ? static_cast<transport&>(streams_) : lanes_;
}

result<std::string> channels::listen(const address& at) {
  if (epoll_failure_ != 0)
    return cant_watch(at, epoll_failure_);
  return part_for(at).listen(at);
}

result<link*> channels::connect(const address& to) {
  if (epoll_failure_ != 0)
    return cant_watch(to, epoll_failure_);
  return part_for(to).connect(to);
}

void channels::close() noexcept {
  streams_.close();
  lanes_.close();
}

std::size_t channels::poll(const poll_limits& limits) {
  if (std::exchange(polling_, true))
    return 0;
  struct frame {
    channels& of;
    ~frame() { of.polling_ = false; }
  } const guard{*this};
  // Who is first gets its half of the messages at most, and the other one the rest.
  lanes_first_ = !lanes_first_;
  transport& first = lanes_first_ ? static_cast<transport&>(lanes_) : streams_;
  transport& second = lanes_first_ ? static_cast<transport&>(streams_) : lanes_;
  poll_limits half = limits;
  half.messages = limits.messages - limits.messages / 2;
  half.time = limits.time - limits.time / 2;  // 0 would be no limit
  poll_ends_ = false;
  const std::size_t told = first.poll(half);
  if (poll_ends_)
    return told;
  half.messages = limits.messages - told;
  return told + second.poll(half);
}

void channels::end_poll() noexcept {
  poll_ends_ = true;
  streams_.end_poll();
  lanes_.end_poll();
}

bool channels::prepare_sleep() {
  if (streams_.prepare_sleep() && lanes_.prepare_sleep())
    return true;
  finish_sleep();
  return false;
}

void channels::finish_sleep() {
  streams_.finish_sleep();
  lanes_.finish_sleep();
}

std::chrono::nanoseconds channels::longest_sleep() const noexcept {
  const auto streams = streams_.longest_sleep();
  const auto lanes = lanes_.longest_sleep();
  if (streams < std::chrono::nanoseconds{0} || lanes < std::chrono::nanoseconds{0})
    return std::max(streams, lanes);
  return std::min(streams, lanes);
}

}  // namespace atbus::detail
