// Commands and their replies over a simulated network: who asks is told exactly once what became of it.
#include <coroutine>
#include <exception>
#include <stdexcept>

#include "command_message.h"
#include "node_commands_fixture.h"

namespace atbus::detail {
namespace {

TEST_F(NodeCommands, AreHandedOverWithTheirArgumentsAndAnswered) {
  connect();
  on_command = [](command& c) {
    EXPECT_EQ(c.source(), bus_id{1});
    EXPECT_EQ(c.name(), "add");
    EXPECT_EQ(words(c.arguments().begin(), c.arguments().end()), (words{"2", "", "3"}));
    EXPECT_FALSE(c.redelivered());
    EXPECT_TRUE(c.reply({"five", "5"}));
    EXPECT_EQ(c.reply("again"), errc::invalid_argument);
  };
  told answer;
  ASSERT_TRUE(ask({"add", "2", "", "3"}, answer));
  EXPECT_EQ(answer.times, 0);
  net.run_for(5s);
  expect(answer, errc::ok, {"five", "5"});
  EXPECT_EQ(two.core().stats().commands, 1U);
  EXPECT_EQ(one.core().stats().replies, 1U);
  EXPECT_TRUE(one.got.empty() && two.got.empty());
  EXPECT_TRUE(one.core().settled() && two.core().settled());
}

TEST_F(NodeCommands, KeepTheOrderOfMessages) {
  connect();
  two.node.user().on_message([&](const message& m) { handled.emplace_back(m.text()); });
  told first;
  told second;
  ASSERT_TRUE(one.send(2, "a"));
  ASSERT_TRUE(ask({"b"}, first));
  ASSERT_TRUE(one.send(2, "c"));
  ASSERT_TRUE(ask({"d"}, second));
  net.run_for(100ms);
  EXPECT_EQ(handled, (words{"a", "b", "c", "d"}));
}

TEST_F(NodeCommands, GoToTheHandlerOfTheirNameBeforeThatOfAll) {
  connect();
  two.node.user().on_command("reload", [](command& c) { c.reply("by name"); });
  on_command = [](command& c) { c.reply("by that of all"); };
  told named;
  told other;
  ASSERT_TRUE(ask({"reload"}, named));
  ASSERT_TRUE(ask({"reloa"}, other));
  net.run_for(100ms);
  expect(named, errc::ok, {"by name"});
  expect(other, errc::ok, {"by that of all"});
  two.node.user().on_command("reload", {});
  told later;
  ASSERT_TRUE(ask({"reload"}, later));
  net.run_for(100ms);
  expect(later, errc::ok, {"by that of all"});
}

TEST_F(NodeCommands, WithoutAHandlerAreUnknown) {
  connect();
  two.node.user().on_command({});
  two.node.user().on_command("other", [](command& c) { c.reply(""); });
  told answer;
  ASSERT_TRUE(ask({"reload"}, answer));
  net.run_for(100ms);
  expect(answer, errc::unknown_command);
  EXPECT_EQ(answer.how.fact(0), 2U);
}

TEST_F(NodeCommands, FailInTheWordsOfWhoWasAskedOrForWantOfAnAnswer) {
  connect();
  on_command = [](command& c) {
    if (c.name() == "refused")
      c.fail("not today");
  };
  told refused;
  told forgotten;
  ASSERT_TRUE(ask({"refused"}, refused));
  ASSERT_TRUE(ask({"forgotten"}, forgotten));
  net.run_for(100ms);
  expect(refused, errc::command_failed, {"not today"});
  EXPECT_EQ(forgotten.how, errc::command_failed);
  EXPECT_EQ(forgotten.times, 1);
  EXPECT_NE(forgotten.values.at(0).find("without an answer"), std::string::npos);
}

TEST_F(NodeCommands, MayBeAnsweredLater) {
  connect();
  words left_behind;
  on_command = [&](command& c) {
    kept.push_back(c.detach());
    left_behind.emplace_back(c.name());
    EXPECT_TRUE(c.arguments().empty());
  };
  told first;
  told second;
  ASSERT_TRUE(ask({"first", "argument"}, first));
  ASSERT_TRUE(ask({"second"}, second));
  net.run_for(100ms);
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(first.times + second.times, 0);
  EXPECT_EQ(left_behind, (words{"", ""}));
  EXPECT_EQ(kept[0].arguments()[0], "argument");
  EXPECT_TRUE(kept[1].reply("the second"));
  kept.erase(kept.begin());  // moved over: the first is given up, the second is answered
  two.node.wake();
  net.run_for(100ms);
  expect(second, errc::ok, {"the second"});
  EXPECT_EQ(first.how, errc::command_failed);
  EXPECT_EQ(first.times, 1);
}

TEST_F(NodeCommands, OutliveTheirNode) {
  connect();
  keep();
  told answer;
  ASSERT_TRUE(ask({"later"}, answer));
  net.run_for(100ms);
  ASSERT_EQ(kept.size(), 1U);
  two.node.user().close();
  EXPECT_EQ(kept.at(0).name(), "later");
  EXPECT_EQ(kept.at(0).reply("too late"), errc::closed);
  kept.clear();
  net.run_for(3s);
  expect(answer, errc::timed_out);
}

TEST_F(NodeCommands, TimeOutAndALateReplyIsDropped) {
  connect();
  keep();
  told answer;
  ASSERT_TRUE(ask({"slow"}, answer, 500ms));
  net.run_for(400ms);
  EXPECT_EQ(answer.times, 0);
  net.run_for(200ms);
  expect(answer, errc::timed_out);
  EXPECT_TRUE(kept.at(0).reply("late"));
  two.node.wake();
  net.run_for(100ms);
  expect(answer, errc::timed_out);
  EXPECT_EQ(one.core().stats().stray_replies, 1U);
  EXPECT_EQ(one.core().stats().replies, 0U);
}

TEST_F(NodeCommands, OfNonsenseAreRefused) {
  connect();
  told answer;
  EXPECT_EQ(ask({}, answer), errc::invalid_argument);
  EXPECT_EQ(ask(words(1025, "x"), answer), errc::invalid_argument);
  EXPECT_EQ(ask({"x"}, answer, -1s), errc::invalid_argument);
  EXPECT_EQ(ask({std::string(build_settings::message_limit, 'x')}, answer),
            errc::message_too_large);
  net.run_for(5s);
  EXPECT_EQ(answer.times, 0);
}

TEST_F(NodeCommands, MayHaveAllTheTimeThereIs) {
  connect();
  on_command = [](command& c) { c.reply("in time"); };
  told answer;
  ASSERT_TRUE(ask({"x"}, answer, std::chrono::nanoseconds::max()));
  net.run_for(1s);
  expect(answer, errc::ok, {"in time"});
}

TEST_F(NodeCommands, AreNotAnsweredWithMoreThanWhoAsksTakes) {
  party small{net, 3, plain().message_limit(100)};
  two.connect(3);
  ASSERT_TRUE(net.run_until([&] { return small.is_connected(2); }, 5s));
  keep();
  told answer;
  ASSERT_TRUE(small.node.user().command(2, "x", 1min, answer.write()));
  small.node.wake();
  net.run_for(100ms);
  ASSERT_EQ(kept.size(), 1U);
  net.cut(0, seen_by::both);
  net.run_for(5ms);
  ASSERT_FALSE(two.is_connected(3));
  EXPECT_EQ(kept.at(0).reply(std::string(100, 'y')), errc::message_too_large);
  kept.clear();
  net.run_for(10s);
  EXPECT_EQ(answer.how, errc::command_failed);
  EXPECT_EQ(answer.times, 1);
}

TEST_F(NodeCommands, MayBeAskedOfTheNodeItself) {
  one.node.user().on_command([](command& c) { c.reply("to myself"); });
  told answer;
  ASSERT_TRUE(one.node.user().command(1, {"x"}, 1s, answer.write()));
  EXPECT_EQ(answer.times, 0);
  one.node.wake();
  net.run_for(100ms);
  expect(answer, errc::ok, {"to myself"});
}

TEST_F(NodeCommands, EndAsClosedWithTheirNode) {
  connect();
  keep();
  told answer;
  ASSERT_TRUE(ask({"x"}, answer, 1h));
  net.run_for(10ms);
  ASSERT_EQ(kept.size(), 1U);
  one.core().close();
  expect(answer, errc::closed);
}

// The command's end is known, and not told yet, when the node ends.
TEST_F(NodeCommands, EndOnceAlsoWithTheNodeBeforeTheyAreTold) {
  one.connect(2);
  told answer;
  ASSERT_TRUE(ask({"x"}, answer, 30s));
  ASSERT_TRUE(one.core().disconnect(2));
  one.core().close();
  expect(answer, errc::closed);
}

TEST_F(NodeCommands, AHandlerMayEndEitherNode) {
  connect();
  on_command = [&](command& c) {
    if (c.name() == "end")
      two.core().close();
    else
      c.reply("x");
  };
  int times = 0;
  ASSERT_TRUE(one.node.user().command(2, {"x"}, 1s, [&](status, const command_reply& r) {
    ++times;
    EXPECT_EQ(r.text(), "x");
    told never;
    EXPECT_TRUE(one.node.user().command(2, {"end"}, 1s, [&](status s, const command_reply&) {
      ++times;
      EXPECT_EQ(s, errc::timed_out);
      one.core().close();
    }));
    one.node.wake();
  }));
  one.node.wake();
  net.run_for(5s);
  EXPECT_EQ(times, 2);
  EXPECT_TRUE(one.core().is_closed());
  EXPECT_TRUE(two.core().is_closed());
}

TEST_F(NodeCommands, AreAnsweredForAHandlerThatThrows) {
  on_command = [](command&) { throw std::runtime_error{"mistake"}; };
  connect();
  told answer;
  ASSERT_TRUE(ask({"x"}, answer));
  EXPECT_THROW(net.run_for(100ms), std::runtime_error);
  two.node.wake();
  net.run_for(100ms);
  EXPECT_EQ(answer.how, errc::command_failed);
  EXPECT_EQ(answer.times, 1);
}

// --- who behaves badly

TEST_F(NodeCommands, ThatMakeNoSenseEndTheirLink) {
  byte_buffer cut_off = command_message(flag_command, 0, 1, {"x"});
  cut_off.pop_back();
  std::uint64_t id = 2;
  for (const byte_buffer& bad :
       {cut_off, command_message(flag_command, 7, 1, {"x"}),
        command_message(flag_command, 0, 1, {}),
        command_message(flag_command | flag_reply, 0, 1, {"x"}),
        command_message(flag_command | flag_traced, 0, 1, {"longer than a trace context is"}),
        byte_buffer(cut_off.begin(), cut_off.begin() + 12)}) {
    hand_played peer{net, ++id, 2, true};
    ASSERT_TRUE(net.run_until([&] { return peer.is_registered(); }, 5s));
    net.run_for(5ms);
    peer.say(flow_body{.next = 1});
    peer.say_bytes(bad);
    net.run_for(3s);
    EXPECT_TRUE(peer.has_ended());
  }
  EXPECT_EQ(two.core().stats().violations, 6U);
  EXPECT_TRUE(handled.empty());
}

TEST_F(NodeCommands, TakeNoReplyFromAnybodyElse) {
  connect();
  keep();
  hand_played forger{net, 3, 1, true};
  ASSERT_TRUE(net.run_until([&] { return forger.is_registered(); }, 5s));
  net.run_for(5ms);
  told probe;
  told answer;
  ASSERT_TRUE(one.node.user().command(3, {"probe"}, 1s, probe.write()));
  ASSERT_TRUE(ask({"x"}, answer));
  net.run_for(5ms);
  ASSERT_FALSE(forger.got.empty());
  command_body seen;
  ASSERT_TRUE(decode(payload_of(forger.got.back()), seen));
  forger.say(flow_body{.next = 1});
  for (int i = 0; i < 10; ++i)
    forger.say_bytes(command_message(flag_reply, 0, seen.number + 1, {"forged"}));
  forger.say_bytes(command_message(flag_reply, 0, 12345, {"made up"}));
  net.run_for(10ms);
  EXPECT_EQ(answer.times, 0);
  EXPECT_EQ(one.core().stats().stray_replies, 11U);
  EXPECT_EQ(one.logged("3 answers what 2 was asked"), 1);
  EXPECT_TRUE(kept.at(0).reply("real"));
  two.node.wake();
  net.run_for(1s);
  expect(answer, errc::ok, {"real"});
  expect(probe, errc::timed_out);
}

// --- coroutines

struct detached_coroutine {
  struct promise_type {
    detached_coroutine get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

detached_coroutine ask_twice(node& of, std::vector<result<command_reply>>& into) {
  into.push_back(co_await of.command(2, {"good", "argument"}, 1s));
  into.push_back(co_await of.command(2, {"bad"}, 1s));
  into.push_back(co_await of.command(9, {"nobody"}, 1s));
}

TEST_F(NodeCommands, MayBeAwaited) {
  connect();
  on_command = [](command& c) {
    if (c.name() == "good")
      c.reply(c.arguments()[0]);
    else
      c.fail("in its own words");
  };
  std::vector<result<command_reply>> all;
  ask_twice(one.node.user(), all);
  EXPECT_TRUE(all.empty());
  one.node.wake();
  net.run_for(100ms);
  ASSERT_EQ(all.size(), 3U);
  ASSERT_TRUE(all[0]);
  EXPECT_EQ(all[0]->text(), "argument");
  EXPECT_EQ(all[1].error(), errc::command_failed);
  EXPECT_EQ(all[1].error().text(), "in its own words");
  EXPECT_EQ(all[2].error(), errc::no_route);
}

}  // namespace
}  // namespace atbus::detail
