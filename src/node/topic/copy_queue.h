// Copies of one topic that wait for room in the link to one neighbour, and what was dropped there.
//
// What is dropped leaves a mark of its stream. Marks of that kind leave when nothing waits in front of them any
// more, so a neighbour never hears that something is lost before it has what comes first; where a later message of
// the stream leaves first, its number tells the same. Only what a stream begins with is marked before that message:
// who does not know the stream would take it for the first one.
//
// Memory: `most` copies, whose bytes are shared with the queues of other neighbours, and as many marks as there are
// streams. One thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "atbus/policies.hpp"
#include "node/topic/stream_positions.h"
#include "protocol/control.h"
#include "protocol/topic_head.h"

namespace atbus::detail {

class copy_queue {
 public:
  struct copy {
    std::shared_ptr<const byte_buffer> bytes;  // with the head
    std::uint32_t type = 0;
    bool redelivered = false;
    bool is_message = true;  // else a mark, or what begins
    bus_id publisher{};
    std::uint64_t stream = 0;
    std::uint64_t number = 0;
  };
  struct mark {
    bus_id publisher;
    std::uint64_t stream = 0;
    std::uint64_t base = 0;
    std::uint64_t number = 0;
  };
  // What all queues of one neighbour have together.
  struct account {
    std::size_t bytes = 0;
    std::size_t bytes_max = 0;
  };

  copy_queue(overflow_policy slow, std::size_t most) noexcept : slow_(slow), most_(most) {}
  void set(overflow_policy slow, std::size_t most) noexcept {
    slow_ = slow;
    most_ = most;
  }

  // Whether another message would have to be dropped, or would make another one be dropped.
  [[nodiscard]] bool is_full(std::size_t size, const account& all) const noexcept {
    return messages_ >= most_ || (all.bytes != 0 && all.bytes + size > all.bytes_max);
  }
  [[nodiscard]] bool empty() const noexcept { return copies_.empty() && lost_.empty(); }
  [[nodiscard]] std::size_t messages() const noexcept { return messages_; }

  // A message waits, or what the policy says is dropped. Returns how many were.
  std::size_t push(copy what, account& all) {
    std::size_t dropped = 0;
    const std::size_t size = what.bytes->size();
    if (slow_ == overflow_policy::drop_oldest) {
      while (messages_ != 0 && is_full(size, all)) {
        drop_oldest(all);
        ++dropped;
      }
    }
    if (is_full(size, all)) {
      lose(what.publisher, what.stream, what.number);
      return dropped + 1;
    }
    copies_.push_back(std::move(what));
    ++messages_;
    all.bytes += size;
    return dropped;
  }
  // What is no message waits in its place; there are as many as there are streams, twice at most.
  void push_mark(copy what, const mark& said, account& all) {
    if (copies_.size() - messages_ > 2 * stream_positions::publishers_max)
      return lose(said);
    all.bytes += what.bytes->size();
    what.is_message = false;
    copies_.push_back(std::move(what));
  }
  // That message of a stream does not come any more.
  void lose(bus_id publisher, std::uint64_t stream, std::uint64_t number) {
    lose({publisher, stream, number - 1, number});
  }
  // Nor does what a mark has said.
  void lose(const mark& said) {
    if (mark* const known = find_lost(said.publisher, said.stream); known != nullptr) {
      known->number = std::max(known->number, said.number);
      known->base = std::min(known->base, said.base);
    } else {
      add_lost(said);
    }
  }

  // The first copy; null: none waits.
  [[nodiscard]] const copy* front() const noexcept {
    return copies_.empty() ? nullptr : &copies_.front();
  }
  void pop_front(account& all) noexcept {
    all.bytes -= copies_.front().bytes->size();
    messages_ -= copies_.front().is_message ? 1 : 0;
    copies_.pop_front();
  }
  // Once no copy waits: a mark of what was dropped. Null: nothing was.
  [[nodiscard]] const mark* front_mark() const noexcept {
    return lost_.empty() ? nullptr : &lost_.back();
  }
  void pop_mark() noexcept { lost_.pop_back(); }
  // A mark that leaves before the first copy: what its stream began with was dropped.
  [[nodiscard]] std::optional<mark> mark_before_front() noexcept {
    const mark* const known = lost_beginning();
    if (known == nullptr)
      return std::nullopt;
    mark made = *known;
    made.number = std::min(made.number, copies_.front().number - 1);
    return made;
  }
  void pop_mark_before_front() noexcept {
    mark& known = *lost_beginning();
    known.base = copies_.front().number - 1;
    if (known.number <= known.base) {
      known = lost_.back();
      lost_.pop_back();
    }
  }

  // The neighbour is told anew where each stream begins: what was to tell it that is not needed any more.
  void drop_marks(account& all) {
    std::erase_if(copies_, [&](const copy& one) {
      all.bytes -= one.is_message ? 0 : one.bytes->size();
      return !one.is_message;
    });
  }
  void clear(account& all) noexcept {
    while (!copies_.empty())
      pop_front(all);
    lost_.clear();
  }

 private:
  [[nodiscard]] mark* find_lost(bus_id publisher, std::uint64_t stream) noexcept {
    const auto known = std::ranges::find_if(
        lost_, [&](const mark& one) { return one.publisher == publisher && one.stream == stream; });
    return known != lost_.end() ? &*known : nullptr;
  }
  // Of the stream of the first copy, if the first message of that stream was dropped.
  [[nodiscard]] mark* lost_beginning() noexcept {
    if (lost_.empty() || copies_.empty() || !copies_.front().is_message)
      return nullptr;
    const copy& first = copies_.front();
    mark* const known = first.number > 1 ? find_lost(first.publisher, first.stream) : nullptr;
    return known != nullptr && known->base == 0 ? known : nullptr;
  }
  void add_lost(const mark& what) {
    if (lost_.size() < 2 * stream_positions::publishers_max)
      lost_.push_back(what);
  }
  void drop_oldest(account& all) {
    const auto oldest = std::ranges::find_if(copies_, &copy::is_message);
    lose(oldest->publisher, oldest->stream, oldest->number);
    all.bytes -= oldest->bytes->size();
    copies_.erase(oldest);
    --messages_;
  }

  overflow_policy slow_;
  std::size_t most_;
  std::deque<copy> copies_;
  std::size_t messages_ = 0;  // of these
  std::vector<mark> lost_;
};

}  // namespace atbus::detail
