// The receiver's dispatch: the part of `atbus::receiver` that is inlined into user code. Programs
// include atbus/receiver.hpp.
//
// Guarantees:
//  - A handler runs on the bytes in place, once per record, in the order of its lane; lanes take
//    turns.
//  - `handling` is stored before the handler is entered, and `done` after it returns or throws. So the next
//    receiver knows exactly which record may have been handled in part.
//  - A handler may close or destroy the receiver, fork, or throw. State and mappings last until the
//    dispatch frame ends. A forked child does not touch the mapping.
//
// Threads: the receiver's one. Errors: none here; an impossible record quarantines its lane.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "atbus/bytes.hpp"
#include "atbus/channel_options.hpp"
#include "atbus/clock.hpp"
#include "atbus/detail/export.hpp"
#include "atbus/detail/hang_back.hpp"
#include "atbus/detail/lane.hpp"
#include "atbus/detail/receiver_backend.hpp"
#include "atbus/detail/test_hook.hpp"
#include "atbus/status.hpp"

namespace atbus {

namespace detail {

// Result of a handler of the node layer. `no`: the handler did not use the message; the message stays in
// its lane, and the poll ends.
enum class taken : bool { no, yes };

class ATBUS_API receiver_core : public receiver_backend {
 public:
  template <class Handler>
  std::size_t poll(Handler& handler, const poll_limits& limits);

 protected:
  receiver_core() noexcept : receiver_backend(backend_kind::lanes) {}
  ~receiver_core() override = default;

  // Accounts for the records of one visit, also when a handler throws or interrupts.
  class visit_frame {
   public:
    visit_frame(receiver_core& core, lane_reader& lane) noexcept : core_(core), lane_(lane) {}
    ~visit_frame() {
      if (core_.interrupted_ == interruption::forked)
        return;  // the lane belongs to the parent process
      if (in_handler_)
        returned();
      if (count != 0)
        lane_.redelivering = false;  // the mark concerned the first record
      core_.finish_visit(lane_, count, bytes);
    }
    visit_frame(const visit_frame&) = delete;
    visit_frame& operator=(const visit_frame&) = delete;

    void enter(std::uint64_t end) noexcept {
      end_ = end;
      in_handler_ = true;
      // Relaxed, here and for `done`: the readers are the next holder of the receiver's lock, and a sender
      // that asked the kernel and found the lock free. The kernel's lock orders these stores before their
      // loads. After a kill, the stores up to that instruction have happened; the fences keep the compiler
      // from moving them.
      lane_.slot->handling.store(end, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);
      test_hook(step::handling_stored);
    }
    // The handler did not use the record: it stays the next one of its lane.
    void left(std::uint64_t length) noexcept {
      in_handler_ = false;
      --count;
      bytes -= length;
      // A message that a predecessor may have handled stays in doubt.
      if (!lane_.redelivering)
        lane_.slot->handling.store(lane_.position, std::memory_order_relaxed);  // as above
    }
    void returned() noexcept {
      in_handler_ = false;
      test_hook(step::handler_returned);
      std::atomic_signal_fence(std::memory_order_seq_cst);
      lane_.slot->done.store(end_, std::memory_order_relaxed);
      lane_.position = end_;
      test_hook(step::done_stored);
    }

    std::size_t count = 0;
    std::uint64_t bytes = 0;

   private:
    receiver_core& core_;
    lane_reader& lane_;
    std::uint64_t end_ = 0;
    bool in_handler_ = false;
  };

  template <class Handler>
  std::size_t visit(lane_reader& lane, Handler& handler, std::size_t most);
  // Returns false if the handler did not use the message.
  template <class Handler>
  bool deliver(Handler& handler, const std::byte* payload, std::uint64_t length,
               const lane_reader& lane);

  // Refreshes the tails of all active lanes; returns the bytes at hand.
  std::uint64_t look() noexcept;
  std::uint64_t refresh_all() noexcept;

