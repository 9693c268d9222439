// Receivers on a libuv loop.
#include <stdexcept>

#include "loop_fixture.h"
#include "system/kernel.h"

namespace atbus {
namespace {

INSTANTIATE_TEST_SUITE_P(Channel, Loop, ::testing::Values("mem://", "shm://"), scheme_name);

TEST_P(Loop, DeliversWhatWaitedBeforeItRan) {
  std::vector<std::string> got;
  auto inbox = bind_receiver([&](bytes_view m) { got.emplace_back(as_text(m)); });
  auto out = open_sender();
  ASSERT_TRUE(out.send(as_bytes("one")));
  ASSERT_TRUE(out.send(as_bytes("two")));
  EXPECT_TRUE(run_until([&] { return got.size() == 2; }));
  EXPECT_EQ(got, (std::vector<std::string>{"one", "two"}));
}

TEST_P(Loop, IsWokenByEachMessageOfAnotherThread) {
  constexpr int count = 300;
  std::atomic<int> got{0};
  auto inbox = bind_receiver([&](const received_message&) { ++got; });
  std::thread other{[&] {
    auto out = open_sender();
    const auto deadline = now() + 30s;
    for (int i = 0; i < count; ++i) {
      EXPECT_TRUE(out.send(as_bytes("x")));
      while (got <= i && now() < deadline)
        std::this_thread::yield();
    }
  }};
  EXPECT_TRUE(run_until([&] { return got == count; }));
  other.join();
}

TEST_P(Loop, TurnsNoMoreOftenThanItIsAskedToWhileIdle) {
  int got = 0;
  auto inbox = bind_receiver([&](bytes_view) { ++got; });
  auto out = loop_sender::attach(&loop, open_sender());
  ASSERT_TRUE(out);
  ASSERT_TRUE((*out)->send(as_bytes("x")));
  ASSERT_TRUE(run_until([&] { return got == 1; }));
  EXPECT_TRUE(sleeps_through(300ms));
}

TEST_P(Loop, OtherTurnsOfTheLoopDoNotWakeASleepingReceiver) {
  int got = 0;
  auto inbox = bind_receiver([&](bytes_view) { ++got; });
  auto out = open_sender();
  settle();
  for (int i = 0; i < 100; ++i)
    uv_run(&loop, UV_RUN_NOWAIT);
  const auto rings = inbox->stats().wake_ups;
  ASSERT_TRUE(out.send(as_bytes("x")));
  EXPECT_EQ(inbox->stats().wake_ups, rings + 1);
  EXPECT_TRUE(run_until([&] { return got == 1; }));
}

TEST_P(Loop, HearsAgainAfterItsOwnerPolledByHand) {
  int got = 0;
  auto inbox = bind_receiver([&](bytes_view) { ++got; });
  auto out = open_sender();
  settle();
  ASSERT_TRUE(out.send(as_bytes("by hand")));
  EXPECT_EQ(inbox->poll([](bytes_view) {}), 1U);
  for (int i = 0; i < 3; ++i)
    uv_run(&loop, UV_RUN_NOWAIT);
  std::thread other{[&] { EXPECT_TRUE(out.send(as_bytes("from the loop"))); }};
  EXPECT_TRUE(run_until([&] { return got == 1; }));
  other.join();
}

TEST_P(Loop, DeliversNoMoreInATurnThanAllowed) {
  int got = 0;
  int most = 0;
  int turn_seen = -1;
  int in_turn = 0;
  auto inbox = bind_receiver(
      [&](bytes_view) {
        in_turn = turn_seen == turns ? in_turn + 1 : 1;
        turn_seen = turns;
        most = std::max(most, in_turn);
        ++got;
      },
      {.messages = 7});
  auto out = open_sender();
  for (int i = 0; i < 100; ++i)
    ASSERT_TRUE(out.send(as_bytes("x")));
  EXPECT_TRUE(run_until([&] { return got == 100; }));
  EXPECT_EQ(most, 7);
}

TEST_P(Loop, TwoReceiversShareIt) {
  int first = 0;
  int second = 0;
  auto inbox = bind_receiver([&](bytes_view) { ++first; }, {.messages = 5});
  const std::string other_address = fresh_address();
  auto other = receiver::open(other_address);
  ASSERT_TRUE(other);
  auto other_out = sender::open(other_address);
  ASSERT_TRUE(other_out);
  auto other_inbox = loop_receiver::attach(&loop, std::move(*other), [&](bytes_view) {
    ++second;
    // Neither has to wait until the other is done.
    EXPECT_LT(first, 100);
  });
  ASSERT_TRUE(other_inbox);
  auto out = open_sender();
  for (int i = 0; i < 100; ++i)
    ASSERT_TRUE(out.send(as_bytes("x")));
  for (int i = 0; i < 10; ++i)
    ASSERT_TRUE(other_out->send(as_bytes("y")));
  EXPECT_TRUE(run_until([&] { return first == 100 && second == 10; }));
  EXPECT_TRUE((*other_inbox)->remove());
}

// --- lifetime

TEST_P(Loop, MayBeDestroyedInsideItsHandler) {
  int got = 0;
  std::optional<loop_receiver> inbox;
  auto owned = std::make_shared<int>(0);
  inbox.emplace(bind_receiver([&, owned](bytes_view) {
    ++got;
    inbox.reset();
    ++*owned;  // what the handler captured lasts until it returns
  }));
  auto out = open_sender();
  ASSERT_TRUE(out.send(as_bytes("one")));
  ASSERT_TRUE(out.send(as_bytes("two")));
  uv_run(&loop, UV_RUN_DEFAULT);  // nothing keeps it alive any more
  EXPECT_EQ(got, 1);
  EXPECT_EQ(*owned, 1);
  EXPECT_EQ(owned.use_count(), 1);
  EXPECT_FALSE(out.receiver_alive());
}

TEST_P(Loop, DestructionFreesReceiverAndHandlerAtOnce) {
  auto owned = std::make_shared<int>(0);
  auto inbox = std::make_optional(bind_receiver([owned](bytes_view) {}));
  auto out = open_sender();
  EXPECT_TRUE(out.receiver_alive());
  inbox.reset();
  EXPECT_FALSE(out.receiver_alive());
  EXPECT_EQ(owned.use_count(), 1);
}

TEST_P(Loop, MessagesLeftBehindWaitForASuccessor) {
  auto inbox = std::make_optional(bind_receiver([](bytes_view) {}, {.messages = 1}));
  auto out = open_sender();
  inbox.reset();
  ASSERT_TRUE(out.send(as_bytes("later")));
  int got = 0;
  inbox.emplace(bind_receiver([&](bytes_view) { ++got; }));
  EXPECT_TRUE(run_until([&] { return got == 1; }));
}

TEST_P(Loop, EndsWhenTheHandlerClosesTheReceiver) {
  std::optional<loop_receiver> inbox;
  inbox.emplace(bind_receiver([&](bytes_view) { (*inbox)->close(); }));
  auto out = open_sender();
  ASSERT_TRUE(out.send(as_bytes("x")));
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT_TRUE(inbox->is_open());
  EXPECT_FALSE((*inbox)->is_open());
}

TEST_P(Loop, IsKeptAliveUntilUnref) {
  auto inbox = bind_receiver([](bytes_view) {});
  EXPECT_NE(uv_loop_alive(&loop), 0);
  inbox.unref();
  EXPECT_EQ(uv_loop_alive(&loop), 0);
  inbox.ref();
  EXPECT_NE(uv_loop_alive(&loop), 0);
  inbox.unref();
  uv_run(&loop, UV_RUN_DEFAULT);
}

TEST_P(Loop, BindingsMayMove) {
  int got = 0;
  auto first = bind_receiver([&](bytes_view) { ++got; });
  auto second = std::move(first);
  EXPECT_FALSE(first.is_open());
  auto out = open_sender();
  ASSERT_TRUE(out.send(as_bytes("x")));
  EXPECT_TRUE(run_until([&] { return got == 1; }));
  auto other = receiver::open(fresh_address());
  ASSERT_TRUE(other);
  second = *loop_receiver::attach(&loop, std::move(*other), [](bytes_view) {});
  EXPECT_FALSE(out.receiver_alive());
  EXPECT_TRUE(second->remove());
}

TEST_P(Loop, TakesOnlyOpenChannelsAndRealLoops) {
  auto inbox = open_receiver();
  auto out = open_sender();
  EXPECT_EQ(loop_receiver::attach(nullptr, std::move(inbox), [](bytes_view) {}).error(),
            errc::invalid_argument);
  EXPECT_EQ(
      loop_receiver::attach(&loop, open_receiver(), [](bytes_view) {}, {.messages = 0}).error(),
      errc::invalid_argument);
  auto closed = open_receiver();
  closed.close();
  EXPECT_EQ(loop_receiver::attach(&loop, std::move(closed), [](bytes_view) {}).error(),
            errc::closed);
  EXPECT_EQ(loop_sender::attach(nullptr, std::move(out)).error(), errc::invalid_argument);
  auto closed_sender = open_sender();
  closed_sender.close();
  EXPECT_EQ(loop_sender::attach(&loop, std::move(closed_sender)).error(), errc::closed);
}

// --- exceptions

TEST_P(Loop, KeepsAnExceptionAndStops) {
  int got = 0;
  auto inbox = bind_receiver([&](bytes_view m) {
    ++got;
    if (as_text(m) == "bad")
      throw std::runtime_error{"from the handler"};
  });
  auto out = open_sender();
  for (const char* text : {"good", "bad", "good"})
    ASSERT_TRUE(out.send(as_bytes(text)));
  uv_run(&loop, UV_RUN_DEFAULT);  // stopped by the exception, which does not come out here
  EXPECT_EQ(got, 2);
  EXPECT_TRUE(inbox.failed());
  for (int i = 0; i < 3; ++i)
    uv_run(&loop, UV_RUN_NOWAIT);
  EXPECT_EQ(got, 2) << "paused until somebody took the exception";
  EXPECT_THROW(inbox.rethrow(), std::runtime_error);
  EXPECT_FALSE(inbox.failed());
  EXPECT_TRUE(run_until([&] { return got == 3; }));
  EXPECT_NO_THROW(inbox.rethrow());
}

TEST_P(Loop, AccessThrowsTheKeptException) {
  auto inbox = bind_receiver([](bytes_view) { throw std::runtime_error{"from the handler"}; });
  auto out = open_sender();
  ASSERT_TRUE(out.send(as_bytes("x")));
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT_THROW((void)inbox->stats(), std::runtime_error);
  EXPECT_EQ(inbox->stats().messages, 1U) << "the message counts as handled";
}

TEST_P(Loop, DestructionDropsAKeptException) {
  auto inbox =
      std::make_optional(bind_receiver([](bytes_view) { throw std::runtime_error{"lost"}; }));
  auto out = open_sender();
  ASSERT_TRUE(out.send(as_bytes("x")));
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT_TRUE(inbox->failed());
  EXPECT_NO_THROW(inbox.reset());
}

TEST_P(Loop, HandlerMayDestroyItsBindingAndThrow) {
  std::optional<loop_receiver> inbox;
  inbox.emplace(bind_receiver([&](bytes_view) {
    inbox.reset();
    throw std::runtime_error{"lost"};
  }));
  auto out = open_sender();
  ASSERT_TRUE(out.send(as_bytes("x")));
  EXPECT_EQ(uv_run(&loop, UV_RUN_DEFAULT), 0);
}

// --- kernels without membarrier

class NoBarriers : public Loop {
 protected:
  static void refuse_barriers() {
    detail::kernel().membarrier = [](int, unsigned) {
      errno = ENOSYS;
      return -1;
    };
  }
  void TearDown() override {
    detail::kernel().membarrier = before_;
    Loop::TearDown();
  }

