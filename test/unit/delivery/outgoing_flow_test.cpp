#include "delivery/outgoing_flow.h"

#include "test.h"

namespace atbus::detail {
namespace {

constexpr node_instance first_incarnation{.id = 2, .incarnation = 10};
constexpr node_instance second_incarnation{.id = 2, .incarnation = 11};

class OutgoingFlow : public ::testing::Test {
 protected:
  struct report {
    std::uint64_t number;
    errc outcome;
    errc reason;
    friend bool operator==(const report&, const report&) = default;
  };

  outgoing_flow::sink sink() {
    return [this](const held_message& message, errc reason) {
      reports_.push_back({message.number, message.outcome(), reason});
    };
  }

  bool open(const node_instance& instance, const flow_position& position,
            restart_policy policy = restart_policy::redeliver) {
    return flow_.resume(instance, position, policy, sink());
  }

  void hold(std::size_t bytes = 1, std::chrono::nanoseconds deadline = 0ns) {
    flow_.hold(
        {.number = flow_.accept(), .deadline = deadline, .bytes = std::vector<std::byte>(bytes)});
  }

  // Accepts that many and carries them to the path.
  void send(std::uint64_t count) {
    for (; count > 0; --count)
      flow_.sent(flow_.accept());
  }

  // The path is gone with these numbers in it, all of them written.
  void lose(std::uint64_t first, std::uint64_t last) {
    std::list<held_message> left;
    for (; first <= last; ++first)
      left.push_back({.number = first, .may_have_arrived = true, .bytes = {}});
    flow_.path_lost(std::move(left));
  }

