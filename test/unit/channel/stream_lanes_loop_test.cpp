// Senders of a Unix socket on a libuv loop that move on to a lane of shared memory.
#include <sys/socket.h>

#include <csignal>

#include "child_process.h"
#include "loop_fixture.h"
#include "shared_memory.h"
#include "system/kernel.h"

namespace atbus {
namespace {

class LaneOnLoop : public Loop {
 protected:
  void SetUp() override {
    Loop::SetUp();
    writes() = 0;
    detail::kernel().sendmsg = [](int fd, const msghdr* message, int flags) {
      ++writes();
      return ::sendmsg(fd, message, flags);
    };
  }
  void TearDown() override {
    detail::kernel() = saved_;
    Loop::TearDown();
  }
  static std::atomic<int>& writes() {
    static std::atomic<int> count{0};
    return count;
  }
  loop_sender bind_sender(const sender_options& options = {}) {
    auto bound = loop_sender::attach(&loop, open_sender(options));
    EXPECT_TRUE(bound) << bound.error().text();
    return std::move(bound).value();
  }
  static void take(receiver& inbox, std::vector<std::string>& texts) {
    while (inbox.poll([&](bytes_view m) { texts.emplace_back(as_text(m)); }) != 0) {
    }
  }
  // As run_until, for what the loop alone does not wake for. True: done.
  bool turn_until(const std::function<bool()>& done) {
    const auto deadline = now() + 30s;
    while (!done()) {
      if (now() > deadline)
        return false;
      uv_run(&loop, UV_RUN_NOWAIT);
    }
    return true;
  }
  bool collect(receiver& inbox, std::vector<std::string>& texts, std::size_t count) {
    return turn_until([&] {
      take(inbox, texts);
      return texts.size() >= count;
    });
  }
  // Until messages are no system calls any more.
  void move_on(receiver& inbox, loop_sender& out) {
    const auto deadline = now() + 30s;
    for (int before = -1; before != writes();) {
      ASSERT_LT(now(), deadline) << "through the socket still";
      std::vector<std::string> texts;
      before = writes();
      ASSERT_TRUE(out->send(as_bytes("probe")));
      ASSERT_TRUE(collect(inbox, texts, 1));
    }
  }

