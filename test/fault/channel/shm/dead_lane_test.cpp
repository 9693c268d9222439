// The lane of a receiver that was killed while it was awake. Nothing in it tells of that, and it is far
// from full: its sender finds out although it does nothing but send.
#include <csignal>

#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "child_process.h"
#include "scratch_directory.h"
#include "shared_memory.h"
#include "test.h"

namespace atbus::test {
namespace {

class DeadLane : public ::testing::Test {
 protected:
  // Only polls, and so never sleeps.
  child_process start_receiver() {
    return child_process{[this] {
      auto inbox = receiver::open(address);
      require(static_cast<bool>(inbox), "the receiver can't be opened");
      for (handled->add();; std::this_thread::yield()) {
        if (const std::size_t some = inbox->poll([](bytes_view) {}); some != 0)
          handled->add(static_cast<std::uint32_t>(some));
      }
      return 0;
    }};
  }
  sender open_sender(const sender_options& options = {}) {
    EXPECT_TRUE(handled->wait());
    auto opened = sender::open(address, options);
    EXPECT_TRUE(opened) << opened.error().text();
    return std::move(opened).value();
  }
  // Each is handled before the next one is sent, so that the sender moves on to its lane.
  void carry(sender& out, int count) {
    for (int i = 0; i < count; ++i) {
      const std::uint32_t before = handled->get();
      ASSERT_TRUE(out.send(as_bytes(std::string(100, 'x'))));
      ASSERT_TRUE(handled->wait(before + 1));
    }
  }

  // A sender in the lane of a receiver that has been killed, and the next receiver.
  std::pair<sender, receiver> leave_to_successor() {
    child_process first = start_receiver();
    auto out = open_sender({.reconnect_min = 1ms, .reconnect_max = 10ms});
    carry(out, 10);
    first.kill_and_wait();
    auto second = receiver::open(address);
    EXPECT_TRUE(second) << second.error().text();
    return {std::move(out), std::move(second).value()};
  }

  static void next_tick() {
    for (const auto start = coarse_now(); coarse_now() - start < 1ms;)
      std::this_thread::yield();
  }
  // How many messages a sender takes that sends one in each tick of the clock.
  static int sent_one_per_tick(sender& out, const std::string& message) {
    int sent = 0;
    for (next_tick(); sent < 1000 && out.send(as_bytes(message)); next_tick())
      ++sent;
    return sent;
  }

  scratch_directory directory;
  std::string address = "unix://" + directory.path() + "/dead";
  shared<shared_counter> handled;
};

TEST_F(DeadLane, IsNoticedByASlowSender) {
  child_process inbox = start_receiver();
  auto out = open_sender();
  carry(out, 5);
  inbox.kill_and_wait();
  EXPECT_LE(sent_one_per_tick(out, std::string(1000, 'x')), 10);
  EXPECT_EQ(out.send(as_bytes("late")), errc::peer_closed);
}

TEST_F(DeadLane, IsNoticedByASenderThatWasFastOnceItIsSlow) {
  child_process inbox = start_receiver();
  auto out = open_sender();
  carry(out, 10'000);
  inbox.kill_and_wait();
  EXPECT_LE(sent_one_per_tick(out, std::string(8000, 'x')), 10);
}

TEST_F(DeadLane, IsLeftForTheSuccessorByASlowSender) {
  auto [out, second] = leave_to_successor();
  std::string got;
  for (int i = 0; got.empty() && i < 1000; ++i, next_tick()) {
    (void)out.send(as_bytes("slow"));
    second.poll([&](bytes_view m) { got = as_text(m); });
  }
  EXPECT_EQ(got, "slow");
}

TEST_F(DeadLane, IsLeftByASenderThatOnlyPolls) {
  auto [out, second] = leave_to_successor();
  for (int i = 0; out.stats().reconnects == 0 && i < 1000; ++i, next_tick()) {
    (void)out.poll_writable();
    second.poll([](bytes_view) {});
  }
  EXPECT_EQ(out.stats().reconnects, 1U);
}

TEST_F(DeadLane, HandsOverNoMessageAsUnsentThatAHandlerHadBegunWith) {
  child_process inbox{[this] {
    auto opened = receiver::open(address);
    require(static_cast<bool>(opened), "the receiver can't be opened");
    for (handled->add();; std::this_thread::yield()) {
      opened->poll([&](bytes_view m) {
        if (as_text(m) == "the last one")
          (void)raise(SIGKILL);
        handled->add();
      });
    }
    return 0;
  }};
  auto out = open_sender();
  carry(out, 10);
  ASSERT_TRUE(out.send(as_bytes("the last one")));
  for (const auto deadline = now() + 30s; out.receiver_alive() && now() < deadline;)
    std::this_thread::yield();
  std::vector<std::string> unsent;
  EXPECT_EQ(out.close(0ns, [&](bytes_view m) { unsent.emplace_back(as_text(m)); }), 0U);
  EXPECT_EQ(unsent, std::vector<std::string>{});
}

}  // namespace
}  // namespace atbus::test
