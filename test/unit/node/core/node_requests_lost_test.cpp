// What becomes of requests when links, processes and nodes go.
#include "node_requests_fixture.h"
#include "protocol/request_body.h"

namespace atbus::detail {
namespace {

TEST_F(NodeRequests, WaitForALinkAndAreAnsweredThroughIt) {
  on_request = [](request& r) { r.reply("here"); };
  net.separate(1, 2);
  one.connect(2);
  told answer;
  ASSERT_TRUE(ask("x", answer, 50s));
  net.run_for(3s);
  EXPECT_EQ(answer.times, 0);
  net.join(1, 2);
  net.run_for(20s);
  expect(answer, errc::ok, "here");
}

TEST_F(NodeRequests, ThatTimedOutBeforeALinkTookThemAreNeverHandled) {
  net.separate(1, 2);
  one.connect(2);
  told answer;
  ASSERT_TRUE(ask("once", answer, 500ms));
  ASSERT_TRUE(one.send(2, "a message"));
  net.run_for(1s);
  expect(answer, errc::timed_out);
  EXPECT_TRUE(one.reports.empty());
  net.join(1, 2);
  ASSERT_TRUE(net.run_until([&] { return two.got.size() == 1; }, 20s));
  EXPECT_TRUE(handled.empty());
}

// One that has waited says how much of its time is left, to a node with another clock.
TEST_F(NodeRequests, ThatHaveWaitedSayWhatIsLeftOfTheirTime) {
  net.separate(1, 2);
  one.connect(2);
  keep();
  told answer;
  ASSERT_TRUE(ask("x", answer, 20s));
  net.run_for(2s);
  net.join(1, 2);
  ASSERT_TRUE(net.run_until([&] { return kept.size() == 1; }, 15s));
  const auto left = kept[0].deadline() - two.core().clock().now();
  EXPECT_LE(left, 18s);
  EXPECT_GE(left, 20s - net.now() - 1s);
  one.node.user().close();
}

TEST_F(NodeRequests, AreSentAgainOverTheNextLinkAndHandledOnce) {
  connect();
  on_request = [](request& r) { r.reply("done"); };
  std::vector<told> answers(20);
  for (told& answer : answers) {
    ASSERT_TRUE(ask("x", answer, 10min));
    net.run_for(30us);
  }
  net.separate(1, 2);
  net.run_for(40s);  // the link is lost, and the asking node is not forgotten yet
  net.join(1, 2);
  net.run_for(30s);
  for (const told& answer : answers)
    expect(answer, errc::ok, "done");
  EXPECT_EQ(handled.size(), answers.size());
}

// It was handled, and the process that should have answered it has ended.
TEST_F(NodeRequests, OfWhichAGoneProcessKnewAreUnknownOnceItsSuccessorIsThere) {
  connect();
  keep();
  told handled_there;
  told sent_later;
  ASSERT_TRUE(ask("handled there", handled_there, 10min));
  net.run_for(10s);  // it is acknowledged
  ASSERT_EQ(kept.size(), 1U);
  net.separate(1, 2);
  net.run_for(2min);
  EXPECT_EQ(handled_there.times, 0);
  ASSERT_TRUE(ask("sent later", sent_later, 10min));
  two.node.user().close();
  net.join(1, 2);
  party again{net, 2};
  again.node.user().on_request(7, [](request& r) { r.reply("by the next one"); });
  net.run_for(30s);
  expect(handled_there, errc::outcome_unknown);
  expect(sent_later, errc::ok, "by the next one");
}

TEST_F(NodeRequests, OfALostLinkStayWithAProcessThatLives) {
  connect();
  keep();
  told answer;
  ASSERT_TRUE(ask("x", answer, 10min));
  net.run_for(10s);
  net.separate(1, 2);
  net.run_for(2min);
  net.join(1, 2);
  net.run_for(30s);
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_TRUE(kept[0].reply("patient"));
  two.node.wake();
  net.run_for(1s);
  expect(answer, errc::ok, "patient");
}

TEST_F(NodeRequests, AnswersToAnEarlierProcessMatchNothing) {
  connect();
  keep();
  told lost;
  ASSERT_TRUE(ask("x", lost, 10min));
  net.run_for(1s);
  ASSERT_EQ(kept.size(), 1U);
  one.node.user().close();
  net.run_for(10s);
  party again{net, 1};
  again.connect(2);
  net.run_for(30s);
  EXPECT_TRUE(again.is_connected(2));
  EXPECT_EQ(kept[0].reply("to whom?"), errc::peer_closed);
}

TEST_F(NodeRequests, ThatADisconnectGivesUpAreReportedThroughTheirCall) {
  net.separate(1, 2);
  one.connect(2);
  told answer;
  ASSERT_TRUE(ask("x", answer, 10min));
  net.run_for(1s);
  ASSERT_TRUE(one.core().disconnect(2));
  one.node.wake();
  net.run_for(1s);
  expect(answer, errc::closed);
  EXPECT_TRUE(one.reports.empty());
}

class HandPlayedRequests : public NodeRequests {
 protected:
  static byte_buffer exchange(std::uint8_t flags, std::uint32_t type, bytes_view payload) {
    byte_buffer bytes(message_head_size + payload.size());
    encode(message_head{message_kind::data, flags, 0, type}, bytes.data());
    std::ranges::copy(payload, bytes.begin() + message_head_size);
    return bytes;
  }
  void register_peer() {
    ASSERT_TRUE(net.run_until([&] { return peer.is_registered(); }, 5s));
    net.run_for(5ms);
    peer.say(flow_body{.next = 1, .before = 0, .turn = 1});
  }

