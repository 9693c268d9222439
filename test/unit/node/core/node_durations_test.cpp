// Durations as users may give them: none, the shortest, less than none, the longest_duration.
#include "node_core_fixture.h"

namespace atbus::detail {
namespace {

using std::chrono::nanoseconds;
constexpr nanoseconds longest_duration = nanoseconds::max();

TEST(NodeDurations, AreRefusedWithTheNameOfTheOption) {
  struct option {
    const char* name;
    node_options (*with)(nanoseconds);
    bool may_be_zero;
  };
  const std::vector<option> all{
      {"first_idle_timeout", [](nanoseconds t) { return plain().first_idle_timeout(t); }, false},
      {"ping_interval", [](nanoseconds t) { return plain().ping_interval(t); }, false},
      {"retry", [](nanoseconds t) { return plain().retry(t, t); }, false},
      {"message_deadline", [](nanoseconds t) { return plain().message_deadline(t); }, true},
      {"drain", [](nanoseconds t) { return plain().drain(t); }, true}};
  for (const option& each : all) {
    EXPECT_TRUE(each.with(longest_duration).check()) << each.name;
    EXPECT_TRUE(each.with(1ns).check()) << each.name;
    EXPECT_EQ(static_cast<bool>(each.with(0ns).check()), each.may_be_zero) << each.name;
    for (const nanoseconds wrong : {-1ns, nanoseconds::min()}) {
      const error bad = each.with(wrong).check();
      EXPECT_EQ(bad, errc::invalid_argument) << each.name;
      EXPECT_NE(bad.text().find(std::string{"node_options::"} + each.name), std::string::npos)
          << bad.text();
    }
  }
  EXPECT_EQ(plain().retry(2ns, 1ns).check(), errc::invalid_argument);
}

class NodeDuration : public NodeCore {
 protected:
  // Two nodes meet, and a message arrives.
  void expect_a_message(const node_options& options) {
    party one{net, 1, options};
    one.connect(2);
    ASSERT_TRUE(one.send(2, "held"));
    one.node.user().poll();
    party two{net, 2, options};
    connect(two, one, 1);
    ASSERT_TRUE(one.send(2, "x"));
    ASSERT_TRUE(net.run_until([&] { return two.got.size() == 2; }, 1s));
    const std::uint64_t before = one.node.polls;
    net.run_for(1h);
    EXPECT_LT(one.node.polls - before, 2000U) << "it sleeps";
    EXPECT_TRUE(one.is_connected(2));
    EXPECT_TRUE(one.reports.empty());
  }
};

TEST_F(NodeDuration, APingIntervalForEverPingsNever) {
  expect_a_message(plain().ping_interval(longest_duration));
}
TEST_F(NodeDuration, ARegistrationMayTakeForEver) {
  expect_a_message(plain().first_idle_timeout(longest_duration));
}
TEST_F(NodeDuration, ADeadlineMayBeFurtherThanTheClockGoes) {
  expect_a_message(plain().message_deadline(longest_duration));
}
TEST_F(NodeDuration, ADrainMayTakeForEver) {
  expect_a_message(plain().drain(longest_duration));
}
TEST_F(NodeDuration, ARetryMayBeAtTheEndOfTime) {
  expect_a_message(plain().retry(longest_duration, longest_duration));
  party alone{net, 3, plain().retry(longest_duration, longest_duration)};
  alone.connect(4);
  net.run_for(1h);
  EXPECT_EQ(alone.core().stats().dials, 1U);
  party others{net, 5, plain().retry(longest_duration / 2 + 1ns, longest_duration)};
  others.connect(4);
  net.run_for(1h);
  EXPECT_EQ(others.core().stats().dials, 1U);
}

TEST_F(NodeDuration, TheShortestOnesEndAtOnceAndHangNothing) {
  party one{net, 1, plain().message_deadline(1ns).retry(1ns, 1ns)};
  one.connect(2);
  ASSERT_TRUE(one.send(2, "too old soon"));
  net.run_for(1ms);
  ASSERT_EQ(one.reports.size(), 1U);
  EXPECT_EQ(one.reports.front().reason, errc::timed_out);
  party two{net, 2, plain().ping_interval(1ns)};
  net.run_for(10ms);
  party three{net, 3, plain().first_idle_timeout(1ns)};
  three.connect(1);
  net.run_for(10ms);
  EXPECT_EQ(three.core().stats().registrations, 0U);
}

TEST_F(NodeDuration, OnReadyMayWaitForEverOrNotAtAll) {
  party one{net, 1};
  std::vector<status> told;
  const auto tell = [&](status how) { told.push_back(how); };
  EXPECT_TRUE(one.core().on_ready(bus_id{2}, longest_duration, tell));
  EXPECT_TRUE(one.core().on_ready(bus_id{2}, nanoseconds::min(), tell));
  net.run_for(1h);
  EXPECT_TRUE(told.empty());
  EXPECT_TRUE(one.core().on_ready(bus_id{3}, 0ns, tell));
  EXPECT_TRUE(one.core().on_ready(bus_id{3}, 1ns, tell));
  one.node.wake();
  net.run_for(1ms);
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0], errc::timed_out);
  EXPECT_EQ(told[1], errc::timed_out);
  one.connect(2);
  party two{net, 2};
  net.run_for(10s);
  ASSERT_EQ(told.size(), 4U);
  EXPECT_TRUE(told[2]);
  EXPECT_TRUE(told[3]);
}

