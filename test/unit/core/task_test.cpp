// Tasks: when they begin, what they carry, what they destroy, and how little stack they take.
#include "atbus/task.hpp"

#include "task_steps.h"
#include "test.h"

namespace atbus {
namespace {

static_assert(!std::is_copy_constructible_v<task<>> && !std::is_copy_assignable_v<task<>>);
static_assert(std::is_nothrow_move_constructible_v<task<int>> &&
              std::is_nothrow_move_assignable_v<task<int>>);
template <class Task>
concept awaitable_as_lvalue = requires(Task& t) {
  t.operator co_await();
};
static_assert(!awaitable_as_lvalue<task<int>>);

task<> note(std::string& log, char what) {
  log += what;
  co_return;
}

task<int> number(int value) {
  co_return value;
}

TEST(Task, BeginsOnlyWhenItIsAwaited) {
  std::string log;
  task<> pending = note(log, 'b');
  log += 'a';
  const auto all = test::run(std::move(pending));
  EXPECT_EQ(log, "ab");
  EXPECT_TRUE(all.done());
}

TEST(Task, IsEmptyOnceMovedAwayOrAwaited) {
  task<int> first = number(1);
  task<int> second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): what this is about.
  ASSERT_TRUE(second);
  const auto all = [&]() -> test::owned_coroutine {
    EXPECT_EQ(co_await std::move(second), 1);
    EXPECT_FALSE(second);  // NOLINT(bugprone-use-after-move)
  }();
  EXPECT_TRUE(all.done());
}

TEST(Task, ReplacesTheCoroutineThatItHad) {
  int alive = 0;
  const auto hold = [](test::counted) -> task<> { co_return; };
  task<> kept = hold(test::counted{alive});
  EXPECT_EQ(alive, 1);
  kept = hold(test::counted{alive});
  EXPECT_EQ(alive, 1);
  task<>& same = kept;
  kept = std::move(same);
  EXPECT_TRUE(kept);
  EXPECT_EQ(alive, 1);
}

TEST(Task, CarriesAMoveOnlyValue) {
  const auto make = []() -> task<std::unique_ptr<int>> {
    auto value = std::make_unique<int>(7);
    co_return value;
  };
  EXPECT_EQ(*test::result_of(make()), 7);
}

struct without_default {
  explicit without_default(int v) : value(v) {}
  without_default(without_default&&) = default;
  int value;
};

TEST(Task, CarriesAValueThatHasNoDefault) {
  const auto make = []() -> task<without_default> { co_return without_default{3}; };
  EXPECT_EQ(test::result_of(make()).value, 3);
}

TEST(Task, ConvertsWhatItsCoroutineReturns) {
  const auto make = []() -> task<std::string> { co_return "text"; };
  const auto braced = []() -> task<std::pair<int, int>> { co_return {1, 2}; };
  EXPECT_EQ(test::result_of(make()), "text");
  EXPECT_EQ(test::result_of(braced()), std::pair(1, 2));
}

TEST(Task, CarriesAReference) {
  int object = 1;
  const auto find = [](int& in) -> task<int&> { co_return in; };
  const auto look = [](const int& in) -> task<const int&> { co_return in; };
  const auto all = [&]() -> task<> {
    EXPECT_EQ(&co_await find(object), &object);
    EXPECT_EQ(&co_await look(object), &object);
  };
  EXPECT_TRUE(test::run(all()).done());
}

TEST(Task, ResumesWhatAwaitsItWhenItEndsLater) {
  test::gate here;
  std::string log;
  const auto wait = [](test::gate& at, std::string& to) -> task<int> {
    to += 'a';
    co_await at;
    to += 'c';
    co_return 5;
  };
  const auto outer = [&]() -> task<> {
    EXPECT_EQ(co_await wait(here, log), 5);
    log += 'd';
  };
  const auto all = test::run(outer());
  log += 'b';
  EXPECT_FALSE(all.done());
  here.open();
  EXPECT_EQ(log, "abcd");
  EXPECT_TRUE(all.done());
}

task<int> failing_number() {
  throw test::planned_error{"no number"};
  co_return 0;
}

TEST(Task, ThrowsItsExceptionWhereItIsAwaited) {
  const auto middle = []() -> task<int> { co_return 1 + co_await failing_number(); };
  EXPECT_THROW(test::result_of(middle()), test::planned_error);
  const auto nothing = []() -> task<> {
    throw test::planned_error{"nothing"};
    co_return;
  };
  std::string caught;
  const auto outer = [&]() -> task<> {
    try {
      co_await nothing();
    } catch (const test::planned_error& e) {
      caught = e.what();
    }
  };
  EXPECT_TRUE(test::run(outer()).done());
  EXPECT_EQ(caught, "nothing");
}

struct throws_when_moved {
  throws_when_moved() = default;
  throws_when_moved(throws_when_moved&&) { throw test::planned_error{"moved"}; }
};

TEST(Task, ThrowsWhatStoringItsResultThrows) {
  const auto make = []() -> task<throws_when_moved> { co_return throws_when_moved{}; };
  EXPECT_THROW(test::result_of(make()), test::planned_error);
}

TEST(Task, DestroysACoroutineThatNeverBegan) {
  int alive = 0;
  const auto hold = [](test::counted) -> task<> { co_return; };
  {
    const task<> unused = hold(test::counted{alive});
    EXPECT_EQ(alive, 1);
  }
  EXPECT_EQ(alive, 0);
}

TEST(Task, DestroysTheTasksThatItAwaits) {
  int alive = 0;
  test::gate here;
  const auto inner = [&](test::counted) -> task<> { co_await here; };
  const auto outer = [&](test::counted) -> task<> { co_await inner(test::counted{alive}); };
  {
    const auto all = test::run(outer(test::counted{alive}));
    EXPECT_EQ(alive, 2);
    EXPECT_TRUE(here.is_awaited());
  }
  EXPECT_EQ(alive, 0);
  EXPECT_FALSE(here.is_awaited());
}

TEST(Task, IsDestroyedAtTheEndOfTheExpressionThatAwaitsIt) {
  int alive = 0;
  const auto hold = [](test::counted) -> task<> { co_return; };
  const auto outer = [&]() -> task<> {
    task<> kept = hold(test::counted{alive});
    co_await std::move(kept);
    EXPECT_EQ(alive, 0);
  };
  EXPECT_TRUE(test::run(outer()).done());
}

// --- stack

task<int> marked(test::stack_extent& stack) {
  stack.mark();
  co_return 1;
}

task<> await_in_a_loop(int times, test::stack_extent& stack) {
  int sum = 0;
  for (int i = 0; i != times; ++i)
    sum += co_await marked(stack);
  EXPECT_EQ(sum, times);
}

TEST(TaskStack, DoesNotGrowInALoopOfAMillionAwaits) {
  test::stack_extent stack;
  EXPECT_TRUE(test::run(await_in_a_loop(1'000'000, stack)).done());
  EXPECT_EQ(stack.marks(), 1'000'000U);
  EXPECT_LT(stack.bytes(), test::few_frames_bytes);
}

task<int> await_in_depth(int depth, test::stack_extent& stack, test::gate* bottom) {
  stack.mark();
  int below = 0;
  if (depth > 0)
    below = co_await await_in_depth(depth - 1, stack, bottom);
  else if (bottom != nullptr)
    co_await *bottom;
  stack.mark();
  co_return below + 1;
}

constexpr int depth_of_chain = 100'000;

TEST(TaskStack, DoesNotGrowInADeepChainOfAwaits) {
  test::stack_extent stack;
  EXPECT_EQ(test::result_of(await_in_depth(depth_of_chain, stack, nullptr)), depth_of_chain + 1);
  EXPECT_LT(stack.bytes(), test::few_frames_bytes);
}

TEST(TaskStack, DoesNotGrowWhenADeepChainEndsLater) {
  test::stack_extent down;
  test::gate bottom;
  int length = 0;
  const auto outer = [&]() -> task<> {
    length = co_await await_in_depth(depth_of_chain, down, &bottom);
  };
  const auto all = test::run(outer());
  EXPECT_LT(down.bytes(), test::few_frames_bytes);
  bottom.open();
  EXPECT_TRUE(all.done());
  EXPECT_EQ(length, depth_of_chain + 1);
  EXPECT_LT(down.bytes(), test::few_frames_bytes);
}

// --- other kinds of coroutines and awaitables between tasks

// Resumes the coroutine before it returns, then calls `afterwards`.
struct resumes_inside {
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiting) const {
    const auto call = afterwards;  // The awaitable may not outlive the coroutine.
    waiting.resume();
    call();
  }
  void await_resume() const noexcept {}
  std::function<void()> afterwards;
};

