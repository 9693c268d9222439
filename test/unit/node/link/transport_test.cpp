// What links of every kind do alike.
#include "link_fixture.h"

namespace atbus::detail {
namespace {

class Transport : public TwoEnds {};
class RealTransport : public TwoEnds {};

INSTANTIATE_TEST_SUITE_P(Kind, Transport, ::testing::ValuesIn(all_kinds()), kind_name);
INSTANTIATE_TEST_SUITE_P(Kind, RealTransport, ::testing::ValuesIn(real_kinds()), kind_name);

std::string numbered(std::size_t number) {
  return std::to_string(number) + ":" + std::string((number * 37) % 700, 'x');
}

TEST_P(Transport, OpensALinkAndSaysWhatItIs) {
  join();
  for (link* const end : {in, out}) {
    EXPECT_EQ(end->kind(), GetParam().kind);
    EXPECT_EQ(end->trust(), GetParam().trust);
    EXPECT_EQ(end->message_limit(), setting.message_limit);
    EXPECT_EQ(end->context, nullptr);
    EXPECT_NE(end->peer(), "");
  }
  EXPECT_EQ(out->peer(), where);
  EXPECT_EQ(a->events.size(), 1U);
  EXPECT_EQ(b->events.size(), 1U);
}

TEST_P(Transport, CarriesMessagesBothWaysInOrder) {
  join();
  in->confirm({});  // a stranger may not say as much
  constexpr std::size_t count = 5000;
  std::size_t sent[2] = {};
  const auto pump = [&](link& to, std::size_t& next) {
    while (next != count && send(to, numbered(next)))
      ++next;
  };
  const auto answer = [&](recorded_end& end) {
    // Stands for the node's acknowledgements.
    end.on_received = [&](link& from, bytes_view) { (&from == in ? out : in)->release(1); };
    end.on_writable = [&](link& at) { pump(at, sent[&at == in ? 0 : 1]); };
  };
  answer(*a);
  answer(*b);
  pump(*in, sent[0]);
  pump(*out, sent[1]);
  ASSERT_LT(sent[0], count);  // writable has to be told for the rest
  ASSERT_TRUE(until([&] { return a->messages.size() == count && b->messages.size() == count; }));
  for (std::size_t i = 0; i != count; ++i) {
    ASSERT_EQ(a->messages[i], numbered(i));
    ASSERT_EQ(b->messages[i], numbered(i));
  }
}

TEST_P(Transport, SendsTheBytesThatAreCommitted) {
  join();
  status why;
  std::byte* at = out->claim(10, message_purpose::data, why);
  ASSERT_NE(at, nullptr);
  at = out->claim(100, message_purpose::data, why);  // takes the first one away
  ASSERT_NE(at, nullptr);
  std::copy_n(as_bytes("shorter").begin(), 7, at);
  out->commit(7);
  ASSERT_TRUE(send(*out, ""));
  ASSERT_TRUE(until([&] { return a->messages.size() == 2; }));
  EXPECT_EQ(a->messages, (std::vector<std::string>{"shorter", ""}));
}

TEST_P(Transport, RefusesAMessageAboveTheLimit) {
  join();
  EXPECT_TRUE(send(*out, std::string(setting.message_limit, 'x')));
  EXPECT_EQ(send(*out, std::string(setting.message_limit + 1, 'x')), errc::message_too_large);
  EXPECT_EQ(send(*in, std::string(setting.message_limit + 1, 'x')), errc::message_too_large);
  ASSERT_TRUE(until([&] { return a->messages.size() == 1; }));
  EXPECT_EQ(a->messages[0].size(), setting.message_limit);
}

TEST_P(RealTransport, WakesWhoSleepsOnItsDescriptor) {
  join();
  ASSERT_TRUE(turn_until({a.get(), b.get()}, [&] {
    return a->poll() == 0 && b->poll() == 0 && a->way->prepare_sleep();
  }));
  pollfd watched{a->way->descriptor(), POLLIN, 0};
  EXPECT_EQ(poll(&watched, 1, 0), 0);
  ASSERT_TRUE(send(*out, "wake up"));
  b->way->flush();
  EXPECT_EQ(poll(&watched, 1, 30'000), 1);
  a->way->finish_sleep();
  EXPECT_EQ(a->poll(), 1U);
  EXPECT_EQ(a->messages.size(), 1U);
}

TEST_P(Transport, StopsAtTheLimitOfMessagesAndGoesOnInTheNextPoll) {
  join();
  for (int i = 0; i != 10; ++i)
    ASSERT_TRUE(send(*out, "one of ten"));
  out->flush();
  ASSERT_TRUE(until([&] { return !a->messages.empty() || a->poll({.messages = 3}) != 0; }));
  EXPECT_LE(a->messages.size(), 10U);
  while (a->messages.size() != 10) {
    EXPECT_LE(a->poll({.messages = 3}), 3U);
    sleep_all({a.get(), b.get()});
  }
}

TEST_P(Transport, TellsWhenThereIsRoomAgain) {
  join();
  in->pause();
  const std::string text(1000, 'x');
  const std::size_t count = fill(*out, text);
  ASSERT_GT(count, 10U);
  (void)until([&] { return b->poll() == 0; });
  EXPECT_EQ(b->count("writable"), 0U);
  in->resume();
  a->on_received = [&](link&, bytes_view) { out->release(1); };
  ASSERT_TRUE(until([&] { return b->count("writable") != 0; }));
  EXPECT_EQ(b->find("writable").at, out);
  EXPECT_TRUE(send(*out, text));
}

TEST_P(Transport, TellsWhenThereIsRoomForControlMessagesAgain) {
  join();
  in->pause();
  const std::string text(1000, 'x');
  while (send(*out, text, message_purpose::control)) {
  }
  in->resume();
  a->on_received = [&](link&, bytes_view) { out->release(1); };
  ASSERT_TRUE(until([&] { return b->count("writable") != 0; }));
  EXPECT_TRUE(send(*out, text, message_purpose::control));
}

TEST_P(Transport, SaysWhetherAllWasHandled) {
  join();
  EXPECT_TRUE(out->settled());
  for (int i = 0; i != 3; ++i)
    ASSERT_TRUE(send(*out, "to be handled"));
  EXPECT_FALSE(out->settled());
  ASSERT_TRUE(until([&] { return a->messages.size() == 3; }));
  out->release(2);
  EXPECT_EQ(out->settled(), !out->keeps());
  out->release(1);
  EXPECT_TRUE(out->settled());
}

TEST_P(Transport, DeliversNothingWhilePaused) {
  join();
  in->pause();
  ASSERT_TRUE(send(*out, "later"));
  ASSERT_TRUE(send(*in, "now"));
  ASSERT_TRUE(until([&] { return !b->messages.empty(); }));
  for (int i = 0; i != 10; ++i)
    EXPECT_EQ(a->poll(), 0U);
  in->resume();
  ASSERT_TRUE(until([&] { return !a->messages.empty(); }));
  EXPECT_EQ(a->messages[0], "later");
}

TEST_P(Transport, CanPauseInsideAMessage) {
  join();
  a->on_received = [](link& from, bytes_view) { from.pause(); };
  for (int i = 0; i != 3; ++i)
    ASSERT_TRUE(send(*out, std::to_string(i)));
  for (std::size_t i = 1; i != 4; ++i) {
    ASSERT_TRUE(until([&] { return a->messages.size() == i; }));
    EXPECT_EQ(a->poll(), 0U);
    in->resume();
  }
}

TEST_P(Transport, DeliversWhatWasCommittedBeforeAClose) {
  join();
  constexpr std::size_t count = 40;
  for (std::size_t i = 0; i != count; ++i)
    ASSERT_TRUE(send(*out, numbered(i)));
  out->close(30s);
  EXPECT_EQ(send(*out, "too late"), errc::closed);
  ASSERT_TRUE(until([&] { return a->count("closed") == 1 && b->count("closed") == 1; }));
  EXPECT_EQ(a->messages.size(), count);
  EXPECT_EQ(b->find("closed").why, errc::ok) << b->find("closed").text;
  EXPECT_EQ(a->find("closed").why, errc::peer_closed) << a->find("closed").text;
}

TEST_P(Transport, HandsOverWhatWasNotHandled) {
  join();
  in->pause();
  for (const char* text : {"one", "two", "three"})
    ASSERT_TRUE(send(*out, text));
  out->release(1);
  const bool keeps = out->keeps();
  out->abort();
  EXPECT_EQ(send(*out, "too late"), errc::closed);
  ASSERT_TRUE(until([&] { return b->count("closed") == 1; }));
  EXPECT_EQ(b->find("closed").why, errc::closed);
  // Where messages are in the other end's memory, that end may be at them.
  using ends = std::vector<std::pair<std::string, errc>>;
  EXPECT_EQ(b->unreleased,
            keeps ? (ends{{"two", errc::not_delivered}, {"three", errc::not_delivered}})
                  : (ends{{"one", errc::outcome_unknown},
                          {"two", errc::outcome_unknown},
                          {"three", errc::outcome_unknown}}));
}

TEST_P(Transport, HandsOverWhatWasNotTaken) {
  join();
  a->takes = false;
  a->on_received = [](link& from, bytes_view) { from.abort(); };
  const bool keeps = out->keeps();
  ASSERT_TRUE(send(*out, "one"));
  ASSERT_TRUE(send(*out, "two"));
  ASSERT_TRUE(until([&] { return b->count("closed") == 1; }));
  EXPECT_EQ(a->messages, (std::vector<std::string>{"one"}));
  std::vector<std::string> back;
  for (const auto& [text, outcome] : b->unreleased) {
    back.push_back(text);
    EXPECT_TRUE(!keeps || outcome == errc::outcome_unknown) << text;
  }
  EXPECT_EQ(back, (std::vector<std::string>{"one", "two"}));
}

TEST_P(Transport, TellsTheOtherEndOfAnAbort) {
  join();
  out->abort();
  ASSERT_TRUE(until([&] { return a->count("closed") == 1; }));
  EXPECT_EQ(a->find("closed").at, in);
  EXPECT_EQ(a->find("closed").why, errc::peer_closed) << a->find("closed").text;
}

TEST_P(Transport, TellsWhenTheOtherTransportEnds) {
  join();
  b.reset();
  ASSERT_TRUE(turn_until({a.get()}, [&] { return a->count("closed") == 1; }));
  EXPECT_EQ(a->find("closed").why, errc::peer_closed) << a->find("closed").text;
}

TEST_P(Transport, TellsThatNobodyListens) {
  start();
  a.reset();
  link* const made = b->connect(where);
  ASSERT_NE(made, nullptr);
  ASSERT_TRUE(turn_until({b.get()}, [&] { return b->count("closed") == 1; }));
  EXPECT_EQ(b->find("closed").at, made);
  EXPECT_EQ(b->find("closed").why, errc::not_found) << b->find("closed").text;
  EXPECT_NE(b->find("closed").text.find(where), std::string::npos) << b->find("closed").text;
}

TEST_P(Transport, NamesTheAddressWhereItCantListen) {
  start();
  const auto twice = b->way->listen(*address::parse(where));
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error(), errc::receiver_exists);
  EXPECT_NE(twice.error().text().find(where), std::string::npos) << twice.error().text();
}

TEST_P(Transport, HoldsManyLinks) {
  start();
  constexpr std::size_t count = 20;
  std::vector<link*> dialled;
  b->on_opened = [&](link& at, bool) { dialled.push_back(&at); };
  for (std::size_t i = 0; i != count; ++i)
    b->connect(where);
  ASSERT_TRUE(until([&] { return a->count("accepted") == count && b->count("opened") == count; }));
  for (std::size_t i = 0; i < count; i += 2)
    dialled[i]->abort();
  ASSERT_TRUE(until([&] { return a->count("closed") == count / 2; }));
  for (std::size_t i = 1; i < count; i += 2)
    ASSERT_TRUE(send(*dialled[i], std::to_string(i)));
  ASSERT_TRUE(until([&] { return a->messages.size() == count / 2; }));
}

// Each verb that changes links, inside each event.
TEST_P(Transport, TakesAnyVerbInsideAnyEvent) {
  const std::vector<std::function<void(recorded_end&, link&)>> verbs{
      [](recorded_end&, link& at) { at.close(1s); },
      [](recorded_end&, link& at) { at.abort(); },
      [&](recorded_end& end, link&) { (void)end.way->connect(*address::parse(where)); },
      [](recorded_end&, link& at) {
        at.abort();
        at.close(1s);
        at.pause();
        at.resume();
        at.confirm({});
        at.flush();
        at.release(1);
        status why;
        EXPECT_EQ(at.claim(1, message_purpose::data, why), nullptr);
        EXPECT_EQ(why, errc::closed);
      },
      [](recorded_end& end, link&) { end.way->flush(); },
      [](recorded_end& end, link&) { EXPECT_EQ(end.way->poll({}), 0U); },
  };
  for (const auto& verb : verbs) {
    for (int event = 0; event != 4; ++event) {
      start();
      int done = 0;
      const auto act = [&](link& at) {
        if (++done == 1)
          verb(*b, at);
      };
      a->on_opened = [&](link& at, bool) { EXPECT_TRUE(send(at, "welcome")); };
      b->on_opened = [&](link& at, bool) {
        if (event == 0)
          return act(at);
        at.confirm({});
        (void)fill(at, std::string(1000, 'x'));
        if (event == 3)
          at.abort();
      };
      a->on_received = [&](link&, bytes_view) {
        if (event == 2 && b->last != nullptr)
          b->last->release(1);
      };
      if (event == 1)
        b->on_received = [&](link& at, bytes_view) { act(at); };
      if (event == 2)
        b->on_writable = act;
      if (event == 3)
        b->on_closed = act;
      b->connect(where);
      ASSERT_TRUE(until([&] { return done != 0; })) << "event " << event;
      for (int i = 0; i != 5; ++i) {
        a->poll();
        b->poll();
      }
    }
  }
}

TEST_P(Transport, CanCloseInsideAnyEvent) {
  for (const char* const event : {"opened", "received", "writable", "closed"}) {
    join();
    ASSERT_TRUE(send(*in, "to be received"));
    (void)fill(*out, std::string(1000, 'x'));
    const auto close = [&](link& at) {
      b->way->close();
      EXPECT_EQ(send(at, "x"), errc::closed);
      at.abort();
      at.resume();
    };
    std::size_t told = 0;
    if (event == std::string_view{"opened"}) {
      b->on_opened = [&](link& at, bool) { close(at); };
      b->connect(where);
    } else if (event == std::string_view{"received"}) {
      b->on_received = [&](link& at, bytes_view) { close(at); };
    } else if (event == std::string_view{"writable"}) {
      b->on_writable = [&](link& at) { close(at); };
      a->on_received = [&](link&, bytes_view) {
        if (b->count("writable") == 0)
          out->release(1);
      };
    } else {
      b->on_closed = [&](link& at) { close(at); };
      out->abort();
    }
    const auto done = [&] {
      return event == std::string_view{"received"} ? !b->messages.empty()
             : event == std::string_view{"opened"} ? b->count("opened") == 2
                                                   : b->count(event) == 1;
    };
    ASSERT_TRUE(until(done)) << event;
    told = b->events.size();
    EXPECT_EQ(b->poll(), 0U);
    EXPECT_EQ(b->events.size(), told);
    EXPECT_FALSE(b->way->listen(*address::parse(GetParam().fresh_address(directory.path()))));
    EXPECT_FALSE(b->way->connect(*address::parse(where)));
  }
}

TEST_P(RealTransport, LeavesNothingOpen) {
  const std::size_t before = test::open_descriptors();
  join();
  ASSERT_TRUE(send(*out, "something"));
  ASSERT_TRUE(until([&] { return a->messages.size() == 1; }));
  (void)b->connect(where);
  b->poll();
  a.reset();
  b.reset();
  EXPECT_EQ(test::open_descriptors(), before);
  EXPECT_EQ(directory.files(), std::vector<std::string>{});
}

}  // namespace
}  // namespace atbus::detail
