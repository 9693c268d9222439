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
  // So many stretches of consecutive numbers are remembered. With one more the lowest is forgotten. Others may not
  // be taken for reported with it: a word of one between them may be on its way behind those of later ones.
  static constexpr std::size_t stretches_max = 256;

  // Numbers up to that one count as reported.
  explicit reported_numbers(std::uint64_t below) noexcept : below_(below) {}

  [[nodiscard]] bool has(std::uint64_t number) const noexcept;
  void add(std::uint64_t number) noexcept;

 private:
  struct stretch {
    std::uint64_t first;
    std::uint64_t last;
  };

  std::uint64_t below_;
  std::vector<stretch> stretches_;  // the lowest is in front, with a gap behind each
};

}  // namespace atbus::detail
