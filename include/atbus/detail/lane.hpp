// A lane: one single-producer single-consumer byte ring, and the control lines its two ends share.
//
// This file is the hot path of the shared-memory and memory channels: it is public only so that
// `claim`, `commit` and `poll` can be inlined into user code. Programs use `atbus::sender` and
// `atbus::receiver`.
//
// Guarantees (doc/design/segment.md gives the argument for each):
//  - What lies beyond `tail` does not exist. A sender killed at any instruction leaves whole
//    records or nothing.
//  - Every field has exactly one writer: the sender, or the receiver. The writer is named beside
//    the field.
//  - No field read from the other side is believed: it is loaded once, checked against the
//    geometry, then used.
//  - Positions count bytes since the lane was made and only grow; the place in the ring is position
//    mod capacity.
//  - A record never wraps: where it would, a padding record fills the end of the ring.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "atbus/detail/export.hpp"
#include "atbus/detail/test_hook.hpp"

namespace atbus::detail {

// Two 64-byte lines. Fields written by one side never share a line with fields written by the other, nor
// the neighbouring line that an adjacent-line prefetcher loads with it.
inline constexpr std::size_t line_size = 128;

// The first eight bytes of every record: payload length in the low half, kind in the high half. The
// payload follows at once, 8-byte aligned, padded to the next multiple of 8.
enum class record_kind : std::uint32_t {
  // "!GSM", the user's bytes. Not zero, so that a page of zeroes is no stream of empty messages.
  message = 0x4d534721,
  padding = 0x50414421,  // "!DAP", to the end of the ring; carries nothing
  open = 0x4f504e21,     // "!NPO", the records behind it are a new sender's; payload: `open_record`
};

inline constexpr std::size_t record_header_size = 8;

[[nodiscard]] constexpr std::uint64_t make_record_header(record_kind kind,
                                                         std::uint64_t length) noexcept {
  return (static_cast<std::uint64_t>(kind) << 32) | length;
}
[[nodiscard]] constexpr std::uint64_t record_length(std::uint64_t header) noexcept {
  return header & 0xffffffffU;
}
[[nodiscard]] constexpr record_kind record_kind_of(std::uint64_t header) noexcept {
  return static_cast<record_kind>(header >> 32);
}
// Bytes that a record with this payload length takes in the lane.
[[nodiscard]] constexpr std::uint64_t record_size(std::uint64_t length) noexcept {
  return (length + record_header_size + 7) & ~std::uint64_t{7};
}

// Payload of an `open` record: describes the sender. For display only; no code decides by it.
struct open_record {
  std::uint32_t pid;  // as the sender's own pid namespace numbers it
  std::uint32_t reserved;
  std::uint64_t opened_at;  // nanoseconds since 1970 (CLOCK_REALTIME)
  std::uint64_t session;    // random, new for each sender::open
  char program[40];         // NUL-terminated
};
static_assert(sizeof(open_record) == 64 && std::is_trivially_copyable_v<open_record>);

// The receiver's alert to the sender. Flags in the low bits of `lane_slot::alert`; the bits above count
// changes, so that an alert differs from those before it.
inline constexpr std::uint64_t alert_parked = 1;  // the receiver skips this lane: set its ready bit
inline constexpr std::uint64_t alert_retired = 2;  // the segment was removed
inline constexpr std::uint64_t alert_fence = 4;    // receiver lacks membarrier: fence each publish
inline constexpr std::uint64_t alert_quarantined = 8;  // the receiver found impossible values here
inline constexpr std::uint64_t alert_step = 16;
// The count, in bits 4 to 35; above it is the receiver's generation.
inline constexpr std::uint64_t alert_count = (std::uint64_t{1} << 36) - alert_step;
// The alert behind `before`, without flags. The count wraps: an alert differs from the 2^32 before it.
[[nodiscard]] constexpr std::uint64_t next_alert(std::uint64_t before) noexcept {
  return (before & ~(alert_count | (alert_step - 1))) | ((before + alert_step) & alert_count);
}

// The sender's request to the receiver. Flags in the low bits of `lane_slot::request`; the bits above are
// a position (a multiple of 8).
inline constexpr std::uint64_t request_space =
    1;  // ring the sender when `head` reaches the position
inline constexpr std::uint64_t request_fence =
    2;  // sender lacks membarrier: fence after each `head`

using shared_word = std::atomic<std::uint64_t>;
// Values of `lane_slot::quarantined`.
inline constexpr std::uint64_t quarantine_impossible =
    1;  // the lane held values that no sender writes
inline constexpr std::uint64_t quarantine_dropped = 2;  // the receiver's user dropped the lane

static_assert(shared_word::is_always_lock_free && sizeof(shared_word) == 8,
              "shared memory needs address-free 64-bit atomics");

// The control lines of one lane, as they lie in the segment.
struct lane_slot {
  // Written by the sender, read by the receiver.
  alignas(line_size) shared_word tail;     // position behind the last published record
  alignas(line_size) shared_word request;  // see request_*
  shared_word withdrawn;                   // 1 while the sender takes its records back
  shared_word fence_echo;                  // 1: the sender fences each publish
  shared_word reserved_bytes;              // lane memory reserved by the holder of the lane's lock
  // Written by the sender, read for statistics.
  alignas(line_size) shared_word full;  // claims refused for want of room
  shared_word rings;                    // doorbell rings sent
  shared_word padding_bytes;
  // Written by the receiver, read by the sender.
  alignas(line_size) shared_word head;   // the sender may overwrite what lies before it
  alignas(line_size) shared_word alert;  // see alert_*
  // Written by the receiver for its successor; a sender reads it only to take its records back.
  alignas(line_size) shared_word handling;  // end of the record whose handler was entered last
  shared_word done;                         // end of the record whose handler returned last
  // Written by the receiver, read for statistics.
  alignas(line_size) shared_word messages;  // handled
  shared_word bytes;                        // payload bytes handled
  shared_word redelivered;
  shared_word quarantines;
  shared_word high_water_mark;  // most bytes ever seen waiting
  shared_word space_rings;
  shared_word fence_answered;  // 1: the receiver fences after each `head`, as `request_fence` asks
  shared_word quarantined;     // not 0: the lane is not read until it is reset; see quarantine_*
  // The receiver's user notes something about the sender here. 0 after a new sender opens or a reset.
  shared_word note[3];
  alignas(line_size) shared_word session[8];  // copy of the last `open` record handled
};
static_assert(sizeof(lane_slot) == 8 * line_size);
static_assert(offsetof(lane_slot, tail) == 0 && offsetof(lane_slot, request) == 128);
static_assert(offsetof(lane_slot, full) == 256 && offsetof(lane_slot, head) == 384);
static_assert(offsetof(lane_slot, alert) == 512 && offsetof(lane_slot, handling) == 640);
static_assert(offsetof(lane_slot, done) == 648 && offsetof(lane_slot, messages) == 768);
static_assert(offsetof(lane_slot, note) == 832 && offsetof(lane_slot, session) == 896);

// Loads a record header exactly once, even if the other side changes it at the same time.
[[nodiscard]] inline std::uint64_t load_record_header(const std::byte* at) noexcept {
  // Relaxed: the acquire load of `tail` that made this record visible ordered its bytes; see
  // lane_reader::refresh.
  return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(at), __ATOMIC_RELAXED);
}
inline void store_record_header(std::byte* at, std::uint64_t header) noexcept {
  // Relaxed: published by the release store of `tail`; see lane_writer::publish.
  __atomic_store_n(reinterpret_cast<std::uint64_t*>(at), header, __ATOMIC_RELAXED);
}

