#include "node/route/relation_rules.h"

#include <string>
#include <string_view>

namespace atbus::detail {
namespace {

struct placed {
  bus_id id;
  std::optional<id_range> range;

  [[nodiscard]] std::string text() const {
    return "node " + id.to_string() + " (" + id.to_hex() + ", " +
           (range ? "range " + range->to_string() : "no range") + ")";
  }
};

std::string_view misfit(const placed& parent, const placed& child) {
  if (!parent.range)
    return "it has no range for children";
  if (!parent.range->contains(child.id))
    return "the id is outside of its range";
  if (!child.range)
    return {};
  if (child.range->contains(*parent.range))
    return "the range is not longer than its own, by a bit or more";
  if (!parent.range->contains(*child.range))
    return "the range is not within its own";
  if (child.range->contains(parent.id))
    return "the range holds its id";
  return {};
}

error check_child(const placed& parent, const placed& child) {
  const std::string_view why = misfit(parent, child);
  if (why.empty())
    return {};
  return {errc::denied,
          child.text() + " can't be a child of " + parent.text() + ": " + std::string{why}};
}

error check_alone(const route_table& routes, const placed& who, std::string_view as) {
  const peer* const other = routes.in_the_way(who.id, who.range);
  if (other == nullptr)
    return {};
  return {errc::denied, who.text() + " can't be a " + std::string{as} + " of " +
                            placed{routes.self(), routes.own()}.text() + ": " +
                            placed{other->id, other->range}.text() + " is in the way"};
}

error check_sibling(const route_table& routes, const placed& self, const placed& who) {
  const auto holds = [](const placed& one, const placed& other) {
    return one.range &&
           (one.range->contains(other.id) || (other.range && one.range->overlaps(*other.range)));
  };
  const auto refuse = [&](const std::string& why) {
    return error{errc::denied, who.text() + " can't be a sibling of " + self.text() + why};
  };
  if (holds(self, who) || holds(who, self))
    return refuse(": the ranges overlap");
  const peer* const parent = routes.parent();
  if (parent == nullptr)
    return refuse(", which has no parent now");
  const placed above{parent->id, parent->range};
  if (!misfit(above, who).empty())
    return refuse(": it is no child of " + above.text());
  return check_alone(routes, who, "sibling");
}

}  // namespace

error check_relation(const route_table& routes, const peer_identity& who) {
  const placed self{routes.self(), routes.own()};
  const placed other{who.id, who.range};
  switch (who.as) {
    case relation::child:
      if (error bad = check_child(self, other); !bad)
        return bad;
      return check_alone(routes, other, "child");
    case relation::parent:
      return check_child(other, self);
    case relation::sibling:
      return check_sibling(routes, self, other);
    case relation::peer:
      break;
  }
  return {};
}

}  // namespace atbus::detail
