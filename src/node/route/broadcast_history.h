// Which broadcasts this node has seen, so that each is delivered once however many copies arrive: a node
// that is a peer of the source as well as a part of its tree receives one copy by each way.
//
// A source counts its broadcasts. For each source this keeps the highest number and a bitmap of the
// `window` numbers up to it, as IPsec does against replay (RFC 4303, section 3.4.3). Each way keeps the
// order of what it carries, so a number below the window has been seen, or its first copy was dropped.
// A source that restarts begins at a random number. The window of its incarnation before is kept too:
// late copies may still arrive.
//
// Memory: 1,024 sources of about 150 bytes. The source that was silent longest is forgotten first.
// One thread.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>

#include "atbus/bus_id.hpp"

namespace atbus::detail {

class broadcast_history {
 public:
  // Whether this is the first copy of that broadcast. Records it.
  [[nodiscard]] bool is_first(bus_id source, std::uint64_t number);
  [[nodiscard]] std::size_t size() const noexcept { return places_.size(); }

  static constexpr std::size_t sources_max = 1024;
  static constexpr std::size_t window = 256;
  // Numbers that are farther apart are of two incarnations.
  static constexpr std::uint64_t reach = std::uint64_t{1} << 32;

 private:
  struct sequence {
    std::uint64_t highest = 0;
    std::bitset<window> seen;  // bit i: highest - i; none: not heard of yet

    [[nodiscard]] bool is_near(std::uint64_t number) const noexcept {
      return seen.any() && (number - highest < reach || highest - number < reach);
    }
    [[nodiscard]] bool is_first(std::uint64_t number) noexcept;
  };
  struct source_state {
    bus_id source;
    std::array<sequence, 2> incarnations;  // the one heard of last in front
  };
  using state_list = std::list<source_state>;

  state_list states_;  // the source that was heard last is at the end
  std::unordered_map<std::uint64_t, state_list::iterator> places_;
};

}  // namespace atbus::detail
