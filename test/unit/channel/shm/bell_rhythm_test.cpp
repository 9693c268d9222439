// How often a receiver that only polls reads its bells, when its polls were quick and then become long.
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "system/kernel.h"
#include "test.h"

namespace atbus {
namespace {

class BellRhythm : public ::testing::Test {
 protected:
  void SetUp() override {
    really_wait_ = saved_.epoll_wait;
    detail::kernel().epoll_wait = [](int epoll, epoll_event* events, int count,
                                     std::int64_t timeout_ns) {
      ++looks();
      return really_wait_(epoll, events, count, timeout_ns);
    };
    auto opened = receiver::open(address_, {.lanes = 2, .lane_size = 4096, .message_limit = 1000});
    ASSERT_TRUE(opened) << opened.error().text();
    inbox = std::move(*opened);
  }
  void TearDown() override { detail::kernel() = saved_; }

  static std::atomic<int>& looks() {
    static std::atomic<int> count{0};
    return count;
  }
  sender open_sender() {
    auto opened = sender::open(address_);
    EXPECT_TRUE(opened) << opened.error().text();
    return std::move(opened).value();
  }
  std::size_t poll() {
    return inbox->poll([](bytes_view) {});
  }
  // Until its polls are as quick as they get and it has just read its bells.
  void poll_tightly() {
    for (int i = 0; i != 100'000; ++i)
      (void)poll();
    for (const int before = looks(); looks() == before;)
      (void)poll();
  }
  // As a game does: a poll in each frame, which is longer than the coarse clock's tick.
  void poll_once_a_frame() {
    for (const auto start = coarse_now(); coarse_now() - start < 2ms;)
      std::this_thread::yield();
    (void)poll();
  }

  std::optional<receiver> inbox;

 private:
  inline static decltype(detail::kernel_calls::epoll_wait) really_wait_ = nullptr;
  detail::kernel_calls saved_ = detail::kernel();
  std::string address_ = "mem://bell-rhythm-" + std::to_string(getpid());
};

TEST_F(BellRhythm, ANewSenderThatWaitsForRoomIsToldOfItInAFewFrames) {
  poll_tightly();
  auto out = open_sender();
  while (out.send(as_bytes("fill"))) {
  }
  ASSERT_TRUE(out.prepare_sleep());
  int frames = 0;
  pollfd room{.fd = out.descriptor(), .events = POLLIN, .revents = 0};
  for (; ::poll(&room, 1, 0) == 0 && frames != 40; ++frames)
    poll_once_a_frame();
  EXPECT_LE(frames, 3);
  out.finish_sleep();
  EXPECT_TRUE(out.poll_writable());
}

TEST_F(BellRhythm, LongPollsReadTheBellsSoonAfterQuickOnes) {
  poll_tightly();
  int frames = 0;
  for (const int before = looks(); looks() == before && frames != 100; ++frames)
    poll_once_a_frame();
  EXPECT_LE(frames, 64);
}

// What waits at its bells stays there: who spins asks many times.
TEST_F(BellRhythm, AKernelThatRefusesIsAskedAgainAfterARest) {
  static std::atomic<int> asked{0};
  static std::atomic<int> answer{0};
  const detail::kernel_calls usual = detail::kernel();
  const auto sleeps = [&](const char* what) {
    for (const auto end = now() + 30s; inbox->wait(0ns) && now() < end;)
      (void)poll();
    asked = 0;
    EXPECT_EQ(inbox->wait(300ms), errc::timed_out) << what;
    EXPECT_LT(asked, 50) << what;
    EXPECT_NE(asked, 0) << what;
  };
  for (const int code : {ENOMEM, ENOBUFS, EPERM}) {
    answer = code;
    detail::kernel().accept = [](int, int) {
      ++asked;
      errno = answer;
      return -1;
    };
    auto out = open_sender();
    sleeps(strerrorname_np(code));
    detail::kernel().accept = usual.accept;
    // Then it is accepted, and rings.
    EXPECT_EQ(inbox->wait(300ms), errc::timed_out);
    ASSERT_TRUE(inbox->prepare_sleep());
    ASSERT_TRUE(out.send(as_bytes("heard")));
    inbox->finish_sleep();
    EXPECT_EQ(poll(), 1U);

    detail::kernel().recv = [](int, void*, std::size_t, int) {
      ++asked;
      errno = answer;
      return ssize_t{-1};
    };
    if (code != EPERM) {
      ASSERT_TRUE(inbox->prepare_sleep());
      ASSERT_TRUE(out.send(as_bytes("its ring is not read")));
      inbox->finish_sleep();
      EXPECT_EQ(poll(), 1U);
      sleeps("recv");
    }
    detail::kernel().recv = usual.recv;
    EXPECT_EQ(inbox->wait(300ms), errc::timed_out);
    // The end of a sender is seen.
    const auto changes = inbox->session_changes();
    out.close();
    for (const auto end = now() + 30s; inbox->session_changes() == changes && now() < end;) {
      (void)inbox->wait(10ms);
      (void)poll();
    }
    EXPECT_NE(inbox->session_changes(), changes);
  }
}

}  // namespace
}  // namespace atbus
