// The bytes that a stream has accepted and not released: bytes in, gather lists out, first in first out.
//
// Two kinds share this interface: block_ring (allocated once) and malloc_queue (grows to a limit).
// The queue keeps no message boundaries: the bytes of one commit follow those of the previous one without a
// gap, so that one write takes any number of small messages. A caller that needs each message to start on a
// multiple of 8 commits multiples of 8.
//
// Guarantees:
//  - A claimed place is contiguous and does not move until commit or abort, even if bytes are written or
//    released meanwhile. One claim may be open at a time.
//  - Committed bytes do not move until they are released, so that a write in flight may point at them.
//  - A claim that does not fit returns would_block and changes nothing. A claim within byte_limit() fits
//    again at the latest when all bytes are released.
//  - `written` and `released` are kept apart. A plain channel releases what the kernel took; a node
//    releases what was acknowledged, and after a reconnect rewinds and writes the rest again.
//
// The queue counts bytes since it was made: released <= written <= committed. The counts only grow, except
// that rewind sets `written` back to `released`.
//
// A queue belongs to one thread. Nothing here throws.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "atbus/bytes.hpp"
#include "atbus/detail/export.hpp"
#include "atbus/status.hpp"

namespace atbus {

class ATBUS_API send_queue {
 public:
  static constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();

  send_queue(const send_queue&) = delete;
  send_queue& operator=(const send_queue&) = delete;
  virtual ~send_queue() = default;

  // Opens a claim: `place` becomes `bytes` writable bytes, not initialized. Errors, each of which
  // leaves the queue as it was: would_block (wanted, largest claim that would fit now),
  // message_too_large (wanted, limit), out_of_memory (wanted), invalid_argument if a claim is open
  // already.
  [[nodiscard]] status claim(std::size_t bytes, mutable_bytes& place) noexcept {
    if (claimed_ == 0 && bytes <= static_cast<std::size_t>(run_end_ - cursor_)) [[likely]] {
      claimed_ = bytes;
      place = {cursor_, bytes};
      return {};
    }
    return claim_elsewhere(bytes, place);
  }

  // As claim, plus the contiguous free bytes behind it, up to `most` bytes in all.
  [[nodiscard]] status claim_up_to(std::size_t bytes, std::size_t most,
                                   mutable_bytes& place) noexcept {
    const status claimed = claim(bytes, place);
    if (claimed && most > bytes) {
      claimed_ = std::min(most, static_cast<std::size_t>(run_end_ - cursor_));
      place = {cursor_, claimed_};
    }
    return claimed;
  }

  // Ends the claim: its first `actual` bytes join the queue. commit(0) is abort().
  void commit(std::size_t actual) noexcept {
    assert(actual <= claimed_ && "commit of more than was claimed");
    if (actual > claimed_)
      actual = claimed_;
    claimed_ = 0;
    if (actual == 0)
      return claim_abandoned();
    cursor_ += actual;
    committed_ += actual;
  }

  // Discards the claim. Does nothing without one.
  void abort() noexcept { commit(0); }

  // claim, copy, commit.
  [[nodiscard]] status push(bytes_view bytes) noexcept {
    mutable_bytes place;
    const status claimed = claim(bytes.size(), place);
    if (!claimed)
      return claimed;
    if (!bytes.empty())
      std::memcpy(place.data(), bytes.data(), bytes.size());
    commit(bytes.size());
    return {};
  }

  // Fills `runs` with what is committed and not yet written, in order, each run as long as the
  // memory is contiguous, in all at most `bytes_max` bytes. Returns how many runs were filled. They
  // stay valid until released.
  [[nodiscard]] std::size_t gather(std::span<bytes_view> runs,
                                   std::size_t bytes_max = no_limit) const noexcept {
    return runs_from(written_, runs, bytes_max);
  }

  // As gather, from the oldest byte not released: the bytes to send again, or to report as not sent.
  [[nodiscard]] std::size_t gather_unreleased(std::span<bytes_view> runs,
                                              std::size_t bytes_max = no_limit) const noexcept {
    return runs_from(released_, runs, bytes_max);
  }
  // Calls `each` with each run of them, in order, until it returns false. What is committed meanwhile is left
  // out.
  template <class Each>
  void for_each_unreleased(Each&& each) const {
    std::array<bytes_view, 16> runs;
    const std::uint64_t end = committed_;
    std::size_t found = runs.size();
    for (std::uint64_t at = released_; found == runs.size() && at != end;) {
      found = runs_from(at, runs, distance(at, end));
      for (const bytes_view run : std::span{runs}.first(found)) {
        if (!each(run))
          return;
        at += run.size();
      }
    }
  }

  // The next `bytes` of gather() have been written. At most unwritten().
  virtual void mark_written(std::size_t bytes) noexcept;

  // Releases the oldest `bytes`. At most size(). Bytes released without a write count as written: after a
  // reconnect, the other end may already have them.
  virtual void release(std::size_t bytes) noexcept = 0;

  // Marks everything in the queue as not written.
  virtual void rewind() noexcept {
    most_written_ = std::max(most_written_, written_);
    written_ = released_;
  }

  // Bytes not released; those of them not written; those written and not released.
  [[nodiscard]] std::size_t size() const noexcept { return distance(released_, committed_); }
  [[nodiscard]] std::size_t unwritten() const noexcept { return distance(written_, committed_); }
  [[nodiscard]] std::size_t in_flight() const noexcept { return distance(released_, written_); }
  [[nodiscard]] bool empty() const noexcept { return released_ == committed_; }

  // The counts themselves.
  [[nodiscard]] std::uint64_t committed() const noexcept { return committed_; }
  [[nodiscard]] std::uint64_t written() const noexcept { return written_; }
  [[nodiscard]] std::uint64_t released() const noexcept { return released_; }
  // The highest value that `written` has had: bytes behind it never left.
  [[nodiscard]] std::uint64_t ever_written() const noexcept {
    return std::max(most_written_, written_);
  }

  // Neither size() nor a claim exceeds this.
  [[nodiscard]] std::size_t byte_limit() const noexcept { return byte_limit_; }

  // Bytes of memory held now, used or not.
  [[nodiscard]] virtual std::size_t memory() const noexcept = 0;

 protected:
  explicit send_queue(std::size_t byte_limit) noexcept : byte_limit_{byte_limit} {}

  // claim() if the run at the cursor has no room: finds another run, or returns why there is none.
  virtual status claim_elsewhere(std::size_t bytes, mutable_bytes& place) noexcept = 0;
  // After an abort: undoes claim_elsewhere.
  virtual void claim_abandoned() noexcept = 0;
  // `position`: not before released_.
  virtual std::size_t runs_from(std::uint64_t position, std::span<bytes_view> runs,
                                std::size_t bytes_max) const noexcept = 0;

  status open_claim(std::size_t bytes, mutable_bytes& place) noexcept {
    claimed_ = bytes;
    place = {cursor_, bytes};
    return {};
  }

  static std::size_t distance(std::uint64_t from, std::uint64_t to) noexcept {
    return static_cast<std::size_t>(to - from);
  }

  // The next byte goes to `cursor_`; the run it belongs to may grow to `run_end_`.
  std::byte* cursor_ = nullptr;
  std::byte* run_end_ = nullptr;
  std::size_t claimed_ = 0;
  std::uint64_t committed_ = 0;
  std::uint64_t written_ = 0;
  std::uint64_t released_ = 0;
  std::uint64_t most_written_ = 0;  // before the latest rewind
  std::size_t byte_limit_;
};

}  // namespace atbus
