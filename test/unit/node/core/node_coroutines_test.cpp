// Coroutines on a node: handlers that wait, sleep, ask many nodes, and end with it.
//
// node.sleep() is under test here, on the clock of a simulated network: no test waits for that time.
#include <memory>
#include <stdexcept>

#include "node_requests_fixture.h"

namespace atbus::detail {
namespace {

// A coroutine in the test's hands, which can destroy it while it waits.
struct frame {
  struct promise_type {
    frame get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  std::coroutine_handle<promise_type> of;
};

class NodeCoroutines : public NodeRequests {
 protected:
  node& asking() { return one.node.user(); }
  void run_for(std::chrono::nanoseconds time) {
    one.node.wake();
    two.node.wake();
    net.run_for(time);
  }
};

TEST_F(NodeCoroutines, SleepOnTheClockOfTheNode) {
  std::vector<std::chrono::nanoseconds> woke;
  const auto run = [&](std::chrono::nanoseconds time) -> atbus::task<> {
    EXPECT_TRUE(co_await asking().sleep(time));  // under test: simulated time
    woke.push_back(net.now());
  };
  const auto began = net.now();
  for (const auto time : {30ms, 10ms, 0ms, 20ms, 10ms})
    asking().spawn(run(time));
  EXPECT_TRUE(woke.empty());
  run_for(100ms);
  ASSERT_EQ(woke.size(), 5U);
  const std::chrono::nanoseconds wanted[] = {0ms, 10ms, 10ms, 20ms, 30ms};
  for (std::size_t at = 0; at != 5; ++at) {
    EXPECT_GE(woke[at] - began, wanted[at]);
    EXPECT_LE(woke[at] - began, wanted[at] + 1ms);
  }
}

TEST_F(NodeCoroutines, WakeInOrderAfterAPauseWithoutAPoll) {
  node quiet{5};
  std::vector<int> woke;
  const auto run = [&](int time) -> atbus::task<> {
    co_await quiet.sleep(std::chrono::milliseconds{time});  // under test: they end in one poll
    woke.push_back(time);
  };
  for (const int time : {40, 10, 290, 100, 20, 280})
    quiet.spawn(run(time));
  for (const auto end = now() + 300ms; now() < end;) {
  }
  quiet.poll();
  EXPECT_EQ(woke, (std::vector<int>{10, 20, 40, 100, 280, 290}));
}

TEST_F(NodeCoroutines, SleepAgainWithTheSameAwaitable) {
  int woke = 0;
  const auto run = [&]() -> atbus::task<> {
    auto pause = asking().sleep(10ms);  // under test: simulated time
    for (; woke != 3; ++woke)
      co_await pause;
  };
  asking().spawn(run());
  run_for(1s);
  EXPECT_EQ(woke, 3);
}

TEST_F(NodeCoroutines, WakeInAPollThatTakesNoMessages) {
  node quiet{5};
  bool woke = false;
  const auto run = [&]() -> atbus::task<> {
    co_await quiet.sleep(0ms);  // under test: it ends with the next poll
    woke = true;
  };
  quiet.spawn(run());
  for (const auto end = now() + 10s; !woke && now() < end;)
    quiet.poll({.messages = 0});
  EXPECT_TRUE(woke);
}

// It has always as many messages of its own as a poll may tell.
TEST_F(NodeCoroutines, WakeAtANodeThatSendsToItselfWithoutEnd) {
  for (const std::size_t most : {1U, 2U, 5U}) {
    simulated_network own_net{1};
    party sends{own_net, 1};
    party talks{own_net, 2};
    talks.connect(1);
    ASSERT_TRUE(
        own_net.run_until([&] { return sends.is_connected(2) && talks.is_connected(1); }, 5s));
    bool woke = false;
    int of_others = 0;
    node& to_itself = sends.node.user();
    to_itself.on_message([&](const message& m) {
      of_others += m.source() == 2 ? 1 : 0;
      if (m.source() == 1)
        (void)to_itself.send(1, 0, "again");
    });
    const auto run = [&]() -> atbus::task<> {
      co_await to_itself.sleep(0ms);  // under test: it ends with the next poll
      woke = true;
    };
    ASSERT_TRUE(talks.send(1, "from another"));
    own_net.run_for(1ms);
    to_itself.spawn(run());
    for (std::size_t i = 0; i != most; ++i)
      ASSERT_TRUE(to_itself.send(1, 0, "first"));
    for (int i = 0; i != 100 && !(woke && of_others == 1); ++i) {
      to_itself.poll({.messages = most});
      own_net.run_for(1ms);
    }
    EXPECT_TRUE(woke) << most;
    EXPECT_EQ(of_others, 1) << most;
  }
}

TEST_F(NodeCoroutines, ASleepEndsWithTheNode) {
  std::vector<status> ends;
  const auto run = [&]() -> atbus::task<> {
    ends.push_back(co_await asking().sleep(1h));  // under test: the end of the node ends it
    ends.push_back(co_await asking().sleep(1h));  // under test: it does not begin
  };
  asking().spawn(run());
  run_for(1s);
  EXPECT_TRUE(ends.empty());
  asking().close();
  EXPECT_EQ(ends, (std::vector<status>{errc::closed, errc::closed}));
}

TEST_F(NodeCoroutines, WhatASpawnedTaskThrowsLeavesThePollThatResumedIt) {
  const auto run = [&](std::chrono::nanoseconds time) -> atbus::task<> {
    if (time != 0ms)
      co_await asking().sleep(time);  // under test: simulated time
    throw std::runtime_error{"broken"};
  };
  EXPECT_THROW(asking().spawn(run(0ms)), std::runtime_error);
  asking().spawn(run(10ms));
  EXPECT_THROW(run_for(1s), std::runtime_error);
  run_for(1s);
}

TEST(NodeCoroutine, MayDestroyTheNodeThatSpawnsIt) {
  for (const bool throws : {false, true}) {
    auto ends = std::make_unique<node>(bus_id{5});
    const auto run = [&]() -> atbus::task<> {
      ends.reset();
      if (throws)
        throw std::runtime_error{"nobody is told"};
      co_return;
    };
    ends->spawn(run());
    EXPECT_EQ(ends, nullptr);
  }
}

TEST_F(NodeCoroutines, MayBeHandlersOfRequests) {
  connect();
  two.node.user().on_request(9, [this](request r) -> atbus::task<> {
    const std::string text{r.text()};
    EXPECT_EQ(text, "question");
    co_await two.node.user().sleep(20ms);  // simulated time, in which the link goes on
    EXPECT_TRUE(r.bytes().empty());
    EXPECT_TRUE(r.reply("answer to " + text));
  });
  two.node.user().on_request([](request r) -> atbus::task<> {
    r.fail("of all");
    co_return;
  });
  told typed;
  told other;
  ASSERT_TRUE(ask("question", typed, 1s, 9));
  ASSERT_TRUE(ask("x", other, 1s, 10));
  net.run_for(100ms);
  expect(typed, errc::ok, "answer to question");
  expect(other, errc::request_failed, "of all");
}

TEST_F(NodeCoroutines, AHandlerThatThrowsFailsItsRequest) {
  connect();
  two.node.user().on_request(9, [this](request r) -> atbus::task<> {
    co_await two.node.user().sleep(r.text() == "later" ? 10ms : 0ms);
    throw std::runtime_error{"broken"};
  });
  told answer;
  ASSERT_TRUE(ask("later", answer, 1s, 9));
  EXPECT_THROW(net.run_for(100ms), std::runtime_error);
  run_for(100ms);
  expect(answer, errc::request_failed, "the request was dropped without a response");
}

TEST_F(NodeCoroutines, AskAndSleepTogether) {
  connect();
  on_request = [](request& r) { r.reply(r.bytes()); };
  std::string got;
  const auto ask_for = [&](std::string text) -> atbus::task<std::string> {
    co_await asking().sleep(5ms);
    const kept_response r = co_await asking().request(2, 7, text, 1s);
    co_return std::string{r.text()};
  };
  const auto run = [&]() -> atbus::task<> {
    auto [a, b] = co_await when_all(ask_for("a"), ask_for("b"));
    got = a + b;
  };
  asking().spawn(run());
  run_for(100ms);
  EXPECT_EQ(got, "ab");
}

// What waits is destroyed; the answer comes later.
TEST_F(NodeCoroutines, OneThatIsDestroyedWhileItWaitsIsNotResumed) {
  connect();
  two.node.user().on_command([](command& c) { c.reply("done"); });
  on_request = [](request& r) { r.reply("done"); };
  int resumed = 0;
  const std::vector<bus_id> both{2};
  const auto ask = [&]() -> frame {
    (void)co_await asking().command(2, {"word"}, 1s);
    ++resumed;
  };
  const auto wait = [&]() -> frame {
    (void)co_await asking().ready(9, 1s);
    ++resumed;
  };
  const auto request_one = [&]() -> frame {
    (void)co_await asking().request(2, 7, "x", 1s);
    ++resumed;
  };
  const auto request_all = [&]() -> frame {
    (void)co_await asking().gather(both, 7, as_bytes("x"), 1, 1s);
    ++resumed;
  };
  const auto rest = [&]() -> frame {
    co_await asking().sleep(1ms);
    ++resumed;
  };
  for (const frame& waiting : {ask(), wait(), request_one(), request_all(), rest()})
    waiting.of.destroy();
  run_for(5s);
  EXPECT_EQ(resumed, 0);
  for (const frame& waiting : {ask(), wait(), request_one(), request_all(), rest()}) {
    run_for(5s);
    EXPECT_TRUE(waiting.of.done());
    waiting.of.destroy();
  }
  EXPECT_EQ(resumed, 5);
}

TEST_F(NodeCoroutines, AHandlerMayCloseItsNode) {
  connect();
  two.node.user().on_request(9, [this](request r) -> atbus::task<> {
    two.node.user().close();
    EXPECT_EQ(r.reply("x"), errc::closed);
    co_return;
  });
  told answer;
  ASSERT_TRUE(ask("x", answer, 500ms, 9));
  net.run_for(2s);
  expect(answer, errc::timed_out);
}

// Both requests time out in one poll; what the first one resumes destroys what waits for the second.
TEST_F(NodeCoroutines, OneMayDestroyAnotherWhoseOutcomeIsKnownAndNotToldYet) {
  connect();
  keep();
  int resumed = 0;
  frame other;
  const auto ask_and_destroy = [&]() -> frame {
    (void)co_await asking().request(2, 7, "x", 50ms);
    ++resumed;
    other.of.destroy();
  };
  const auto ask_only = [&]() -> frame {
    (void)co_await asking().request(2, 7, "x", 50ms);
    ++resumed;
  };
  const frame first = ask_and_destroy();
  other = ask_only();
  run_for(1s);
  EXPECT_EQ(resumed, 1);
  first.of.destroy();
}

class NodeGather : public NodeCoroutines {
 protected:
  NodeGather() {
    three.node.user().on_request(7, [](request& r) { r.reply("three"); });
    four.node.user().on_request(7, [this](request& r) { four_kept.push_back(r.detach()); });
    on_request = [](request& r) { r.reply("two"); };
    for (const std::uint64_t id : {2U, 3U, 4U})
      one.connect(id);
    net.run_for(2s);
  }
  auto write() {
    return [this](const std::vector<kept_response>& all) {
      ++times;
      outcomes.clear();
      for (const kept_response& r : all)
        outcomes.push_back(r.source().to_string() + " " + std::string{name(r.how().code())} +
                           (r ? " " + std::string{r.text()} : ""));
    };
  }