  detail::kernel_calls saved_ = detail::kernel();
};

INSTANTIATE_TEST_SUITE_P(Channel, LaneOnLoop, ::testing::Values("unix://@"), scheme_name);

const receiver_options small_lane{.lanes = 1, .lane_size = 65536, .message_limit = 8192};
const std::string large(1000, 'x');

TEST_P(LaneOnLoop, SenderLearnsThatItsReceiverIsGoneWithoutSending) {
  std::optional<receiver> first{open_receiver()};
  auto out = bind_sender({.reconnect_min = 1ms, .reconnect_max = 10ms});
  move_on(*first, out);
  ASSERT_TRUE(out->send(as_bytes("unread")));
  settle();
  first.reset();
  std::vector<std::string> got;
  auto second = bind_receiver([&](bytes_view m) { got.emplace_back(as_text(m)); });
  EXPECT_TRUE(run_until([&] { return !got.empty(); }));
  EXPECT_EQ(got, std::vector<std::string>{"unread"});
  EXPECT_EQ(out->stats().reconnects, 1U);
}

TEST_P(LaneOnLoop, SenderWithNothingToDoSleeps) {
  auto inbox = open_receiver(small_lane);
  auto out = bind_sender({.message_limit = 8192});
  move_on(inbox, out);
  EXPECT_TRUE(sleeps_through(50ms));
}

TEST_P(LaneOnLoop, ARingThatComesLateKeepsNobodyAwake) {
  auto inbox = open_receiver(small_lane);
  auto out = bind_sender({.message_limit = 8192});
  move_on(inbox, out);
  bool called = false;
  out->on_writable([&] { called = true; });
  while (out->send(as_bytes(large))) {
  }
  settle();
  // As if the ring had not been there yet.
  static bool late;
  late = true;
  detail::kernel().recvmsg = [](int fd, msghdr* message, int flags) {
    if (message->msg_iov->iov_len != sizeof(std::uint32_t) || !std::exchange(late, false))
      return ::recvmsg(fd, message, flags);
    errno = EAGAIN;
    return ssize_t{-1};
  };
  std::vector<std::string> texts;
  take(inbox, texts);
  EXPECT_TRUE(run_until([&] { return called; }));
  ASSERT_FALSE(late);
  EXPECT_TRUE(sleeps_through(50ms));
}

TEST_P(LaneOnLoop, SenderThatFilledItsQueueIsToldOfRoomInTheLane) {
  auto inbox = open_receiver(small_lane);
  auto out = bind_sender({.message_limit = 8192, .send_buffer_number = 256});
  bool called = false;
  out->on_writable([&] { called = true; });
  std::size_t sent = 0;
  while (out->send(as_bytes(large)))
    ++sent;
  std::vector<std::string> texts;
  EXPECT_TRUE(turn_until([&] {
    take(inbox, texts);
    return called;
  }));
  EXPECT_TRUE(out->send(as_bytes("last")));
  EXPECT_TRUE(collect(inbox, texts, sent + 1));
  EXPECT_EQ(texts.back(), "last");
}

TEST_P(LaneOnLoop, SenderThatFilledItsLaneIsToldOfRoomAfterItsReceiver) {
  for (const bool dials_again : {true, false}) {
    SCOPED_TRACE(dials_again);
    std::optional<receiver> first{open_receiver(small_lane)};
    auto out = bind_sender({.message_limit = 8192,
                            .reconnect_min = dials_again ? 1ms : 0ms,
                            .reconnect_max = dials_again ? 10ms : 0ms});
    move_on(*first, out);
    status next;
    bool called = false;
    while (out->send(as_bytes(large))) {
    }
    out->on_writable([&] {
      called = true;
      next = out->send(as_bytes("next"));
    });
    settle();
    first.reset();
    auto second = bind_receiver([](bytes_view) {});
    EXPECT_TRUE(run_until([&] { return called; }));
    EXPECT_EQ(next.code(), dials_again ? errc::ok : errc::peer_closed) << next.text();
  }
}

// Its receiver dies, and a successor listens, within one turn of the loop: nothing but the time to dial
// again wakes it then.
TEST_P(LaneOnLoop, SenderDialsAgainIfAPollOfAFullLaneFindsItsReceiverGoneFork) {
  test::shared<test::shared_counter> handled;
  test::shared<test::shared_counter> may_go_on;
  test::shared<test::shared_counter> waits;
  test::child_process first{[&] {
    auto inbox = open_receiver();
    for (handled->add(); may_go_on->get() == 0;) {
      inbox.poll([&](bytes_view) { handled->add(); });
      (void)inbox.wait(1ms);
    }
    waits->add();
    test::require(may_go_on->wait(2), "not told to go on");
    std::size_t some = 0;
    while (some < 1000)
      some += inbox.poll([](bytes_view) {}, {.messages = 1000 - some});
    (void)raise(SIGKILL);
    return 0;
  }};
  ASSERT_TRUE(handled->wait());
  auto out = bind_sender({.send_buffer_number = 2048, .reconnect_min = 1ms, .reconnect_max = 10ms});
  std::uint32_t probes = 1;
  for (int before = -1; before != writes();) {
    before = writes();
    ASSERT_TRUE(out->send(as_bytes("probe")));
    ++probes;
    ASSERT_TRUE(turn_until([&] { return handled->get() == probes; }));
  }
  may_go_on->add();
  ASSERT_TRUE(waits->wait());
  settle();

  std::optional<receiver> second;
  std::size_t accepted = 0;
  std::function<void()> in_one_turn = [&] {
    accepted = fill(*out);
    may_go_on->add();
    EXPECT_EQ(first.wait_end(), "signal 9");
    second.emplace(open_receiver());
  };
  uv_timer_t once;
  uv_timer_init(&loop, &once);
  once.data = &in_one_turn;
  uv_timer_start(
      &once, [](uv_timer_t* timer) { (*static_cast<std::function<void()>*>(timer->data))(); }, 0,
      0);
  EXPECT_TRUE(run_until([&] { return out->stats().reconnects == 1; }));
  uv_close(reinterpret_cast<uv_handle_t*>(&once), nullptr);
  uv_run(&loop, UV_RUN_NOWAIT);
  std::vector<std::string> texts;
  EXPECT_TRUE(collect(*second, texts, accepted - 1000));
}

}  // namespace
}  // namespace atbus