// The sender's end. One thread. All members are private to the sending process.
//
// Per message it stores the record, `tail` and its own position, nothing else. While a lane's cache lines
// arrive from the receiver's core, stores wait in order in the store buffer. Each needless store takes the
// place of one that would have fetched the next line (measured: doc/design/segment.md).
class lane_writer {
 public:
  lane_writer() = default;

  // `data` is `capacity` (a power of two) bytes. Starts at the published tail.
  void attach(lane_slot* slot, std::byte* data, std::uint64_t capacity,
              std::uint64_t tail) noexcept {
    slot_ = slot;
    data_ = data;
    mask_ = capacity - 1;
    position_ = padding_begin_ = padding_end_ = tail;
    window_end_ = tail;  // no room known: the first claim looks at `head`
  }

  // Every further claim takes the slow path, which returns the reason for its failure.
  void close_window() noexcept { window_end_ = position_; }
  // After the next `bytes`, a claim takes the slow path even if there is room.
  void narrow_window(std::uint64_t bytes) noexcept {
    if (fits(bytes))
      window_end_ = position_ + bytes;
  }

  [[nodiscard]] lane_slot* slot() const noexcept { return slot_; }
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::uint64_t capacity() const noexcept { return mask_ + 1; }
  [[nodiscard]] std::uint64_t position() const noexcept { return position_; }

