// What every node promises its user, through every kind of address.
#include <coroutine>
#include <ctime>
#include <exception>
#include <set>
#include <stdexcept>

#include "node_fixture.h"

namespace atbus::test {
namespace {

using namespace std::string_view_literals;

class Node : public NodeFixture {};

TEST_P(Node, CarriesMessagesBothWaysInOrder) {
  connect_both();
  std::vector<std::string> wanted;
  for (int i = 0; i < 1000; ++i) {
    wanted.push_back("message " + std::to_string(i));
    ASSERT_TRUE(first->send(2, 7, wanted.back()));
    ASSERT_TRUE(second->send(1, 8, wanted.back()));
  }
  ASSERT_TRUE(turn({&*first, &*second}, [&] {
    return first_log.messages.size() == 1000 && second_log.messages.size() == 1000;
  }));
  EXPECT_EQ(first_log.messages, wanted);
  EXPECT_EQ(second_log.messages, wanted);
  EXPECT_EQ(first->stats().accepted, 1000U);
  EXPECT_EQ(first->stats().delivered, 1000U);
  EXPECT_TRUE(first_log.undelivered.empty());
}

TEST_P(Node, SaysWhoSentAMessageAndOfWhichType) {
  connect_both();
  bool seen = false;
  second->on_message([&](const message& m) {
    EXPECT_EQ(m.source(), bus_id{1});
    EXPECT_EQ(m.destination(), bus_id{2});
    EXPECT_EQ(m.type(), 0xfedcba98U);
    EXPECT_EQ(m.text(), "with a NUL \0 in it"sv);
    EXPECT_FALSE(m.redelivered());
    seen = true;
  });
  ASSERT_TRUE(first->send(2, 0xfedcba98U, "with a NUL \0 in it"sv));
  EXPECT_TRUE(turn({&*first, &*second}, [&] { return seen; }));
}

TEST_P(Node, KeepsWhatIsSentBeforeThePeerIsThere) {
  first.emplace(1, options());
  second.emplace(2, options());
  second_log.listen_to(*second);
  ASSERT_TRUE(second->listen(address()));
  ASSERT_TRUE(first->connect(2, second->addresses().at(0)));
  ASSERT_TRUE(first->send(2, 0, "early"));
  ASSERT_TRUE(first->send(2, 0, "bird"));
  ASSERT_TRUE(turn({&*first, &*second}, [&] { return second_log.messages.size() == 2; }));
  EXPECT_EQ(second_log.messages, (std::vector<std::string>{"early", "bird"}));
}

TEST_P(Node, KeepsAnEmptyMessageBeforeThePeerIsThere) {
  first.emplace(1, options());
  second.emplace(2, options());
  first_log.listen_to(*first);
  second_log.listen_to(*second);
  ASSERT_TRUE(second->listen(address()));
  ASSERT_TRUE(first->connect(2, second->addresses().at(0)));
  ASSERT_TRUE(first->send(2, 0, ""));
  ASSERT_TRUE(first->send(1, 0, ""));
  node_slot slot = first->claim(2, 0, 0);
  ASSERT_TRUE(slot) << slot.why().text();
  slot.commit();
  EXPECT_EQ(first->stats().accepted, 3U);
  ASSERT_TRUE(turn({&*first, &*second}, [&] {
    return first_log.messages.size() == 1 && second_log.messages.size() == 2;
  }));
  EXPECT_EQ(second_log.messages, (std::vector<std::string>{"", ""}));
}

TEST_P(Node, WritesAClaimInPlace) {
  connect_both();
  {
    node_slot slot = first->claim(2, 1, 100);
    ASSERT_TRUE(slot);
    ASSERT_EQ(slot.bytes().size(), 100U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(slot.bytes().data()) % 8, 0U);
    std::memcpy(slot.bytes().data(), "claimed", 7);
    slot.commit(7);
  }
  {
    const node_slot given_up = first->claim(2, 1, 100);
    ASSERT_TRUE(given_up);
  }
  ASSERT_TRUE(first->send(2, 1, "sent"));
  ASSERT_TRUE(turn({&*first, &*second}, [&] { return second_log.messages.size() == 2; }));
  EXPECT_EQ(second_log.messages, (std::vector<std::string>{"claimed", "sent"}));
}

TEST_P(Node, GivesUpASlotWithTheNextPollOrClaim) {
  connect_both();
  node_slot before_poll = first->claim(2, 1, 10);
  ASSERT_TRUE(before_poll);
  bool polled = false;
  ASSERT_TRUE(first->on_ready(2, 10s, [&](status) {
    before_poll.commit();
    polled = true;
  }));
  first->poll();
  EXPECT_TRUE(polled);
  node_slot before_claim = first->claim(2, 1, 10);
  node_slot good = first->claim(2, 1, 4);
  std::memcpy(good.bytes().data(), "good", 4);
  before_claim.commit(2);
  good.commit();
  node_slot to_itself = first->claim(1, 1, 10);
  first->poll();
  to_itself.commit();
  EXPECT_EQ(first->stats().accepted, 1U);
  ASSERT_TRUE(turn({&*first, &*second}, [&] { return second_log.messages.size() == 1; }));
  EXPECT_EQ(second_log.messages.at(0), "good");
  EXPECT_TRUE(first_log.messages.empty());
}

TEST_P(Node, GivesUpASlotThatItsHandlerKeeps) {
  connect_both();
  std::optional<node_slot> kept;
  second->on_message([&](const message&) { kept.emplace(second->claim(1, 1, 10)); });
  ASSERT_TRUE(first->send(2, 1, "claim"));
  ASSERT_TRUE(turn({&*first, &*second}, [&] { return kept.has_value(); }));
  ASSERT_TRUE(*kept);
  kept->commit();
  EXPECT_EQ(second->stats().accepted, 0U);
}

TEST_P(Node, RefusesWhatCanNotBeSent) {
  connect_both();
  EXPECT_EQ(first->send(3, 0, "nobody"), errc::no_route);
  const std::string too_long(build_settings::message_limit + 1, 'x');
  EXPECT_EQ(first->send(2, 0, too_long), errc::message_too_large);
  EXPECT_EQ(first->stats().refused, 2U);
  const std::string longest(build_settings::message_limit, 'x');
  ASSERT_TRUE(first->send(2, 0, longest));
  ASSERT_TRUE(turn({&*first, &*second}, [&] { return second_log.messages.size() == 1; }));
  EXPECT_EQ(second_log.messages.at(0), longest);
}

TEST_P(Node, SaysWouldBlockWhenAllRoomIsTakenAndTellsWhenThereIsSome) {
  connect_both();
  const std::string text(1000, 'x');
  std::size_t sent = 0;
  status how;
  while ((how = first->send(2, 0, text)))
    ++sent;
  EXPECT_EQ(how, errc::would_block);
  EXPECT_EQ(first->stats().would_block, 1U);
  ASSERT_TRUE(turn({&*first, &*second}, [&] { return first_log.writable == 1; }));
  ASSERT_TRUE(first->send(2, 0, text));
  EXPECT_TRUE(turn({&*first, &*second}, [&] { return second_log.messages.size() == sent + 1; }));
}

TEST_P(Node, GoesOnWithALaterIncarnationOfThePeer) {
  connect_both();
  const std::string where = second->addresses().at(0);
  const std::uint64_t earlier = second->incarnation();
  ASSERT_TRUE(first->send(2, 0, "to the first incarnation"));
  ASSERT_TRUE(turn({&*first, &*second}, [&] { return second_log.messages.size() == 1; }));
  second.reset();
  ASSERT_TRUE(turn({&*first}, [&] {
    return first_log.saw(endpoint_event::disconnected) || first_log.saw(endpoint_event::away);
  }));
  ASSERT_TRUE(first->send(2, 0, "to the second"));
  second.emplace(2, options());
  EXPECT_NE(second->incarnation(), earlier);
  second_log.listen_to(*second);
  ASSERT_TRUE(second->listen(where));
  ASSERT_TRUE(turn({&*first, &*second}, [&] { return second_log.messages.size() >= 2; }));
  EXPECT_EQ(second_log.messages.back(), "to the second");
  EXPECT_TRUE(first_log.undelivered.empty());
}

TEST_P(Node, ReportsWhatADisconnectLeaves) {
  first.emplace(1, options());
  first_log.listen_to(*first);
  second.emplace(2, options());
  ASSERT_TRUE(second->listen(address()));
  ASSERT_TRUE(first->connect(2, second->addresses().at(0)));
  ASSERT_TRUE(first->send(2, 0, "one"));
  ASSERT_TRUE(first->send(2, 0, "two"));
  ASSERT_TRUE(first->disconnect(2));
  ASSERT_TRUE(turn({&*first}, [&] { return first_log.undelivered.size() == 2; }));
  EXPECT_EQ(first_log.undelivered.at(0), (std::pair{std::uint64_t{1}, errc::not_delivered}));
  EXPECT_EQ(first_log.undelivered.at(1), (std::pair{std::uint64_t{2}, errc::not_delivered}));
  EXPECT_EQ(first->send(2, 0, "gone"), errc::no_route);
  EXPECT_EQ(first->disconnect(2), errc::not_found);
}

// The other end does nothing meanwhile.
TEST_P(Node, ReportsSoonWhatADisconnectLeavesOnItsWay) {
  connect_both();
  for (int i = 0; i != 10; ++i)
    ASSERT_TRUE(first->send(2, 0, "on its way"));
  first->poll();
  ASSERT_TRUE(first->disconnect(2));
  const auto began = now();
  ASSERT_TRUE(turn({&*first}, [&] { return first_log.undelivered.size() == 10; }));
  EXPECT_LT(now() - began, 10s) << "a goodbye takes a second";
  EXPECT_EQ(first_log.reasons, std::vector<errc>(10, errc::closed));
  EXPECT_EQ(first->send(2, 0, "gone"), errc::no_route);
}

TEST_P(Node, ReportsAtOnceWhatIsHeldForAPeerThatItDisconnects) {
  connect_both(options().message_deadline(1h), options());
  const std::string text(1000, 'x');
  std::uint64_t sent = 0;
  while (first->send(2, 0, text))
    ++sent;
  ASSERT_TRUE(first->disconnect(2));
  first->poll();
  EXPECT_GT(first_log.undelivered.size(), sent / 4) << "a queue of the node's own was full";
  ASSERT_TRUE(turn({&*first}, [&] { return first_log.undelivered.size() == sent; }));
  EXPECT_EQ(first_log.reasons, std::vector<errc>(sent, errc::closed));
}

TEST_P(Node, DeliversNothingOfWhatADisconnectHasReportedAsNotDelivered) {
  connect_both(options().message_deadline(1h), options());
  const std::string where = second->addresses().at(0);
  std::string text(1000, 'x');
  std::uint64_t sent = 0;
  while (first->send(2, 0, std::to_string(sent + 1) + text))
    ++sent;
  ASSERT_TRUE(first->disconnect(2));
  ASSERT_TRUE(first->connect(2, where));  // at once: the old link may still be there
  ASSERT_TRUE(first->send(2, 0, "0, the last one"));
  ASSERT_TRUE(turn({&*first, &*second}, [&] {
    return !second_log.messages.empty() && second_log.messages.back() == "0, the last one";
  }));
  ASSERT_TRUE(turn({&*first, &*second}, [&] {
    std::set<std::uint64_t> settled;
    for (const auto& [number, outcome] : first_log.undelivered)
      settled.insert(number);
    EXPECT_EQ(settled.size(), first_log.undelivered.size()) << "each once";
    for (const std::string& one : second_log.messages)
      settled.insert(std::stoull(one));
    return settled.size() == sent + 1;
  }));
  std::set<std::uint64_t> delivered;
  for (const std::string& one : second_log.messages)
    EXPECT_TRUE(delivered.insert(std::stoull(one)).second) << one.substr(0, 5) << " came twice";
  for (const auto& [number, outcome] : first_log.undelivered)
    EXPECT_TRUE(outcome == errc::outcome_unknown || !delivered.contains(number)) << number;
}

TEST_P(Node, DeliversWhatItSendsToItselfWithTheNextPoll) {
  connect_both();
  bool in_send = true;
  std::string seen;
  first->on_message([&](const message& m) {
    EXPECT_FALSE(in_send);
    EXPECT_EQ(m.source(), bus_id{1});
    seen = m.text();
  });
  ASSERT_TRUE(first->send(1, 0, "to myself"));
  in_send = false;
  first->poll();
  EXPECT_EQ(seen, "to myself");
}

TEST_P(Node, TellsWhenAPeerIsReady) {
  first.emplace(1, options());
  second.emplace(2, options());
  ASSERT_TRUE(second->listen(address()));
  std::vector<status> told;
  ASSERT_TRUE(first->on_ready(2, 10s, [&](status s) { told.push_back(s); }));
  ASSERT_TRUE(first->on_ready(99, 10ms, [&](status s) { told.push_back(s); }));
  ASSERT_TRUE(first->connect(2, second->addresses().at(0)));
  ASSERT_TRUE(turn({&*first, &*second}, [&] { return told.size() == 2; }));
  EXPECT_NE(std::find(told.begin(), told.end(), status{}), told.end());
  EXPECT_NE(std::find(told.begin(), told.end(), status{errc::timed_out}), told.end());
}

TEST_P(Node, TellsWaitersThatItHasEnded) {
  first.emplace(1, options());
  status told;
  ASSERT_TRUE(first->on_ready(2, -1s, [&](status s) { told = s; }));
  first.reset();
  EXPECT_EQ(told, errc::closed);
}

struct detached {
  struct promise_type {
    static detached get_return_object() { return {}; }
    static std::suspend_never initial_suspend() noexcept { return {}; }
    static std::suspend_never final_suspend() noexcept { return {}; }
    static void return_void() {}
    static void unhandled_exception() { std::terminate(); }
  };
};

TEST_P(Node, IsAwaitedByACoroutine) {
  first.emplace(1, options());
  second.emplace(2, options());
  second_log.listen_to(*second);
  ASSERT_TRUE(second->listen(address()));
  ASSERT_TRUE(first->connect(2, second->addresses().at(0)));
  [](node& of) -> detached {
    if (co_await of.ready(2, 10s))
      of.send(2, 0, "from a coroutine");
  }(*first);
  ASSERT_TRUE(turn({&*first, &*second}, [&] { return second_log.messages.size() == 1; }));
}

TEST_P(Node, MayBeDestroyedWithinItsHandlers) {
  connect_both();
  second->on_message([&](const message& m) {
    second.reset();
    EXPECT_EQ(m.text(), "the end");  // its bytes last until the handler returns
  });
  ASSERT_TRUE(first->send(2, 0, "the end"));
  ASSERT_TRUE(first->send(2, 0, "never seen"));
  const auto end = now() + 20s;
  while (second && now() < end) {
    first->poll();
    second->poll();
  }
  EXPECT_FALSE(second);
}

TEST_P(Node, CountsAMessageWhoseHandlerThrewAsHandled) {
  connect_both();
  std::vector<std::string> seen;
  second->on_message([&](const message& m) {
    seen.emplace_back(m.text());
    if (m.text() == "bad")
      throw std::runtime_error{"no"};
  });
  ASSERT_TRUE(first->send(2, 0, "bad"));
  ASSERT_TRUE(first->send(2, 0, "good"));
  int thrown = 0;
  ASSERT_TRUE(turn({&*first}, [&] {
    try {
      second->poll();
    } catch (const std::runtime_error&) {
      ++thrown;
    }
    return seen.size() == 2;
  }));
  EXPECT_EQ(thrown, 1);
  EXPECT_EQ(seen, (std::vector<std::string>{"bad", "good"}));
}

TEST_P(Node, DoesNothingWhenPolledWithinAHandler) {
  connect_both();
  second->on_message([&](const message&) {
    EXPECT_EQ(second->poll(), 0U);
    EXPECT_EQ(second->run(), errc::invalid_argument);
    EXPECT_EQ(second->shutdown(1s), errc::invalid_argument);
    EXPECT_EQ(second->wait(1s), errc::invalid_argument);
    second_log.messages.emplace_back("seen");
  });
  ASSERT_TRUE(first->send(2, 0, "x"));
  EXPECT_TRUE(turn({&*first, &*second}, [&] { return second_log.messages.size() == 1; }));
}

TEST_P(Node, RunsUntilItIsStoppedAndWhatWasAcceptedIsSettled) {
  connect_both();
  first->on_message([&](const message&) { first->stop(); });
  second->on_message([&](const message& m) {
    second->send(m.source(), 0, m.bytes());
    second->stop();
  });
  ASSERT_TRUE(first->send(2, 0, "ping"));
  first->poll();
  // In turns, because both are on this thread: the first ends its run when its echo is there.
  EXPECT_TRUE(turn({&*first}, [&] {
    second->poll();
    return first->stats().delivered == 1 && second->stats().delivered == 1;
  }));
  const auto begun = now();
  EXPECT_TRUE(first->run());
  EXPECT_LT(now() - begun, 4s) << "it waited for its deadline although all was settled";
}

TEST_P(Node, SleepsUntilItsDrainIsOverAndSaysThatNotAllIsSettled) {
  connect_both(options().drain(400ms), options());
  ASSERT_TRUE(first->send(2, 0, "never handled"));
  first->stop();
  const auto begun = now();
  const std::clock_t cpu = std::clock();
  EXPECT_EQ(first->run(), errc::timed_out);
  EXPECT_GE(now() - begun, 400ms);
  EXPECT_LT(std::clock() - cpu, CLOCKS_PER_SEC / 5);
}

TEST_P(Node, ShutsDownWhenAllIsSettledAndReportsWhatIsNot) {
  connect_both();
  ASSERT_TRUE(first->send(2, 0, "never handled"));
  EXPECT_EQ(first->shutdown(50ms), errc::timed_out);
  EXPECT_FALSE(first->is_open());
  ASSERT_EQ(first_log.undelivered.size(), 1U);
  EXPECT_EQ(first_log.undelivered.at(0).first, 1U);
}

TEST_P(Node, IsSettledOnceEveryMessageHasAnOutcome) {
  connect_both();
  ASSERT_TRUE(turn({&*first, &*second}, [&] { return first->is_settled(); }));
  ASSERT_TRUE(first->send(2, 0, "handled"));
  ASSERT_TRUE(first->send(1, 0, "to itself"));
  EXPECT_FALSE(first->is_settled());
  ASSERT_TRUE(turn({&*first}, [&] { return first_log.messages.size() == 1; }));
  EXPECT_FALSE(first->is_settled());
  ASSERT_TRUE(turn({&*first, &*second}, [&] { return first->is_settled(); }));
  EXPECT_EQ(second_log.messages.size(), 1U);
  EXPECT_TRUE(first->shutdown(0s));
  EXPECT_TRUE(first->is_settled());
}

TEST_P(Node, ReportsWhatItSentToItselfAndDoesNotDeliver) {
  constexpr std::uint64_t count = 10'000;  // more than one poll delivers
  first.emplace(1, options());
  std::uint64_t got = 0;
  std::uint64_t reported = 0;
  first->on_message([&](const message&) { ++got; });
  first->on_undelivered([&](const atbus::undelivered& what) {
    EXPECT_EQ(what.outcome(), errc::not_delivered);
    reported += what.count();
  });
  for (std::uint64_t i = 0; i != count; ++i)
    ASSERT_TRUE(first->send(1, 0, "x"));
  (void)first->shutdown(0ms);
  EXPECT_EQ(got + reported, count);
}

TEST_P(Node, SaysHowFarItHasComeBeforeItLeaves) {
  connect_both();
  ASSERT_TRUE(first->send(2, 0, "handled"));
  first->poll();
  ASSERT_TRUE(turn({&*second}, [&] { return second_log.messages.size() == 1; }));
  ASSERT_TRUE(second->shutdown(10s));
  EXPECT_TRUE(first->shutdown(1s));
  EXPECT_TRUE(first_log.undelivered.empty());
}

TEST_P(Node, RefusesAPeerThatIsNotTheOneExpected) {
  first.emplace(1, options());
  second.emplace(2, options());
  first_log.listen_to(*first);
  second_log.listen_to(*second);
  ASSERT_TRUE(second->listen(address()));
  ASSERT_TRUE(first->connect(3, second->addresses().at(0)));
  ASSERT_TRUE(turn({&*first, &*second}, [&] { return first->stats().registrations_failed != 0; }));
  EXPECT_EQ(first->stats().registrations, 0U);
  EXPECT_EQ(second->stats().registrations, 0U);
}

TEST_P(Node, RefusesAPeerWithAnotherToken) {
  node_options with_token;
  with_token.token("the token of the first").retry(5ms, 50ms);
  node_options with_another;
  with_another.token("the token of the second").retry(5ms, 50ms);
  first.emplace(1, with_token);
  second.emplace(2, with_another);
  first_log.listen_to(*first);
  second_log.listen_to(*second);
  ASSERT_TRUE(second->listen(address()));
  ASSERT_TRUE(first->connect(2, second->addresses().at(0)));
  ASSERT_TRUE(first->send(2, 0, "secret"));
  ASSERT_TRUE(turn({&*first, &*second}, [&] {
    return first->stats().registrations_failed > 2 && second->stats().registrations_failed > 2;
  }));
  EXPECT_TRUE(second_log.messages.empty());
  EXPECT_EQ(first->stats().registrations, 0U);
}

TEST_P(Node, AcceptsEachOfItsTokens) {
  node_options old_token;
  old_token.token("the token of last year").retry(5ms, 50ms);
  node_options both;
  both.token("the token of this year").token("the token of last year").retry(5ms, 50ms);
  first.emplace(1, old_token);
  second.emplace(2, both);
  second_log.listen_to(*second);
  ASSERT_TRUE(second->listen(address()));
  ASSERT_TRUE(first->connect(2, second->addresses().at(0)));
  ASSERT_TRUE(first->send(2, 0, "rotated"));
  EXPECT_TRUE(turn({&*first, &*second}, [&] { return second_log.messages.size() == 1; }));
}

TEST_P(Node, KeepsTheFirstOfTwoIncarnationsOfOneId) {
  connect_both();
  node another{1, options()};
  node_log another_log;
  another_log.listen_to(another);
  ASSERT_TRUE(another.connect(2, second->addresses().at(0)));
  ASSERT_TRUE(turn({&*first, &*second, &another},
                   [&] { return another.stats().registrations_failed > 1; }));
  ASSERT_TRUE(first->send(2, 0, "undisturbed"));
  ASSERT_TRUE(turn({&*first, &*second, &another}, [&] { return second_log.messages.size() == 1; }));
  EXPECT_EQ(another.stats().registrations, 0U);
  EXPECT_FALSE(first_log.saw(endpoint_event::disconnected));
}

INSTANTIATE_TEST_SUITE_P(Kinds, Node, ::testing::ValuesIn(node_kinds()),
                         [](const auto& kind) { return std::string{kind.param.name}; });

TEST(NodeAlone, RefusesOptionsThatCanNotWork) {
  node bad{1, node_options{}.message_limit(0)};
  EXPECT_EQ(bad.listen("unix://@never"), errc::invalid_argument);
  EXPECT_EQ(bad.connect(2, "unix://@never"), errc::invalid_argument);
  node short_token{1, node_options{}.token("too short")};
  EXPECT_EQ(short_token.listen("unix://@never"), errc::invalid_argument);
  node nobody{0};
  EXPECT_EQ(nobody.listen("unix://@never"), errc::invalid_argument);
}

TEST(NodeAlone, SaysWithEachVerbThatItsOptionsCanNotWork) {
  node bad{1, node_options{}.ping_interval(0s)};
  EXPECT_NE(bad.fault().text().find("ping_interval"), std::string::npos) << bad.fault().text();
  EXPECT_EQ(bad.send(1, 0, "to itself"), errc::invalid_argument);
  EXPECT_EQ(bad.send(2, 0, "to another one"), errc::invalid_argument);
  EXPECT_EQ(bad.send(2, 0, "required", delivery_policy::require), errc::invalid_argument);
  EXPECT_EQ(bad.claim(2, 0, 10).why(), errc::invalid_argument);
  EXPECT_EQ(bad.command(2, {"ask"}, 1s, {}), errc::invalid_argument);
  EXPECT_EQ(bad.broadcast(*id_range::parse("0x0/48"), 0, {}), errc::invalid_argument);
  EXPECT_EQ(bad.on_ready(2, 1s, {}), errc::invalid_argument);
  EXPECT_EQ(bad.sender().send(2, 0, "from a thread"), errc::invalid_argument);
  EXPECT_EQ(bad.wait(0s), errc::invalid_argument);
  EXPECT_EQ(bad.run(), errc::invalid_argument);
  EXPECT_EQ(bad.disconnect(2), errc::invalid_argument);
  EXPECT_EQ(bad.shutdown(0s), errc::invalid_argument);
  EXPECT_FALSE(bad.is_open());
  EXPECT_TRUE(node{1}.fault());
}

// Also while it spins before a sleep, which it does for 50 us at first.
TEST(NodeAlone, RunPassesOnWhatAHandlerThrows) {
  for (const auto after : {0us, 5us, 20us, 45us, 2000us}) {
    node one{1};
    ASSERT_TRUE(one.on_ready(2, after, [](status) { throw std::runtime_error("of the handler"); }));
    EXPECT_THROW((void)one.run(), std::runtime_error);
    one.stop();
    EXPECT_TRUE(one.run()) << "it goes on";
  }
}

TEST(NodeAlone, RefusesToBeReachedThroughTcpWithoutAToken) {
  node open_to_all{1};
  EXPECT_EQ(open_to_all.listen("ipv4://127.0.0.1:0"), errc::denied);
  EXPECT_EQ(open_to_all.connect(99, "ipv4://127.0.0.1:1"), errc::denied);
  node on_purpose{1, node_options{}.allow_unauthenticated()};
  EXPECT_TRUE(on_purpose.listen("ipv4://127.0.0.1:0"));
}

TEST(NodeAlone, NamesWhatIsWrongWithAnAddress) {
  node one{1};
  EXPECT_EQ(one.connect(2, "carrier-pigeon://roof"), errc::invalid_address);
  EXPECT_EQ(one.connect(1, "unix://@x"), errc::invalid_argument);
  EXPECT_EQ(one.connect(0, "unix://@x"), errc::invalid_argument);
}

}  // namespace
}  // namespace atbus::test
