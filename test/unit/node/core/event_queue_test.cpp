#include "node/core/event_queue.h"

#include <new>
#include <stdexcept>

#include "counting_allocator.h"
#include "unit/node/core/parts_fixture.h"

namespace atbus::detail {
namespace {

class EventQueue : public parts_of_a_node {
 protected:
  EventQueue() {
    events.ask({[](bus_id id) { return endpoint{id, 0, "", 0s, true}; }, nullptr});
    node_handlers& all = events.handlers();
    all.on_log = [this](std::string_view line) { told.emplace_back(line); };
    all.on_writable = [this](bus_id id) { told.push_back("room " + std::to_string(id.value())); };
    all.on_endpoint = [this](const endpoint& which, endpoint_event change) {
      told.push_back(std::string{name(change)} + ' ' + std::to_string(which.id().value()));
    };
    all.on_undelivered = [this](const undelivered& what) {
      told.push_back("lost " + std::to_string(what.number()));
      counts.push_back(what.count());
      bytes.push_back(what.bytes().size());
    };
  }

  // What happens once, when the next line is told.
  void at_next_line(std::function<void()> happens) {
    events.handlers().on_log = [this, happens = std::move(happens)](std::string_view line) {
      told.emplace_back(line);
      if (!std::exchange(happened_, true))
        happens();
    };
  }
  // From now on.
  lines poll() {
    told.clear();
    counts.clear();
    bytes.clear();
    events.begin_poll();
    (void)events.tell_all();
    events.end_poll();
    return told;
  }

  lines told;
  std::vector<std::uint64_t> counts;
  std::vector<std::size_t> bytes;

