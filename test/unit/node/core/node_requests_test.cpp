// Requests and their responses over a simulated network: who asks is told exactly once what became of it.
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>

#include "node_requests_fixture.h"
#include "plain_coroutine.h"

namespace atbus::detail {
namespace {

TEST_F(NodeRequests, AreHandledInPlaceAndAnswered) {
  connect();
  on_request = [](request& r) {
    EXPECT_EQ(r.source(), bus_id{1});
    EXPECT_EQ(r.type(), 7U);
    EXPECT_FALSE(r.redelivered());
    EXPECT_TRUE(r.is_wanted());
    EXPECT_TRUE(r.reply("five"));
    EXPECT_EQ(r.text(), "two plus three");
    EXPECT_FALSE(r.is_wanted());
    EXPECT_EQ(r.reply("again"), errc::invalid_argument);
  };
  told answer;
  ASSERT_TRUE(ask("two plus three", answer));
  EXPECT_EQ(answer.times, 0);
  net.run_for(5s);
  expect(answer, errc::ok, "five");
  EXPECT_EQ(answer.source, bus_id{2});
  EXPECT_EQ(handled, (std::vector<std::string>{"two plus three"}));
  EXPECT_EQ(two.core().stats().requests, 1U);
  EXPECT_EQ(one.core().stats().responses, 1U);
  EXPECT_TRUE(one.got.empty() && two.got.empty());
  EXPECT_TRUE(one.core().settled() && two.core().settled());
}

TEST_F(NodeRequests, KeepTheOrderOfMessages) {
  connect();
  two.on_message = [&](const message& m) { handled.emplace_back(m.text()); };
  told first;
  told second;
  ASSERT_TRUE(one.send(2, "a"));
  ASSERT_TRUE(one.send(2, "b"));  // the direct path is open now
  ASSERT_TRUE(ask("c", first));
  ASSERT_TRUE(one.send(2, "d"));
  ASSERT_TRUE(ask("e", second));
  net.run_for(100ms);
  EXPECT_EQ(handled, (std::vector<std::string>{"a", "b", "c", "d", "e"}));
}

TEST_F(NodeRequests, OfANodeToItselfAreAnsweredByTheNextPolls) {
  told answer;
  on_request = [](request& r) { r.reply("own"); };
  ASSERT_TRUE(two.node.user().request(2, 7, "x", 1s, answer.write()));
  two.node.wake();
  net.run_for(10ms);
  expect(answer, errc::ok, "own");
}

TEST_F(NodeRequests, GoToTheHandlerOfTheirTypeBeforeThatOfAll) {
  connect();
  on_request = [](request& r) { r.reply("of its type"); };
  told none;
  ASSERT_TRUE(ask("", none, 1s, 8));
  net.run_for(100ms);
  expect(none, errc::unknown_request);
  EXPECT_EQ(none.how.fact(0), 2U);
  two.node.user().on_request([](request& r) { r.reply("of all"); });
  told typed;
  told other;
  ASSERT_TRUE(ask("", typed));
  ASSERT_TRUE(ask("", other, 1s, 8));
  net.run_for(100ms);
  expect(typed, errc::ok, "of its type");
  expect(other, errc::ok, "of all");
  two.node.user().on_request(7, {});
  told later;
  ASSERT_TRUE(ask("", later));
  net.run_for(100ms);
  expect(later, errc::ok, "of all");
}

TEST_F(NodeRequests, FailInTheWordsOfTheirHandlerOrForWantOfAnAnswer) {
  connect();
  const std::string longest(1024, 'w');
  on_request = [&](request& r) {
    if (r.text() == "refused")
      r.fail(longest + "cut off");
  };
  told refused;
  told forgotten;
  ASSERT_TRUE(ask("refused", refused));
  ASSERT_TRUE(ask("forgotten", forgotten));
  net.run_for(100ms);
  expect(refused, errc::request_failed, longest);
  expect(forgotten, errc::request_failed, "the request was dropped without a response");
}

TEST_F(NodeRequests, FailWhenTheirHandlerThrows) {
  connect();
  on_request = [](request&) { throw std::runtime_error{"broken"}; };
  told answer;
  ASSERT_TRUE(ask("x", answer));
  EXPECT_THROW(net.run_for(100ms), std::runtime_error);
  two.node.wake();
  net.run_for(100ms);
  expect(answer, errc::request_failed, "its handler threw");
}

TEST_F(NodeRequests, MayBeAnsweredLaterAndKeepNoBytes) {
  connect();
  keep();
  told first;
  told second;
  ASSERT_TRUE(ask("first", first));
  ASSERT_TRUE(ask("second", second));
  net.run_for(100ms);
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_TRUE(kept[0].bytes().empty() && kept[1].bytes().empty());
  EXPECT_EQ(first.times + second.times, 0);
  EXPECT_TRUE(kept[0].is_wanted());
  EXPECT_TRUE(kept[1].reply("the second"));
  kept.erase(kept.begin());  // moved over: the first is dropped
  two.node.wake();
  net.run_for(100ms);
  expect(second, errc::ok, "the second");
  expect(first, errc::request_failed, "the request was dropped without a response");
}

TEST_F(NodeRequests, AreAnsweredInPlace) {
  connect();
  on_request = [](request& r) {
    {
      auto given_up = r.claim(100);
      ASSERT_TRUE(given_up);
    }
    auto slot = r.claim(8);
    ASSERT_TRUE(slot);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(slot->bytes().data()) % 8, 0U);
    std::memcpy(slot->bytes().data(), "in place", 8);
    slot.commit(9);  // too long: it still has to be answered
    EXPECT_TRUE(r.is_wanted());
    auto replaced = r.claim(8);
    std::memcpy(replaced->bytes().data(), "in place", 8);
    replaced.commit(2);
    EXPECT_FALSE(r.is_wanted());
    replaced.commit(2);
  };
  told answer;
  ASSERT_TRUE(ask("x", answer));
  net.run_for(100ms);
  expect(answer, errc::ok, "in");
  EXPECT_EQ(one.core().stats().responses, 1U);
  EXPECT_EQ(one.core().stats().late_responses, 0U);
}

TEST_F(NodeRequests, AReplyThatAnotherClaimTookAwayIsNotSent) {
  connect();
  on_request = [this](request& r) {
    auto slot = r.claim(4);
    ASSERT_TRUE(slot);
    EXPECT_TRUE(two.node.user().send(1, 0, "a message"));
    slot.commit();
    EXPECT_TRUE(r.is_wanted());
    EXPECT_TRUE(r.reply("now"));
  };
  told answer;
  ASSERT_TRUE(ask("x", answer));
  net.run_for(100ms);
  expect(answer, errc::ok, "now");
  EXPECT_EQ(one.got, (std::vector<std::string>{"a message"}));
}

TEST_F(NodeRequests, TimeOutNotBeforeTheirTimeAndSoonAfter) {
  connect();
  keep();
  told answer;
  const auto asked_at = net.now();
  ASSERT_TRUE(ask("x", answer, 300ms));
  ASSERT_TRUE(net.run_until([&] { return answer.times == 1; }, 2s));
  EXPECT_GE(net.now() - asked_at, 300ms);
  EXPECT_LE(net.now() - asked_at, 301ms);
  expect(answer, errc::timed_out);
  ASSERT_EQ(kept.size(), 1U);
  net.run_for(2ms);  // the other host does not know how long it was under way
  EXPECT_FALSE(kept[0].is_wanted());
  EXPECT_EQ(kept[0].reply("too late"), errc::timed_out);
  EXPECT_EQ(kept[0].reply("again"), errc::invalid_argument);
}

TEST_F(NodeRequests, WhoseAnswerIsLateIsCountedAndDropped) {
  connect();
  net.conditions.delay_min = net.conditions.delay_max = 200ms;
  on_request = [](request& r) { EXPECT_TRUE(r.reply("late")); };
  told answer;
  ASSERT_TRUE(ask("x", answer, 150ms));
  net.run_for(2s);
  expect(answer, errc::timed_out);
  EXPECT_EQ(one.core().stats().late_responses, 1U);
}

// The process that is asked stands still meanwhile, on the host of the asking one.
// The time that is left has 32 bits of microseconds on the way to another host: 71 minutes.
TEST_F(NodeRequests, MayTakeLongerThanTheTimeThatTheirHeadCanSay) {
  connect();
  keep();
  told answer;
  ASSERT_TRUE(ask("x", answer, std::chrono::nanoseconds::max()));
  net.run_for(2h);
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_TRUE(kept[0].is_wanted());
  EXPECT_TRUE(kept[0].reply("patient"));
  two.node.wake();
  net.run_for(1s);
  expect(answer, errc::ok, "patient");
}

TEST_F(NodeRequests, AreNotHandledOnceTheirTimeIsOver) {
  party near{net, 3, plain(), host_of(2)};
  near.connect(2);
  ASSERT_TRUE(net.run_until([&] { return near.is_connected(2) && two.is_connected(3); }, 5s));
  on_request = [](request& r) { r.reply("done"); };
  told over;
  told in_time;
  two.node.stop_until(net.now() + 2s);
  ASSERT_TRUE(near.node.user().request(2, 7, "over", 500ms, over.write()));
  ASSERT_TRUE(near.node.user().request(2, 7, "in time", 10s, in_time.write()));
  near.node.wake();
  net.run_for(2s);
  net.run_for(1s);
  expect(over, errc::timed_out);
  expect(in_time, errc::ok, "done");
  EXPECT_EQ(handled, (std::vector<std::string>{"in time"}));
  EXPECT_EQ(two.core().stats().expired_requests, 1U);
}

TEST_F(NodeRequests, AreRefusedWithAReason) {
  told answer;
  EXPECT_EQ(ask("x", answer).why(), errc::no_route);
  connect();
  EXPECT_EQ(ask("x", answer, -1ns).why(), errc::invalid_argument);
  node& asks = one.node.user();
  EXPECT_EQ(asks.request(2, 7, "x", 1s, std::function<void(const response&)>{}).why(),
            errc::invalid_argument);
  EXPECT_EQ(asks.on_ready(2, 1s, nullptr), errc::invalid_argument);
  EXPECT_EQ(asks.command(2, {"x"}, 1s, nullptr), errc::invalid_argument);
  const std::size_t limit = one.core().stats().accepted * 0 + 64 * 1024 - request_overhead;
  const request_handle too_long = ask(std::string(limit + 1, 'x'), answer);
  EXPECT_EQ(too_long.why(), errc::message_too_large);
  EXPECT_EQ(too_long.why().fact(1), limit);
  on_request = [](request& r) { r.reply(r.bytes()); };
  told longest;
  ASSERT_TRUE(ask(std::string(limit, 'x'), longest));
  net.run_for(1s);
  expect(longest, errc::ok, std::string(limit, 'x'));
  EXPECT_EQ(answer.times, 0);
  one.node.user().close();
  EXPECT_EQ(one.node.user().request(2, 7, "x", 1s, answer.write()).why(), errc::closed);
}

TEST_F(NodeRequests, AReplyThatIsTooLongIsRefusedAndCanBeAShorterOne) {
  connect();
  on_request = [](request& r) {
    EXPECT_EQ(r.reply(std::string(64 * 1024, 'x')), errc::message_too_large);
    EXPECT_TRUE(r.reply(std::string(64 * 1024 - response_overhead, 'y')));
  };
  told answer;
  ASSERT_TRUE(ask("x", answer));
  net.run_for(1s);
  expect(answer, errc::ok, std::string(64 * 1024 - response_overhead, 'y'));
}

TEST_F(NodeRequests, AReplyOfAnAbsurdLengthIsRefused) {
  connect();
  on_request = [](request& r) {
    constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
    for (const std::size_t length : {most, most - 3, most - 7, most - 8}) {
      const auto slot = r.claim(length);
      EXPECT_FALSE(slot) << length;
      EXPECT_EQ(slot.why(), errc::message_too_large);
    }
    EXPECT_TRUE(r.reply("short"));
  };
  told answer;
  ASSERT_TRUE(ask("x", answer));
  net.run_for(100ms);
  expect(answer, errc::ok, "short");
}

TEST_F(NodeRequests, AreCancelled) {
  connect();
  keep();
  told answer;
  const request_handle asked = ask("x", answer, 10s);
  ASSERT_TRUE(asked);
  net.run_for(100ms);
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_TRUE(kept[0].is_wanted());
  EXPECT_TRUE(one.node.user().cancel(asked));
  EXPECT_EQ(answer.times, 0);
  one.node.wake();
  net.run_for(100ms);
  expect(answer, errc::cancelled);
  EXPECT_EQ(one.node.user().cancel(asked), errc::not_found);
  EXPECT_EQ(one.node.user().cancel({}), errc::not_found);
  EXPECT_FALSE(kept[0].is_wanted());
  EXPECT_EQ(kept[0].reply("too late"), errc::cancelled);
  net.run_for(100ms);
  EXPECT_EQ(one.core().stats().late_responses, 0U);
}

TEST_F(NodeRequests, OfANodeToItselfAreCancelled) {
  keep();
  told answer;
  const request_handle sent = two.node.user().request(2, 7, "x", 1s, answer.write());
  ASSERT_TRUE(sent);
  two.node.wake();
  net.run_for(1ms);
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_TRUE(two.node.user().cancel(sent));
  EXPECT_FALSE(kept[0].is_wanted());
  two.node.wake();
  net.run_for(1ms);
  expect(answer, errc::cancelled);
}

TEST_F(NodeRequests, OfANodeToItselfThatAreCancelledAtOnceAreNotHandled) {
  keep();
  told answer;
  const request_handle sent = two.node.user().request(2, 7, "x", 1s, answer.write());
  ASSERT_TRUE(sent);
  EXPECT_TRUE(two.node.user().cancel(sent));
  two.node.wake();
  net.run_for(1ms);
  EXPECT_TRUE(kept.empty());
  expect(answer, errc::cancelled);
}

TEST_F(NodeRequests, ThatAreCancelledBeforeALinkTookThemAreNeverSent) {
  net.separate(1, 2);
  one.connect(2);
  told cancelled;
  told other;
  const request_handle asked = ask("cancelled", cancelled, 50s);
  ASSERT_TRUE(ask("other", other, 50s));
  net.run_for(1s);
  EXPECT_TRUE(one.node.user().cancel(asked));
  one.node.wake();
  net.join(1, 2);
  on_request = [](request& r) { r.reply("done"); };
  net.run_for(20s);
  expect(cancelled, errc::cancelled);
  expect(other, errc::ok, "done");
  EXPECT_EQ(handled, (std::vector<std::string>{"other"}));
}

TEST_F(NodeRequests, ToOneNodeAreBoundedAndOnWritableFollows) {
  party small{net, 3, plain().requests(4)};
  small.connect(2);
  ASSERT_TRUE(net.run_until([&] { return small.is_connected(2) && two.is_connected(3); }, 5s));
  keep();
  std::vector<told> answers(5);
  for (std::size_t at = 0; at != 4; ++at)
    ASSERT_TRUE(small.node.user().request(2, 7, "x", 10s, answers[at].write()));
  EXPECT_EQ(small.node.user().request(2, 7, "x", 10s, answers[4].write()).why(), errc::would_block);
  small.node.wake();
  net.run_for(100ms);
  ASSERT_EQ(kept.size(), 4U);
  kept.pop_back();
  two.node.wake();
  net.run_for(100ms);
  EXPECT_EQ(small.writable, 0);
  kept.pop_back();
  two.node.wake();
  net.run_for(100ms);
  EXPECT_EQ(small.writable, 1);
  ASSERT_TRUE(small.node.user().request(2, 7, "x", 10s, answers[4].write()));
  small.node.user().close();
}

TEST_F(NodeRequests, OutliveTheirNode) {
  connect();
  keep();
  told answer;
  ASSERT_TRUE(ask("later", answer));
  net.run_for(100ms);
  ASSERT_EQ(kept.size(), 1U);
  two.node.user().close();
  EXPECT_FALSE(kept[0].is_wanted());
  EXPECT_EQ(kept[0].reply("too late"), errc::closed);
  EXPECT_EQ(kept[0].claim(1).why(), errc::closed);
  kept.clear();
  net.run_for(3s);
  expect(answer, errc::timed_out);
}

TEST_F(NodeRequests, AreToldOfTheEndOfTheirNode) {
  connect();
  keep();
  told answer;
  ASSERT_TRUE(ask("x", answer));
  net.run_for(100ms);
  one.node.user().close();
  expect(answer, errc::closed);
}

TEST_F(NodeRequests, AHandlerMayCloseItsNode) {
  connect();
  on_request = [this](request& r) {
    two.node.user().close();
    EXPECT_EQ(r.reply("x"), errc::closed);
  };
  told answer;
  ASSERT_TRUE(ask("x", answer, 500ms));
  net.run_for(2s);
  expect(answer, errc::timed_out);
}

TEST_F(NodeRequests, AHandlerMayMoveItsRequestOutAndCloseItsNode) {
  connect();
  on_request = [this](request& r) {
    const auto moved = std::make_unique<request>(r.detach());
    two.node.user().close();
    EXPECT_TRUE(moved->bytes().empty());
    EXPECT_EQ(moved->reply("x"), errc::closed);
  };
  told answer;
  ASSERT_TRUE(ask("x", answer, 500ms));
  net.run_for(2s);
  expect(answer, errc::timed_out);
}

TEST_F(NodeRequests, ASlotThatAPollTookAwayLeavesTheRequestToBeAnswered) {
  connect();
  keep();
  told answer;
  ASSERT_TRUE(ask("x", answer));
  net.run_for(100ms);
  ASSERT_EQ(kept.size(), 1U);
  {
    auto slot = kept[0].claim(4);
    ASSERT_TRUE(slot);
    two.node.wake();
    net.run_for(10ms);
    slot.commit();
  }
  EXPECT_TRUE(kept[0].is_wanted());
  EXPECT_TRUE(kept[0].reply("now"));
  two.node.wake();
  net.run_for(100ms);
  expect(answer, errc::ok, "now");
}

TEST_F(NodeRequests, ThatACallCancelsWhileTheNodeEndsHaveTheirOutcomeAllTheSame) {
  connect();
  keep();
  told second;
  request_handle asked;
  status cancelled;
  ASSERT_TRUE(one.node.user().request(2, 7, "first", 10s, [&](const response& r) {
    EXPECT_EQ(r.how(), errc::closed);
    cancelled = one.core().requests().cancel(asked);
  }));
  asked = ask("second", second, 10s);
  net.run_for(100ms);
  one.core().close();
  EXPECT_EQ(cancelled, errc::closed);
  expect(second, errc::closed);
}

TEST_F(NodeRequests, ACallMayAskAgainAndSendAndClose) {
  connect();
  on_request = [](request& r) { r.reply(r.bytes()); };
  int rounds = 0;
  std::function<void(const response&)> call = [&](const response& r) {
    ASSERT_TRUE(r);
    if (++rounds == 5)
      return one.node.user().close();
    ASSERT_TRUE(one.node.user().send(2, 0, "between"));
    ASSERT_TRUE(one.node.user().request(2, 7, "again", 1s, call));
  };
  ASSERT_TRUE(one.node.user().request(2, 7, "first", 1s, call));
  one.node.wake();
  net.run_for(1s);
  EXPECT_EQ(rounds, 5);
  EXPECT_EQ(two.got.size(), 4U);
}

TEST_F(NodeRequests, OfAClientAreAnswered) {
  simulated_node client{net, 0, plain(), host_of(9)};
  ASSERT_TRUE(client.user().connect(0, address_of(2)));
  client.wake();
  net.run_for(1s);
  on_request = [](request& r) {
    EXPECT_EQ(r.source(), bus_id{});
    r.reply("for a client");
  };
  told answer;
  ASSERT_TRUE(client.user().request(0, 7, "x", 1s, answer.write()));
  client.wake();
  net.run_for(1s);
  expect(answer, errc::ok, "for a client");
  keep();
  ASSERT_TRUE(client.user().request(0, 7, "x", 1s, answer.write()));
  client.wake();
  net.run_for(100ms);
  ASSERT_EQ(kept.size(), 1U);
  client.user().close();
  net.run_for(100ms);
  EXPECT_EQ(kept[0].reply("gone"), errc::peer_closed);
}

// Both ends of its link have the id 0 for it: that is not its own id.
TEST_F(NodeRequests, OfAClientAreCancelled) {
  simulated_node client{net, 0, plain(), host_of(9)};
  ASSERT_TRUE(client.user().connect(0, address_of(2)));
  client.wake();
  net.run_for(1s);
  keep();
  told answer;
  const request_handle sent = client.user().request(0, 7, "x", 1min, answer.write());
  ASSERT_TRUE(sent);
  client.wake();
  net.run_for(100ms);
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_TRUE(client.user().cancel(sent));
  client.wake();
  net.run_for(100ms);
  expect(answer, errc::cancelled);
  EXPECT_FALSE(kept[0].is_wanted());
}

TEST_F(NodeRequests, CanBeAwaited) {
  using coroutine = test::plain_coroutine;
  connect();
  const std::string large(1000, 'l');
  on_request = [&](request& r) { r.reply(r.text() == "large" ? large : "small"); };
  std::vector<kept_response> got;
  const auto run = [&]() -> coroutine {
    got.push_back(co_await one.node.user().request(2, 7, "small", 1s));
    got.push_back(co_await one.node.user().request(2, 7, "large", 1s));
    got.push_back(co_await one.node.user().request(2, 7, "x", -1s));
    keep();
    got.push_back(co_await one.node.user().request(2, 7, "kept", 10s));
  };
  const coroutine runs = run();
  one.node.wake();
  net.run_for(100ms);
  ASSERT_EQ(got.size(), 3U);
  EXPECT_EQ(got[0].text(), "small");
  EXPECT_EQ(got[1].text(), large);
  EXPECT_EQ(got[2].how(), errc::invalid_argument);
  ASSERT_EQ(kept.size(), 1U);
  runs.frame.destroy();  // while it waits: the request is cancelled
  one.node.wake();
  net.run_for(100ms);
  EXPECT_FALSE(kept[0].is_wanted());
  const kept_response moved = std::move(got[0]);
  EXPECT_EQ(moved.text(), "small");
  EXPECT_TRUE(got[0].bytes().empty());
}

}  // namespace
}  // namespace atbus::detail