 private:
  decltype(detail::kernel_calls::membarrier) before_ = detail::kernel().membarrier;
};

INSTANTIATE_TEST_SUITE_P(Channel, NoBarriers, ::testing::Values("mem://", "shm://"), scheme_name);

TEST_P(NoBarriers, ReceiverLooksOftenOnlyUntilItsSenderFences) {
  auto first = std::make_optional(open_receiver());
  auto out = open_sender();
  first.reset();
  refuse_barriers();
  int got = 0;
  auto inbox = bind_receiver([&](bytes_view) { ++got; });
  // A sender that does not fence yet may be missed, so the receiver looks again and again.
  turns = 0;
  EXPECT_TRUE(run_until([&] { return turns > 10; }));
  ASSERT_TRUE(out.send(as_bytes("x")));  // it sees the request, and fences from now on
  EXPECT_TRUE(run_until([&] { return got == 1; }));
  EXPECT_TRUE(sleeps_through(100ms));
  ASSERT_TRUE(out.send(as_bytes("x")));
  EXPECT_TRUE(run_until([&] { return got == 2; }));
}

TEST_P(NoBarriers, BindingMayBeDestroyedInsideItsHandlerOfProblems) {
  auto inbox = std::make_optional(bind_receiver([](bytes_view) {}));
  auto out = open_sender();
  settle();
  int told = 0;
  (*inbox)->on_problem([&](const error&) {
    ++told;
    inbox.reset();
  });
  refuse_barriers();
  ASSERT_TRUE(out.send(as_bytes("wakes it")));  // it sleeps anew, which needs a barrier
  EXPECT_TRUE(run_until([&] { return told != 0; }));
  uv_run(&loop, UV_RUN_DEFAULT);  // nothing keeps it alive any more
  EXPECT_EQ(told, 1);
  EXPECT_FALSE(out.receiver_alive());
}

}  // namespace
}  // namespace atbus