  // True if a record of `size` bytes (record_size) can be written at position() right away.
  [[nodiscard]] bool fits(std::uint64_t size) const noexcept {
    return size <= window_end_ - position_;
  }

  // Makes room for a record of `size` bytes if there is any, padding the end of the ring where
  // needed.
  enum class room : std::uint8_t { made, none, impossible_head };
  room make_room(std::uint64_t size) noexcept {
    // Acquire: pairs with the receiver's release store of `head`; its reads of the bytes before
    // `head` are over before we overwrite them.
    const std::uint64_t head = slot_->head.load(std::memory_order_acquire);
    if (position_ - head > capacity() || (head & 7) != 0)
      return room::impossible_head;
    // Compares distances, never positions: a position may be about to overflow.
    const std::uint64_t room_left = head + capacity() - position_;
    const std::uint64_t lap_end = (position_ | mask_) + 1;
    const std::uint64_t rest = lap_end - position_;
    if (rest >= size) {
      window_end_ = position_ + (room_left < rest ? room_left : rest);
      return fits(size) ? room::made : room::none;
    }
    // The record would wrap. Wait until both the rest of this lap and the record fit, then pad.
    window_end_ = position_;
    if (room_left < rest + size)
      return room::none;
    if (rest != 0) {
      store_record_header(data_ + (position_ & mask_),
                          make_record_header(record_kind::padding, rest - record_header_size));
      test_hook(step::padding_written);
      count(slot_->padding_bytes, rest);
    }
    padding_begin_ = position_;
    position_ = padding_end_ = lap_end;
    window_end_ = lap_end + (room_left - rest);  // less than a lap
    return room::made;
  }

  // The position `head` has to reach before a record of `size` bytes fits.
  [[nodiscard]] std::uint64_t head_needed_for(std::uint64_t size) const noexcept {
    const std::uint64_t lap_end = (position_ | mask_) + 1;
    const std::uint64_t end = lap_end - position_ >= size ? position_ + size : lap_end + size;
    return end - capacity();
  }

  // Begins a record at position() and returns where the payload goes. The header is written before the
  // payload, so that the cache line, which the previous record shares, arrives while the user fills the
  // payload. A header written last has to wait for that line, and `tail` waits behind it: that cost 10 % of
  // the throughput.
  std::byte* begin(record_kind kind, std::uint64_t length) noexcept {
    std::byte* const at = data_ + (position_ & mask_);
    store_record_header(at, make_record_header(kind, length));
    return at + record_header_size;
  }

  // Completes the record; it stays invisible until publish().
  void append(std::uint64_t length) noexcept {
    position_ += record_size(length);
    test_hook(step::record_written);
  }

  // Makes everything appended visible. Returns true if there is an alert that the sender has not answered.
  [[nodiscard]] bool publish() noexcept {
    test_hook(step::before_tail);
    // Release: pairs with the receiver's acquire load of `tail`; the records are written before
    // they exist.
    slot_->tail.store(position_, std::memory_order_release);
    test_hook(step::after_tail);
    // Relaxed: pairs with the receiver that parks this lane. It stores its alert, executes a barrier on
    // every core (membarrier) and then loads `tail` once more. So either this load sees the alert or the
    // receiver sees the tail. Only the compiler must not move this load above the store. (A sender that
    // spares the receiver the barrier remembers no alert, so it fences and looks again.)
    std::atomic_signal_fence(std::memory_order_seq_cst);
    return slot_->alert.load(std::memory_order_relaxed) != alert_seen_;
  }

