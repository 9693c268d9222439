// The requests of this node that wait for a response: where each is found by its number, when its time is over,
// and how many one node may be asked at a time.
//
// A number is the place of the entry in its lowest 20 bits, and a count that grows whenever the place is used
// again. The count begins at random: responses to an earlier incarnation match nothing. One thread.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "atbus/bus_id.hpp"
#include "atbus/request.hpp"
#include "core/random_source.h"
#include "core/timer_wheel.h"

namespace atbus::detail {

using request_call = std::function<void(const response&)>;

class request_table {
 public:
  static constexpr unsigned place_bits = 20;
  static constexpr std::size_t places_max = std::size_t{1} << place_bits;

  // The requests to one node.
  struct asked_node {
    bus_id id;
    std::size_t waiting = 0;
    bool wants_room = false;  // on_writable is owed
  };
  struct entry : wheel_timer {  // its deadline
    std::uint64_t number = 0;
    asked_node* to = nullptr;  // null: the entry is free
    request_call call;
    // Its outcome is known, and waits as an event; it stays here so that nobody is told who is gone by then.
    bool ends = false;
    status outcome;
    entry* next_free = nullptr;
  };

  explicit request_table(random_source& random) noexcept : random_(random) {}

  [[nodiscard]] bool empty() const noexcept { return waiting_ == 0; }
  [[nodiscard]] bool full() const noexcept { return waiting_ == places_max; }
  [[nodiscard]] bool half_full() const noexcept { return waiting_ >= places_max / 2; }
  // Takes memory while the tables grow; throws std::bad_alloc.
  [[nodiscard]] asked_node& node_of(bus_id id);
  [[nodiscard]] bool waits_for(bus_id id) const noexcept {
    const auto known = nodes_.find(id.value());
    return known != nodes_.end() && known->second.waiting != 0;
  }
  [[nodiscard]] std::size_t waiting_for(bus_id id) const noexcept {
    const auto known = nodes_.find(id.value());
    return known != nodes_.end() ? known->second.waiting : 0;
  }
  // Of a table that is not full. Its number is new, and it counts at `to`.
  [[nodiscard]] entry& take(asked_node& to);
  // Null: its outcome was told, or there never was one.
  [[nodiscard]] entry* find(std::uint64_t number) noexcept;
  void free(entry& which) noexcept;

  void set_deadline(entry& which, std::chrono::nanoseconds due,
                    std::chrono::nanoseconds now) noexcept {
    wheel_.set(which, due, now);
  }
  // One whose time is over. It is not told again unless it gets another deadline.
  [[nodiscard]] entry* take_due(std::chrono::nanoseconds now) noexcept {
    return static_cast<entry*>(wheel_.take_due(now));
  }
  [[nodiscard]] std::chrono::nanoseconds next() const noexcept {
    return empty() ? timer_queue::never : wheel_.next();
  }

  template <class Each>
  void for_each_node(Each&& each) {
    for (auto& one : nodes_)
      each(one.second);
  }
  // Calls `each` with all that wait; it may free its argument.
  template <class Each>
  void for_each(Each&& each) {
    for (const auto& chunk : chunks_) {
      for (entry& one : *chunk) {
        if (one.to != nullptr)
          each(one);
      }
    }
  }

 private:
  static constexpr std::size_t chunk_size = 256;
  using entries = std::array<entry, chunk_size>;

  random_source& random_;
  timer_wheel wheel_;  // declared before what is in it
  std::vector<std::unique_ptr<entries>> chunks_;
  entry* free_ = nullptr;
  std::size_t waiting_ = 0;
  std::unordered_map<std::uint64_t, asked_node> nodes_;
  asked_node* last_node_ = nullptr;
};

}  // namespace atbus::detail
