// An intrusive list, first in first out: items join at the end and leave from anywhere. The links are in the
// items, so no function can fail.
//
// An item is in a line at most once, and outlives its place there.
#pragma once

#include <cstddef>
#include <utility>

namespace atbus::detail {

template <class Item>
struct line_place {
  Item* before = nullptr;
  Item* behind = nullptr;
  bool taken = false;
};

template <class Item, line_place<Item> Item::*Place>
class line {
 public:
  [[nodiscard]] Item* first() const noexcept { return first_; }
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] static bool holds(const Item& item) noexcept { return (item.*Place).taken; }

  // An item that is already in the line keeps its place.
  void join(Item& item) noexcept {
    line_place<Item>& place = item.*Place;
    if (std::exchange(place.taken, true))
      return;
    place.before = last_;
    place.behind = nullptr;
    (last_ == nullptr ? first_ : (last_->*Place).behind) = &item;
    last_ = &item;
    ++size_;
  }

  void leave(Item& item) noexcept {
    line_place<Item>& place = item.*Place;
    if (!std::exchange(place.taken, false))
      return;
    (place.before == nullptr ? first_ : (place.before->*Place).behind) = place.behind;
    (place.behind == nullptr ? last_ : (place.behind->*Place).before) = place.before;
    --size_;
  }

 private:
  Item* first_ = nullptr;
  Item* last_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace atbus::detail
