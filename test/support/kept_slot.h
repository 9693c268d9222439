// A slot that a program of a simulation keeps: across handlers, and across a flush.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "atbus/node.hpp"
#include "ledger.h"

namespace atbus::detail {

class kept_slot {
 public:
  // For that message, in place of the slot that is kept.
  status claim(node& by, bus_id to, const ledger_message& what) {
    drop();
    slot_.emplace(by.claim(to, what.type, what.bytes.size()));
    if (!*slot_) {
      const status why = slot_->why();
      drop();
      return why;
    }
    std::ranges::copy(what.bytes, slot_->bytes().begin());
    by_ = &by;
    to_ = to;
    return {};
  }
  [[nodiscard]] bool is_kept() const noexcept { return slot_.has_value(); }
  [[nodiscard]] bus_id destination() const noexcept { return to_; }
  [[nodiscard]] std::size_t size() const noexcept { return slot_->bytes().size(); }
  // Before its node ends.
  void drop() noexcept { slot_.reset(); }
  // Whether the node accepts it. `wrong`: what does not fit what the slot has said before.
  bool commit(std::string& wrong) {
    const bool is_open = slot_->is_open();
    const std::uint64_t before = by_->stats().accepted;
    slot_->commit();
    drop();
    const bool is_accepted = by_->stats().accepted != before;
    if (is_accepted != is_open)
      wrong = is_open ? "an open slot is not accepted" : "a slot is accepted that was not open";
    return is_accepted;
  }

 private:
  std::optional<node_slot> slot_;
  node* by_ = nullptr;
  bus_id to_;
};

}  // namespace atbus::detail
