#include "atbus/sender.hpp"

#include <new>

#include "channel/shm/attach.h"
#include "channel/socket_channel/stream_sender.h"
#include "core/address_kinds.h"

namespace atbus {

using namespace detail;

result<sender> sender::open(std::string_view address, const sender_options& options) {
  try {
    const auto where = atbus::address::parse(address);
    if (!where)
      return where.error();
    if (is_stream(where->kind())) {
      const auto opened = stream_sender::open(*where, options);
      if (!opened)
        return opened.error();
      return sender{*opened};
    }
    const auto opened = open_lane_sender(*where, options);
    if (!opened)
      return opened.error();
    return sender{*opened};
  } catch (const std::bad_alloc&) {
    return error{errc::out_of_memory};
  }
}

status sender::flush(std::chrono::nanoseconds timeout) {
  return backend_ == nullptr ? status{errc::closed} : backend_->flush(timeout);
}

status sender::wait_writable(std::chrono::nanoseconds timeout, std::size_t length) {
  return backend_ == nullptr ? status{errc::closed} : backend_->wait_writable(timeout, length);
}

void sender::on_writable(std::function<void()> handler) {
  if (backend_ != nullptr)
    backend_->on_writable(std::move(handler));
}

int sender::descriptor() {
  return backend_ == nullptr ? -1 : backend_->descriptor();
}
bool sender::prepare_sleep() {
  return backend_ != nullptr && backend_->prepare_sleep();
}
void sender::finish_sleep() {
  if (backend_ != nullptr)
    backend_->finish_sleep();
}
std::chrono::nanoseconds sender::longest_sleep() const noexcept {
  return backend_ == nullptr ? std::chrono::nanoseconds{-1} : backend_->longest_sleep();
}
bool sender::poll_writable() {
  return backend_ != nullptr && backend_->poll_writable();
}

result<std::size_t> sender::take_back(const std::function<void(bytes_view, errc)>& each) {
  if (backend_ == nullptr)
    return error{errc::closed};
  return backend_->take_back(each);
}

bool sender::receiver_alive() const {
  return backend_ != nullptr && backend_->receiver_alive();
}
std::uint64_t sender::receiver_generation() const {
  return backend_ == nullptr ? 0 : backend_->receiver_generation();
}
status sender::look() noexcept {
  return backend_ == nullptr ? status{errc::closed} : backend_->look_at_alert();
}
bool sender::settled() const {
  return backend_ != nullptr && backend_->settled();
}
std::size_t sender::unhandled(const std::function<void(bytes_view)>& each) const {
  return backend_ == nullptr ? 0 : backend_->unhandled(each);
}
channel_stats sender::stats() const {
  return backend_ == nullptr ? channel_stats{} : backend_->stats();
}
std::uint64_t sender::message_limit() const noexcept {
  return backend_ == nullptr ? 0 : backend_->message_limit();
}
std::uint32_t sender::lane() const noexcept {
  return backend_ == nullptr ? 0 : backend_->lane();
}

std::size_t sender::close(std::chrono::nanoseconds linger,
                          const std::function<void(bytes_view)>& unsent) {
  if (backend_ == nullptr)
    return 0;
  struct closed_behind {
    sender& self;
    ~closed_behind() { self.close(); }
  } const guard{*this};  // also if `unsent` throws
  return backend_->finish(linger, unsent);
}

void sender::close() noexcept {
  if (backend_ != nullptr)
    std::exchange(backend_, nullptr)->release();
}

}  // namespace atbus
