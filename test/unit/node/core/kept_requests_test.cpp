// How the requests in hand are found again: by a hash that no peer can foresee.
#include "node/core/kept_requests.h"

#include <algorithm>
#include <array>

#include "test.h"

namespace atbus::detail {
namespace {

// One peer chooses the numbers of its requests, and another one those of its cancels.
TEST(KeptRequests, OfTwoPeersCanNotBeChosenToHashAlike) {
  constexpr std::uint64_t key = 0x9e3779b97f4a7c15;  // secret, and odd
  constexpr std::uint64_t incarnation = 70'000;
  constexpr std::uint64_t number = 12'345;
  constexpr unsigned shift = 64 - 10;  // of 1024 lists
  const auto list = kept_requests::hash(key, incarnation, number) >> shift;
  int alike = 0;
  for (std::uint64_t other = 1; other <= 1024; ++other)
    alike += kept_requests::hash(key, other, number ^ incarnation ^ other) >> shift == list;
  EXPECT_LT(alike, 20);
}

TEST(KeptRequests, OfOnePeerAreSpreadOverTheLists) {
  constexpr std::uint64_t key = 0x9e3779b97f4a7c15;
  std::array<int, 1024> lists{};
  for (std::uint64_t number = 0; number != 10 * lists.size(); ++number)
    ++lists[kept_requests::hash(key, 70'000, number << 20U) >> (64 - 10)];
  EXPECT_LT(*std::ranges::max_element(lists), 60);
}

}  // namespace
}  // namespace atbus::detail
