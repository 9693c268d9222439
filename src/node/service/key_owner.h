// Which of several members a key belongs to: rendezvous hashing, so all who know the same members choose
// alike, and a member that comes or goes moves only the keys that it takes or had.
//
// Keys fall into 65,536 slots, and each slot belongs to the member with the highest score for it. A slot's
// owner is found when a key first falls into it, and kept until members change. doc/design/services.md has
// the figures of what else was tried.
//
// One thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "atbus/bus_id.hpp"

namespace atbus::detail {

class key_owner {
 public:
  static constexpr unsigned slot_bits = 16;
  static constexpr std::size_t members_max = std::numeric_limits<std::uint16_t>::max();

  // `most`: members beyond that are not chosen from.
  explicit key_owner(std::size_t most = members_max) : most_(std::min(most, members_max)) {}

  // The same members change nothing.
  void set_members(std::vector<bus_id> members) {
    if (members.size() > most_)
      members.resize(most_);
    if (members == members_)
      return;
    members_ = std::move(members);
    owners_.clear();
  }

  // 0: there is no member. Allocates for the first key after members have changed.
  [[nodiscard]] bus_id of(std::uint64_t key) {
    if (members_.empty())
      return {};
    owners_.resize(std::size_t{1} << slot_bits, unknown);
    const std::uint64_t slot = mixed(key) >> (64U - slot_bits);
    std::uint16_t& owner = owners_[slot];
    if (owner == unknown)
      owner = best_for(slot);
    return members_[owner];
  }
  [[nodiscard]] bus_id of(std::string_view key) { return of(number_of(key)); }

  // FNV-1a: the same everywhere.
  [[nodiscard]] static constexpr std::uint64_t number_of(std::string_view key) noexcept {
    std::uint64_t value = 0xcbf29ce484222325U;
    for (const char one : key)
      value = (value ^ static_cast<unsigned char>(one)) * 0x100000001b3U;
    return value;
  }

 private:
  static constexpr std::uint16_t unknown = members_max;

  // The finalizer of SplitMix64.
  [[nodiscard]] static constexpr std::uint64_t mixed(std::uint64_t value) noexcept {
    value = (value ^ value >> 30U) * 0xbf58476d1ce4e5b9U;
    value = (value ^ value >> 27U) * 0x94d049bb133111ebU;
    return value ^ value >> 31U;
  }

  [[nodiscard]] std::uint16_t best_for(std::uint64_t slot) const noexcept {
    std::size_t best = 0;
    std::uint64_t highest = 0;
    for (std::size_t i = 0; i != members_.size(); ++i) {
      const std::uint64_t score = mixed(mixed(members_[i].value()) + slot);
      if (score > highest) {
        highest = score;
        best = i;
      }
    }
    return static_cast<std::uint16_t>(best);
  }

  std::size_t most_;
  std::vector<bus_id> members_;
  std::vector<std::uint16_t> owners_;  // by slot; empty: none is known yet
};

}  // namespace atbus::detail
