#include "node/route/route_table.h"

#include <algorithm>

namespace atbus::detail {
namespace {

bool is_in(const std::optional<id_range>& range, bus_id id) noexcept {
  return range && range->contains(id);
}

bool is_near(const peer& of) noexcept {
  return of.as == relation::child || of.as == relation::sibling;
}

void insert(std::vector<route_table::entry>& among, bus_id key, peer& what) {
  among.insert(std::ranges::lower_bound(among, key, {}, &route_table::entry::key), {key, &what});
}

bool erase(std::vector<route_table::entry>& among, const peer& what) noexcept {
  return std::erase_if(among, [&what](const route_table::entry& one) { return one.to == &what; }) !=
         0;
}

}  // namespace

void route_table::put(peer& linked) {
  remove(linked);
  insert(ids_, linked.id, linked);
  if (linked.as == relation::parent)
    parent_ = &linked;
  if (is_near(linked) && linked.range)
    insert(ranges_, linked.range->first(), linked);
}

bool route_table::remove(const peer& lost) noexcept {
  const bool was_here = erase(ids_, lost);
  erase(ranges_, lost);
  if (parent_ == &lost)
    parent_ = nullptr;
  return was_here;
}

bool route_table::is_ours(bus_id id) const noexcept {
  return id == self_ || is_in(own_, id);
}

peer* route_table::by_id(bus_id id) const noexcept {
  const auto found = std::ranges::lower_bound(ids_, id, {}, &entry::key);
  return found != ids_.end() && found->key == id ? found->to : nullptr;
}

peer* route_table::by_range(bus_id id) const noexcept {
  const auto behind = std::ranges::upper_bound(ranges_, id, {}, &entry::key);
  if (behind == ranges_.begin())
    return nullptr;
  peer* const found = (behind - 1)->to;
  return is_in(found->range, id) ? found : nullptr;
}

// Only messages of this node or a child go to nodes other than children, and only this node's to peers.
peer* route_table::next(bus_id destination, const peer* from) const noexcept {
  const auto is_good = [from](const peer* to) {
    if (to == nullptr || to == from)
      return false;
    if (from == nullptr)
      return true;
    if (to->as == relation::peer || from->as == relation::peer)
      return false;
    return to->as == relation::child || from->as == relation::child;
  };
  if (peer* const linked = by_id(destination); is_good(linked))
    return linked;
  if (peer* const near = by_range(destination); is_good(near))
    return near;
  // Nodes above do not know more about the nodes below this one.
  return is_good(parent_) && !is_ours(destination) ? parent_ : nullptr;
}

bool route_table::may_come_from(bus_id source, const peer& from) const noexcept {
  if (source == bus_id{})
    return false;  // a client exchanges messages only with the node it is linked to
  if (source == from.id)
    return true;
  switch (from.as) {
    case relation::child:
      return is_in(from.range, source);
    case relation::parent:
      return !is_ours(source);
    case relation::sibling:
      return is_in(from.range, source) && !is_ours(source);
    case relation::peer:
      break;
  }
  return false;
}

const peer* route_table::in_the_way(bus_id id,
                                    const std::optional<id_range>& range) const noexcept {
  const auto found = std::ranges::find_if(ids_, [&](const entry& one) {
    const peer& other = *one.to;
    return is_near(other) && other.id != id &&
           (is_in(range, other.id) || is_in(other.range, id) ||
            (range && other.range && range->overlaps(*other.range)));
  });
  return found != ids_.end() ? found->to : nullptr;
}

}  // namespace atbus::detail
