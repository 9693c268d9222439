// How many requests a service takes in hand, from what it measures of its own memory.
//
// Nothing is assumed about how much a request needs. While the process is far from its limit, any
// number is taken. When its data has grown to four fifths of the limit, as many as are in hand then
// are the most from now on: the memory of those that end serves those that follow. If the data grows
// even so, the number is lowered; if the allocator has given much back, it is raised again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace atbus::bench {

class memory_gate {
 public:
  static constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

  explicit memory_gate(std::uint64_t limit_bytes) noexcept
      : is_bounded_{limit_bytes != no_limit},
        high_{limit_bytes / 5 * 4},
        low_{limit_bytes / 10 * 7} {}

  [[nodiscard]] bool is_bounded() const noexcept { return is_bounded_; }
  // The most requests to have in hand; no_limit while memory sets none. At least 1.
  [[nodiscard]] std::uint64_t most() const noexcept { return most_; }
  [[nodiscard]] bool has_closed() const noexcept { return most_ != no_limit; }

  // The data of the process, with so many requests in hand.
  void measured(std::uint64_t data_bytes, std::uint64_t in_hand) noexcept {
    if (!is_bounded_) {
      return;
    }
    if (data_bytes >= high_) {
      if (data_bytes > seen_) {
        seen_ = data_bytes;
        lower(has_closed() ? in_hand / 16 * 15 : in_hand);
      }
    } else if (has_closed() && data_bytes < low_ && in_hand >= most_) {
      most_ += most_ / 64 + 1;
      seen_ = 0;
    }
  }

  // An allocation has failed.
  void failed(std::uint64_t in_hand) noexcept { lower(in_hand / 4 * 3); }

 private:
  void lower(std::uint64_t to) noexcept { most_ = std::max<std::uint64_t>(std::min(most_, to), 1); }

  bool is_bounded_;
  std::uint64_t high_;
  std::uint64_t low_;
  std::uint64_t most_ = no_limit;
  std::uint64_t seen_ = 0;  // the most data since the number was raised, above `high_`
};

}  // namespace atbus::bench
