// Copies of one topic that wait for room in the link to one neighbour, and what was dropped there.
//
// What is dropped leaves a mark of its stream. Marks of that kind leave when nothing waits in front of them any
// more, so a neighbour never hears that something is lost before it has what comes first; where a later message of
// the stream leaves first, its number tells the same. Only what a stream begins with is marked before that message:
// who does not know the stream would take it for the first one.
//
// Memory: `most` copies, whose bytes are shared with the queues of other neighbours; marks of at most 2,048 streams, and
// 131,072 of all queues of a neighbour. For what finds no room there a mark of each stream is owed. One thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <new>
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
    std::shared_ptr<const byte_buffer> bytes;  // of a message, with the head
    std::uint32_t type = 0;
    bool redelivered = false;
    topic_part what = topic_part::message;
    bus_id publisher{};
    std::uint64_t stream = 0;
    std::uint64_t number = 0;
    std::uint64_t base = 0;

    [[nodiscard]] bool is_message() const noexcept { return what == topic_part::message; }
    [[nodiscard]] std::size_t size() const noexcept { return is_message() ? bytes->size() : 0; }
  };
  struct mark {
    bus_id publisher;
    std::uint64_t stream = 0;
    std::uint64_t base = 0;
    std::uint64_t number = 0;
  };
  // What all queues of one neighbour have together.
  struct account {
    std::size_t bytes = 0;  // of messages
    std::size_t bytes_max = 0;
    std::size_t marks = 0;
  };
  static constexpr std::size_t marks_max = 131072;

  copy_queue(overflow_policy slow, std::size_t most)
      : slow_(slow), most_(most) {}  // a deque takes memory
  void set(overflow_policy slow, std::size_t most) noexcept {
    slow_ = slow;
    most_ = most;
  }

  // Whether another message would have to be dropped, or would make another one be dropped.
  [[nodiscard]] bool is_full(std::size_t size, const account& all) const noexcept {
    return messages_ >= most_ || (all.bytes != 0 && all.bytes + size > all.bytes_max);
  }
  [[nodiscard]] bool empty() const noexcept {
    return copies_.empty() && lost_.empty() && !owes_marks_;
  }
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
      lose(what.publisher, what.stream, what.number, all);
      return dropped + 1;
    }
    copies_.push_back(std::move(what));
    ++messages_;
    all.bytes += size;
    return dropped;
  }
  // What is no message waits in its place.
  void push_mark(const copy& what, account& all) {
    const bool is_mark = what.what == topic_part::mark;
    if (is_mark && (copies_.size() - messages_ > most_marks || all.marks >= marks_max))
      return lose({what.publisher, what.stream, what.base, what.number}, all);
    copies_.push_back(what);
    ++all.marks;
  }
  // That message of a stream does not come any more.
  void lose(bus_id publisher, std::uint64_t stream, std::uint64_t number, account& all) noexcept {
    lose({publisher, stream, number - 1, number}, all);
  }
  // Nor does what a mark has said.
  void lose(const mark& said, account& all) noexcept {
    if (mark* const known = find_lost(said.publisher, said.stream); known != nullptr) {
      known->number = std::max(known->number, said.number);
      known->base = std::min(known->base, said.base);
    } else {
      add_lost(said, all);
    }
  }
  // Where a mark of the stream begins that waits because something was dropped; else `number`.
  [[nodiscard]] std::uint64_t base_of(bus_id publisher, std::uint64_t stream,
                                      std::uint64_t number) noexcept {
    const mark* const known = find_lost(publisher, stream);
    return known != nullptr ? std::min(known->base, number) : number;
  }
  // It was dropped for an earlier incarnation of the neighbour, which was owed it.
  void forget_lost(account& all) noexcept {
    while (!lost_.empty())
      pop_mark(all);
    owes_marks_ = false;
  }
  // There was no room for some marks: marks of all streams stand for them, once nothing else waits.
  [[nodiscard]] bool owes_marks() const noexcept { return owes_marks_; }
  void begin_marks() noexcept { owes_marks_ = false; }

  [[nodiscard]] bool has_first() const noexcept { return !copies_.empty() || !lost_.empty(); }
  // The first copy; null: none waits.
  [[nodiscard]] const copy* front() const noexcept {
    return copies_.empty() ? nullptr : &copies_.front();
  }
  void pop_front(account& all) noexcept {
    const copy& first = copies_.front();
    all.bytes -= first.size();
    --(first.is_message() ? messages_ : all.marks);
    copies_.pop_front();
  }
  // Once no copy waits: a mark of what was dropped. Null: nothing was.
  [[nodiscard]] const mark* front_mark() const noexcept {
    return lost_.empty() ? nullptr : &lost_.back();
  }
  void pop_mark(account& all) noexcept {
    lost_.pop_back();
    --all.marks;
  }
  // A mark that leaves before the first copy: what its stream began with was dropped.
  [[nodiscard]] std::optional<mark> mark_before_front() noexcept {
    const mark* const known = lost_beginning();
    if (known == nullptr)
      return std::nullopt;
    mark made = *known;
    made.number = std::min(made.number, copies_.front().number - 1);
    return made;
  }
  void pop_mark_before_front(account& all) noexcept {
    mark& known = *lost_beginning();
    known.base = copies_.front().number - 1;
    if (known.number <= known.base) {
      known = lost_.back();
      pop_mark(all);
    }
  }

  // The neighbour is told anew where each stream begins: what was to tell it that is not needed any more.
  void drop_marks(account& all) {
    all.marks -= copies_.size() - messages_;
    std::erase_if(copies_, [](const copy& one) { return !one.is_message(); });
  }
  void clear(account& all) noexcept {
    while (!copies_.empty())
      pop_front(all);
    forget_lost(all);
  }

 private:
  [[nodiscard]] mark* find_lost(bus_id publisher, std::uint64_t stream) noexcept {
    const auto known = std::ranges::find_if(
        lost_, [&](const mark& one) { return one.publisher == publisher && one.stream == stream; });
    return known != lost_.end() ? &*known : nullptr;
  }
  // Of the stream of the first copy, if the first message of that stream was dropped.
  [[nodiscard]] mark* lost_beginning() noexcept {
    if (lost_.empty() || copies_.empty() || !copies_.front().is_message())
      return nullptr;
    const copy& first = copies_.front();
    mark* const known = first.number > 1 ? find_lost(first.publisher, first.stream) : nullptr;
    return known != nullptr && known->base == 0 ? known : nullptr;
  }
  void add_lost(const mark& what, account& all) noexcept {
    try {
      if (lost_.size() < most_marks && all.marks < marks_max) {
        lost_.push_back(what);
        ++all.marks;
        return;
      }
    } catch (const std::bad_alloc&) {  // as if there were too many
    }
    owes_marks_ = true;
  }
  void drop_oldest(account& all) {
    const auto oldest = std::ranges::find_if(copies_, &copy::is_message);
    lose(oldest->publisher, oldest->stream, oldest->number, all);
    all.bytes -= oldest->size();
    copies_.erase(oldest);
    --messages_;
  }

  static constexpr std::size_t most_marks = 2 * stream_positions::publishers_max;

  overflow_policy slow_;
  std::size_t most_;
  std::deque<copy> copies_;
  std::size_t messages_ = 0;  // of these
  std::vector<mark> lost_;
  bool owes_marks_ = false;
};

}  // namespace atbus::detail
