#include "delivery/reported_numbers.h"

#include <set>

#include "test.h"
#include "test_random.h"

namespace atbus::detail {
namespace {

TEST(ReportedNumbers, HaveWhatWasAddedInAnyOrder) {
  test_random random{1};
  reported_numbers tested{100};
  std::set<std::uint64_t> all;
  for (int i = 0; i != 2000; ++i) {
    const std::uint64_t number = 90 + random.word() % 400;
    tested.add(number);
    all.insert(number);
    for (std::uint64_t each = 90; each != 500; ++each)
      ASSERT_EQ(tested.has(each), each <= 100 || all.contains(each)) << each;
  }
}

// A word of one between them may be on its way: it is not to be passed over.
TEST(ReportedNumbers, HaveNoneThatWasNotAddedHoweverManyThereAre) {
  reported_numbers tested{0};
  for (std::uint64_t i = 1; i <= 2 * reported_numbers::stretches_max; ++i)
    tested.add(2 * i);
  for (std::uint64_t i = 0; i <= 2 * reported_numbers::stretches_max; ++i)
    EXPECT_FALSE(tested.has(2 * i + 1));
  for (std::uint64_t i = 1; i <= 2 * reported_numbers::stretches_max; ++i)
    EXPECT_EQ(tested.has(2 * i), i > reported_numbers::stretches_max);
}

}  // namespace
}  // namespace atbus::detail
