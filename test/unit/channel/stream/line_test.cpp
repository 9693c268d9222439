#include "channel/stream/line.h"

#include "test.h"

namespace atbus::detail {
namespace {

struct person {
  int number = 0;
  line_place<person> place;
};
using people = line<person, &person::place>;

// Takes everybody out, from the front.
std::vector<int> drain(people& all) {
  std::vector<int> numbers;
  while (!all.empty()) {
    numbers.push_back(all.first()->number);
    all.leave(*all.first());
  }
  return numbers;
}

class Line : public ::testing::Test {
 protected:
  Line() {
    for (person& one : some) {
      one.number = static_cast<int>(&one - some.data());
      all.join(one);
    }
  }
  std::array<person, 4> some;
  people all;
};

TEST_F(Line, KeepsTheOrderInWhichTheyCame) {
  EXPECT_EQ(all.size(), 4U);
  EXPECT_EQ(drain(all), (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(all.size(), 0U);
  EXPECT_EQ(all.first(), nullptr);
}

TEST_F(Line, LetsAnybodyLeave) {
  for (const std::size_t leaver : {0U, 2U, 3U}) {
    all.leave(some[leaver]);
    EXPECT_FALSE(people::holds(some[leaver]));
  }
  EXPECT_EQ(all.size(), 1U);
  all.join(some[3]);
  EXPECT_EQ(drain(all), (std::vector{1, 3}));
}

TEST_F(Line, WhoJoinsOrLeavesTwiceChangesNothing) {
  all.join(some[0]);
  EXPECT_EQ(all.size(), 4U);
  all.leave(some[1]);
  all.leave(some[1]);
  EXPECT_EQ(all.size(), 3U);
  EXPECT_EQ(drain(all), (std::vector{0, 2, 3}));
}

}  // namespace
}  // namespace atbus::detail
