#include "atbus/channel/sender.hpp"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "channel/channel_address.h"
#include "channel/sender_state.h"
#include "channel/stream_sender.h"

namespace atbus {
namespace {

using namespace detail;

constexpr int most_rounds = 1000;
// A receiver that frees an orphaned lane holds its lock for a moment: look again before saying that
// all are taken.
constexpr int lane_rounds = 3;

// Whether a lane whose lock is ours may be used: nothing impossible in it, and drained if asked
// for.
bool is_usable(const segment& s, std::uint32_t lane, bool drained) {
  const lane_slot& slot = s.slot(lane);
  if (slot.quarantined.load(std::memory_order_relaxed) != 0 ||
      (slot.notice.load(std::memory_order_relaxed) & (notice_retired | notice_quarantined)) != 0) {
    return false;
  }
  // Acquire: pairs with the release stores of whoever held the lane, or its receiver's end.
  const std::uint64_t tail = slot.tail.load(std::memory_order_acquire);
  const std::uint64_t head = slot.head.load(std::memory_order_acquire);
  const std::uint64_t done = slot.done.load(std::memory_order_acquire);
  const std::uint64_t used = tail - head;
  if (((tail | head) & 7) != 0 || used > s.geometry.lane_size)
    return false;
  if (drained)
    return tail == done;
  // Room for our open record, and a padding record before it.
  return s.geometry.lane_size - used >= 2 * record_size(sizeof(open_record));
}

// Finds a lane and holds its lock: first one that looks unused, which spares asking the kernel for
// the lock of each lane in use; then one that is drained, then behind what a predecessor left.
result<std::uint32_t> take_lane(const segment& s) {
  enum class search : std::uint8_t { unused, drained, any };
  for (int round = 0; round < lane_rounds; ++round) {
    for (const search pass : {search::unused, search::drained, search::any}) {
      for (std::uint32_t lane = 0; lane < s.geometry.lane_count; ++lane) {
        // Relaxed: a hint.
        if (pass == search::unused &&
            s.slot(lane).reserved_bytes.load(std::memory_order_relaxed) != 0)
          continue;
        const lock_state lock = try_lock_byte(s.fd.get(), lane_lock_byte(lane));
        if (lock == lock_state::failed) {
          const int code = errno;
          return error{errc::system_error, s.name.text() + ": can't lock a lane" + lock_hint, code};
        }
        if (lock != lock_state::taken)
          continue;
        test_hook(step::lane_locked);
        if (is_usable(s, lane, pass != search::any))
          return lane;
        unlock_byte(s.fd.get(), lane_lock_byte(lane));
      }
    }
    sched_yield();
  }
  const std::uint32_t more = std::min(2 * s.geometry.lane_count, max_lanes);
  std::string text =
      s.name.text() + ": all " + std::to_string(s.geometry.lane_count) + " lanes are taken; ";
  text += more == s.geometry.lane_count
              ? "close a sender"
              : "close a sender, or remove the segment and make it with more (lanes=" +
                    std::to_string(more) + ")";
  return error{errc::no_free_lane, std::move(text)};
}

struct taken_lane {
  segment opened;
  std::uint32_t lane = 0;
};

// `retired` stands for "the name has changed, look again".
result<taken_lane> open_and_take(const segment_name& name) {
  auto opened = open_segment(name);
  if (!opened)
    return opened.error();
  const auto is_retired = [&] {
    return opened->header().retired.load(std::memory_order_acquire) != 0;
  };
  if (is_retired())
    return error{errc::retired, name.text() + ": removed"};
  auto lane = take_lane(*opened);
  // Lock first, then state: a segment that is not retired now has told, or will tell, this lane.
  if (!is_named(*opened) || is_retired()) {
    return error{errc::retired, name.text() + ": removed while it was opened"};
  }
  if (!lane)
    return lane.error();
  // Whatever `reserved_bytes` says: touching memory that is not there would be a SIGBUS.
  if (auto e = reserve_lane(*opened, *lane); !e)
    return e;
  // Release: pairs with the receiver's look for lanes in use; before the first record.
  opened->slot(*lane).reserved_bytes.store(opened->geometry.lane_size, std::memory_order_release);
  test_hook(step::lane_reserved);
  if (auto e = map_lane(*opened, *lane); !e)
    return e;
  return taken_lane{std::move(*opened), *lane};
}

result<taken_lane> take(const segment_name& name) {
  for (int round = 0; round < most_rounds; ++round) {
    auto taken = open_and_take(name);
    if (taken || !(taken.error() == errc::retired))
      return taken;
  }
  return error{errc::retired,
               name.text() +
                   ": it was removed and its name is still there; whoever removes it is at it, "
                   "or died: start the receiver, or run `atbus shm clean`"};
}

void prefault_lane(const taken_lane& t) {
#if defined(MADV_POPULATE_WRITE)
  (void)kernel().madvise(t.opened.lane_data(t.lane), t.opened.geometry.lane_size,
                         MADV_POPULATE_WRITE);
#else
  (void)t;
#endif
}

}  // namespace

result<sender> sender::open(std::string_view address, const sender_options& options) {
  const auto where = atbus::address::parse(address);
  if (!where)
    return where.error();
  if (is_stream(where->kind())) {
    const auto opened = stream_sender::open(*where, options);
    if (!opened)
      return opened.error();
    return sender{*opened};
  }
  const auto wish = to_segment_address(*where, options.directory);
  if (!wish)
    return wish.error();
  const fork_pause no_fork;
  auto taken = take(wish->name);
  if (!taken)
    return taken.error();
  if (auto e = check_wishes(taken->opened, *wish); !e)
    return e;
  if (options.prefault || wish->prefault)
    prefault_lane(*taken);
  const std::string text = taken->opened.name.text();
  const std::uint32_t lane = taken->lane;
  auto* const state = new sender_state(std::move(taken->opened), taken->lane, options);
  sender opened{state};
  if (auto s = state->start(); !s) {
    const int code = errno;
    if (s == errc::system_error)
      return error{s.code(), text + ": can't connect to its doorbell", code};
    return error{s.code(), text + ": can't announce itself in lane " + std::to_string(lane) +
                               (s == errc::would_block
                                    ? ", which what a dead sender left fills; start the receiver"
                                    : "; somebody wrote into its control words")};
  }
  return opened;
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
channel_stats sender::stats() const {
  return backend_ == nullptr ? channel_stats{} : backend_->stats();
}
std::uint64_t sender::message_limit() const noexcept {
  return backend_ == nullptr ? 0 : backend_->message_limit();
}
std::uint32_t sender::lane() const noexcept {
  return backend_ == nullptr ? 0 : backend_->lane();
}

void sender::close() noexcept {
  if (backend_ != nullptr)
    std::exchange(backend_, nullptr)->release();
}

}  // namespace atbus
