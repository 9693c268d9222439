// The relation of a node to the node it is linked to.
#pragma once

#include <cstdint>
#include <string_view>

namespace atbus::detail {

// On the wire: the values stay as they are.
enum class relation : std::uint8_t { peer, child, parent, sibling };

inline constexpr std::uint8_t relation_max = 3;

[[nodiscard]] constexpr std::string_view name(relation of) noexcept {
  switch (of) {
    case relation::peer:
      return "peer";
    case relation::child:
      return "child";
    case relation::parent:
      return "parent";
    case relation::sibling:
      break;
  }
  return "sibling";
}

// The other node's relation to this one.
[[nodiscard]] constexpr relation opposite(relation of) noexcept {
  switch (of) {
    case relation::child:
      return relation::parent;
    case relation::parent:
      return relation::child;
    case relation::peer:
    case relation::sibling:
      break;
  }
  return of;
}

}  // namespace atbus::detail