  outgoing_flow flow_;
  std::vector<report> reports_;
};

TEST_F(OutgoingFlow, NumbersMessagesFromOne) {
  EXPECT_EQ(flow_.accept(), 1U);
  EXPECT_EQ(flow_.accept(), 2U);
  EXPECT_EQ(flow_.accepted(), 2U);
}

TEST_F(OutgoingFlow, CountsWhatItHolds) {
  hold(10);
  hold(5);
  EXPECT_TRUE(flow_.holds());
  EXPECT_EQ(flow_.held_messages(), 2U);
  EXPECT_EQ(flow_.held_bytes(), outgoing_flow::cost(10) + outgoing_flow::cost(5));
  ASSERT_TRUE(open(first_incarnation, {.session = 1, .last = 0}));
  flow_.carried();
  EXPECT_EQ(flow_.held_bytes(), outgoing_flow::cost(5));
  EXPECT_EQ(flow_.front().number, 2U);
}

TEST_F(OutgoingFlow, CountsWhatEmptyMessagesCost) {
  hold(0);
  EXPECT_GT(flow_.held_bytes(), sizeof(held_message));
}

TEST_F(OutgoingFlow, AnnouncesTheFirstNumberOfAPathAndEachJump) {
  ASSERT_TRUE(open(first_incarnation, {.session = 1, .last = 0}));
  EXPECT_FALSE(flow_.follows(1));
  send(1);
  EXPECT_TRUE(flow_.follows(2));
  EXPECT_FALSE(flow_.follows(3));
  ASSERT_TRUE(open(first_incarnation, {.session = 1, .last = 1}));
  EXPECT_FALSE(flow_.follows(2));
}

TEST_F(OutgoingFlow, AnnouncesANumberOnceHoweverOftenThePathIsFull) {
  ASSERT_TRUE(open(first_incarnation, {.session = 1, .last = 0}));
  send(1);
  flow_.announced(5);
  EXPECT_TRUE(flow_.follows(5));
  EXPECT_FALSE(flow_.follows(2));
  EXPECT_EQ(flow_.last_sent(), 1U);
}

TEST_F(OutgoingFlow, HoldsWhatALostPathLeftBeforeWhatWaited) {
  ASSERT_TRUE(open(first_incarnation, {.session = 1, .last = 0}));
  send(2);
  hold();
  lose(1, 2);
  EXPECT_EQ(flow_.held_messages(), 3U);
  EXPECT_EQ(flow_.front().number, 1U);
}

TEST_F(OutgoingFlow, TakesAsDeliveredWhatTheSameIncarnationHas) {
  ASSERT_TRUE(open(first_incarnation, {.session = 1, .last = 0}));
  send(4);
  lose(2, 4);
  ASSERT_TRUE(open(first_incarnation, {.session = 1, .last = 3}));
  EXPECT_EQ(flow_.held_messages(), 1U);
  EXPECT_EQ(flow_.front().number, 4U);
  EXPECT_FALSE(flow_.front().redelivered);
  EXPECT_TRUE(reports_.empty());
}

TEST_F(OutgoingFlow, CallsNotDeliveredWhatTheSameIncarnationHasNotGot) {
  ASSERT_TRUE(open(first_incarnation, {.session = 1, .last = 0}));
  send(2);
  lose(1, 2);
  ASSERT_TRUE(open(first_incarnation, {.session = 1, .last = 1}));
  flow_.drop_oldest(errc::would_block, sink());
  EXPECT_EQ(reports_, (std::vector<report>{{2, errc::not_delivered, errc::would_block}}));
}

TEST_F(OutgoingFlow, DropsByPolicyTheOldestThatIsNotExempt) {
  flow_.hold({.number = flow_.accept(), .exempt = true, .bytes = std::vector<std::byte>(7)});
  hold(10);
  hold(5);
  EXPECT_EQ(flow_.held_bytes(true), outgoing_flow::cost(7));
  EXPECT_EQ(flow_.held_bytes(false), outgoing_flow::cost(10) + outgoing_flow::cost(5));
  const auto no_memory = [](held_message&&, errc) { throw std::bad_alloc{}; };
  EXPECT_THROW(flow_.drop_oldest_by_policy(errc::would_block, no_memory), std::bad_alloc);
  EXPECT_EQ(flow_.held_bytes(false), outgoing_flow::cost(10) + outgoing_flow::cost(5));
  flow_.drop_oldest_by_policy(errc::would_block, sink());
  EXPECT_EQ(reports_, (std::vector<report>{{2, errc::not_delivered, errc::would_block}}));
  EXPECT_EQ(flow_.held_bytes(true), outgoing_flow::cost(7));
  EXPECT_EQ(flow_.held_bytes(false), outgoing_flow::cost(5));
  std::vector<std::uint64_t> left;
  flow_.for_each([&](const held_message& one) { left.push_back(one.number); });
  EXPECT_EQ(left, (std::vector<std::uint64_t>{1, 3}));
}

TEST_F(OutgoingFlow, MarksForALaterIncarnationWhatTheOneBeforeMayHaveHandled) {
  ASSERT_TRUE(open(first_incarnation, {.session = 1, .last = 0}));
  send(1);
  hold();
  lose(1, 1);
  ASSERT_TRUE(open(second_incarnation, {.session = 1, .last = 0}));
  EXPECT_TRUE(flow_.front().redelivered);
  flow_.carried();
  EXPECT_FALSE(flow_.front().redelivered);  // was never sent
  EXPECT_TRUE(reports_.empty());
}

TEST_F(OutgoingFlow, ReportsInsteadIfThatIsThePolicy) {
  ASSERT_TRUE(open(first_incarnation, {.session = 1, .last = 0}));
  send(2);
  hold();
  lose(1, 2);
  ASSERT_TRUE(open(second_incarnation, {.session = 1, .last = 0}, restart_policy::report));
  EXPECT_EQ(reports_, (std::vector<report>{{1, errc::outcome_unknown, errc::peer_closed},
                                           {2, errc::outcome_unknown, errc::peer_closed}}));
  EXPECT_EQ(flow_.front().number, 3U);
}

TEST_F(OutgoingFlow, ReportsWhatALaterIncarnationMayHaveInherited) {
  ASSERT_TRUE(open(first_incarnation, {.session = 1, .last = 0}));
  send(1);
  flow_.path_lost({{.number = 1, .may_have_arrived = true, .may_be_inherited = true, .bytes = {}}});
  ASSERT_TRUE(open(second_incarnation, {.session = 1, .last = 0}));
  EXPECT_EQ(reports_, (std::vector<report>{{1, errc::outcome_unknown, errc::peer_closed}}));
  EXPECT_FALSE(flow_.holds());
}

TEST_F(OutgoingFlow, SendsAgainWhatTheSameIncarnationCanStillLeaveBehind) {
  ASSERT_TRUE(open(first_incarnation, {.session = 1, .last = 0}));
  send(1);
  flow_.path_lost({{.number = 1, .may_have_arrived = true, .may_be_inherited = true, .bytes = {}}});
  ASSERT_TRUE(open(first_incarnation, {.session = 1, .last = 0}));
  EXPECT_TRUE(reports_.empty());
  EXPECT_FALSE(flow_.front().may_be_inherited);
}

TEST_F(OutgoingFlow, ReportsWhatTheSameIncarnationHasForgotten) {
  ASSERT_TRUE(open(first_incarnation, {.session = 1, .last = 0}));
  send(1);
  hold();
  lose(1, 1);
  ASSERT_TRUE(open(first_incarnation, {.session = 2, .last = 0}));
  EXPECT_EQ(reports_, (std::vector<report>{{1, errc::outcome_unknown, errc::superseded}}));
  EXPECT_EQ(flow_.front().number, 2U);
}

TEST_F(OutgoingFlow, SendsAgainAllOfAFirstPathThatWasLost) {
  ASSERT_TRUE(open(first_incarnation, {.session = 1, .last = 0}));
  send(3);
  lose(1, 3);
  ASSERT_TRUE(open(first_incarnation, {.session = 1, .last = 0}));
  EXPECT_EQ(flow_.held_messages(), 3U);
  EXPECT_TRUE(reports_.empty());
}

TEST_F(OutgoingFlow, KeepsTheMarkUntilTheMessageIsSettled) {
  ASSERT_TRUE(open(first_incarnation, {.session = 1, .last = 0}));
  send(1);
  lose(1, 1);
  ASSERT_TRUE(open(second_incarnation, {.session = 1, .last = 0}));
  ASSERT_TRUE(open(second_incarnation, {.session = 1, .last = 0}));
  EXPECT_TRUE(flow_.front().redelivered);
  flow_.abandon(errc::closed, sink());
  EXPECT_EQ(reports_, (std::vector<report>{{1, errc::outcome_unknown, errc::closed}}));
}

TEST_F(OutgoingFlow, RefusesAPositionBeyondWhatWasAccepted) {
  ASSERT_TRUE(open(first_incarnation, {.session = 1, .last = 0}));
  send(2);
  lose(1, 2);
  EXPECT_FALSE(open(first_incarnation, {.session = 1, .last = 3}));
  EXPECT_EQ(flow_.held_messages(), 2U);
}

TEST_F(OutgoingFlow, RefusesAPositionBeyondWhatWasSent) {
  ASSERT_TRUE(open(first_incarnation, {.session = 1, .last = 0}));
  send(1);
  hold();
  lose(1, 1);
  EXPECT_FALSE(open(first_incarnation, {.session = 1, .last = 2}));
  EXPECT_EQ(flow_.held_messages(), 2U);
}

TEST_F(OutgoingFlow, RefusesAPositionBeyondWhatAShorterPathGot) {
  ASSERT_TRUE(open(first_incarnation, {.session = 1, .last = 0}));
  send(3);
  lose(1, 3);
  ASSERT_TRUE(open(first_incarnation, {.session = 1, .last = 1}));
  EXPECT_FALSE(open(first_incarnation, {.session = 1, .last = 3}));  // nothing went down this one
  EXPECT_EQ(flow_.held_messages(), 2U);
}

TEST_F(OutgoingFlow, RefusesAPositionWithoutASession) {
  EXPECT_FALSE(open(first_incarnation, {.session = 0, .last = 0}));
}

TEST_F(OutgoingFlow, ReportsWhatWaitedForTooLong) {
  hold(1, 20ns);
  hold(2);
  hold(4, 10ns);
  EXPECT_EQ(flow_.earliest_deadline(), 10ns);
  flow_.expire(9ns, sink());
  EXPECT_TRUE(reports_.empty());
  flow_.expire(10ns, sink());
  EXPECT_EQ(reports_, (std::vector<report>{{3, errc::not_delivered, errc::timed_out}}));
  EXPECT_EQ(flow_.held_bytes(), outgoing_flow::cost(1) + outgoing_flow::cost(2));
  EXPECT_EQ(flow_.earliest_deadline(), 20ns);
  flow_.expire(20ns, sink());
  EXPECT_EQ(flow_.earliest_deadline(), std::nullopt);
  EXPECT_EQ(flow_.held_messages(), 1U);
}

TEST_F(OutgoingFlow, CallsUnknownWhatIsGivenUpBeforeItCouldAsk) {
  ASSERT_TRUE(open(first_incarnation, {.session = 1, .last = 0}));
  send(1);
  hold();
  lose(1, 1);
  flow_.abandon(errc::closed, sink());
  EXPECT_EQ(reports_, (std::vector<report>{{1, errc::outcome_unknown, errc::closed},
                                           {2, errc::not_delivered, errc::closed}}));
  EXPECT_FALSE(flow_.holds());
  EXPECT_EQ(flow_.held_bytes(), 0U);
}

TEST_F(OutgoingFlow, LetsASinkUseIt) {
  hold();
  flow_.abandon(errc::closed, [&](const held_message&, errc) { hold(7); });
  EXPECT_EQ(flow_.held_messages(), 1U);
  EXPECT_EQ(flow_.held_bytes(), outgoing_flow::cost(7));
  EXPECT_EQ(flow_.front().number, 2U);
}

}  // namespace
}  // namespace atbus::detail
