// Several tasks at once: their order, their results, their exceptions, and what they cost.
#include "atbus/task.hpp"
#include "counting_allocator.h"
#include "task_steps.h"
#include "test.h"

namespace atbus {
namespace {

// Notes when it begins and ends; waits in between.
task<int> pass(test::gate& at, std::string& log, char name, int value) {
  log += name;
  co_await at;
  log += static_cast<char>(name - 'a' + 'A');
  co_return value;
}

task<int> at_once(std::string& log, char name, int value) {
  log += name;
  co_return value;
}

task<> fail_behind(test::gate& at, const char* why) {
  co_await at;
  throw test::planned_error{why};
}

task<int> fail_at_once(const char* why) {
  throw test::planned_error{why};
  co_return 0;
}

class WhenAll : public ::testing::Test {
 protected:
  test::gate one, two, three;
  std::string log;
};

TEST_F(WhenAll, BeginsAllInOrderAndGoesOnAfterTheLastHasEnded) {
  const auto outer = [&]() -> task<> {
    auto all = when_all(pass(one, log, 'a', 1), pass(two, log, 'b', 2), pass(three, log, 'c', 3));
    EXPECT_EQ(log, "");
    EXPECT_EQ(co_await std::move(all), std::tuple(1, 2, 3));
    log += '.';
  };
  const auto whole = test::run(outer());
  EXPECT_EQ(log, "abc");
  two.open();
  three.open();
  EXPECT_EQ(log, "abcBC");
  one.open();
  EXPECT_EQ(log, "abcBCA.");
  EXPECT_TRUE(whole.done());
}

TEST_F(WhenAll, GoesOnAtOnceWhenNothingWaits) {
  const auto outer = [&]() -> task<> {
    EXPECT_EQ(co_await when_all(at_once(log, 'a', 1), at_once(log, 'b', 2)), std::tuple(1, 2));
    log += '.';
  };
  EXPECT_TRUE(test::run(outer()).done());
  EXPECT_EQ(log, "ab.");
}

TEST_F(WhenAll, WaitsWhenOnlyTheFirstOneDoes) {
  const auto outer = [&]() -> task<> {
    EXPECT_EQ(co_await when_all(pass(one, log, 'a', 1), at_once(log, 'b', 2)), std::tuple(1, 2));
    log += '.';
  };
  const auto whole = test::run(outer());
  EXPECT_EQ(log, "ab");
  one.open();
  EXPECT_EQ(log, "abA.");
  EXPECT_TRUE(whole.done());
}

TEST_F(WhenAll, GivesEachKindOfResult) {
  int object = 5;
  const auto nothing = []() -> task<> { co_return; };
  const auto owner = []() -> task<std::unique_ptr<int>> { co_return std::make_unique<int>(6); };
  const auto reference = [&]() -> task<int&> { co_return object; };
  const auto nested = []() -> task<std::tuple<int>> { co_return std::tuple{7}; };
  const auto outer = [&]() -> task<> {
    std::tuple<std::monostate, std::unique_ptr<int>, int&> all =
        co_await when_all(nothing(), owner(), reference());
    EXPECT_EQ(*std::get<1>(all), 6);
    EXPECT_EQ(&std::get<2>(all), &object);
    std::tuple<std::tuple<int>> one_of_one = co_await when_all(nested());
    EXPECT_EQ(std::get<0>(std::get<0>(one_of_one)), 7);
    std::tuple<> none = co_await when_all();
    static_cast<void>(none);
    log += '.';
  };
  EXPECT_TRUE(test::run(outer()).done());
  EXPECT_EQ(log, ".");
}

TEST_F(WhenAll, ThrowsTheFirstExceptionInOrderOfArgumentsAfterAllHaveEnded) {
  std::string caught;
  const auto outer = [&]() -> task<> {
    try {
      co_await when_all(pass(one, log, 'a', 1), fail_behind(two, "second"), fail_at_once("third"));
    } catch (const test::planned_error& e) {
      caught = e.what();
    }
  };
  const auto whole = test::run(outer());
  two.open();
  EXPECT_EQ(caught, "");
  EXPECT_FALSE(whole.done());
  one.open();
  EXPECT_EQ(caught, "second");
  EXPECT_EQ(log, "aA");
  EXPECT_TRUE(whole.done());
}

TEST_F(WhenAll, DestroysAllTasksWithTheOneThatAwaitsThem) {
  int alive = 0;
  const auto hold = [](test::gate& at, test::counted) -> task<> { co_await at; };
  const auto ended = [](test::counted) -> task<> { co_return; };
  const auto outer = [&]() -> task<> {
    co_await when_all(hold(one, test::counted{alive}), ended(test::counted{alive}),
                      hold(two, test::counted{alive}));
  };
  {
    const auto whole = test::run(outer());
    EXPECT_EQ(alive, 2);
  }
  EXPECT_EQ(alive, 0);
  EXPECT_FALSE(one.is_awaited());
  {
    const auto unused = when_all(hold(one, test::counted{alive}));
    EXPECT_EQ(alive, 1);
  }
  EXPECT_EQ(alive, 0);
}

TEST_F(WhenAll, DestroysATaskWithoutAResultWhenItEnds) {
  int alive = 0;
  const auto hold = [](test::gate& at, test::counted) -> task<> { co_await at; };
  const auto hold_value = [](test::gate& at, test::counted) -> task<int> {
    co_await at;
    co_return 1;
  };
  const auto fail = [](test::gate& at, test::counted) -> task<> {
    co_await at;
    throw test::planned_error{"kept"};
  };
  const auto outer = [&]() -> task<> {
    try {
      co_await when_all(hold(one, test::counted{alive}), hold_value(two, test::counted{alive}),
                        fail(three, test::counted{alive}));
    } catch (const test::planned_error& failed) {
      log = failed.what();
    }
    std::vector<task<>> tasks;
    tasks.push_back(hold(one, test::counted{alive}));
    tasks.push_back(hold(two, test::counted{alive}));
    co_await when_all(std::move(tasks));
  };
  const auto whole = test::run(outer());
  EXPECT_EQ(alive, 3);
  one.open();
  EXPECT_EQ(alive, 2);
  two.open();  // its value is kept
  EXPECT_EQ(alive, 2);
  three.open();
  EXPECT_EQ(log, "kept");
  EXPECT_EQ(alive, 2);
  two.open();
  EXPECT_EQ(alive, 1);
  one.open();
  EXPECT_TRUE(whole.done());
  EXPECT_EQ(alive, 0);
}

// --- of a vector

TEST_F(WhenAll, OfAVectorGivesResultsInOrderOfTheTasks) {
  std::vector<int> results;
  const auto outer = [&]() -> task<> {
    std::vector<task<int>> tasks;
    tasks.push_back(pass(one, log, 'a', 1));
    tasks.push_back(pass(two, log, 'b', 2));
    tasks.push_back(at_once(log, 'c', 3));
    results = co_await when_all(std::move(tasks));
  };
  const auto whole = test::run(outer());
  EXPECT_EQ(log, "abc");
  two.open();
  EXPECT_FALSE(whole.done());
  one.open();
  EXPECT_EQ(log, "abcBA");
  EXPECT_EQ(results, (std::vector{1, 2, 3}));
  EXPECT_TRUE(whole.done());
}

TEST_F(WhenAll, OfAVectorThrowsTheFirstExceptionAfterAllHaveEnded) {
  std::string caught;
  const auto outer = [&]() -> task<> {
    std::vector<task<>> tasks;
    tasks.push_back(fail_behind(one, "first"));
    tasks.push_back(fail_behind(two, "second"));
    try {
      co_await when_all(std::move(tasks));
    } catch (const test::planned_error& e) {
      caught = e.what();
    }
  };
  const auto whole = test::run(outer());
  two.open();
  EXPECT_EQ(caught, "");
  one.open();
  EXPECT_EQ(caught, "first");
  EXPECT_TRUE(whole.done());
}

TEST_F(WhenAll, OfAVectorGivesEachKindOfResult) {
  int object = 5;
  const auto reference = [&]() -> task<int&> { co_return object; };
  const auto owner = []() -> task<std::unique_ptr<int>> { co_return std::make_unique<int>(6); };
  const auto outer = [&]() -> task<> {
    std::vector<task<int&>> references;
    references.push_back(reference());
    const std::vector<std::reference_wrapper<int>> found = co_await when_all(std::move(references));
    EXPECT_EQ(&found.at(0).get(), &object);
    std::vector<task<std::unique_ptr<int>>> owners;
    owners.push_back(owner());
    const auto owned = co_await when_all(std::move(owners));
    EXPECT_EQ(*owned.at(0), 6);
    EXPECT_TRUE((co_await when_all(std::vector<task<int>>{})).empty());
    co_await when_all(std::vector<task<>>{});
    log += '.';
  };
  EXPECT_TRUE(test::run(outer()).done());
  EXPECT_EQ(log, ".");
}

TEST_F(WhenAll, OfAMillionTasksDoesNotGrowTheStack) {
  constexpr std::size_t count = 1'000'000;
  test::stack_extent stack;
  const auto leaf = [&]() -> task<> {
    stack.mark();
    co_return;
  };
  const auto outer = [&]() -> task<> {
    std::vector<task<>> tasks;
    tasks.reserve(count);
    while (tasks.size() != count)
      tasks.push_back(leaf());
    co_await when_all(std::move(tasks));
  };
  EXPECT_TRUE(test::run(outer()).done());
  EXPECT_EQ(stack.marks(), count);
  EXPECT_LT(stack.bytes(), test::few_frames_bytes);
}

task<int> end_behind(test::gate& at) {
  co_await at;
  co_return 1;
}

TEST(WhenAllAllocations, AreTheFramesOfTheTasksAndTheVectorOfResults) {
  if (!test::counts_allocations())
    GTEST_SKIP() << "this build can't count allocations";
  test::gate one, two;
  std::uint64_t in_tuple = 0;
  std::uint64_t in_vector = 0;
  std::vector<task<int>> tasks;
  tasks.reserve(2);
  const auto outer = [&]() -> task<> {
    std::uint64_t before = test::allocations();
    co_await when_all(end_behind(one), end_behind(two));
    in_tuple = test::allocations() - before;
    before = test::allocations();
    tasks.push_back(end_behind(one));
    tasks.push_back(end_behind(two));
    co_await when_all(std::move(tasks));
    in_vector = test::allocations() - before;
  };
  const auto whole = test::run(outer());
  for (int i = 0; i != 2; ++i) {
    one.open();
    two.open();
  }
  ASSERT_TRUE(whole.done());
  EXPECT_EQ(in_tuple, 2U);
  EXPECT_EQ(in_vector, 3U);
}

}  // namespace
}  // namespace atbus