  void finish_visit(lane_reader& lane, std::size_t count, std::uint64_t bytes) noexcept {
    lane.messages += count;
    lane.bytes += bytes;
    lane.slot->messages.store(lane.messages, std::memory_order_relaxed);
    lane.slot->bytes.store(lane.bytes, std::memory_order_relaxed);
    lane.slot->high_water_mark.store(lane.high_water_mark, std::memory_order_relaxed);
    if (lane.head != lane.position)
      give_back(lane);
  }
  void give_back(lane_reader& lane) noexcept {
    lane.publish_head();
    if (always_fence_) [[unlikely]]
      std::atomic_thread_fence(std::memory_order_seq_cst);
    if (lane.has_request()) [[unlikely]]
      answer_request(lane);
  }

  [[nodiscard]] bool some_lane_ready() const noexcept {
    // Relaxed: a hint to look; take_ready_lanes exchanges the word with acquire.
    for (std::size_t i = 0; i < ready_words_; ++i) {
      if (ready_[i].load(std::memory_order_relaxed) != 0)
        return true;
    }
    return false;
  }

  // Cold paths, in src/channel/shm/receiver_lanes.cpp.
  void take_ready_lanes() noexcept;
  void answer_request(lane_reader& lane) noexcept;
  static void count_redelivery(const lane_reader& lane) noexcept;
  // Handles a record that is not a plain message or is impossible. Returns true if the lane can be read on.
  bool special_record(lane_reader& lane, std::uint64_t header) noexcept;
  void quarantine(lane_reader& lane) noexcept;
  void remove_inactive() noexcept;
  void look_at_bells() noexcept;
  void park_idle_lanes() noexcept;

  static constexpr std::uint64_t visit_bytes = 64 * 1024;  // most bytes of one turn of a lane
  static constexpr std::uint64_t parking_interval = 256;   // productive passes
  static constexpr std::size_t messages_per_clock = 32;
  // Most passes of one poll that find records but no message. A correct sender writes few such records in a
  // row; without this bound, a sender of nothing but padding would keep poll from returning.
  static constexpr std::size_t most_idle_looks = 16;

