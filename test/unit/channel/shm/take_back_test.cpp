// What a sender takes back from a lane whose receiver is gone, or from its queue.
#include <unistd.h>

#include "atbus/atbus.hpp"
#include "child_process.h"
#include "counting_allocator.h"
#include "scratch_directory.h"
#include "test.h"

namespace atbus {
namespace {

using outcomes = std::vector<std::pair<std::string, errc>>;

TEST(TakeBack, OnlyTheMessageOfTheDeadHandlerIsInDoubtFork) {
  const test::scratch_directory directory;
  const receiver_options in_directory{.directory = directory.path()};
  auto first = receiver::open("shm://inbox", in_directory);
  ASSERT_TRUE(first);
  auto out = sender::open("shm://inbox", {.directory = directory.path()});
  ASSERT_TRUE(out);
  first->close();
  const auto take_back = [&] {
    outcomes back;
    EXPECT_TRUE(out->take_back(
        [&](bytes_view message, errc outcome) { back.emplace_back(as_text(message), outcome); }));
    return back;
  };
  ASSERT_TRUE(out->send(as_bytes("deadly")));
  test::child_process dies{[&] {
    auto in = receiver::open("shm://inbox", in_directory);
    in->poll([](bytes_view) { _exit(7); });
    return 0;
  }};
  EXPECT_EQ(dies.wait_end(), "exit 7");
  EXPECT_EQ(take_back(), (outcomes{{"deadly", errc::outcome_unknown}}));
  ASSERT_TRUE(out->send(as_bytes("one")));
  ASSERT_TRUE(out->send(as_bytes("two")));
  EXPECT_EQ(take_back(), (outcomes{{"one", errc::not_delivered}, {"two", errc::not_delivered}}));
  ASSERT_TRUE(out->send(as_bytes("three")));
  EXPECT_EQ(take_back(), (outcomes{{"three", errc::not_delivered}}));
}

// Without it, the lane would stay withdrawn, and no later receiver would read it.
TEST(TakeBack, NeedsNoMemory) {
  if (!test::can_fail_allocations())
    GTEST_SKIP() << "this build can't fail allocations";
  const test::scratch_directory directory;
  auto inbox = receiver::open("shm://inbox", {.directory = directory.path()});
  ASSERT_TRUE(inbox);
  auto out = sender::open("shm://inbox", {.directory = directory.path()});
  ASSERT_TRUE(out);
  inbox->close();
  for (int i = 0; i != 100; ++i)
    ASSERT_TRUE(out->send(as_bytes("text")));
  std::size_t back = 0;
  const std::function<void(bytes_view, errc)> count = [&](bytes_view, errc) { ++back; };
  {
    const test::allocation_failure no_memory;
    EXPECT_TRUE(out->take_back(count));
  }
  EXPECT_EQ(back, 100U);
}

}  // namespace
}  // namespace atbus
