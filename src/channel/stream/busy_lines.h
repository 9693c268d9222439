// The connections of a loop that are to be read, in order: those that are known, and strangers. The two take turns,
// so that a crowd of strangers does not hold up what the others send.
//
// A connection is in a line at most once, and outlives its place there.
#pragma once

#include <cstddef>
#include <utility>

#include "channel/stream/line.h"

namespace atbus::detail {

template <class Item, line_place<Item> Item::*Place>
class busy_lines {
 public:
  [[nodiscard]] bool empty() const noexcept { return known_.empty() && strangers_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return known_.size() + strangers_.size(); }
  [[nodiscard]] static bool holds(const Item& item) noexcept { return in_order::holds(item); }
  // The one whose turn it is. There must be one.
  [[nodiscard]] Item& next() noexcept {
    known_next_ = !known_next_;
    const bool known = strangers_.empty() || (known_next_ && !known_.empty());
    return known ? *known_.first() : *strangers_.first();
  }
  void join(Item& item) noexcept { line_of(item).join(item); }
  void leave(Item& item) noexcept { line_of(item).leave(item); }
  // `change` may make it known.
  template <class Change>
  void move(Item& item, Change&& change) noexcept {
    const bool is_busy = holds(item);
    leave(item);
    change();
    if (is_busy)
      join(item);
  }

 private:
  using in_order = line<Item, Place>;
  [[nodiscard]] in_order& line_of(const Item& item) noexcept {
    return item.is_known() ? known_ : strangers_;
  }

  in_order known_;
  in_order strangers_;
  bool known_next_ = false;
};

}  // namespace atbus::detail
