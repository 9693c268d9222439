#include "atbus/receiver.hpp"

#include <new>

#include "channel/shm/attach.h"
#include "channel/socket_channel/stream_receiver.h"
#include "core/address_kinds.h"
#include "core/error_text.h"

namespace atbus {
using namespace detail;

result<receiver> receiver::open(std::string_view address, const receiver_options& options) {
  try {
    const auto where = atbus::address::parse(address);
    if (!where)
      return where.error();
    if (is_stream(where->kind())) {
      const auto opened = stream_receiver::open(*where, options);
      if (!opened)
        return opened.error();
      return receiver{*opened};
    }
    const auto opened = open_lane_receiver(*where, options);
    if (!opened)
      return opened.error();
    return receiver{*opened};
  } catch (const std::bad_alloc&) {
    return error{errc::out_of_memory};
  }
}

result<std::vector<receiver>> receiver::open_shards(std::string_view address, std::uint32_t shards,
                                                    const receiver_options& options) {
  try {
    const auto where = atbus::address::parse(address);
    if (!where)
      return where.error();
    if (shards == 0 || shards > shards_max) {
      return error{errc::invalid_argument, where->to_string() + ": " + std::to_string(shards) +
                                               " shards; 1 to " + std::to_string(shards_max) +
                                               " are possible"};
    }
    std::vector<receiver> all;
    all.reserve(shards);
    const auto keep = [&all](const auto& opened) -> result<std::vector<receiver>> {
      if (!opened)
        return opened.error();
      for (auto* const each : *opened)
        all.push_back(receiver{each});
      return std::move(all);
    };
    if (is_stream(where->kind()))
      return keep(stream_receiver::open_shards(*where, shards, options));
    return keep(open_lane_shards(*where, shards, options));
  } catch (const std::bad_alloc&) {
    return error{errc::out_of_memory};
  }
}

status receiver::wait(std::chrono::nanoseconds timeout) {
  if (backend_ == nullptr)
    return errc::closed;
  // A problem handler may destroy this object. So use only the backend, and only while it reports that it
  // exists.
  receiver_backend& backend = *backend_;
  const status waited = backend.wait(timeout);
  if (waited == errc::closed || waited == errc::used_after_fork)
    return waited;
  (void)backend.report_problems();
  return waited;
}

int receiver::descriptor() const noexcept {
  return backend_ == nullptr ? -1 : backend_->descriptor();
}
bool receiver::prepare_sleep() {
  if (backend_ == nullptr)
    return false;
  receiver_backend& backend = *backend_;
  const bool asleep = backend.prepare_sleep();
  return backend.report_problems() && asleep;
}
void receiver::end_poll() noexcept {
  if (backend_ != nullptr)
    backend_->end_poll();
}

void receiver::finish_sleep() {
  if (backend_ == nullptr)
    return;
  receiver_backend& backend = *backend_;
  backend.finish_sleep();
  (void)backend.report_problems();
}

std::chrono::nanoseconds receiver::longest_sleep() const noexcept {
  return backend_ == nullptr ? std::chrono::nanoseconds{-1} : backend_->longest_sleep();
}

void receiver::on_problem(std::function<void(const error&)> handler) {
  if (backend_ != nullptr)
    backend_->on_problem(std::move(handler));
}

channel_stats receiver::stats() const {
  return backend_ == nullptr ? channel_stats{} : backend_->stats();
}
std::string receiver::address() const {
  return backend_ == nullptr ? std::string{} : backend_->address();
}
std::uint64_t receiver::message_limit() const noexcept {
  return backend_ == nullptr ? 0 : backend_->message_limit();
}
std::uint32_t receiver::lane_count() const noexcept {
  return backend_ == nullptr ? 0 : backend_->lane_count();
}

std::uint64_t receiver::session(std::uint32_t lane) const noexcept {
  return backend_ == nullptr ? 0 : backend_->session(lane);
}
bool receiver::has_sender(std::uint32_t lane) const noexcept {
  return backend_ != nullptr && backend_->has_sender(lane);
}
std::uint64_t receiver::session_changes() const noexcept {
  return backend_ == nullptr ? 0 : backend_->session_changes();
}
std::array<std::uint64_t, 3> receiver::note(std::uint32_t lane) const noexcept {
  return backend_ == nullptr ? lane_note{} : backend_->note(lane);
}
void receiver::set_note(std::uint32_t lane, const std::array<std::uint64_t, 3>& words) noexcept {
  if (backend_ != nullptr)
    backend_->set_note(lane, words);
}
void receiver::pause(std::uint32_t lane) noexcept {
  if (backend_ != nullptr)
    backend_->pause_lane(lane);
}
void receiver::resume(std::uint32_t lane) noexcept {
  if (backend_ != nullptr)
    backend_->resume_lane(lane);
}
void receiver::drop(std::uint32_t lane) noexcept {
  if (backend_ != nullptr)
    backend_->drop_lane(lane);
}

error receiver::remove() {
  if (backend_ == nullptr)
    return errc::closed;
  auto e = error_of(errc::out_of_memory, [this] { return backend_->remove(); });
  close();
  return e;
}

void receiver::close() noexcept {
  if (backend_ != nullptr)
    std::exchange(backend_, nullptr)->release();
}

bool receiver::is_open() const noexcept {
  return backend_ != nullptr && backend_->usable();
}

}  // namespace atbus