  hand_played peer{net, 9, 2, true};
};

TEST_F(HandPlayedRequests, AnswersThatNobodyWaitsForAreCounted) {
  register_peer();
  std::array<std::byte, 16> body{};
  body[3] = std::byte{5};
  peer.say_bytes(exchange(flag_request | flag_reply, 0, body));
  net.run_for(100ms);
  EXPECT_EQ(two.core().stats().late_responses, 1U);
  EXPECT_EQ(two.core().stats().violations, 0U);
}

TEST_F(HandPlayedRequests, ARequestThatIsTooShortEndsTheLink) {
  register_peer();
  std::array<std::byte, request_head_size - 1> body{};
  peer.say_bytes(exchange(flag_request, 7, body));
  net.run_for(100ms);
  EXPECT_EQ(two.core().stats().violations, 1U);
  EXPECT_TRUE(handled.empty());
}

TEST_F(HandPlayedRequests, AnAnswerThatIsTooShortEndsTheLink) {
  register_peer();
  std::array<std::byte, response_head_size - 1> body{};
  peer.say_bytes(exchange(flag_request | flag_reply, 0, body));
  net.run_for(100ms);
  EXPECT_EQ(two.core().stats().violations, 1U);
}

TEST_F(HandPlayedRequests, CommandAndRequestAtOnceEndTheLink) {
  register_peer();
  std::array<std::byte, request_head_size> body{};
  body[16] = std::byte{255};
  peer.say_bytes(exchange(flag_request | flag_command, 7, body));
  net.run_for(100ms);
  EXPECT_EQ(two.core().stats().violations, 1U);
  EXPECT_TRUE(handled.empty());
}

TEST_F(HandPlayedRequests, ThatHaveNoTimeLeftAreCountedAndDropped) {
  register_peer();
  std::array<std::byte, request_head_size> body{};
  peer.say_bytes(exchange(flag_request, 7, body));
  net.run_for(100ms);
  EXPECT_EQ(two.core().stats().expired_requests, 1U);
  EXPECT_EQ(two.core().stats().violations, 0U);
  EXPECT_TRUE(handled.empty());
}

TEST_F(HandPlayedRequests, ACancelOfNothingDoesNothing) {
  register_peer();
  peer.say(cancel_body{.number = 123});
  net.run_for(100ms);
  EXPECT_EQ(two.core().stats().violations, 0U);
}

// A peer can't answer what another one was asked, even if it knows the number.
TEST_F(HandPlayedRequests, AnAnswerFromAnotherNodeIsNone) {
  register_peer();
  hand_played asked{net, 8, 2, true};
  ASSERT_TRUE(net.run_until([&] { return asked.is_registered(); }, 5s));
  net.run_for(5ms);
  told answer;
  ASSERT_TRUE(two.node.user().request(8, 7, "x", 5s, answer.write()));
  two.node.wake();
  net.run_for(100ms);
  const auto sent = std::ranges::find_if(asked.got, [](const byte_buffer& message) {
    return message[0] == std::byte{0} && (message[1] & std::byte{flag_request}) != std::byte{0};
  });
  ASSERT_NE(sent, asked.got.end());
  const bytes_view number{sent->data() + message_head_size, response_head_size};
  peer.say_bytes(exchange(flag_request | flag_reply, 0, number));
  net.run_for(100ms);
  EXPECT_EQ(answer.times, 0);
  EXPECT_EQ(two.core().stats().late_responses, 1U);
  asked.say(flow_body{.next = 1, .before = 0, .turn = 1});
  asked.say_bytes(exchange(flag_request | flag_reply, 0, number));
  net.run_for(100ms);
  expect(answer, errc::ok);
}

}  // namespace
}  // namespace atbus::detail