TEST(Task, GoesOnAfterAnAwaitableThatResumesItWithinTheCall) {
  std::string log;
  const auto inner = [&]() -> task<> {
    co_await resumes_inside{[] {}};
    log += 'a';
    co_await note(log, 'b');
  };
  const auto outer = [&]() -> task<> {
    co_await inner();
    co_await note(log, 'c');
  };
  EXPECT_TRUE(test::run(outer()).done());
  EXPECT_EQ(log, "abc");
}

// With a compiler that does not transfer control by tail calls, the outer task is still to be resumed
// when the inner one has ended and `afterwards` destroys both.
TEST(Task, MayBeDestroyedByAnAwaitableThatHasResumedIt) {
  int alive = 0;
  std::string log;
  std::optional<test::owned_coroutine> owner;
  test::gate here;
  const auto inner = [&]() -> task<> {
    co_await here;
    co_await note(log, 'a');
    co_await resumes_inside{[&] { owner.reset(); }};
  };
  const auto outer = [&](test::counted) -> task<> {
    co_await inner();
    co_await here;
  };
  owner.emplace(test::run(outer(test::counted{alive})));
  here.open();
  EXPECT_EQ(alive, 0);
  EXPECT_FALSE(here.is_awaited());
}

TEST(Task, OfAnInnerLoopEndsBeforeTheCallThatResumesIt) {
  test::gate here;
  std::string log;
  const auto waits = [&]() -> task<> {
    co_await here;
    co_await note(log, 'b');
    log += 'c';
  };
  const auto other = test::run(waits());
  const auto opens = [&]() -> task<> {
    co_await note(log, 'a');
    here.open();  // As a handler does that a poll inside a task calls.
    log += 'd';
  };
  EXPECT_TRUE(test::run(opens()).done());
  EXPECT_EQ(log, "abcd");
  EXPECT_TRUE(other.done());
}

TEST(TaskDeathTest, AssertsThatItIsAwaitedOnce) {
#if defined(NDEBUG)
  GTEST_SKIP() << "this build has no assertions";
#else
  const auto twice = []() -> task<> {
    task<int> one = number(1);
    co_await std::move(one);
    co_await std::move(one);  // NOLINT(bugprone-use-after-move)
  };
  EXPECT_DEATH(test::run(twice()), "moved away or awaited");
#endif
}

}  // namespace
}  // namespace atbus