  std::vector<lane_reader*> active_;  // never longer than its capacity: the number of lanes
  std::size_t turn_ = 0;              // index in active_ of the lane that is next
  std::uint64_t message_limit_ = 0;
  hang_back hang_back_;
  bool hung_back_ = false;  // the last look waited
  shared_word* ready_ = nullptr;
  std::size_t ready_words_ = 0;
  std::uint32_t polls_until_bells_ = 1;
  std::uint64_t productive_passes_ = 0;
  std::uint64_t session_changes_ = 0;  // counts starts and ends of senders in all lanes
  std::byte* private_copy_ = nullptr;  // copy_on_receive
  const lane_reader* lanes_begin_ = nullptr;
  bool always_fence_ = false;   // the kernel refused to register this process for membarrier
  bool inactive_seen_ = false;  // active_ holds a lane that is no longer active
};

inline std::uint64_t receiver_core::refresh_all() noexcept {
  std::uint64_t at_hand = 0;
  for (lane_reader* lane : active_) {
    // Skip a lane with enough bytes at hand: reading its tail takes the cache line from the sender.
    if (lane->available() < hang_back::little && !lane->refresh()) [[unlikely]] {
      quarantine(*lane);
      continue;
    }
    at_hand += lane->available();
  }
  return at_hand;
}

inline std::uint64_t receiver_core::look() noexcept {
  const std::uint64_t at_hand = refresh_all();
  if (at_hand >= hang_back::little || !hang_back_.due())
    return at_hand;
  hang_back_.wait();
  hung_back_ = true;
  return refresh_all();
}

template <class Handler>
bool receiver_core::deliver(Handler& handler, const std::byte* payload, std::uint64_t length,
                            const lane_reader& lane) {
  if (private_copy_ != nullptr) [[unlikely]] {
    std::memcpy(private_copy_, payload, length);
    payload = private_copy_;
  }
  const bytes_view bytes{payload, static_cast<std::size_t>(length)};
  if constexpr (std::is_invocable_v<Handler&, bytes_view>) {
    handler(bytes);
    return true;
  } else {
    static_assert(std::is_invocable_v<Handler&, const received_message&>,
                  "a handler takes std::span<const std::byte> or const atbus::received_message&");
    const received_message message{bytes, static_cast<std::uint32_t>(&lane - lanes_begin_),
                                   lane.redelivering, lane.session};
    if constexpr (std::is_same_v<std::invoke_result_t<Handler&, const received_message&>, taken>) {
      return handler(message) == taken::yes;
    } else {
      handler(message);
      return true;
    }
  }
}

template <class Handler>
std::size_t receiver_core::visit(lane_reader& lane, Handler& handler, std::size_t most) {
  visit_frame frame{*this, lane};
  if (lane.redelivering) [[unlikely]] {
    most = 1;  // the mark concerns one record
    count_redelivery(lane);
  }
  const std::uint64_t capacity = lane.capacity();
  // Compares differences, not positions: a hostile sender can make a position overflow.
  const std::uint64_t begin = lane.position;
  const std::uint64_t turn = std::min(lane.available(), visit_bytes);
  while (lane.position - begin < turn && frame.count < most) {
    const std::uint64_t position = lane.position;
    const std::uint64_t offset = position & lane.mask;
    const std::byte* const at = lane.data + offset;
    const std::uint64_t header = load_record_header(at);
    const std::uint64_t length = record_length(header);
    const std::uint64_t size = record_size(length);
    if (record_kind_of(header) != record_kind::message || length > message_limit_ ||
        size > capacity - offset || size > lane.tail - position) [[unlikely]] {
      if (!special_record(lane, header))
        break;
      continue;
    }
    frame.enter(position + size);
    // Counted before the call: a message whose handler throws counts as handled.
    ++frame.count;
    frame.bytes += length;
    const bool is_taken = deliver(handler, at + record_header_size, length, lane);
    if (interrupted_ == interruption::forked) [[unlikely]]
      return frame.count;
    if (!is_taken) [[unlikely]] {
      frame.left(length);
      poll_ends_ = true;
      break;
    }
    frame.returned();
    if (!goes_on() || !lane.active) [[unlikely]]
      break;
    if (lane.position - lane.head >= capacity / 8)
      give_back(lane);
  }
  return frame.count;
}

template <class Handler>
std::size_t receiver_core::poll(Handler& handler, const poll_limits& limits) {
  const dispatch_frame frame{*this};
  if (!frame.entered())
    return 0;
  if (some_lane_ready()) [[unlikely]]
    take_ready_lanes();
  if (--polls_until_bells_ == 0) [[unlikely]]
    look_at_bells();
  const bool timed = limits.time > std::chrono::nanoseconds{0};
  const std::chrono::nanoseconds deadline = timed ? moment_after(now(), limits.time) : limits.time;
  std::size_t delivered = 0;
  std::size_t idle_looks = 0;
  while (delivered < limits.messages && idle_looks < most_idle_looks) {
    const std::uint64_t at_hand = look();
    if (inactive_seen_) [[unlikely]]
      remove_inactive();
    const bool hung_back = std::exchange(hung_back_, false);
    if (at_hand == 0) {
      hang_back_.learn(hung_back, 0);
      break;
    }
    const std::size_t before = delivered;
    // A handler may pause or drop all of them.
    for (std::size_t left = active_.size();
         left != 0 && !active_.empty() && delivered < limits.messages; --left) {
      if (turn_ >= active_.size())
        turn_ = 0;
      lane_reader& lane = *active_[turn_++];
      if (lane.available() == 0 || !lane.active)
        continue;
      lane.last_busy = productive_passes_;
      const std::size_t most = limits.messages - delivered;
      delivered += visit(lane, handler, timed ? std::min(most, messages_per_clock) : most);
      if (!goes_on()) [[unlikely]]
        return delivered;
      if (timed && now() >= deadline)
        return delivered;
    }
    hang_back_.learn(hung_back, delivered - before);
    if (delivered == before) {
      ++idle_looks;  // only padding, or a lane was quarantined: look again
      continue;
    }
    if (active_.size() > 1 && ++productive_passes_ % parking_interval == 0) [[unlikely]]
      park_idle_lanes();
  }
  return delivered;
}

}  // namespace detail
}  // namespace atbus
