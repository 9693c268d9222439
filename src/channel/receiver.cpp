#include "atbus/channel/receiver.hpp"

#include <cerrno>

#include "channel/channel_address.h"
#include "channel/receiver_state.h"
#include "channel/stream_receiver.h"

namespace atbus {
namespace {

using namespace detail;

// A segment of our own making, locked and then named. receiver_exists: somebody was faster, open
// theirs.
result<segment> make_segment(const segment_address& wish) {
  auto geometry = choose_geometry(wish);
  if (!geometry)
    return geometry.error();
  auto built = build_segment(wish.name, *geometry);
  if (!built)
    return built;
  if (try_lock_byte(built->fd.get(), receiver_lock_byte) != lock_state::taken) {
    const int code = errno;
    return error{errc::system_error, wish.name.text() + ": can't lock the new segment" + lock_hint,
                 code};
  }
  test_hook(step::receiver_locked);
  if (auto e = link_segment(*built); !e)
    return e;
  return built;
}

// The existing segment, locked. `retired` stands for "the name has changed, look again".
result<segment> take_segment(const segment_address& wish) {
  auto opened = open_segment(wish.name);
  if (!opened)
    return opened;
  const lock_state lock = try_lock_byte(opened->fd.get(), receiver_lock_byte);
  if (lock == lock_state::failed) {
    const int code = errno;
    return error{errc::system_error, wish.name.text() + ": can't lock it" + lock_hint, code};
  }
  // Lock first, then state: only now is it certain that this file is, and stays, the one that has
  // the name.
  if (!is_named(*opened))
    return error{errc::retired, wish.name.text() + ": replaced while it was opened"};
  if (lock == lock_state::held_elsewhere) {
    return error{errc::receiver_exists, wish.name.text() + ": it has a living receiver, " +
                                            opened->describe_receiver() +
                                            "; stop that one, or choose another name"};
  }
  test_hook(step::receiver_locked);
  if (opened->header().retired.load(std::memory_order_acquire) != 0) {
    // Whoever removed it died before the name was gone.
    if (auto e = retire_segment(*opened); !e)
      return e;
    return error{errc::retired, wish.name.text() + ": removed"};
  }
  if (auto e = check_wishes(*opened, wish); !e)
    return e;
  return opened;
}

struct opened_segment {
  segment opened;
  bool made = false;  // by us, just now
};

result<opened_segment> make_or_take(const segment_address& wish) {
  for (int round = 0; round < name_rounds_max; ++round) {
    auto taken = take_segment(wish);
    if (taken)
      return opened_segment{std::move(*taken), false};
    if (taken.error() == errc::retired)
      continue;
    if (!(taken.error() == errc::not_found))
      return taken.error();
    auto made = make_segment(wish);
    if (made)
      return opened_segment{std::move(*made), true};
    if (!(made.error() == errc::receiver_exists))
      return made.error();
  }
  return error{errc::system_error, wish.name.text() +
                                       ": its name keeps changing hands; is something creating and "
                                       "removing it in a loop?"};
}

}  // namespace

result<receiver> receiver::open(std::string_view address, const receiver_options& options) {
  const auto where = atbus::address::parse(address);
  if (!where)
    return where.error();
  if (is_stream(where->kind())) {
    const auto opened = stream_receiver::open(*where, options);
    if (!opened)
      return opened.error();
    return receiver{*opened};
  }
  auto wish = to_segment_address(*where, options.directory);
  if (!wish)
    return wish.error();
  if (wish->lanes == 0)
    wish->lanes = options.lanes;
  if (wish->lane_size == 0)
    wish->lane_size = options.lane_size;
  if (wish->message_limit == 0)
    wish->message_limit = options.message_limit;
  const fork_pause no_fork;
  auto segment = make_or_take(*wish);
  if (!segment)
    return segment.error();
  // From here on a failure takes back what we have made; what was there before stays.
  if (auto e = map_all_lanes(segment->opened); !e) {
    if (segment->made)
      (void)retire_segment(segment->opened);
    return e;
  }
  receiver_options resolved = options;
  resolved.prefault |= wish->prefault;
  auto* const state = new receiver_state(std::move(segment->opened), resolved);
  receiver opened{state};
  if (auto e = state->start(); !e) {
    if (segment->made)
      (void)state->remove();
    return e;
  }
  return opened;
}

status receiver::wait(std::chrono::nanoseconds timeout) {
  if (backend_ == nullptr)
    return errc::closed;
  // The handler of problems may destroy this object: only the backend is asked, and only as long as
  // it says that it is there.
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

std::uint64_t receiver::speaker(std::uint32_t lane) const noexcept {
  return backend_ == nullptr ? 0 : backend_->speaker(lane);
}
bool receiver::has_sender(std::uint32_t lane) const noexcept {
  return backend_ != nullptr && backend_->has_sender(lane);
}
std::uint64_t receiver::speaker_changes() const noexcept {
  return backend_ == nullptr ? 0 : backend_->speaker_changes();
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
  auto e = backend_->remove();
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
