// A limit on coroutines: who gets a permit and when, and what becomes of it when things are
// destroyed.
#include "atbus/task.hpp"
#include "counting_allocator.h"
#include "task_steps.h"
#include "test.h"

namespace atbus {
namespace {

using permit = concurrency_limit::permit;
static_assert(!std::is_copy_constructible_v<permit> && !std::is_copy_assignable_v<permit>);
static_assert(std::is_nothrow_move_constructible_v<permit> &&
              std::is_nothrow_move_assignable_v<permit>);

void no_failure(const std::exception_ptr& what) {
  ADD_FAILURE() << test::what_of(what);
}

// Takes a permit from a limit that has one.
permit take_now(concurrency_limit& limit) {
  permit taken;
  const auto take = [&]() -> task<> { taken = co_await limit.acquire(); };
  EXPECT_TRUE(test::run(take()).done());
  return taken;
}

class ConcurrencyLimit : public ::testing::Test {
 protected:
  // Notes its name when it has a permit, and gives it back behind the gate, if any.
  task<> enter(concurrency_limit& limit, char name, test::gate* until = nullptr) {
    const permit held = co_await limit.acquire();
    log += held ? name : '-';
    if (until != nullptr)
      co_await *until;
  }
  void begin(concurrency_limit& limit, char name, test::gate* until = nullptr) {
    start(enter(limit, name, until), no_failure);
  }

