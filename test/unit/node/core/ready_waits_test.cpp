#include "node/core/ready_waits.h"

#include "counting_allocator.h"
#include "unit/node/core/parts_fixture.h"

namespace atbus::detail {
namespace {

class ReadyWaits : public parts_of_a_node {
 protected:
  std::function<void(status)> call(std::string who) {
    return [this, who = std::move(who)](status how) {
      told.push_back(who + ' ' + std::string{name(how.code())});
    };
  }
  lines poll() {
    told.clear();
    (void)events.tell_all();
    return told;
  }

  ready_waits waits{node, events};
  lines told;
};

TEST_F(ReadyWaits, EndWithTheirTimeout) {
  EXPECT_TRUE(waits.add(2, 200ms, call("late")));
  EXPECT_TRUE(waits.add(2, 100ms, call("soon")));
  EXPECT_TRUE(waits.add(2, -1ns, call("never")));
  pass(99ms);
  EXPECT_EQ(poll(), lines{});
  pass(1ms);
  EXPECT_EQ(poll(), lines{"soon timed_out"});
  pass(100ms);
  EXPECT_EQ(poll(), lines{"late timed_out"});
  EXPECT_EQ(node.timers.next(), timer_queue::never);
}

TEST_F(ReadyWaits, NeedAFunctionToCall) {
  EXPECT_EQ(waits.add(2, 200ms, nullptr), errc::invalid_argument);
}

TEST_F(ReadyWaits, EndWhenTheirPeerIsConnected) {
  EXPECT_TRUE(waits.add(2, 1s, call("a")));
  EXPECT_TRUE(waits.add(3, 1s, call("other")));
  EXPECT_TRUE(waits.add(2, -1ns, call("b")));
  waits.tell(2, errc::ok);
  EXPECT_EQ(told, lines{}) << "not before the events are told";
  EXPECT_EQ(poll(), (lines{"a ok", "b ok"}));
  waits.tell(2, errc::ok);
  EXPECT_EQ(poll(), lines{});
  pass(1s);
  EXPECT_EQ(poll(), lines{"other timed_out"});
}

TEST_F(ReadyWaits, AreToldAtOnceIfTheirPeerIsConnectedOrNotKept) {
  EXPECT_TRUE(waits.add(2, 1s, call("a"), true));
  EXPECT_EQ(poll(), lines{"a ok"});
  if (!test::can_fail_allocations())
    GTEST_SKIP() << "this build can't let allocations fail";
  bool kept = true;
  const auto b = call("b");
  while (kept) {  // until no place is left for the event
    const test::allocation_failure none;
    try {
      (void)waits.add(2, 1s, b, true);
    } catch (const std::bad_alloc&) {
      kept = false;
    }
  }
  (void)poll();
  waits.tell(2, errc::ok);
  pass(1s);
  EXPECT_EQ(poll(), lines{});
}

TEST_F(ReadyWaits, EndWithTheNode) {
  EXPECT_TRUE(waits.add(2, 1s, call("a")));
  EXPECT_TRUE(waits.add(3, -1ns, call("b")));
  waits.close();
  EXPECT_EQ(told, (lines{"a closed", "b closed"}));
  waits.close();
  EXPECT_EQ(told.size(), 2U);
  EXPECT_EQ(node.timers.next(), timer_queue::never);
}

TEST_F(ReadyWaits, AreLimitedWithThoseThatAreNotToldYet) {
  for (std::size_t i = 1; i != ready_waits::most; ++i)
    EXPECT_TRUE(waits.add(2, -1ns, [](status) {}));
  EXPECT_TRUE(waits.add(3, -1ns, call("a")));
  EXPECT_EQ(waits.add(4, -1ns, call("b")), errc::would_block);
  waits.tell(3, errc::ok);
  EXPECT_EQ(waits.add(4, -1ns, call("b")), errc::would_block);
  EXPECT_EQ(poll(), lines{"a ok"});
  EXPECT_TRUE(waits.add(4, -1ns, call("b")));
}

}  // namespace
}  // namespace atbus::detail
