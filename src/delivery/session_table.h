// What a node remembers of flows whose sender is away: how far each had come. Bounded: the one that
// went away first is forgotten first, and its sender is told so when it comes back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>

#include "core/node_life.h"

namespace atbus::detail {

class session_table {
 public:
  explicit session_table(std::size_t most) noexcept : most_(most) {}

  // The sender of this flow is away; `last` as in incoming_flow.
  void remember(const node_life& sender, std::uint64_t last);
  // It is back. Nothing: it never was here, or was forgotten.
  [[nodiscard]] std::optional<std::uint64_t> take(const node_life& sender);
  [[nodiscard]] std::size_t size() const noexcept { return places_.size(); }
  [[nodiscard]] std::uint64_t forgotten() const noexcept { return forgotten_; }

 private:
  struct session {
    node_life sender;
    std::uint64_t last = 0;
  };
  struct life_hash {
    std::size_t operator()(const node_life& life) const noexcept {
      return static_cast<std::size_t>(life.incarnation ^ (life.id.value() * 0x9e3779b97f4a7c15U));
    }
  };

  std::size_t most_;
  std::uint64_t forgotten_ = 0;
  std::list<session> sessions_;  // the one that left first is in front
  std::unordered_map<node_life, std::list<session>::iterator, life_hash> places_;
};

}  // namespace atbus::detail
