// Which ids a node has asked its parent for, so that it asks seldom and takes only what it has asked
// for; and which siblings it can't reach, so that it says so once. Two tables of fixed size, in which a
// newer one may take the place of an older one.
//
// Allocates nothing. One thread.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "atbus/bus_id.hpp"

namespace atbus::detail {

class sibling_search {
 public:
  // An id is asked for once in this time, and at most so many ids are.
  static constexpr std::chrono::nanoseconds interval = std::chrono::minutes{1};
  static constexpr std::size_t questions_max = 256;

  // Whether the parent is to be asked for it now; then it has been.
  [[nodiscard]] bool ask(bus_id id, std::chrono::nanoseconds now) noexcept {
    question& last = questions_[place_of(id)];
    if (last.id != bus_id{} && now - last.asked_at < interval)
      return false;
    last = {id, now, false};
    return true;
  }
  // Whether the parent owes an answer for it; then it has given it.
  [[nodiscard]] bool take_answer(bus_id id) noexcept {
    question& last = questions_[place_of(id)];
    if (id == bus_id{} || last.id != id || last.answered)
      return false;
    last.answered = true;
    return true;
  }

  // Whether that is new.
  [[nodiscard]] bool set_unreachable(bus_id sibling) noexcept {
    bus_id& last = unreachable_[place_of(sibling)];
    const bool is_new = last != sibling;
    last = sibling;
    return is_new;
  }
  void set_reached(bus_id sibling) noexcept {
    if (bus_id& last = unreachable_[place_of(sibling)]; last == sibling)
      last = {};
  }

  // Another parent may know more.
  void parent_lost() noexcept { *this = {}; }

 private:
  struct question {
    bus_id id;
    std::chrono::nanoseconds asked_at{0};
    bool answered = false;
  };
  // Ids may differ in any of their bits: a fleet's often do in the middle ones alone.
  [[nodiscard]] static std::size_t place_of(bus_id id) noexcept {
    constexpr std::uint64_t spread = 0x9e3779b97f4a7c15U;  // 2^64 by the golden ratio
    static_assert(questions_max == 1U << 8U);
    return id.value() * spread >> (64U - 8U);
  }

  std::array<question, questions_max> questions_{};
  std::array<bus_id, questions_max> unreachable_{};
};

// How often a node answers one of its children: twice as often as that may ask, for what was held up on
// the way comes all at once.
class answer_budget {
 public:
  [[nodiscard]] bool take(std::chrono::nanoseconds now) noexcept {
    if (now - since_ >= sibling_search::interval) {
      since_ = now;
      taken_ = 0;
    }
    if (taken_ == 2 * sibling_search::questions_max)
      return false;
    ++taken_;
    return true;
  }

 private:
  std::chrono::nanoseconds since_{0};
  std::uint32_t taken_ = 0;
};

}  // namespace atbus::detail
