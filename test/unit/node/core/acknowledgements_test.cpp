#include "node/core/acknowledgements.h"

#include "unit/node/core/link_parts_fixture.h"

namespace atbus::detail {
namespace {

class Acknowledgements : public link_parts {
 protected:
  void handle(session& by, int messages, bool data = true) {
    for (int i = 0; i != messages; ++i)
      owed.count_handled(by, data);
  }
  void look() { owed.acknowledge_due(clock.now()); }
  // What that link's acknowledgements say, and nothing of other messages there.
  static std::vector<std::uint64_t> said(session& to) {
    std::vector<std::uint64_t> all;
    for (const auto& message : link_of(to).sent) {
      if (acknowledge_body body; decode(message, body))
        all.push_back(body.handled);
    }
    return all;
  }
  using counts = std::vector<std::uint64_t>;

  acknowledgements owed{node, output};
  session& from = add_session();
};

TEST_F(Acknowledgements, AreAskedForAfterAQuarterOfTheShortestQueue) {
  const auto after = [this](const node_options& options) {
    return node_context{1, options, node.on}.acknowledge_after();
  };
  EXPECT_EQ(after(node_options{}), 512U * 1024);
  EXPECT_EQ(after(node_options{}.send_buffer_size(100'000)), 25'000U);
  EXPECT_EQ(after(node_options{}.send_buffer_number(1024)),
            1024 * build_settings::data_node_size / 4);
  EXPECT_EQ(after(node_options{}.send_buffer_number(1024).send_buffer_size(100'000)), 25'000U);
}

TEST_F(Acknowledgements, WaitTwentyMilliseconds) {
  handle(from, 2);
  clock.advance(19ms);
  handle(from, 1);
  handle(add_session(), 1);
  look();
  EXPECT_EQ(said(from), counts{});
  EXPECT_EQ(owed.next(), clock.now() + 1ms);
  clock.advance(1ms);
  look();
  EXPECT_EQ(said(from), counts{3});
  EXPECT_EQ(node.stats.acknowledgements, 2U) << "the other one does not wait longer";
  EXPECT_EQ(owed.next(), timer_queue::never);
  clock.advance(20ms);
  look();
  EXPECT_EQ(said(from), counts{3}) << "nothing has come since";
}

TEST_F(Acknowledgements, LeaveInCompanyAtMostEveryHundredMicroseconds) {
  const auto company = [this] { EXPECT_TRUE(output.say(from, ping_body{})); };
  handle(from, 1);
  company();
  look();
  EXPECT_EQ(said(from), counts{1});
  clock.advance(99us);
  handle(from, 1);
  company();
  look();
  EXPECT_EQ(said(from), counts{1});
  clock.advance(1us);
  look();
  EXPECT_EQ(said(from), counts{1}) << "that message has left before";
  company();
  look();
  EXPECT_EQ(said(from), (counts{1, 2}));
}

TEST_F(Acknowledgements, AreOwedForThirtyTwoControlMessages) {
  handle(from, 31, false);
  EXPECT_EQ(owed.next(), timer_queue::never);
  handle(from, 1, false);
  EXPECT_EQ(owed.next(), clock.now() + 20ms);
}

TEST_F(Acknowledgements, AreTriedAgainWhenThereWasNoRoom) {
  link_of(from).has_room = false;
  handle(from, 1);
  clock.advance(20ms);
  look();
  EXPECT_EQ(owed.next(), clock.now() + 20ms);
  link_of(from).has_room = true;
  clock.advance(20ms);
  look();
  EXPECT_EQ(said(from), counts{1});
}

TEST_F(Acknowledgements, LeaveAtOnceAndForTheRestAtTheEndOfThePoll) {
  handle(from, 1);
  owed.acknowledge_at_once(from);
  EXPECT_EQ(said(from), counts{1});
  EXPECT_EQ(link_of(from).flushes, 1U);
  handle(from, 2);
  look();
  EXPECT_EQ(said(from), (counts{1, 3}));
}

// Its handler sends something and flushes: if the process ends behind that, its successor is to get the message.
TEST_F(Acknowledgements, DoNotCoverTheMessageInHand) {
  handle(from, 3);
  owed.set_in_hand(&from);
  clock.advance(20ms);
  look();
  EXPECT_EQ(said(from), counts{2});
  clock.advance(20ms);
  look();
  EXPECT_EQ(said(from), counts{2}) << "there is nothing new to say";
  EXPECT_FALSE(owed.acknowledge(from, clock.now()));
  owed.set_in_hand(nullptr);
  clock.advance(20ms);
  look();
  EXPECT_EQ(said(from), (counts{2, 3}));
  EXPECT_EQ(owed.next(), timer_queue::never);
}

TEST_F(Acknowledgements, OfOtherLinksCoverWhatTheyHaveBrought) {
  session& other = add_session();
  handle(from, 1);
  handle(other, 1);
  owed.set_in_hand(&other);
  clock.advance(20ms);
  look();
  EXPECT_EQ(said(from), counts{1});
  EXPECT_EQ(said(other), counts{});
}

TEST_F(Acknowledgements, ThatAreAskedForLeaveForTheMessageInHandAtTheEndOfThePoll) {
  handle(from, 1);
  owed.acknowledge_at_once(from);
  handle(from, 1);
  owed.set_in_hand(&from);
  look();
  owed.set_in_hand(nullptr);
  look();
  EXPECT_EQ(said(from), (counts{1, 2}));
}

TEST_F(Acknowledgements, AreForgottenWithTheirSession) {
  session& gone = add_session();
  handle(gone, 1);
  handle(from, 1);
  owed.forget(gone);
  clock.advance(20ms);
  look();
  EXPECT_EQ(said(gone), counts{});
  EXPECT_EQ(said(from), counts{1});
}

}  // namespace
}  // namespace atbus::detail
