// A receiver's lanes: activating, parking, quarantining and freeing them, and the events of their bells.
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "channel/shm/receiver_state.h"
#include "core/error_text.h"

namespace atbus::detail {
namespace {

constexpr std::uint32_t longest_bell_interval = 64;
constexpr std::chrono::milliseconds bell_period{1};
constexpr std::chrono::nanoseconds longest_starved_pause = std::chrono::milliseconds{128};

}  // namespace

// --- activating and parking lanes

void receiver_core::take_ready_lanes() noexcept {
  auto& self = static_cast<receiver_state&>(*this);
  for (std::size_t word = 0; word < ready_words_; ++word) {
    if (ready_[word].load(std::memory_order_relaxed) == 0)
      continue;
    std::uint64_t bits = self.take_ready(word);
    while (bits != 0) {
      const auto index =
          static_cast<std::uint32_t>(word * 64 + static_cast<unsigned>(std::countr_zero(bits)));
      bits &= bits - 1;
      if (index < self.geometry().lane_count)
        self.wake_lane(index);
    }
  }
}

void receiver_state::wake_lane(std::uint32_t index) noexcept {
  lane_reader& lane = lanes_[index];
  if (!gates_.empty() && gates_[index] != 0)
    return;
  if (lane.skipped) {
    if (lane.slot->withdrawn.load(std::memory_order_acquire) != 0)
      return;
    take_over_lane(index);
  }
  // A lane that is still skipped was withdrawn again between the two looks.
  if (lane.quarantined || lane.skipped || lane.active || lane.paused)
    return;
  activate(lane);
}

bool receiver_state::is_free(std::uint32_t index) const noexcept {
  if (index >= segment_.geometry.lane_count)
    return false;
  const lane_reader& lane = lanes_[index];
  return !lane.adopted && !lane.quarantined && !lane.skipped && !bell_.has_connection(index) &&
         lane.slot->reserved_bytes.load(std::memory_order_relaxed) == 0;
}

result<receiver_state::lane_ends> receiver_state::hand_out(std::uint32_t index) {
  if (!is_free(index)) {
    return error{errc::no_free_lane, segment_.name.text() + ": lane " + std::to_string(index) +
                                         " is in use, or was and is not reset yet"};
  }
  const lane_reader& lane = lanes_[index];
  // Reserve before a sender relies on the lane: a lane without memory could not be read later.
  if (auto e = reserve_lane(segment_, index); !e)
    return e;
  result<lane_ends> out = error{errc::out_of_memory};
  try {
    out = make_ends(index);
  } catch (const std::bad_alloc&) {  // the caller is told like that of another failure
  }
  if (!out) {
    release_lane_memory(segment_, index);
    return out;
  }
  gates_[index] = 1;
  // Marks the memory as reserved, as the sender will. If no sender takes the lane, its bell ends, and the
  // lane is freed like that of a dead sender.
  lane.slot->reserved_bytes.store(segment_.geometry.lane_size, std::memory_order_release);
  return out;
}

result<receiver_state::lane_ends> receiver_state::make_ends(std::uint32_t index) {
  auto shared = share_segment(segment_);
  if (!shared)
    return shared.error();
  int ends[2];
  if (kernel().socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    return error{errc::system_error, segment_.name.text() + ": can't make a doorbell", errno};
  lane_ends out{std::move(*shared), file{ends[1]}};
  if (!bell_.adopt(file{ends[0]}, index))
    return error{errc::system_error, segment_.name.text() + ": can't watch a doorbell", errno};
  return out;
}

void receiver_state::open_gate(std::uint32_t index) noexcept {
  if (std::exchange(gates_[index], 0) == 0)
    return;
  // Rings for records that were published while the gate was shut have been consumed, so look at the tail.
  // Acquire: as in lane_reader::refresh, which checks the value.
  if (lanes_[index].slot->tail.load(std::memory_order_acquire) != lanes_[index].position)
    wake_lane(index);
}

std::uint64_t receiver_state::meet(std::uint32_t index) noexcept {
  lane_reader& lane = lanes_[index];
  open_gate(index);
  if (lane.active && !lane.refresh())
    quarantine(lane);
  if (!lane.active || lane.available() < record_header_size)
    return 0;
  const std::uint64_t header = load_record_header(lane.data + (lane.position & lane.mask));
  if (record_kind_of(header) == record_kind::open)
    (void)special_record(lane, header);
  return lane.session;
}

void receiver_state::activate(lane_reader& lane) noexcept {
  if (!lane.adopted) {
    // The sender should have reserved the memory. The receiver reserves it again, so that a read never
    // raises SIGBUS, whatever a sender claims. (A handed lane was reserved when it was handed out.)
    error reserved;
    if (!segment_.name.handed)
      reserved =
          error_of(errc::out_of_memory, [&] { return reserve_lane(segment_, index_of(lane)); });
    if (!reserved) {
      // Nothing tells when there is memory.
      starved_pause_ = std::clamp(2 * starved_pause_, short_sleep, longest_starved_pause);
      starved_until_ = coarse_now() + starved_pause_;
      if (!std::exchange(lane.starved, true))
        problem(std::move(reserved));
      return;
    }
    lane.adopted = true;
    if (std::exchange(lane.starved, false))
      starved_pause_ = {};
#if defined(MADV_POPULATE_READ)
    if (prefault_) {
      (void)kernel().madvise(segment_.lane_data(index_of(lane)), segment_.geometry.lane_size,
                             MADV_POPULATE_READ);
    }
#endif
  }
  lane.active = true;
  lane.last_busy = productive_passes_;
  active_.push_back(&lane);
  // The sender of an active lane does not ring. So a receiver that polls after prepare_sleep has to be marked
  // awake. Done only here, because it may look at every lane, and give this one up.
  finish_sleep();
  if (!lane.active)
    return;
  // Alert first, then look. A sender that publishes after the bit was taken may still see the old alert.
  // The next passes find its record, because an active lane is looked at in each pass until it is parked
  // with a barrier, or its sender fences.
  set_alert(lane, 0);
}

void receiver_core::remove_inactive() noexcept {
  inactive_seen_ = false;
  std::erase_if(active_, [](const lane_reader* lane) { return !lane->active; });
}

void receiver_core::quarantine(lane_reader& lane) noexcept {
  auto& self = static_cast<receiver_state&>(*this);
  if (lane.quarantined)
    return;
  self.stop_reading(lane, quarantine_impossible);
  self.problem(error_of(errc::quarantined, [&]() -> error {
    return {errc::quarantined,
            self.segment_.name.text() + ": lane " + std::to_string(self.index_of(lane)) +
                " holds impossible values and is no longer read; it is freed when its "
                "sender has ended. A process of this user wrote where it should not"};
  }));
}

void receiver_state::set_inactive(lane_reader& lane) noexcept {
  if (std::exchange(lane.active, false))
    inactive_seen_ = true;
}

void receiver_state::stop_reading(lane_reader& lane, std::uint64_t why) noexcept {
  lane.quarantined = true;
  set_inactive(lane);
  lane.redelivering = false;
  lane.tail = lane.position;
  lane.slot->quarantined.store(why, std::memory_order_relaxed);
  if (why == quarantine_impossible)
    lane_writer::count(lane.slot->quarantines, 1);
  set_alert(lane, alert_quarantined);
  // Pairs with sender_state::prepare_sleep of a sender that waits for room, which will never come: either
  // the sender sees the alert or this receiver sees the request.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (lane.slot->request.load(std::memory_order_acquire) != 0)
    answer_request(lane);
}

void receiver_core::count_redelivery(const lane_reader& lane) noexcept {
  // A record that its sender took back is padding by now and is not delivered.
  const std::uint64_t header = load_record_header(lane.data + (lane.position & lane.mask));
  if (record_kind_of(header) == record_kind::message)
    lane_writer::count(lane.slot->redelivered, 1);
}

bool receiver_core::special_record(lane_reader& lane, std::uint64_t header) noexcept {
  const std::uint64_t length = record_length(header);
  const std::uint64_t size = record_size(length);
  const std::uint64_t offset = lane.position & lane.mask;
  if (size <= lane.capacity() - offset && size <= lane.tail - lane.position) {
    if (record_kind_of(header) == record_kind::open && length == sizeof(open_record)) {
      open_record session;
      std::memcpy(&session, lane.data + offset + record_header_size, sizeof session);
      store_words(lane.slot->session, session);
      store_words(lane.slot->note, lane_note{});
      lane.session = ++session_changes_;
      test_hook(step::speaker_copied);
    } else if (record_kind_of(header) != record_kind::padding) {
      quarantine(lane);
      return false;
    }
    lane.position += size;
    lane.redelivering = false;
    lane.slot->done.store(lane.position, std::memory_order_relaxed);  // see visit_frame::enter
    return true;
  }
  quarantine(lane);
  return false;
}

void receiver_core::park_idle_lanes() noexcept {
  auto& self = static_cast<receiver_state&>(*this);
  auto& parked = self.parked_now_;
  parked.clear();
  const bool all_fence = !self.fence_needed_ || self.every_sender_fences();
  for (lane_reader* lane : active_) {
    if (!all_fence || lane->available() != 0 ||
        productive_passes_ - lane->last_busy < parking_interval)
      continue;
    lane->active = false;
    self.set_alert(*lane, alert_parked);
    parked.push_back(lane);
  }
  if (parked.empty())
    return;
  inactive_seen_ = true;
  remove_inactive();
  self.barrier();
  self.reactivate(parked);
}

bool receiver_state::reactivate(const std::vector<lane_reader*>& parked) noexcept {
  bool any = false;
  for (lane_reader* lane : parked) {
    if (lane->quarantined)  // while others were activated
      continue;
    if (!lane->refresh()) {
      quarantine(*lane);
    } else if (lane->available() != 0 && !lane->active) {
      activate(*lane);
      any = true;
    }
  }
  return any;
}

// --- orphans

bool receiver_state::is_in_use(const lane_reader& lane) noexcept {
  return lane.adopted || lane.quarantined || lane.skipped ||
         lane.slot->reserved_bytes.load(std::memory_order_relaxed) != 0;
}

void receiver_state::look_at_everything() noexcept {
  for (std::uint32_t i = shard_; i < segment_.geometry.lane_count; i += step_) {
    lane_reader& lane = lanes_[i];
    if (lane.skipped)
      wake_lane(i);
    if (!lane.active && !lane.quarantined && !lane.skipped) {
      // Acquire: as in lane_reader::refresh, which checks the value.
      if (lane.slot->tail.load(std::memory_order_acquire) != lane.position)
        wake_lane(i);
    }
    // Only the receiver writes these words. If they have changed, another process wrote here, and no sender
    // takes the lane before it is reset.
    if (!lane.quarantined && !lane.skipped &&
        (lane.slot->head.load(std::memory_order_relaxed) != lane.head ||
         lane.slot->done.load(std::memory_order_relaxed) != lane.position ||
         lane.slot->alert.load(std::memory_order_relaxed) != lane.alert ||
         lane.slot->quarantined.load(std::memory_order_relaxed) != 0)) {
      quarantine(lane);
    }
    if (lane.slot->request.load(std::memory_order_acquire) != 0)
      answer_request(lane);
    const bool connected = bell_.has_connection(i);
    const bool ended = bell_.take_ended(i);
    if (connected)
      lane.dying_until = std::chrono::nanoseconds{0};
    else if (ended)
      lane.dying_until = coarse_now() + dying_time;
    const bool orphan = is_in_use(lane) && !connected;
    if (orphan != lane.orphan)
      orphans_ += orphan ? 1 : std::size_t(-1);
    lane.orphan = orphan;
    lane.unconnected = false;
  }
  look_for_orphans();
  watch_unconnected();
}

void receiver_state::look_if_owed() noexcept {
  const bool has_waited =
      starved_until_ != std::chrono::nanoseconds{0} && coarse_now() >= starved_until_;
  if (!look_owed_ && !has_waited)
    return;
  look_owed_ = false;
  starved_until_ = {};
  look_at_everything();
}

void receiver_state::free_orphans() noexcept {
  if (unwatched_)
    suspect_unconnected();
  if (orphans_ == 0)
    return;
  look_for_orphans();
  watch_unconnected();
}

void receiver_state::look_for_orphans() noexcept {
  for (std::uint32_t i = shard_; i < segment_.geometry.lane_count && orphans_ != 0; i += step_) {
    if (lanes_[i].orphan)
      free_if_orphaned(lanes_[i]);
  }
  if (inactive_seen_)
    remove_inactive();
}

void receiver_state::watch_unconnected() noexcept {
  unwatched_ = false;
  if (std::none_of(lanes_.get(), lanes_.get() + segment_.geometry.lane_count,
                   [](const lane_reader& lane) { return lane.unconnected; }))
    return bell_.unwatch_file();
  if (bell_.watches_file())
    return;
  unwatched_ = !bell_.watch_file(segment_);
  if (unwatched_)
    return;
  // A sender that died before the watch existed causes no event.
  suspect_unconnected();
  look_for_orphans();
}

void receiver_state::suspect_unconnected() noexcept {
  for (std::uint32_t i = shard_; i < segment_.geometry.lane_count; i += step_) {
    lane_reader& lane = lanes_[i];
    if (std::exchange(lane.unconnected, false) && !std::exchange(lane.orphan, true))
      ++orphans_;
  }
}

void receiver_state::free_if_orphaned(lane_reader& lane) noexcept {
  const bool readable = !lane.quarantined && !lane.skipped;
  if (readable && lane.slot->tail.load(std::memory_order_acquire) != lane.position)
    return wake_lane(index_of(lane));  // drain it first
  const std::uint64_t byte = lane_lock_byte(index_of(lane));
  // A living sender holds the lock, or a new sender that takes the lane over. In both cases the lane is not
  // an orphan.
  if (try_lock_byte(segment_.fd.get(), byte) != lock_state::taken) {
    if (coarse_now() < lane.dying_until)
      return;  // the lock is about to end
    lane.orphan = false;
    --orphans_;
    lane.unconnected = true;
    return;
  }
  test_hook(step::orphan_locked);
  if (lane.skipped) {
    // The sender died while it took its records back, and before it reported any of them: deliver them.
    lane.slot->withdrawn.store(0, std::memory_order_release);
    take_over_lane(index_of(lane));
  }
  if (!lane.quarantined && lane.slot->tail.load(std::memory_order_acquire) != lane.position) {
    wake_lane(index_of(lane));
  } else {
    reset_lane(lane);
    lane.orphan = false;
    --orphans_;
  }
  unlock_byte(segment_.fd.get(), byte);
  test_hook(step::orphan_released);
}

void receiver_state::reset_lane(lane_reader& lane) noexcept {
  lane_slot& slot = *lane.slot;
  // Resets impossible positions.
  if (lane.quarantined || lane.skipped)
    lane.position = 0;
  // All relaxed: this receiver holds the lane's lock. The next sender takes that lock, which orders these
  // stores before its loads.
  lane.tail = lane.head = lane.position;
  for (shared_word* word : {&slot.tail, &slot.head, &slot.handling, &slot.done}) {
    word->store(lane.position, std::memory_order_relaxed);
  }
  for (shared_word* word : {&slot.request, &slot.withdrawn, &slot.fence_echo, &slot.fence_answered,
                            &slot.quarantined}) {
    word->store(0, std::memory_order_relaxed);
  }
  store_words(slot.session, open_record{});
  store_words(slot.note, lane_note{});
  lane.session = 0;
  ++session_changes_;
  lane.request_answered = 0;
  lane.quarantined = lane.redelivering = lane.skipped = lane.paused = lane.starved = false;
  set_inactive(lane);
  set_alert(lane, alert_parked);
  // A ring that was behind its record, which has been read by now, would give the lane memory again, and no sender.
  ready_[index_of(lane) / 64].fetch_and(~(std::uint64_t{1} << (index_of(lane) % 64)),
                                        std::memory_order_relaxed);
  release_lane_memory(segment_, index_of(lane));
  slot.reserved_bytes.store(0, std::memory_order_relaxed);
  lane.adopted = false;
}

// --- calls of the user about a lane

lane_reader* receiver_state::find_lane(std::uint32_t index) const noexcept {
  const bool there = interrupted_ == interruption::none && index < segment_.geometry.lane_count &&
                     index % step_ == shard_;
  return there ? &lanes_[index] : nullptr;
}

std::uint64_t receiver_state::session(std::uint32_t index) const noexcept {
  const lane_reader* const lane = find_lane(index);
  return lane == nullptr ? 0 : lane->session;
}

bool receiver_state::has_sender(std::uint32_t index) const noexcept {
  return find_lane(index) != nullptr &&
         query_byte(segment_.fd.get(), lane_lock_byte(index)) == lock_state::held_elsewhere;
}

lane_note receiver_state::note(std::uint32_t index) const noexcept {
  const lane_reader* const lane = find_lane(index);
  return lane == nullptr ? lane_note{} : load_words<lane_note>(lane->slot->note);
}

void receiver_state::set_note(std::uint32_t index, const lane_note& words) noexcept {
  if (const lane_reader* const lane = find_lane(index))
    store_words(lane->slot->note, words);
}

void receiver_state::pause_lane(std::uint32_t index) noexcept {
  lane_reader* const lane = find_lane(index);
  if (lane == nullptr || lane->quarantined)
    return;
  lane->paused = true;
  set_inactive(*lane);
  // Remove it at once: resuming adds it to the list again.
  remove_inactive();
}

void receiver_state::resume_lane(std::uint32_t index) noexcept {
  lane_reader* const lane = find_lane(index);
  if (lane == nullptr || !std::exchange(lane->paused, false))
    return;
  // While it was paused, the lane had no `parked` alert, or its ring was ignored.
  if (lane->adopted && !lane->quarantined && !lane->skipped && !lane->active)
    return activate(*lane);
  wake_lane(index);
}

void receiver_state::drop_lane(std::uint32_t index) noexcept {
  lane_reader* const lane = find_lane(index);
  // An unused lane has no sender whose end would free it again.
  if (lane == nullptr || lane->quarantined || !is_in_use(*lane))
    return;
  stop_reading(*lane, quarantine_dropped);
  remove_inactive();
}

// --- bells, space

void receiver_core::answer_request(lane_reader& lane) noexcept {
  auto& self = static_cast<receiver_state&>(*this);
  std::uint64_t request = lane.slot->request.load(std::memory_order_acquire);
  if ((request & request_fence) != 0) {
    // That sender can't execute membarrier. Its flag stays set, so each `head` leads here and is fenced.
    lane.slot->fence_answered.store(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    request = lane.slot->request.load(std::memory_order_acquire);
  }
  if ((request & request_space) == 0 || request == lane.request_answered)
    return;
  const std::uint64_t wanted = request & ~std::uint64_t{7};
  if (lane.head - wanted > lane.capacity() && !lane.quarantined)
    return;  // `head` has not reached the position yet
  if (!self.bell_.ring(self.index_of(lane))) {
    // With a connection, the kernel has no memory: ring again before the next sleep. Without one, the
    // request is answered when the sender connects. Let the next poll look at the bells, because many long
    // polls may follow.
    if (self.bell_.has_connection(self.index_of(lane)))
      self.look_owed_ = true;
    else
      polls_until_bells_ = self.bell_interval_ = 1;
    return;
  }
  lane.request_answered = request;
  lane_writer::count(lane.slot->space_rings, 1);
}

void receiver_core::look_at_bells() noexcept {
  auto& self = static_cast<receiver_state&>(*this);
  const auto time = coarse_now();
  const auto elapsed = time - self.bells_seen_at_;
  if (elapsed >= bell_period) {
    const auto seen = self.bell_.take_events(0);
    // This read may have consumed the only ring of a prepared sleep: the receiver counts as awake.
    if (seen.rung || seen.look_everywhere)
      self.finish_sleep();
    self.handle(seen);
    self.look_if_owed();
    // Without membarrier a sender may have missed that its lane is parked.
    if (self.fence_needed_ && !self.every_sender_fences())
      self.look_at_everything();
    self.free_orphans();
    self.bells_seen_at_ = time;
    if (elapsed > 8 * bell_period)
      self.bell_interval_ = std::max(self.bell_interval_ / 2, 1U);
  } else {
    self.bell_interval_ = std::min(self.bell_interval_ * 2, longest_bell_interval);
  }
  polls_until_bells_ = self.bell_interval_;
}

void receiver_state::free_ended_lanes() noexcept {
  const auto seen = bell_.take_events(0);
  // As in look_at_bells: these rings may have been those of a prepared sleep.
  if (seen.rung || seen.look_everywhere)
    finish_sleep();
  handle(seen);
  free_orphans();
}

void receiver_state::handle(const bell_server::events& seen) noexcept {
  if (!seen.look_everywhere)
    return;
  const auto dying_until = coarse_now() + dying_time;
  for (std::uint32_t i = shard_; i < segment_.geometry.lane_count; i += step_) {
    lanes_[i].request_answered = 0;
    // The kernel reports the close shortly before it drops the lock.
    if (seen.file_closed && lanes_[i].unconnected)
      lanes_[i].dying_until = dying_until;
  }
  tell_refused();
  look_at_everything();
}

bool receiver_state::barrier() noexcept {
  count_once(segment_.header().barriers);
  if (barrier_on_every_core())
    return true;
  if (!fence_needed_) {
    fence_needed_ = true;
    segment_.header().fence_needed.store(1, std::memory_order_seq_cst);
    for (std::uint32_t i = shard_; i < segment_.geometry.lane_count; i += step_) {
      set_alert(lanes_[i], lanes_[i].alert & (alert_step - 1));
    }
    problem(error_of(errc::not_supported, [this, code = errno]() -> error {
      return {errc::not_supported,
              segment_.name.text() +
                  ": the kernel refuses membarrier; senders fence each message, and until all do, "
                  "this receiver sleeps at most 1 ms at a time",
              code};
    }));
  }
  return false;
}

bool receiver_state::every_sender_fences() const noexcept {
  for (std::uint32_t i = shard_; i < segment_.geometry.lane_count; i += step_) {
    const lane_slot& slot = segment_.slot(i);
    if (slot.reserved_bytes.load(std::memory_order_acquire) != 0 &&
        slot.fence_echo.load(std::memory_order_acquire) == 0) {
      return false;
    }
  }
  return true;
}

}  // namespace atbus::detail