TEST_F(NodeDuration, AnswersToABroadcastAreAwaitedForEverOrNotAtAll) {
  party one{net, 1};
  party two{net, 2};
  connect(one, two, 2);
  const id_range all = *id_range::parse("0/32");
  std::vector<std::size_t> told;
  const auto tell = [&](const std::vector<bus_id>& who) { told.push_back(who.size()); };
  EXPECT_TRUE(one.core().broadcast().send(all, 1, as_bytes("x"), longest_duration, tell));
  net.run_for(1h);
  EXPECT_TRUE(told.empty());
  for (const nanoseconds none : {0ns, 1ns, -1ns, nanoseconds::min()})
    EXPECT_TRUE(one.core().broadcast().send(all, 1, as_bytes("x"), none, tell));
  one.node.wake();
  net.run_for(1ms);
  EXPECT_EQ(told, std::vector<std::size_t>(4, 0));
  EXPECT_EQ(two.got.size(), 5U);
}

TEST_F(NodeDuration, OfAPolicyForOnePeerTheSameHolds) {
  party one{net, 1};
  EXPECT_TRUE(one.core().set_policy(2, {.message_deadline = longest_duration}));
  EXPECT_TRUE(one.core().set_policy(3, {.message_deadline = 1ns}));
  EXPECT_EQ(one.core().set_policy(2, {.message_deadline = -1ns}), errc::invalid_argument);
  EXPECT_EQ(one.core().set_policy(2, {.message_deadline = nanoseconds::min()}),
            errc::invalid_argument);
  one.connect(2);
  one.connect(3);
  ASSERT_TRUE(one.send(2, "for ever"));
  ASSERT_TRUE(one.send(3, "no time"));
  net.run_for(1h);
  ASSERT_EQ(one.reports.size(), 1U);
  EXPECT_EQ(one.reports.front().text, "no time");
  party two{net, 2};
  net.run_for(10s);
  EXPECT_EQ(two.got.size(), 1U);
}

TEST_F(NodeDuration, APollMayTakeForEverOrTheShortestTime) {
  party one{net, 1};
  party two{net, 2};
  connect(one, two, 2);
  for (const nanoseconds time : {0ns, 1ns, -1ns, nanoseconds::min(), longest_duration}) {
    two.node.limits.time = time;
    const std::size_t before = two.got.size();
    for (int i = 0; i != 100; ++i)
      ASSERT_TRUE(one.send(2, "x"));
    EXPECT_TRUE(net.run_until([&] { return two.got.size() == before + 100; }, 5s)) << time.count();
  }
}

TEST_F(NodeDuration, ACommandMayWaitForEver) {
  party one{net, 1};
  party two{net, 2};
  connect(one, two, 2);
  std::vector<status> told;
  const auto tell = [&](status how, const command_reply&) { told.push_back(how); };
  EXPECT_TRUE(one.core().commands().ask(bus_id{2}, {"nothing"}, longest_duration, tell));
  EXPECT_EQ(one.core().commands().ask(bus_id{2}, {"nothing"}, -1ns, tell), errc::invalid_argument);
  one.node.wake();
  net.run_for(1s);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told.front(), errc::unknown_command);
  EXPECT_TRUE(one.core().commands().ask(bus_id{2}, {"nothing"}, 0ns, tell));
  one.node.wake();
  net.run_for(1s);
  ASSERT_EQ(told.size(), 2U);
}

TEST_F(NodeDuration, RunDrainsForAsLongAsItIsTold) {
  party one{net, 1, plain().drain(longest_duration)};
  one.connect(2);
  ASSERT_TRUE(one.send(2, "kept until somebody is there"));
  one.node.user().stop();
  std::unique_ptr<party> two;
  net.at(net.now() + 3s, [&] { two = std::make_unique<party>(net, 2); });
  EXPECT_TRUE(one.node.user().run());
  ASSERT_NE(two, nullptr);
  EXPECT_EQ(two->got.size(), 1U);
}

}  // namespace
}  // namespace atbus::detail
