// How far a node has come with each stream of a topic, so that copies that come twice are dropped, and what is
// missing is counted.
//
// A stream is what one publisher publishes to the topic, numbered from 1; a publisher that starts again has
// another one. The four streams before are remembered too, because late copies may still come.
//
// A publisher that is a peer and in the tree of this node too has two ways here, and each says by itself where the
// stream begins for this node. What one way owes from an earlier number on than the other one has said comes still, or
// is missed if a later one has come before.
//
// Memory: 1,024 publishers of about 290 bytes, and 65,536 of all topics together; 8 of each topic are remembered in any
// case. The one of the topic that was silent longest is forgotten first; from then on a publisher that is not known counts
// as new wherever its numbers are. One thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "protocol/relation.h"
#include "protocol/topic_head.h"

namespace atbus::detail {

class stream_positions {
 public:
  static constexpr std::size_t publishers_max = 1024;
  static constexpr std::size_t all_max = 65536;
  static constexpr std::size_t of_topic_least = 8;

  struct arrival {
    bool is_old = false;       // a copy of what has come, or has been marked, before
    std::uint64_t missed = 0;  // messages that should have come before this one, or up to this mark
    std::uint64_t base = 0;    // not 0: this message begins the stream here, and others are to know
    bool may_be_known = false;  // to an earlier incarnation of this node, by the other way
    bool is_settled = true;     // false: settle() has not been called for the stream
  };

  // `all`: counts the publishers of all topics.
  explicit stream_positions(std::size_t& all) noexcept : all_(all) {}
  stream_positions(const stream_positions& other)
      : all_(other.all_),
        positions_(other.positions_),
        heard_(other.heard_),
        has_forgotten_(other.has_forgotten_) {
    all_ += size();
  }
  stream_positions& operator=(const stream_positions&) = delete;
  ~stream_positions() { all_ -= size(); }
  void swap(stream_positions& other) noexcept {
    positions_.swap(other.positions_);
    std::swap(heard_, other.heard_);
    std::swap(has_forgotten_, other.has_forgotten_);
  }
  void clear() noexcept { stream_positions{all_}.swap(*this); }

  // A message or a mark. `begun`: all that comes now was sent because this node wants it, so a stream that
  // is not known is owed from 1. `via`: what the node is that has handed it over, and `from` its id.
  arrival take(const topic_head& head, bool begun, relation via, bus_id from = {}) {
    position& of = find_or_make(head.publisher);
    of.heard = ++heard_;
    of.via = via;
    of.from = from;
    if (stream_state& known = of.current;
        known.stream == head.stream && head.number == known.last + 1 &&
        head.what == topic_part::message && head.number > known.known_until) [[likely]] {
      known.last = head.number;
      return {.is_settled = known.is_settled};
    }
    if (stream_state* const known = of.find_earlier(head.stream); known != nullptr)
      return advance(*known, head, begun, via);
    std::uint64_t base = 0;
    if (of.current.stream != head.stream) {
      const bool is_owed = head.what != topic_part::message || (begun && !has_forgotten_);
      base = is_owed ? 0 : head.number - 1;
      const std::uint64_t start = head.what == topic_part::message ? base : head.base;
      of.begin({.stream = head.stream, .last = start, .start = start, .said_by = via});
      if (start == head.number)
        return {};
    }
    arrival made = advance(of.current, head, begun, via);
    made.base = base;
    return made;
  }

  // Nothing more comes of the publisher's stream that an earlier incarnation may have had by another way.
  void settle(bus_id publisher) noexcept {
    if (const auto known = positions_.find(publisher.value()); known != positions_.end())
      known->second.current.is_settled = true;
  }

  // Forgets the streams that have come last from a neighbour for which `which` is true.
  template <class Which>
  void forget_from(const Which& which) noexcept {
    all_ -= std::erase_if(positions_, [&](const auto& one) { return which(one.second.from); });
  }

  // Calls `each` with a mark of each stream, and what the node was that has handed it over last.
  template <class Each>
  void for_each(const Each& each) const {
    for (const auto& [publisher, of] : positions_)
      each(bus_id{publisher}, of.current.stream, of.current.last, of.via);
  }
  [[nodiscard]] std::size_t size() const noexcept { return positions_.size(); }

 private:
  struct stream_state {
    std::uint64_t stream = 0;  // 0: none
    std::uint64_t last = 0;
    std::uint64_t start = 0;  // what this node gets of it follows, as that neighbour has said
    relation said_by = relation::peer;
    std::uint64_t known_until = 0;  // an earlier incarnation may have had what comes up to here
    bool is_settled = false;
  };
  struct position {
    stream_state current;
    std::array<stream_state, 4> earlier;
    std::uint64_t heard = 0;
    relation via = relation::peer;
    bus_id from;
    std::uint8_t oldest = 0;  // of these

    void begin(const stream_state& next) noexcept {
      earlier[oldest] = std::exchange(current, next);
      oldest = static_cast<std::uint8_t>((oldest + 1) % earlier.size());
    }
    // Null: it is not one of these.
    [[nodiscard]] stream_state* find_earlier(std::uint64_t stream) noexcept {
      const auto known = std::ranges::find(earlier, stream, &stream_state::stream);
      return known != earlier.end() ? &*known : nullptr;
    }
  };

  static arrival advance(stream_state& of, const topic_head& head, bool begun,
                         relation via) noexcept {
    const bool is_mark = head.what == topic_part::mark;
    arrival made;
    const std::uint64_t from = is_mark ? head.base : head.number - 1;
    if (from < of.start && is_direct(of.said_by) != is_direct(via)) [[unlikely]] {
      if (of.last != of.start) {  // later ones have come
        made.missed = of.start - from;
      } else {
        of.last = from;
        of.known_until = is_direct(via) && begun ? 0 : of.start;
      }
      of.start = from;
    }
    if (head.number <= of.last) {
      made.is_old = true;
      return made;
    }
    const std::uint64_t behind = head.number - std::exchange(of.last, head.number);
    made.missed += is_mark ? behind : behind - 1;
    made.may_be_known = head.number <= of.known_until;
    made.is_settled = of.is_settled;
    return made;
  }
  // From the publisher itself; else from the parent or a child.
  static constexpr bool is_direct(relation via) noexcept { return via == relation::peer; }
  position& find_or_make(bus_id publisher) {
    if (const auto known = positions_.find(publisher.value()); known != positions_.end())
      return known->second;
    if (size() == publishers_max || (all_ >= all_max && size() >= of_topic_least)) {
      positions_.erase(std::ranges::min_element(positions_, {},
                                                [](const auto& one) { return one.second.heard; }));
      --all_;
      has_forgotten_ = true;
    }
    position& made = positions_[publisher.value()];
    ++all_;
    return made;
  }

  std::size_t& all_;
  std::unordered_map<std::uint64_t, position> positions_;
  std::uint64_t heard_ = 0;
  bool has_forgotten_ = false;
};

}  // namespace atbus::detail