 private:
  bool happened_ = false;
};

TEST_F(EventQueue, LeavesAMessageAsItIsThatThereIsNoMemoryToReport) {
  if (!test::can_fail_allocations())
    GTEST_SKIP() << "this build can't let allocations fail";
  for (const errc reason : {errc::timed_out, errc::would_block}) {
    bool failed = false;
    for (int i = 0; i != 200 && !failed; ++i) {
      held_message one = of_size(10);
      try {
        const test::allocation_failure none;
        events.tell_undelivered(3, std::move(one), reason);
      } catch (const std::bad_alloc&) {
        failed = true;
        EXPECT_EQ(one.bytes.size(), 10U);
      }
    }
    EXPECT_TRUE(failed);
  }
}

// What has no text, no bytes and no call: of those that are told at once as many as come between two polls.
TEST_F(EventQueue, TellsWhatHasNoPayloadWithoutMemory) {
  if (!test::can_fail_allocations())
    GTEST_SKIP() << "this build can't let allocations fail";
  for (int round = 0; round != 3; ++round) {
    lines wanted;
    for (std::uint64_t id = 1; id != 65; ++id)
      wanted.push_back("room " + std::to_string(id));
    {
      const test::allocation_failure none;
      for (std::uint64_t id = 1; id != 65; ++id)
        EXPECT_NO_THROW(events.tell_writable(bus_id{id}));
    }
    EXPECT_EQ(poll(), wanted);
  }
}

TEST_F(EventQueue, TakesNoMemoryForAnEventOnceItHasToldAsMany) {
  if (!test::counts_allocations())
    GTEST_SKIP() << "this build can't count allocations";
  events.handlers().on_writable = nullptr;
  const auto round = [this] {
    const std::uint64_t before = test::allocations();
    for (std::uint64_t id = 1; id != 33; ++id)
      events.tell_writable(bus_id{id});
    events.begin_poll();
    (void)events.tell_all();
    events.end_poll();
    return test::allocations() - before;
  };
  (void)round();
  EXPECT_EQ(round(), 0U);
}

TEST_F(EventQueue, TellsInOrder) {
  events.log("a");
  events.tell_writable(2);
  events.tell_undelivered(3, of_size(0, 7), errc::timed_out);
  events.tell_call([this](status how) { told.push_back("call " + std::string{name(how.code())}); },
                   errc::closed);
  events.tell_endpoint(4, endpoint_event::connected);
  events.log("b");
  EXPECT_EQ(events.untold_calls(), 1U);
  EXPECT_EQ(poll(), (lines{"a", "room 2", "lost 7", "call closed", "connected 4", "b"}));
  EXPECT_EQ(events.untold_calls(), 0U);
  EXPECT_TRUE(events.empty());
}

TEST_F(EventQueue, TellsInTheNextPollWhatAHandlerBringsAbout) {
  at_next_line([this] { events.log("b"); });
  events.log("a");
  EXPECT_EQ(poll(), lines{"a"});
  EXPECT_EQ(poll(), lines{"b"});
}

TEST_F(EventQueue, KeepsItsHandlersUntilThePollEnds) {
  lines later;
  at_next_line([&] {
    events.set(&node_handlers::on_log,
               std::function<void(std::string_view)>{
                   [&](std::string_view line) { later.emplace_back(line); }});
    events.set_command("stop", [](command&) {});
    EXPECT_TRUE(events.handlers().on_command_named.empty());
  });
  events.log("a");
  events.log("b");
  EXPECT_EQ(poll(), (lines{"a", "b"}));
  EXPECT_TRUE(events.handlers().on_command_named.contains("stop"));
  events.log("c");
  events.tell_writable(2);
  EXPECT_EQ(poll(), lines{"room 2"});
  EXPECT_EQ(later, lines{"c"});
}

TEST_F(EventQueue, TellsNothingOnceAHandlerHasClosedTheNode) {
  at_next_line([this] { node.closed = true; });
  events.log("a");
  events.log("b");
  EXPECT_FALSE(events.tell_all());
  EXPECT_EQ(told, lines{"a"});
  EXPECT_FALSE(events.tell_before_message(nullptr));
  EXPECT_EQ(told, lines{"a"});
}

TEST_F(EventQueue, CountsTheLinesBehindAThousand) {
  for (int i = 0; i != 1003; ++i)
    events.log("a");
  poll();
  ASSERT_EQ(told.size(), 1001U);
  EXPECT_EQ(told.back(), "3 more lines were left out");
  events.log("b");
  EXPECT_EQ(poll(), lines{"b"});
}

TEST_F(EventQueue, LogsACauseOnceASecondAndANodeSixtyTimesAMinute) {
  for (int i = 0; i != 2; ++i) {
    events.log_cause(errc::denied, "denied");
    events.log_cause(errc::closed, "closed");
  }
  EXPECT_EQ(poll(), (lines{"denied", "closed"}));
  clock.advance(1s);
  events.log_cause(errc::denied, "denied");
  EXPECT_EQ(poll(), lines{"denied"});
  for (int i = 0; i != 61; ++i)
    events.log_about(2, "two");
  poll();
  ASSERT_EQ(told.size(), 60U);
  EXPECT_EQ(told[58], "two");
  EXPECT_EQ(told.back(), "two (more about it is left out for a minute)");
  events.log_about(3, "three");
  EXPECT_EQ(poll(), lines{"three"});
}

// A MiB is kept, the reports themselves included; then one report for each destination and outcome.
TEST_F(EventQueue, SumsUpWhatIsDroppedForWantOfRoomBehindAMebibyte) {
  for (int round = 0; round != 2; ++round) {  // the reports that were told take no room
    for (std::uint64_t i = 1; i != 101; ++i)
      events.tell_undelivered(2, of_size(64 * 1024, i), errc::would_block);
    for (std::uint64_t i = 1; i != 4; ++i)
      events.tell_undelivered(3, of_size(64 * 1024, i), errc::would_block);
    poll();
    ASSERT_EQ(told.size(), 17U);
    EXPECT_EQ(std::count(counts.begin(), counts.begin() + 15, 1U), 15);
    EXPECT_EQ(std::count(bytes.begin(), bytes.begin() + 15, 64 * 1024U), 15);
    EXPECT_EQ(told[14], "lost 15");
    EXPECT_EQ(told[15], "lost 100");
    EXPECT_EQ(counts[15], 85U);
    EXPECT_EQ(bytes[15], 0U);
    EXPECT_EQ(told[16], "lost 3");
    EXPECT_EQ(counts[16], 3U);
  }
}

TEST_F(EventQueue, KeepsWhatAHandlerThrowsBeforeAMessage) {
  at_next_line([] { throw std::runtime_error("the first"); });
  events.log("a");
  events.log("b");
  EXPECT_TRUE(events.tell_before_message(nullptr));
  EXPECT_EQ(told, (lines{"a", "b"}));
  EXPECT_EQ(channels.polls_ended, 1U);
  EXPECT_THROW(events.rethrow(), std::runtime_error);
  EXPECT_NO_THROW(events.rethrow());
}

TEST_F(EventQueue, HoldsTheMessageOfASessionThatAHandlerEnds) {
  session& by = add_session();
  at_next_line([&] { by.stage = session_stage::dropped; });
  EXPECT_TRUE(events.tell_before_message(&by));
  events.log("a");
  EXPECT_FALSE(events.tell_before_message(&by));
}

TEST_F(EventQueue, TellsNoMoreThanThePollHasTimeFor) {
  for (int i = 0; i != 100; ++i)
    events.tell_undelivered(3, of_size(0, 7), errc::timed_out);
  node.progress.deadline = clock.now();
  EXPECT_TRUE(events.tell_in_time());
  EXPECT_GT(told.size(), 0U);
  EXPECT_LE(told.size(), poll_progress::per_look);
  for (int polls = 0; !events.empty() && polls != 100; ++polls)
    EXPECT_TRUE(events.tell_in_time());
  EXPECT_EQ(told.size(), 100U);
}

TEST_F(EventQueue, TellsAllThatComesBeforeAMessageWhateverTheTime) {
  for (int i = 0; i != 100; ++i)
    events.tell_undelivered(3, of_size(0, 7), errc::timed_out);
  node.progress.deadline = clock.now();
  EXPECT_TRUE(events.tell_before_message(nullptr));
  EXPECT_EQ(told.size(), 100U);
}

}  // namespace
}  // namespace atbus::detail