  [[nodiscard]] std::uint64_t alert_seen() const noexcept { return alert_seen_; }
  void alert_seen(std::uint64_t alert) noexcept { alert_seen_ = alert; }

  // Whether nothing but padding was appended behind `done`. A record that was begun, and never appended,
  // may leave the padding before it behind.
  [[nodiscard]] bool is_empty_behind(std::uint64_t done) const noexcept {
    return done == position_ || (done == padding_begin_ && position_ == padding_end_);
  }

  // Cuts the lane back to `tail`; only while the lane is withdrawn.
  void rewind(std::uint64_t tail) noexcept {
    position_ = window_end_ = padding_begin_ = padding_end_ = tail;
    slot_->tail.store(tail, std::memory_order_release);
  }

  static void count(shared_word& counter, std::uint64_t by) noexcept {
    // One writer: no read-modify-write needed. Relaxed: only statistics read it.
    counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }

 private:
  std::byte* data_ = nullptr;
  std::uint64_t mask_ = 0;
  std::uint64_t position_ = 0;    // where the next record begins
  std::uint64_t window_end_ = 0;  // free and contiguous up to here
  lane_slot* slot_ = nullptr;
  std::uint64_t alert_seen_ = ~std::uint64_t{0};
  std::uint64_t padding_begin_ = 0;  // of the last padding
  std::uint64_t padding_end_ = 0;
};

// The receiver's end. One thread. All members are private to the receiving process.
class lane_reader {
 public:
  lane_slot* slot = nullptr;
  const std::byte* data = nullptr;
  std::uint64_t mask = 0;
  std::uint64_t position = 0;  // the next record to handle; equals slot->done
  std::uint64_t tail = 0;      // last checked tail
  std::uint64_t head = 0;      // last published head
  std::uint64_t alert = 0;     // last alert stored
  std::uint64_t messages = 0;  // handled since the segment was made
  std::uint64_t bytes = 0;
  std::uint64_t high_water_mark = 0;
  std::uint64_t last_busy = 0;         // receiver_core::productive_passes_ when it last had records
  std::uint64_t request_answered = 0;  // the last request that was rung for
  bool active = false;                 // looked at in each pass
  bool quarantined = false;
  bool paused = false;   // not looked at until resumed
  bool skipped = false;  // `withdrawn` was set at the last look
  // The record at `position` was handed to a handler that never returned.
  bool redelivering = false;
  bool adopted = false;       // its memory is known to be reserved
  bool starved = false;       // it was not, at the last look, for want of memory
  bool orphan = false;        // its sender disconnected: free the lane once it is drained
  bool unconnected = false;   // its sender is alive but not connected to the bell
  std::uint64_t session = 0;  // see receiver::session
  std::chrono::nanoseconds dying_until{0};  // the sender disconnected: check its lock until then

  [[nodiscard]] std::uint64_t capacity() const noexcept { return mask + 1; }
  [[nodiscard]] std::uint64_t available() const noexcept { return tail - position; }

  // Looks for new records. Returns false if the tail is impossible: the caller quarantines the lane.
  [[nodiscard]] bool refresh() noexcept {
    // Acquire: pairs with the sender's release store in lane_writer::publish.
    const std::uint64_t seen = slot->tail.load(std::memory_order_acquire);
    if (seen == tail)
      return true;
    if (seen - position > capacity() || seen - position < tail - position || (seen & 7) != 0)
      return false;
    tail = seen;
    if (seen - position > high_water_mark)
      high_water_mark = seen - position;
    return true;
  }

  // Frees the space of handled records. The caller then checks has_request().
  void publish_head() noexcept {
    head = position;
    test_hook(step::before_head);
    // Release: pairs with the sender's acquire load in make_room.
    slot->head.store(position, std::memory_order_release);
    test_hook(step::after_head);
  }

  // Whether the sender has a request. Called after publish_head.
  [[nodiscard]] bool has_request() const noexcept {
    // Relaxed: pairs with sender_state::prepare_sleep, the mirror image of lane_writer::publish. The sender
    // stores its request, executes membarrier and loads `head` again. So either this load sees the request
    // or the sender sees the head.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    return slot->request.load(std::memory_order_relaxed) != 0;
  }
};

}  // namespace atbus::detail
