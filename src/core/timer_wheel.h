// Deadlines by the thousand: set and cancelled in a few instructions each, and mostly never due.
//
// Time is cut into ticks of 0.13 ms. A tick has a list of the deadlines that end in it; ticks that are a turn of
// the wheel apart share one. A deadline is never told early, and at most one tick late. Deadlines of one tick are
// told in the order in which they were set.
//
// timer_queue.h is for the few timers that have to be exact. One thread.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "atbus/detail/wheel_timer.hpp"
#include "core/timer_queue.h"

namespace atbus::detail {

class timer_wheel {
 public:
  timer_wheel() = default;
  timer_wheel(const timer_wheel&) = delete;
  timer_wheel& operator=(const timer_wheel&) = delete;

  // Takes memory on the first call; throws std::bad_alloc. Then set() does not.
  void prepare() {
    if (slots_ == nullptr)
      slots_ = std::make_unique<slots>();
  }
  // After prepare(). `now` is not before that of an earlier call.
  void set(wheel_timer& which, std::chrono::nanoseconds due,
           std::chrono::nanoseconds now) noexcept {
    which.cancel();
    which.due_ = due;
    if (is_empty_) {
      tick_ = tick_of(now);
      next_ = std::numeric_limits<std::uint64_t>::max();
      is_empty_ = false;
    }
    const std::uint64_t tick = std::max(end_tick_of(due), tick_ + 1);
    next_ = std::min(next_, tick);
    const std::size_t slot = tick % slot_count;
    which.insert_at(slots_->heads[slot]);
    slots_->used[slot / 64] |= std::uint64_t{1} << (slot % 64);
  }

  // Takes out those that are due by `now`, one for each call, in order; null: there are no more.
  [[nodiscard]] wheel_timer* take_due(std::chrono::nanoseconds now) noexcept {
    if (due_ == nullptr && !is_empty_ && tick_of(now) > tick_)
      collect(now);
    wheel_timer* const first = due_;
    if (first != nullptr)
      first->cancel();
    return first;
  }
  // Takes out any that is left.
  [[nodiscard]] wheel_timer* take_any() noexcept {
    if (due_ == nullptr && slots_ != nullptr) {
      for (wheel_timer*& head : slots_->heads) {
        if (head != nullptr) {
          wheel_timer* const any = head;
          any->cancel();
          return any;
        }
      }
    }
    wheel_timer* const first = due_;
    if (first != nullptr)
      first->cancel();
    return first;
  }

  // When take_due() may have something, or a moment before that; `never`: not as things are.
  [[nodiscard]] std::chrono::nanoseconds next() const noexcept {
    if (due_ != nullptr)
      return std::chrono::nanoseconds{0};
    return is_empty_ || next_ >> (63 - tick_bits) != 0
               ? timer_queue::never
               : std::chrono::nanoseconds{static_cast<std::int64_t>(next_ << tick_bits)};
  }

 private:
  static constexpr unsigned tick_bits = 17;  // of nanoseconds
  static constexpr std::size_t slot_count = 2048;
  struct slots {
    std::array<wheel_timer*, slot_count> heads{};
    std::array<std::uint64_t, slot_count / 64> used{};  // a bit may be set for an empty list
  };

  [[nodiscard]] static std::uint64_t tick_of(std::chrono::nanoseconds moment) noexcept {
    return static_cast<std::uint64_t>(moment.count()) >> tick_bits;
  }
  // The first tick that begins no earlier.
  [[nodiscard]] static std::uint64_t end_tick_of(std::chrono::nanoseconds moment) noexcept {
    return (static_cast<std::uint64_t>(moment.count()) + ((std::uint64_t{1} << tick_bits) - 1)) >>
           tick_bits;
  }

