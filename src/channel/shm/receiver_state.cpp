#include "channel/shm/receiver_state.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "channel/shm/lane_stats.h"
#include "system/fork_guard.h"
#include "system/random.h"
#include "system/wait_deadline.h"

namespace atbus::detail {
namespace {

// 28 bits, so that a generation fits above the change count of an alert.
constexpr std::uint64_t generation_mask = 0xfffffff;
// The interval between checks for dead senders without a connection, if the kernel refuses inotify.
constexpr std::chrono::nanoseconds unwatched_sleep = std::chrono::milliseconds{100};

// Whether its sender fences between `tail` and the look at the alert. Acquire: what it published without a fence is
// visible then.
bool sender_fences(const lane_reader* lane) noexcept {
  return lane->slot->fence_echo.load(std::memory_order_acquire) != 0;
}

}  // namespace

receiver_state::receiver_state(segment opened, const receiver_options& options,
                               std::shared_ptr<lane_shards> shards, std::uint32_t shard)
    : segment_(std::move(opened)),
      lanes_(std::make_unique<lane_reader[]>(segment_.geometry.lane_count)),
      spin_(options.spin),
      prefault_(options.prefault) {
  const std::uint32_t lane_count = segment_.geometry.lane_count;
  active_.reserve(lane_count);
  parked_now_.reserve(lane_count);
  message_limit_ = segment_.geometry.message_limit;
  lanes_begin_ = lanes_.get();
  if (segment_.name.handed)
    gates_.assign(lane_count, 1);
  ready_ = segment_.header().ready;
  ready_words_ = (lane_count + 63) / 64;
  if (options.copy_on_receive) {
    copy_buffer_ = std::make_unique<std::byte[]>(message_limit_);
    private_copy_ = copy_buffer_.get();
  }
  if (shards == nullptr)
    return;
  shard_ = shard;
  step_ = shards->count();
  own_ready_.assign(ready_words_, 0);
  for (std::uint32_t i = shard_; i < lane_count; i += step_)
    own_ready_[i / 64] |= std::uint64_t{1} << (i % 64);
  shards_ = std::move(shards);
  shards_->join();
}

receiver_state::~receiver_state() {
  // Release the lock before the bell: a sender that reads the end-of-file then finds the lock free.
  if (interrupted_ != interruption::forked)
    unlock_byte(segment_.fd.get(), receiver_lock_byte);
}

error receiver_state::announce(bell_server& bell) {
  segment_header& header = segment_.header();
  receiver_note note{};
  note.pid = static_cast<std::uint32_t>(getpid());
  note.opened_at = wall_clock_ns();
  std::strncpy(note.program, program_invocation_short_name, sizeof note.program - 1);
  store_words(header.note, note);
  // Open the bell first: a sender that reads the new generation then finds the new bell.
  if (auto e = bell.open(segment_); !e)
    return e;
  test_hook(step::bell_bound);
  generation_ = (header.generation.load(std::memory_order_relaxed) + 1) & generation_mask;
  if (generation_ == 0)
    generation_ = 1;
  // Release: pairs with the acquire load in sender_state::connect_bell, which then finds the new bell.
  header.generation.store(generation_, std::memory_order_release);
  header.sleeping.store(generation_ << 32, std::memory_order_release);
  header.fence_needed.store(0, std::memory_order_relaxed);
  test_hook(step::generation_stored);
  return {};
}

error receiver_state::start() {
  always_fence_ = !register_for_barriers();
  if (shard_ == 0) {
    if (auto e = announce(shards_ == nullptr ? bell_ : shards_->front()); !e)
      return e;
  }
  if (shards_ != nullptr) {
    if (shard_ == 0)
      shards_->begin(generation_);
    generation_ = shards_->generation();
    if (auto e = bell_.open(segment_, *shards_, shard_); !e)
      return e;
  }
  for (std::uint32_t i = shard_; i < segment_.geometry.lane_count; i += step_)
    take_over_lane(i);
  // After this barrier, each sender sees its lane parked and sets its ready bit, or this receiver sees what
  // the sender published before.
  barrier();
  look_at_everything();
  return {};
}

void receiver_state::take_over_lane(std::uint32_t index) noexcept {
  lane_reader& lane = lanes_[index];
  lane_slot& slot = segment_.slot(index);
  if (lane.slot == nullptr) {
    lane.slot = &slot;
    lane.data = segment_.lane_data(index);
    lane.mask = segment_.geometry.lane_size - 1;
    lane.alert = generation_ << 36;
    lane.messages = slot.messages.load(std::memory_order_relaxed);
    lane.bytes = slot.bytes.load(std::memory_order_relaxed);
    lane.high_water_mark = slot.high_water_mark.load(std::memory_order_relaxed);
    if (slot.reserved_bytes.load(std::memory_order_acquire) != 0)
      lane.session = ++session_changes_;
  }
  // Acquire: the previous writer held the receiver's lock and is dead, so all its stores are done. `tail`
  // pairs with lane_writer::publish.
  const std::uint64_t head = slot.head.load(std::memory_order_acquire);
  const std::uint64_t done = slot.done.load(std::memory_order_acquire);
  const std::uint64_t handling = slot.handling.load(std::memory_order_acquire);
  lane.skipped = slot.withdrawn.load(std::memory_order_seq_cst) != 0;
  const std::uint64_t tail = slot.tail.load(std::memory_order_acquire);
  const std::uint64_t capacity = lane.capacity();
  lane.position = lane.tail = done;
  lane.head = head;
  const bool possible = ((head | done | handling | tail) & 7) == 0 &&
                        within(head, done, capacity) && within(head, tail, capacity) &&
                        within(done, tail, capacity);
  set_alert(lane, alert_parked);
  if (lane.skipped)
    return;
  const std::uint64_t quarantined = slot.quarantined.load(std::memory_order_relaxed);
  if (possible && quarantined == quarantine_dropped)
    return stop_reading(lane, quarantine_dropped);
  if (!possible || quarantined != 0) {
    quarantine(lane);
    return;
  }
  lane.redelivering = handling != done && within(done, handling, tail - done);
  if (lane.head != lane.position)
    give_back(lane);
}

void receiver_state::set_alert(lane_reader& lane, std::uint64_t flags) noexcept {
  if (fence_needed_)
    flags |= alert_fence;
  lane.alert = next_alert(lane.alert) | flags;
  // Release: pairs with the acquire load in sender_state::answer_alert. A sender that sees the alert also
  // sees the words it refers to (`sleeping`, `retired`).
  lane.slot->alert.store(lane.alert, std::memory_order_release);
}

// --- sleeping

bool receiver_state::anything() noexcept {
  const bool found = refresh_all() != 0 || own_lane_ready();
  if (inactive_seen_)
    remove_inactive();
  return found;
}

bool receiver_state::prepare_sleep() {
  if (interrupted_ != interruption::none || dispatching_)
    return false;
  if (asleep_)
    return true;
  free_orphans();
  look_if_owed();
  if (anything())
    return false;
  parked_now_.assign(active_.begin(), active_.end());
  for (lane_reader* lane : active_) {
    lane->active = false;
    set_alert(*lane, alert_parked);
  }
  active_.clear();
  test_hook(step::lanes_parked);
  asleep_ = true;
  // Seq_cst: pairs, with the fence below, with sender_state::rouse_receiver. A sender that does not see
  // this value has set its ready bit before the look at the ready bits below.
  if (shards_ != nullptr) {
    shards_->fall_asleep(segment_.header().sleeping);
  } else {
    if (++sleep_count_ == 0)
      sleep_count_ = 1;
    segment_.header().sleeping.store(generation_ << 32 | sleep_count_, std::memory_order_seq_cst);
  }
  test_hook(step::sleeping_stored);
  // Lanes that were parked before have had their barrier, or fence. The fence pairs with those of their senders (see
  // sender_state::fence_while_sparse) and of rouse_receiver.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!std::ranges::all_of(parked_now_, sender_fences))
    barrier();
  const bool found = reactivate(parked_now_) || own_lane_ready();
  test_hook(step::sleep_checked);
  if (inactive_seen_)
    remove_inactive();
  if (!found) {
    count_once(segment_.header().sleeps);
    return true;
  }
  finish_sleep();
  return false;
}

void receiver_state::finish_sleep() {
  if (!asleep_ || interrupted_ == interruption::forked)
    return;
  asleep_ = false;
  // Relaxed: a sender that still sees the old value only rings once needlessly.
  if (shards_ != nullptr)
    shards_->wake(segment_.header().sleeping);
  else
    segment_.header().sleeping.store(generation_ << 32, std::memory_order_relaxed);
  polls_until_bells_ = 1;  // read all rings before the next sleep
  bells_seen_at_ = std::chrono::nanoseconds{0};
  test_hook(step::woken);
  // Without membarrier a sender may have missed that the receiver slept.
  if (fence_needed_ && interrupted_ == interruption::none)
    look_at_everything();
}

std::chrono::nanoseconds receiver_state::longest_sleep() const noexcept {
  if (interrupted_ != interruption::none)
    return std::chrono::nanoseconds{-1};
  if (look_owed_ || (fence_needed_ && !every_sender_fences()))
    return short_sleep;
  std::chrono::nanoseconds longest = bell_.longest_sleep();
  if (unwatched_ && (longest < std::chrono::nanoseconds{0} || longest > unwatched_sleep))
    longest = unwatched_sleep;
  const auto time = coarse_now();
  if (starved_until_ != std::chrono::nanoseconds{0}) {
    const auto left = std::max(starved_until_ - time, short_sleep);
    longest = longest < std::chrono::nanoseconds{0} ? left : std::min(longest, left);
  }
  if (orphans_ == 0)
    return longest;
  for (std::uint32_t i = shard_; i < segment_.geometry.lane_count; i += step_) {
    if (!lanes_[i].orphan || time >= lanes_[i].dying_until)
      continue;
    // Double the wait each time: a few looks instead of one per millisecond.
    const auto dying = std::max(dying_time - (lanes_[i].dying_until - time), short_sleep);
    longest = longest < std::chrono::nanoseconds{0} ? dying : std::min(longest, dying);
  }
  return longest;
}

status receiver_state::wait(std::chrono::nanoseconds timeout) {
  if (auto s = may_wait(); !s)
    return s;
  const auto start = now();
  const wait_deadline deadline{start, timeout};
  if (anything())
    return {};
  if (spin_.spin(start, deadline.at(), [this] { return anything(); })) {
    spin_.learn(now() - start);
    return {};
  }
  for (;;) {
    if (!prepare_sleep())
      break;
    // Report problems before a sleep that may never end. The receiver is marked awake, because the handler
    // may take long.
    if (has_problems()) {
      finish_sleep();
      if (auto s = report_problems(); !s)
        return s;
      continue;
    }
    const auto longest = longest_sleep();
    const std::int64_t sleep_ns = deadline.left_ns(longest);
    if (sleep_ns == 0) {
      finish_sleep();
      return errc::timed_out;
    }
    if (fence_needed_ && longest >= std::chrono::nanoseconds{0})
      count_once(segment_.header().short_sleeps);
    const auto seen = bell_.take_events(sleep_ns);
    if (seen.rung || seen.look_everywhere)
      count_once(segment_.header().wake_ups);
    finish_sleep();
    handle(seen);
    // The bells have just been read: do not read them again before the message is handled.
    bells_seen_at_ = coarse_now();
    polls_until_bells_ = bell_interval_;
    if (anything())
      break;
  }
  spin_.learn(now() - start);
  return {};
}

// --- lifetime

// A handed segment has no next receiver. If a handler closes the receiver, its message is the last one,
// however long the handler still runs, and the senders may take back the rest at once. In a named segment,
// the next receiver would deliver that message again, so the lock is kept until the handler returns.
void receiver_state::stop() noexcept {
  finish_sleep();
  if (segment_.name.handed)
    unlock_byte(segment_.fd.get(), receiver_lock_byte);
  if (shards_ != nullptr)
    (void)shards_->leave(shard_);
}

void receiver_state::destroy() noexcept {
  const fork_pause no_fork;
  if (shards_ == nullptr) {
    delete this;
    return;
  }
  const auto shards = shards_;
  for (const receiver_state* const each : shards->end(*this))
    delete each;
}

error receiver_state::remove() {
  if (auto s = usable(); !s)
    return s;
  if (shards_ != nullptr) {
    finish_sleep();
    if (!shards_->leave(shard_))
      return {};
  }
  const fork_pause no_fork;
  return retire_segment(segment_);
}

void receiver_state::abandon_in_child() noexcept {
  interrupted_ = interruption::forked;
  segment_.abandon();
  bell_.abandon();
}

channel_stats receiver_state::stats() const {
  channel_stats sum;
  if (interrupted_ == interruption::forked)
    return sum;
  for (std::uint32_t i = shard_; i < segment_.geometry.lane_count; i += step_)
    add_stats(sum, segment_.slot(i));
  return sum;
}

}  // namespace atbus::detail
