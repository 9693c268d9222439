// What handlers of connections may do, and what they are told while they do it.
#include <sys/wait.h>

#include <stdexcept>

#include "connection_fixture.h"
#include "plain_socket.h"

namespace atbus {
namespace {

using test::plain_socket;

using ConnectionPoll = TwoSets;

enum class deed { close, abort, close_listener, close_set, destroy_set, connect };

class ConnectionHandler : public ::testing::TestWithParam<deed> {};

std::string deed_name(const ::testing::TestParamInfo<deed>& tested) {
  static const char* const names[] = {"Close",    "Abort",      "CloseListener",
                                      "CloseSet", "DestroySet", "Connect"};
  return names[static_cast<std::size_t>(tested.param)];
}

INSTANTIATE_TEST_SUITE_P(Each, ConnectionHandler,
                         ::testing::Values(deed::close, deed::abort, deed::close_listener,
                                           deed::close_set, deed::destroy_set, deed::connect),
                         deed_name);

TEST_P(ConnectionHandler, MayDoWhateverItLikes) {
  for (const char* where : {"open", "message", "writable", "close", "problem"}) {
    for (const bool other_one : {false, true}) {
      recorded_set a;
      recorded_set b;
      const std::string at = a.listen(fresh_unix_address());
      connection second = a.connect(at, {.reconnect_min = 1h});
      int done = 0;
      const auto act = [&](connection c) {
        ++done;
        if (a.set == nullptr)
          return;
        const connection target = other_one ? second : c;
        switch (GetParam()) {
          case deed::close:
            (void)target.close();
            break;
          case deed::abort:
            (void)target.abort();
            break;
          case deed::close_listener:
            (void)a.set->close_listener(at);
            break;
          case deed::close_set:
            a.set->close();
            break;
          case deed::destroy_set:
            a.set.reset();
            break;
          case deed::connect:
            if (done < 5)
              (void)a.set->connect(at);
            break;
        }
      };
      const std::string_view when = where;
      if (when == "open")
        a.on_open = act;
      if (when == "message")
        a.on_message = [&](connection c, bytes_view) { act(c); };
      if (when == "writable")
        a.on_writable = act;
      if (when == "close")
        a.on_close = [&](connection c, const error&) { act(c); };
      if (when == "problem")
        a.on_problem = [&](const error&) { act(second); };
      connection to_a = b.connect(at);
      const std::string large(60'000, 'x');
      bool stirred = false;
      const auto stir = [&] {
        // So that each handler has a reason to be called.
        if (a.set == nullptr || !a.last.is_open() || std::exchange(stirred, true))
          return;
        for (int i = 0; i < 5; ++i)
          (void)to_a.send(as_bytes("message"));
        while (a.last.send(as_bytes(large)))
          continue;
        if (when == "close")
          (void)a.last.abort();
      };
      std::optional<plain_socket> unproven;
      EXPECT_TRUE(turn_until({&a, &b}, [&] {
        stir();
        if (when == "problem" && stirred && !unproven && a.set != nullptr) {
          unproven = plain_socket::connect(at);
          EXPECT_TRUE(unproven->send(std::string(100, '?')));
        }
        return done != 0;
      })) << where;
      // And nothing falls over later.
      for (int i = 0; i < 20; ++i) {
        if (a.set != nullptr)
          a.set->poll();
        b.set->poll();
      }
    }
  }
}

TEST_F(ConnectionPoll, NothingIsToldFromInsideAHandler) {
  join();
  int depth = 0;
  a.on_message = [&](connection c, bytes_view) {
    EXPECT_EQ(depth++, 0);
    EXPECT_EQ(a.set->poll(), 0U);
    EXPECT_EQ(a.set->wait(1s), errc::invalid_argument);
    EXPECT_FALSE(a.set->prepare_sleep());
    a.set->finish_sleep();
    EXPECT_TRUE(c.send(as_bytes("answer")));
    EXPECT_TRUE(c.flush());
    --depth;
  };
  for (int i = 0; i < 100; ++i)
    EXPECT_TRUE(out.send(as_bytes("x")));
  EXPECT_TRUE(until([&] { return b.messages.size() == 100; }));
}

TEST_F(ConnectionPoll, AHandlerMayEndThePollThatCalledIt) {
  join();
  a.set->end_poll();  // none is running
  a.on_message = [&](connection, bytes_view) {
    if (a.messages.size() % 4 == 0)
      a.set->end_poll();
  };
  for (std::size_t i = 0; i != 10; ++i)
    EXPECT_TRUE(out.send(as_bytes(numbered(i))));
  EXPECT_TRUE(out.flush());
  std::vector<std::size_t> polls;
  for (const auto deadline = now() + 30s; a.messages.size() != 10 && now() < deadline;) {
    if (const std::size_t told = a.set->poll(); told != 0)
      polls.push_back(told);
  }
  EXPECT_EQ(polls, (std::vector<std::size_t>{4, 4, 2}));
}

TEST_F(ConnectionPoll, OtherHandlersAreToldFromTheNextPollOn) {
  join();
  std::vector<std::string> later;
  a.on_message = [&](connection, bytes_view) {
    connection_handlers others;
    others.on_message = [&](connection, bytes_view message) {
      later.emplace_back(as_text(message));
    };
    a.set->set_handlers(std::move(others));
  };
  for (std::size_t i = 0; i != 3; ++i)
    EXPECT_TRUE(out.send(as_bytes(numbered(i))));
  EXPECT_TRUE(out.flush());
  connection second = b.connect(where);  // is told of in the same poll
  EXPECT_TRUE(second.send(as_bytes("hello")));
  EXPECT_TRUE(second.flush());
  ASSERT_TRUE(a.set->wait(30s));
  a.set->poll();
  EXPECT_EQ(a.messages.size(), 4U);
  EXPECT_EQ(a.opens, 2);
  EXPECT_TRUE(later.empty());
  EXPECT_TRUE(out.send(as_bytes("later")));
  ASSERT_TRUE(until([&] { return later.size() == 1; }));
  EXPECT_EQ(later.front(), "later");
  EXPECT_EQ(a.messages.size(), 4U);
}

TEST_F(ConnectionPoll, AThrowingHandlerLeavesPollAndTheRestGoesOn) {
  join();
  for (std::size_t i = 0; i != 5; ++i)
    EXPECT_TRUE(out.send(as_bytes(numbered(i))));
  a.on_message = [&](connection, bytes_view) {
    if (a.messages.size() == 2)
      throw std::runtime_error{"second"};
  };
  bool thrown = false;
  try {
    (void)until([&] { return a.messages.size() == 5; });
  } catch (const std::runtime_error&) {
    thrown = true;
  }
  EXPECT_TRUE(thrown);
  EXPECT_EQ(a.messages.size(), 2U);
  EXPECT_TRUE(until([&] { return a.messages.size() == 5; }));
  EXPECT_EQ(a.messages.back(), numbered(4));
  // One that throws in on_close has been told.
  a.on_close = [](connection, const error&) { throw std::runtime_error{"close"}; };
  EXPECT_TRUE(in.abort());
  EXPECT_THROW(a.set->poll(), std::runtime_error);
  EXPECT_EQ(a.set->size(), 0U);
}

TEST_F(ConnectionPoll, PollKeepsToItsLimits) {
  join();
  for (std::size_t i = 0; i != 10; ++i)
    EXPECT_TRUE(out.send(as_bytes(numbered(i))));
  EXPECT_TRUE(out.flush());
  ASSERT_TRUE(a.set->wait(30s));
  EXPECT_EQ(a.set->poll({.messages = 3}), 3U);
  EXPECT_TRUE(a.set->wait(0s));
  EXPECT_EQ(a.set->poll({.messages = 3}), 3U);
  EXPECT_EQ(a.set->poll(), 4U);
}

TEST_F(ConnectionPoll, AForkedChildIsToldSoAndTheParentGoesOn) {
  join();
  const pid_t child = fork();
  if (child == 0) {
    const bool right = out.send(as_bytes("x")) == errc::used_after_fork &&
                       in.state() == connection_state::closed && a.set->poll() == 0 &&
                       a.set->wait(1h) == errc::used_after_fork &&
                       a.set->connect(where).error() == errc::used_after_fork;
    a.set.reset();
    b.set.reset();
    _exit(right ? 0 : 1);
  }
  int how = 1;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  EXPECT_EQ(how, 0);
  EXPECT_TRUE(out.send(as_bytes("still here")));
  EXPECT_TRUE(until([&] { return a.messages.size() == 1; }));
}

// A Unix socket has at once what was written to it.
TEST(ConnectionWriteDelay, HoldsWhatIsSentUntilItIsFlushed) {
  recorded_set a;
  constexpr auto delay = connection_set_options::write_delay_max;
  recorded_set b{{.write_delay = delay}};
  const connection out = b.connect(a.listen(fresh_unix_address()));
  ASSERT_TRUE(turn_until({&a, &b}, [&] { return a.opens == 1 && b.opens == 1; }));
  const auto read_all = [&] {
    while (a.set->poll() != 0) {
    }
  };
  bool in_time = false;  // the machine was not too slow
  for (const auto until = now() + 20s; !in_time && now() < until;) {
    b.set->flush();
    read_all();
    a.messages.clear();
    const auto begin = now();
    for (const char* const text : {"written", "held"}) {
      EXPECT_TRUE(out.send(as_bytes(text)));
      b.set->poll();
    }
    in_time = now() - begin < delay;
  }
  ASSERT_TRUE(in_time);
  read_all();
  EXPECT_EQ(a.messages, std::vector<std::string>{"written"});
  b.set->flush();
  read_all();
  EXPECT_EQ(a.messages, (std::vector<std::string>{"written", "held"}));
}

TEST(ConnectionWriteDelay, HasALimit) {
  for (const std::chrono::nanoseconds delay : {-1ns, 10ms + 1ns, std::chrono::nanoseconds::max()}) {
    const auto made = connection_set::open({}, {.write_delay = delay});
    EXPECT_EQ(made.error(), errc::invalid_argument) << delay.count();
  }
  EXPECT_TRUE(connection_set::open({}, {.write_delay = 10ms}));
}

}  // namespace
}  // namespace atbus
