// Tasks that nothing awaits: how far they run, how they end, and who is told of an exception.
#include "atbus/task.hpp"
#include "counting_allocator.h"
#include "task_steps.h"
#include "test.h"

namespace atbus {
namespace {

class Start : public ::testing::Test {
 protected:
  auto keep_failure() {
    return [this](std::exception_ptr what) {
      ++failures;
      failure = std::move(what);
    };
  }
  task<> steps(test::counted) {
    log += 'a';
    co_await here;
    log += 'c';
  }

  test::gate here;
  std::string log;
  int alive = 0;
  int failures = 0;
  std::exception_ptr failure;
};

TEST_F(Start, RunsTheTaskUntilItWaits) {
  start(steps(test::counted{alive}), keep_failure());
  log += 'b';
  here.open();
  EXPECT_EQ(log, "abc");
  EXPECT_EQ(failures, 0);
}

TEST_F(Start, DestroysTheFrameAtTheEndOfTheTask) {
  start(steps(test::counted{alive}), [owner = test::counted{alive}](const std::exception_ptr&) {});
  EXPECT_EQ(alive, 2);
  here.open();
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(log, "ac");
}

TEST_F(Start, PassesAnExceptionBeforeTheFirstWait) {
  const auto fails = [](test::counted) -> task<> {
    throw test::planned_error{"at once"};
    co_return;
  };
  start(fails(test::counted{alive}), keep_failure());
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(test::what_of(failure), "at once");
  EXPECT_EQ(alive, 0);
}

TEST_F(Start, PassesALaterExceptionOfATaskThatItAwaits) {
  const auto inner = [this]() -> task<> {
    co_await here;
    throw test::planned_error{"later"};
  };
  const auto outer = [&]() -> task<> { co_await inner(); };
  start(outer(), keep_failure());
  EXPECT_EQ(failures, 0);
  here.open();
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(test::what_of(failure), "later");
}

TEST_F(Start, DropsWhatOnErrorThrows) {
  const auto fails = [](test::counted) -> task<> {
    throw test::planned_error{"first"};
    co_return;
  };
  start(fails(test::counted{alive}), [this](const std::exception_ptr&) {
    ++failures;
    throw test::planned_error{"second"};
  });
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(alive, 0);
}

TEST_F(Start, TakesAnyFunctionForErrors) {
  const auto fails = []() -> task<> {
    throw test::planned_error{"why"};
    co_return;
  };
  const std::function<void(std::exception_ptr)> told = keep_failure();
  start(fails(), told);
  EXPECT_EQ(failures, 1);
}

TEST_F(Start, PassesBadAllocIfThereIsNoMemoryForItsFrame) {
  if (!test::can_fail_allocations())
    GTEST_SKIP() << "this build can't let allocations fail";
  task<> what = steps(test::counted{alive});
  auto told = keep_failure();
  {
    // The second one is that of the exception, for which the C++ library has a reserve.
    const test::allocation_failure none;
    start(std::move(what), told);
  }
  EXPECT_EQ(log, "");
  EXPECT_EQ(alive, 0);
  ASSERT_EQ(failures, 1);
  EXPECT_THROW(std::rethrow_exception(failure), std::bad_alloc);
}

}  // namespace
}  // namespace atbus
