// The numbers of messages whose outcome was reported while their destination may have had them: what it still
// says of one of these is not reported again. Bounded: what is forgotten may be reported a second time, and none
// counts as reported that was not. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace atbus::detail {

class reported_numbers {
 public:
  // So many stretches of consecutive numbers are remembered: as many as a link's queue may hold words that are said
  // again if it is lost. With one more the lowest eighth is forgotten. None between them may be taken for reported:
  // its word may be on its way behind those of later ones.
  static constexpr std::size_t stretches_max = std::size_t{32} * 1024;

  [[nodiscard]] std::size_t stretches() const noexcept { return stretches_.size(); }
  [[nodiscard]] bool has(std::uint64_t number) const noexcept;
  void add(std::uint64_t number) noexcept;

 private:
  struct stretch {
    std::uint64_t first;
    std::uint64_t last;
  };

  void forget_lowest() noexcept;

  std::vector<stretch> stretches_;  // the lowest is in front, with a gap behind each
};

}  // namespace atbus::detail
