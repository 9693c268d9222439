#include "delivery/reported_numbers.h"

#include <set>

#include "test.h"
#include "test_random.h"

namespace atbus::detail {
namespace {

TEST(ReportedNumbers, HaveWhatWasAddedInAnyOrder) {
  test_random random{1};
  reported_numbers tested;
  std::set<std::uint64_t> all;
  for (int i = 0; i != 2000; ++i) {
    const std::uint64_t number = 90 + random.word() % 400;
    tested.add(number);
    all.insert(number);
    for (std::uint64_t each = 90; each != 500; ++each)
      ASSERT_EQ(tested.has(each), all.contains(each)) << each;
  }
}

// A word of one between them may be on its way: it is not to be passed over.
TEST(ReportedNumbers, HaveNoneThatWasNotAddedHoweverManyThereAre) {
  reported_numbers tested;
  constexpr std::uint64_t many = 2 * reported_numbers::stretches_max;
  for (std::uint64_t i = 1; i <= many; ++i)
    tested.add(2 * i);
  for (std::uint64_t i = 0; i <= many; ++i)
    EXPECT_FALSE(tested.has(2 * i + 1));
  for (std::uint64_t i = many / 2 + many / 8; i <= many; ++i)
    EXPECT_TRUE(tested.has(2 * i));
  EXPECT_FALSE(tested.has(2));
  EXPECT_LE(tested.stretches(), reported_numbers::stretches_max);
}

}  // namespace
}  // namespace atbus::detail
