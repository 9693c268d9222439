// How long a refusal is held back from an address that keeps coming with wrong tokens: not the first
// time, then longer each time. A peer with a token never waits, whatever its address.
//
// One thread. What is remembered is limited, however many addresses there are.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <unordered_map>

namespace atbus::detail {

class refusal_delay {
 public:
  static constexpr std::chrono::nanoseconds first = std::chrono::milliseconds{100};
  static constexpr std::chrono::nanoseconds longest = std::chrono::seconds{4};
  // Without a wrong token, then an address is forgotten.
  static constexpr std::chrono::nanoseconds remembered = std::chrono::minutes{1};
  static constexpr std::size_t addresses_max = 1024;

  // Somebody has come from there with a wrong token.
  [[nodiscard]] std::chrono::nanoseconds of_next(const std::string& address,
                                                 std::chrono::nanoseconds now);
  [[nodiscard]] std::size_t addresses() const noexcept { return known_.size(); }

 private:
  struct record {
    std::chrono::nanoseconds next{0};
    std::chrono::nanoseconds last_seen{0};
  };

  // Forgets what is old, or else the one that was not seen for longest.
  void make_room(std::chrono::nanoseconds now);

  std::unordered_map<std::string, record> known_;
};

}  // namespace atbus::detail