  party three{net, 3};
  party four{net, 4};
  std::vector<request> four_kept;
  int times = 0;
  std::vector<std::string> outcomes;
};

using texts = std::vector<std::string>;

TEST_F(NodeGather, TellsOnceEnoughHaveRepliedAndCancelsTheRest) {
  ASSERT_TRUE(asking().gather({4, 3, 2}, 7, as_bytes("x"), 2, 10s, write()));
  EXPECT_EQ(times, 0);
  run_for(100ms);
  EXPECT_EQ(times, 1);
  EXPECT_EQ(outcomes, (texts{"4 cancelled", "3 ok three", "2 ok two"}));
  ASSERT_EQ(four_kept.size(), 1U);
  EXPECT_FALSE(four_kept[0].is_wanted());
}

TEST_F(NodeGather, TellsAtTheDeadline) {
  ASSERT_TRUE(asking().gather({2, 3, 4}, 7, as_bytes("x"), 3, 1s, write()));
  run_for(900ms);
  EXPECT_EQ(times, 0);
  run_for(200ms);
  EXPECT_EQ(times, 1);
  EXPECT_EQ(outcomes, (texts{"2 ok two", "3 ok three", "4 timed_out"}));
}

TEST_F(NodeGather, TellsOfNodesThatCannotBeAsked) {
  ASSERT_TRUE(asking().gather({99, 2}, 7, as_bytes("x"), 2, 1s, write()));
  run_for(100ms);
  EXPECT_EQ(outcomes, (texts{"99 no_route", "2 ok two"}));
  ASSERT_TRUE(asking().gather({98, 99}, 7, as_bytes("x"), 2, 1s, write()));
  EXPECT_EQ(times, 1);
  run_for(100ms);
  EXPECT_EQ(times, 2);
  EXPECT_EQ(outcomes, (texts{"98 no_route", "99 no_route"}));
}

TEST_F(NodeGather, AsksAllConnectedNodesOfARange) {
  const auto those = asking().connected(*id_range::parse("0x2/63"));
  ASSERT_TRUE(asking().gather(those, 7, as_bytes("x"), 2, 1s, write()));
  run_for(100ms);
  EXPECT_EQ(outcomes, (texts{"2 ok two", "3 ok three"}));
}

TEST_F(NodeGather, IsRefusedWithAReason) {
  EXPECT_EQ(asking().gather(std::vector<bus_id>{}, 7, as_bytes("x"), 1, 1s, write()),
            errc::invalid_argument);
  EXPECT_EQ(asking().gather({2}, 7, as_bytes("x"), 0, 1s, write()), errc::invalid_argument);
  EXPECT_EQ(asking().gather({2}, 7, as_bytes("x"), 1, -1s, write()), errc::invalid_argument);
  asking().close();
  EXPECT_EQ(asking().gather({2}, 7, as_bytes("x"), 1, 1s, write()), errc::closed);
  EXPECT_EQ(times, 0);
}

TEST_F(NodeGather, EndsWithTheNode) {
  ASSERT_TRUE(asking().gather({4, 3}, 7, as_bytes("x"), 2, 10s, write()));
  run_for(100ms);
  asking().close();
  EXPECT_EQ(times, 1);
  EXPECT_EQ(outcomes, (texts{"4 closed", "3 ok three"}));
}

TEST_F(NodeGather, CanBeAwaited) {
  const auto note = write();
  const auto run = [&]() -> atbus::task<> {
    const std::vector<bus_id> both{2, 3};
    note(co_await asking().gather(both, 7, as_bytes("x"), 2, 1s));
    EXPECT_EQ(outcomes, (texts{"2 ok two", "3 ok three"}));
    note(co_await asking().gather(std::vector<bus_id>{}, 7, as_bytes("x"), 2, 1s));
  };
  asking().spawn(run());
  run_for(100ms);
  EXPECT_EQ(times, 2);
  EXPECT_TRUE(outcomes.empty());
}

}  // namespace
}  // namespace atbus::detail
