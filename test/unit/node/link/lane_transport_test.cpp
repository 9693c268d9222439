// What only links over lanes do: pairing, and what unproven peers in an inbox meet.
#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "link_fixture.h"

namespace atbus::detail {
namespace {

using outcomes = std::vector<std::pair<std::string, errc>>;

class LaneTransport : public TwoEnds {
 protected:
  // Somebody who is no node.
  sender open_raw(const std::string& at) {
    sender_options options;
    options.directory = directory.path();
    auto opened = sender::open(at, options);
    EXPECT_TRUE(opened) << opened.error().text();
    return std::move(*opened);
  }
  receiver open_raw_receiver(const std::string& at) {
    receiver_options options;
    options.directory = directory.path();
    auto opened = receiver::open(at, options);
    EXPECT_TRUE(opened) << opened.error().text();
    return std::move(*opened);
  }
  static status append(link& to, std::string_view text) {
    status why;
    std::byte* const at = to.claim(text.size(), message_purpose::data, why);
    if (at == nullptr)
      return why;
    std::ranges::copy(as_bytes(text), at);
    to.append(text.size());
    return {};
  }
  // What `a` is to refuse, while its link goes on.
  void expect_refused(bytes_view record) {
    auto unproven = open_raw(where);
    ASSERT_TRUE(unproven.send(record));
    ASSERT_TRUE(until([&] { return a->count("problem") == 1; }));
    EXPECT_EQ(a->find("problem").why, errc::protocol_error);
    EXPECT_NE(a->find("problem").text.find(where), std::string::npos) << a->find("problem").text;
    EXPECT_EQ(unproven.look(), errc::quarantined);
    EXPECT_EQ(a->count("accepted"), 1U);
    EXPECT_EQ(a->messages.size(), 0U);
    ASSERT_TRUE(send(*out, "goes on"));
    ASSERT_TRUE(until([&] { return a->messages.size() == 1; }));
    EXPECT_EQ(a->count("closed"), 0U);
  }
};

INSTANTIATE_TEST_SUITE_P(Kind, LaneTransport, ::testing::ValuesIn(lane_kinds), kind_name);

TEST_P(LaneTransport, RefusesMessagesBeforeACall) {
  join();
  expect_refused(as_bytes("who am I"));
}

TEST_P(LaneTransport, RefusesACallThatIsNone) {
  join();
  expect_refused(as_bytes("\xffnonsense"));
}

TEST_P(LaneTransport, RefusesACallThatItCantAnswer) {
  for (const char* const back :
       {"ipv4://127.0.0.1:1", "shm://", "nonsense", "shm://nobody-there", "mem://nobody-there"}) {
    join();
    expect_refused(to_bytes({.kind = pairing_kind::call, .token = 1, .address = back}));
  }
}

TEST_P(LaneTransport, DropsAnAnswerToNobody) {
  join();
  auto unproven = open_raw(where);
  ASSERT_TRUE(unproven.send(to_bytes({.kind = pairing_kind::answer, .token = 1, .address = {}})));
  ASSERT_TRUE(until([&] { return unproven.look() == errc::quarantined; }));
  EXPECT_EQ(a->events.size(), 1U);
}

TEST_P(LaneTransport, ClosesALinkWhoseMessageLooksLikeItsOwn) {
  join();
  ASSERT_TRUE(send(*out, "\xffnonsense"));
  ASSERT_TRUE(until([&] { return a->count("closed") == 1 && b->count("closed") == 1; }));
  EXPECT_EQ(a->find("closed").why, errc::protocol_error);
  EXPECT_EQ(b->find("closed").why, errc::peer_closed);
}

TEST_P(LaneTransport, ClosesALinkInWhichAnAnswerComes) {
  join();
  const auto answer = to_bytes({.kind = pairing_kind::answer, .token = 1, .address = {}});
  ASSERT_TRUE(send(*out, as_text(answer)));
  ASSERT_TRUE(until([&] { return a->count("closed") == 1 && b->count("closed") == 1; }));
  EXPECT_EQ(a->find("closed").why, errc::protocol_error);
}

TEST_P(LaneTransport, TakesACallInALinkForANewBeginning) {
  join();
  auto back = open_raw_receiver(GetParam().fresh_address(directory.path()) + "back");
  const auto again = to_bytes({.kind = pairing_kind::call, .token = 1, .address = back.address()});
  ASSERT_TRUE(send(*out, as_text(again)));
  ASSERT_TRUE(until([&] { return a->count("accepted") == 2 && a->count("closed") == 1; }));
  EXPECT_EQ(a->find("closed").at, in);
  EXPECT_EQ(a->find("closed").why, errc::peer_closed);
  EXPECT_TRUE(back.remove());
}

TEST_P(LaneTransport, GivesUpWithoutAnAnswer) {
  setting.connect_timeout = 100ms;
  make(b, 2);
  auto deaf = open_raw_receiver(GetParam().fresh_address(directory.path()) + "deaf");
  link* const made = b->connect(deaf.address());
  EXPECT_TRUE(send(*made, "for whoever answers"));
  ASSERT_TRUE(turn_until({b.get()}, [&] { return b->count("closed") == 1; }));
  EXPECT_EQ(b->find("closed").why, errc::timed_out);
  EXPECT_EQ(b->unreleased, (outcomes{{"for whoever answers", errc::outcome_unknown}}));
  EXPECT_TRUE(deaf.remove());
}

TEST_P(LaneTransport, GivesUpWhenWhoWasCalledEnds) {
  make(b, 2);
  auto deaf = open_raw_receiver(GetParam().fresh_address(directory.path()) + "deaf");
  b->connect(deaf.address());
  EXPECT_TRUE(deaf.remove());
  ASSERT_TRUE(turn_until({b.get()}, [&] { return b->count("closed") == 1; }));
  EXPECT_EQ(b->find("closed").why, errc::peer_closed);
}

TEST_P(LaneTransport, SendsWhatWasCommittedBeforeTheAnswer) {
  start();
  out = b->connect(where);
  ASSERT_TRUE(send(*out, "early"));
  ASSERT_TRUE(until([&] { return a->messages.size() == 1; }));
  EXPECT_EQ(a->events[0].what, "accepted");
}

TEST_P(LaneTransport, KnowsExactlyWhatTheOtherEndDidNotHandle) {
  join();
  a->on_received = [](link& from, bytes_view message) {
    if (as_text(message) == "two")
      from.abort();
  };
  for (const char* text : {"one", "two", "three", "four"})
    ASSERT_TRUE(send(*out, text));
  ASSERT_TRUE(until([&] { return b->count("closed") == 1; }));
  EXPECT_EQ(a->messages, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(b->unreleased,
            (outcomes{{"three", errc::not_delivered}, {"four", errc::not_delivered}}));
}

TEST_P(LaneTransport, ShowsWhatIsAppendedWhenItIsFlushed) {
  join();
  const auto shows_with = [&](std::string_view text, const std::function<void()>& what) {
    a->messages.clear();
    ASSERT_TRUE(append(*out, text));
    a->poll();
    EXPECT_EQ(a->messages.size(), 0U);
    what();
    a->poll();
    ASSERT_FALSE(a->messages.empty());
    EXPECT_EQ(a->messages.front(), text);
  };
  shows_with("one", [&] { out->flush(); });
  shows_with("two", [&] { b->way->flush(); });
  shows_with("three", [&] { ASSERT_TRUE(send(*out, "behind it")); });
  shows_with("four", [&] {
    (void)b->way->prepare_sleep();
    b->way->finish_sleep();
  });
  shows_with("five", [&] { out->close(1s); });
}

TEST_P(LaneTransport, ShowsWhatIsAppendedToALaneThatIsFull) {
  join();
  const std::string text(1024, 'x');
  std::size_t count = 0;
  status sent;
  while (count < 100'000 && (sent = append(*out, text)))
    ++count;
  EXPECT_EQ(sent, errc::would_block);
  while (a->poll() != 0) {
  }
  EXPECT_EQ(a->messages.size(), count);
  ASSERT_TRUE(until([&] { return a->messages.size() == count && b->count("writable") == 1; }));
}

TEST_P(LaneTransport, ShowsWhatWasAppendedByAnEndThatCloses) {
  join();
  ASSERT_TRUE(append(*out, "last words"));
  b->way->close();
  ASSERT_TRUE(turn_until({a.get()}, [&] { return a->count("closed") == 1; }));
  EXPECT_EQ(a->messages, std::vector<std::string>{"last words"});
}

TEST_P(LaneTransport, LingersUntilAllIsHandled) {
  join();
  in->pause();
  ASSERT_TRUE(send(*out, "last words"));
  out->close(30s);
  for (int i = 0; i != 20; ++i) {
    b->poll();
    sleep_all({b.get()});
  }
  EXPECT_EQ(b->count("closed"), 0U);
  in->resume();
  ASSERT_TRUE(until([&] { return a->count("closed") == 1 && b->count("closed") == 1; }));
  EXPECT_EQ(b->find("closed").why, errc::ok);
  EXPECT_EQ(a->messages, std::vector<std::string>{"last words"});
  EXPECT_EQ(b->unreleased, outcomes{});
}

TEST_P(LaneTransport, LingersNoLongerThanItWasTold) {
  join();
  in->pause();
  ASSERT_TRUE(send(*out, "last words"));
  out->close(30s);
  out->close(10ms);
  ASSERT_TRUE(until([&] { return b->count("closed") == 1; }));
  EXPECT_EQ(b->find("closed").why, errc::timed_out);
  EXPECT_EQ(b->unreleased, (outcomes{{"last words", errc::outcome_unknown}}));
}

TEST_P(LaneTransport, ListensInTheInboxThatItDialledFrom) {
  make(a, 1);
  make(b, 2);
  where = a->listen(GetParam().fresh_address(directory.path()));
  b->connect(where);
  ASSERT_TRUE(until([&] { return a->count("accepted") == 1 && b->count("opened") == 1; }));
  if (GetParam().kind != link_kind::shared_memory)
    return;  // a made-up name is of shm:// only
  const auto also = b->listen("shm://");
  EXPECT_EQ(also, a->last->peer());
  a->connect(also);
  EXPECT_TRUE(until([&] { return b->count("accepted") == 1; }));
}

TEST_P(LaneTransport, SaysWhyAnInboxCantBeMade) {
  setting.queue_size = 1000;  // too small for two messages
  make(a, 1);
  const std::string at = GetParam().fresh_address(directory.path());
  const auto where_not = a->way->listen(*address::parse(at));
  ASSERT_FALSE(where_not);
  EXPECT_EQ(where_not.error(), errc::invalid_argument);
  EXPECT_NE(where_not.error().text().find(GetParam().name), std::string::npos);
  const auto to_nobody = a->way->connect(*address::parse(std::string{GetParam().name} + "://x"));
  EXPECT_FALSE(to_nobody);
}

}  // namespace

TEST(LaneTransportOpening, RefusesAddressesThatAreNoLanes) {
  recorded_end end{std::make_unique<lane_transport>()};
  EXPECT_EQ(end.way->listen(*address::parse("ipv4://127.0.0.1:0")).error(), errc::not_supported);
  EXPECT_EQ(end.way->connect(*address::parse("unix://@x")).error(), errc::not_supported);
  EXPECT_EQ(end.way->connect(*address::parse("shm://")).error(), errc::invalid_address);
}

}  // namespace atbus::detail