  void collect(std::chrono::nanoseconds now) noexcept {
    const std::uint64_t until = tick_of(now);
    wheel_timer** end = &due_;
    bool is_left = false;
    const auto walk = [&](std::size_t slot) {
      // The newest is in front: those that are due change places, so that the oldest is.
      wheel_timer* due = nullptr;
      for (wheel_timer* one = slots_->heads[slot]; one != nullptr;) {
        wheel_timer* const next = one->next_;
        if (end_tick_of(one->due_) <= until) {
          one->cancel();
          one->insert_at(due);
        }
        one = next;
      }
      if (slots_->heads[slot] == nullptr)
        slots_->used[slot / 64] &= ~(std::uint64_t{1} << (slot % 64));
      if (due == nullptr)
        return;
      *end = due;
      due->at_ = end;
      while (*end != nullptr)
        end = &(*end)->next_;
    };
    const std::uint64_t first =
        std::max(tick_ + 1, until < slot_count ? 0 : until - slot_count + 1);
    for (std::uint64_t tick = first; tick <= until; ++tick) {
      const std::size_t slot = tick % slot_count;
      if ((slots_->used[slot / 64] >> (slot % 64) & 1) != 0)
        walk(slot);
    }
    if (until - tick_ > slot_count)
      sort_due();
    tick_ = until;
    for (const std::uint64_t word : slots_->used)
      is_left = is_left || word != 0;
    is_empty_ = !is_left;
    if (is_left && next_ <= tick_)
      find_next();
  }
  // After more than a turn of the wheel a list has had deadlines of several ticks. Those of one tick keep
  // their order.
  void sort_due() noexcept {
    // Merges runs of `length` by two, until there is one.
    for (std::size_t length = 1, runs = 2; runs > 1; length *= 2) {
      wheel_timer* rest = std::exchange(due_, nullptr);
      wheel_timer** end = &due_;
      for (runs = 0; rest != nullptr; ++runs) {
        wheel_timer* first = rest;
        wheel_timer* second = cut(first, length);
        rest = cut(second, length);
        while (first != nullptr || second != nullptr) {
          const bool takes_second =
              first == nullptr ||
              (second != nullptr && end_tick_of(second->due_) < end_tick_of(first->due_));
          wheel_timer*& from = takes_second ? second : first;
          *end = from;
          from = from->next_;
          (*end)->at_ = end;
          end = &(*end)->next_;
        }
      }
      *end = nullptr;
    }
  }
  // Ends the list after `length` timers; returns what was behind them.
  [[nodiscard]] static wheel_timer* cut(wheel_timer* list, std::size_t length) noexcept {
    while (list != nullptr && --length != 0)
      list = list->next_;
    return list != nullptr ? std::exchange(list->next_, nullptr) : nullptr;
  }
  // Looks at a bounded number of deadlines; then at most so many ticks are sure to be free.
  void find_next() noexcept {
    constexpr int looks = 256;
    int looked = 0;
    next_ = std::numeric_limits<std::uint64_t>::max();
    for (std::uint64_t tick = tick_ + 1; tick <= tick_ + slot_count; ++tick) {
      const std::size_t slot = tick % slot_count;
      const std::uint64_t rest = slots_->used[slot / 64] >> (slot % 64);
      if (rest == 0) {  // of this word
        tick += 63 - slot % 64;
        continue;
      }
      tick += static_cast<unsigned>(std::countr_zero(rest));
      if (tick > tick_ + slot_count)
        return;
      for (const wheel_timer* one = slots_->heads[tick % slot_count]; one != nullptr;
           one = one->next_) {
        next_ = std::min(next_, end_tick_of(one->due_));
        if (++looked == looks || next_ <= tick) {
          next_ = std::min(next_, tick);
          return;
        }
      }
    }
  }

  std::unique_ptr<slots> slots_;
  wheel_timer* due_ = nullptr;  // these have left the wheel and wait to be told
  std::uint64_t tick_ = 0;      // all up to here were looked at
  std::uint64_t next_ = 0;      // no tick before this one has a deadline
  bool is_empty_ = true;
};

}  // namespace atbus::detail