  test::gate one, two;
  std::string log;
};

TEST_F(ConcurrencyLimit, LetsInNoMoreThanItsNumber) {
  concurrency_limit limit{2};
  EXPECT_EQ(limit.available(), 2U);
  begin(limit, 'a', &one);
  EXPECT_EQ(limit.available(), 1U);
  begin(limit, 'b', &two);
  begin(limit, 'c');
  EXPECT_EQ(log, "ab");
  EXPECT_EQ(limit.available(), 0U);
  EXPECT_EQ(limit.waiting(), 1U);
  two.open();
  EXPECT_EQ(log, "abc");
  EXPECT_EQ(limit.available(), 1U);
  EXPECT_EQ(limit.waiting(), 0U);
  one.open();
  EXPECT_EQ(limit.available(), 2U);
}

TEST_F(ConcurrencyLimit, GivesPermitsFirstComeFirstServed) {
  concurrency_limit limit{1};
  permit held = take_now(limit);
  for (const char name : {'a', 'b', 'c', 'd'})
    begin(limit, name);
  EXPECT_EQ(limit.waiting(), 4U);
  held.release();
  EXPECT_EQ(log, "abcd");
  EXPECT_EQ(limit.available(), 1U);
}

TEST_F(ConcurrencyLimit, LetsNoNewcomerOvertakeThoseThatWait) {
  concurrency_limit limit{1};
  permit held = take_now(limit);
  const auto first = [&]() -> task<> {
    permit mine = co_await limit.acquire();
    log += 'a';
    mine.release();
    begin(limit, 'c');
    log += '.';
  };
  start(first(), no_failure);
  begin(limit, 'b');
  held.release();
  EXPECT_EQ(log, "a.bc");
}

TEST_F(ConcurrencyLimit, ForgetsAWaiterThatIsDestroyed) {
  concurrency_limit limit{1};
  permit held = take_now(limit);
  for (const int destroyed : {0, 1, 2}) {
    log.clear();
    std::vector<std::optional<test::owned_coroutine>> waiters(3);
    for (std::size_t i = 0; i != waiters.size(); ++i)
      waiters[i].emplace(test::run(enter(limit, static_cast<char>('a' + i))));
    waiters[static_cast<std::size_t>(destroyed)].reset();
    EXPECT_EQ(limit.waiting(), 2U);
    held.release();
    EXPECT_EQ(log, std::string{"abc"}.erase(static_cast<std::size_t>(destroyed), 1));
    EXPECT_EQ(limit.waiting(), 0U);
    held = take_now(limit);
  }
}

TEST_F(ConcurrencyLimit, PassesThePermitOfADestroyedCoroutineOn) {
  concurrency_limit limit{1};
  auto holder = std::make_optional(test::run(enter(limit, 'a', &one)));
  begin(limit, 'b');
  holder.reset();
  EXPECT_EQ(log, "ab");
  EXPECT_EQ(limit.available(), 1U);
}

TEST_F(ConcurrencyLimit, MayLoseAWaiterToOneThatItResumes) {
  concurrency_limit limit{1};
  permit held = take_now(limit);
  std::optional<test::owned_coroutine> second;
  const auto first = [&]() -> task<> {
    const permit mine = co_await limit.acquire();
    log += 'a';
    second.reset();
  };
  start(first(), no_failure);
  second.emplace(test::run(enter(limit, 'b')));
  begin(limit, 'c');
  held.release();
  EXPECT_EQ(log, "ac");
  EXPECT_EQ(limit.available(), 1U);
}

TEST_F(ConcurrencyLimit, TakesAPermitBackOnce) {
  concurrency_limit limit{2};
  permit first = take_now(limit);
  permit second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): what this is about.
  EXPECT_TRUE(second);
  first.release();
  EXPECT_EQ(limit.available(), 1U);
  second.release();
  second.release();
  EXPECT_FALSE(second);
  EXPECT_EQ(limit.available(), 2U);
  first = take_now(limit);
  second = take_now(limit);
  second = std::move(first);
  EXPECT_EQ(limit.available(), 1U);
  permit& same = second;
  second = std::move(same);
  EXPECT_TRUE(second);
  EXPECT_EQ(limit.available(), 1U);
}

TEST_F(ConcurrencyLimit, ResumesWaitersWithoutAPermitWhenItIsDestroyed) {
  auto limit = std::make_optional<concurrency_limit>(1U);
  const permit held = take_now(*limit);
  begin(*limit, 'a');
  begin(*limit, 'b');
  limit.reset();
  EXPECT_EQ(log, "--");
}

TEST_F(ConcurrencyLimit, ResumesWaitersAlsoWhenOneThatItResumedDestroysIt) {
  auto limit = std::make_optional<concurrency_limit>(1U);
  permit held = take_now(*limit);
  const auto first = [&]() -> task<> {
    const permit mine = co_await limit->acquire();
    log += 'a';
    limit.reset();
    log += '.';
  };
  start(first(), no_failure);
  begin(*limit, 'b');
  held.release();
  EXPECT_EQ(log, "a-.");
}

TEST_F(ConcurrencyLimit, GivesNoPermitThatIsReturnedWhileItIsDestroyed) {
  auto limit = std::make_optional<concurrency_limit>(1U);
  permit held = take_now(*limit);
  const auto first = [&]() -> task<> {
    const permit mine = co_await limit->acquire();
    log += mine ? 'a' : '-';
    held.release();
  };
  start(first(), no_failure);
  begin(*limit, 'b');
  limit.reset();
  EXPECT_EQ(log, "--");
}

TEST_F(ConcurrencyLimit, MayBeDestroyedBeforeItsPermits) {
  auto limit = std::make_optional<concurrency_limit>(2U);
  permit first = take_now(*limit);
  const permit second = take_now(*limit);
  limit.reset();
  EXPECT_TRUE(first);
  first.release();
  EXPECT_FALSE(first);
}

TEST_F(ConcurrencyLimit, MayBeDestroyedBeforeWhatAcquireReturnedIsAwaited) {
  auto limit = std::make_optional<concurrency_limit>(1U);
  const auto late = [&]() -> task<> {
    auto acquired = limit->acquire();
    limit.reset();
    const permit none = co_await acquired;
    log += none ? 'a' : '-';
  };
  start(late(), no_failure);
  EXPECT_EQ(log, "-");
}

TEST_F(ConcurrencyLimit, DoesNotGrowTheStackWithTheNumberOfWaiters) {
  constexpr std::size_t count = 200'000;
  concurrency_limit limit{1};
  test::stack_extent stack;
  permit held = take_now(limit);
  const auto pass = [&]() -> task<> {
    const permit mine = co_await limit.acquire();
    stack.mark();
  };
  for (std::size_t i = 0; i != count; ++i)
    start(pass(), no_failure);
  EXPECT_EQ(limit.waiting(), count);
  held.release();
  EXPECT_EQ(stack.marks(), count);
  EXPECT_LT(stack.bytes(), test::few_frames_bytes);
  EXPECT_EQ(limit.available(), 1U);
}

TEST_F(ConcurrencyLimit, AllocatesNothingToWait) {
  if (!test::counts_allocations())
    GTEST_SKIP() << "this build can't count allocations";
  concurrency_limit limit{1};
  permit held = take_now(limit);
  task<> waits = enter(limit, 'a');
  auto all = [](task<> what, std::uint64_t& before) -> test::owned_coroutine {
    before = test::allocations();
    co_await std::move(what);
  };
  std::uint64_t before = 0;
  const auto whole = all(std::move(waits), before);
  EXPECT_EQ(limit.waiting(), 1U);
  held.release();
  EXPECT_EQ(test::allocations(), before);
  EXPECT_EQ(log, "a");
  EXPECT_TRUE(whole.done());
}

TEST(ConcurrencyLimitDeathTest, AssertsThatSomethingCanPass) {
#if defined(NDEBUG)
  GTEST_SKIP() << "this build has no assertions";
#else
  EXPECT_DEATH(concurrency_limit{0}, "nothing could pass");
#endif
}

}  // namespace
}  // namespace atbus
