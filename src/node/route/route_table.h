// The next hop for an id, and the sources that each linked node may send for: doc/design/routing.md. Holds
// the peers that have a registered link, and children and a parent whose link is away.
//
// Guarantee: looking up allocates nothing and takes the time of two binary searches. One thread.
#pragma once

#include <optional>
#include <vector>

#include "atbus/bus_id.hpp"
#include "atbus/id_range.hpp"
#include "node/peer/peer.h"

namespace atbus::detail {

class route_table {
 public:
  // With what it is found by: looking through many touches one place in memory, not each peer's.
  struct entry {
    bus_id key;
    peer* to;
  };

  // `own`: of this node's children, if it may have any.
  route_table(bus_id self, std::optional<id_range> own) : self_(self), own_(own) {}

  // It has a registered link, or is another one to us now. Its range overlaps that of no other child
  // or sibling here.
  void put(peer& linked);
  // It has none any more. False: it was not here.
  bool remove(const peer& lost) noexcept;

  // The next node on the way to `destination` for a message that came from `from`, null if it is our
  // own; null: there is no way.
  [[nodiscard]] peer* next(bus_id destination, const peer* from) const noexcept;
  // Whether a message that `source` has sent may come from there.
  [[nodiscard]] bool may_come_from(bus_id source, const peer& from) const noexcept;

  // The child or sibling that stands in the way of another one with that id and range: an id would be
  // in two places. Null: none does.
  [[nodiscard]] const peer* in_the_way(bus_id id,
                                       const std::optional<id_range>& range) const noexcept;
  [[nodiscard]] peer* parent() const noexcept { return parent_; }
  [[nodiscard]] bus_id self() const noexcept { return self_; }
  [[nodiscard]] const std::vector<entry>& all() const noexcept { return ids_; }
  [[nodiscard]] const std::optional<id_range>& own() const noexcept { return own_; }
  // This node or below it.
  [[nodiscard]] bool is_ours(bus_id id) const noexcept;

 private:
  [[nodiscard]] peer* by_id(bus_id id) const noexcept;
  [[nodiscard]] peer* by_range(bus_id id) const noexcept;

  bus_id self_;
  std::optional<id_range> own_;
  peer* parent_ = nullptr;
  std::vector<entry> ids_;     // all, by id
  std::vector<entry> ranges_;  // children and siblings that have a range, by its first id
};

}  // namespace atbus::detail
