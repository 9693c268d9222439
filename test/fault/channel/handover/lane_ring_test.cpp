// Rings of the lanes of a stream for which the kernel has no memory.
//
// Such a lane has one bell and no name to connect anew by: the ring has to be made up for, and must
// not be taken for the death of the other end.
#include <poll.h>

#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "fault/channel/failing_kernel.h"
#include "scratch_directory.h"
#include "shared_memory.h"
#include "test.h"

namespace atbus::test {
namespace {

const failing_entry& entry_of(std::string_view name) {
  const auto entries = failing_entries();
  return *std::find_if(entries.begin(), entries.end(),
                       [name](const failing_entry& entry) { return entry.name == name; });
}

// A sender in its lane, and its receiver. The parameter is what the kernel answers.
class LaneRing : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    receiver_options narrow{.lanes = 1, .lane_size = 4096, .message_limit = 1000};
    narrow.spin = 0ns;
    auto in = receiver::open(address_, narrow);
    ASSERT_TRUE(in) << in.error().text();
    inbox = std::move(*in);
    sender_options options;
    options.spin = 0ns;
    options.message_limit = 1000;
    auto opened = sender::open(address_, options);
    ASSERT_TRUE(opened) << opened.error().text();
    out = std::move(*opened);
    // Through the socket, until the lane has been agreed on.
    const auto deadline = now() + patience;
    do {
      ASSERT_LT(now(), deadline);
      kernel_.restart();
      ASSERT_TRUE(out->send(as_bytes("opening")));
      receive(1);
    } while (entry_of("sendmsg").record->calls != 0);
  }
  void receive(std::size_t count) {
    const auto deadline = now() + patience;
    for (std::size_t got = 0; got < count && now() < deadline;) {
      got += inbox->poll([](bytes_view) {});
      if (got < count)
        (void)inbox->wait(1ms);
    }
  }
  void receiver_sleeps() {
    const auto deadline = now() + patience;
    while (!inbox->prepare_sleep()) {
      ASSERT_LT(now(), deadline);
      (void)inbox->poll([](bytes_view) { FAIL() << "nothing was sent"; });
    }
  }
  // The next ones.
  void rings_fail(unsigned times = 1) {
    kernel_.restart();
    kernel_.arm(entry_of("send"), 1, GetParam(), times);
  }
  static bool ring_failed() { return entry_of("send").record->failed; }
  bool receiver_is_woken() {
    pollfd interest{.fd = inbox->descriptor(), .events = POLLIN, .revents = 0};
    const bool woken = ::poll(&interest, 1, 0) == 1;
    if (!woken)
      return false;
    inbox->finish_sleep();
    return inbox->poll([](bytes_view) {}) != 0;
  }

  scratch_directory directory_;
  std::string address_ = "unix://" + directory_.path() + "/rings";
  failing_kernel kernel_;
  std::optional<receiver> inbox;
  std::optional<sender> out;
};

TEST_P(LaneRing, ThatFailsIsNotTakenForTheReceiversEnd) {
  receiver_sleeps();
  rings_fail();
  EXPECT_TRUE(out->send(as_bytes("one")));
  ASSERT_TRUE(ring_failed());
  EXPECT_FALSE(receiver_is_woken());
  EXPECT_TRUE(out->receiver_alive());
  const auto taken = out->take_back([](bytes_view, errc) { FAIL() << "its receiver lives"; });
  EXPECT_EQ(taken.error(), errc::receiver_alive);
  EXPECT_EQ(out->stats().connections, 1U);
}

TEST_P(LaneRing, ThatFailsIsMadeUpForByTheNextMessage) {
  receiver_sleeps();
  rings_fail();
  EXPECT_TRUE(out->send(as_bytes("one")));
  ASSERT_TRUE(ring_failed());
  EXPECT_TRUE(out->send(as_bytes("two")));
  EXPECT_TRUE(receiver_is_woken());
}

TEST_P(LaneRing, ThatFailsIsMadeUpForByFlush) {
  receiver_sleeps();
  rings_fail(3);
  EXPECT_TRUE(out->send(as_bytes("one")));
  ASSERT_TRUE(ring_failed());
  EXPECT_EQ(out->flush(), errc::would_block);
  EXPECT_FALSE(receiver_is_woken());
  EXPECT_TRUE(out->flush(patience));
  EXPECT_TRUE(receiver_is_woken());
}

TEST_P(LaneRing, ThatFailsIsMadeUpForByWhoSleepsOnALoop) {
  receiver_sleeps();
  rings_fail();
  EXPECT_TRUE(out->send(as_bytes("one")));
  ASSERT_TRUE(ring_failed());
  EXPECT_TRUE(out->prepare_sleep());
  EXPECT_GE(out->longest_sleep(), 0ns) << "nothing would wake it";
  out->finish_sleep();
  EXPECT_TRUE(receiver_is_woken());
  EXPECT_TRUE(out->prepare_sleep());
  EXPECT_LT(out->longest_sleep(), 0ns);
}

TEST_P(LaneRing, OfRoomThatFailsIsMadeUpForBeforeTheReceiverSleeps) {
  std::size_t sent = 0;
  while (out->send(as_bytes(std::string(900, 'x'))))
    ++sent;
  ASSERT_TRUE(out->prepare_sleep());
  rings_fail(1000);
  receive(sent);
  ASSERT_TRUE(ring_failed());
  pollfd interest{.fd = out->descriptor(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&interest, 1, 0), 0);
  kernel_.restart();
  receiver_sleeps();
  EXPECT_EQ(::poll(&interest, 1, 0), 1) << "nobody tells it of the room";
  out->finish_sleep();
  EXPECT_TRUE(out->poll_writable());
}

INSTANTIATE_TEST_SUITE_P(NoMemory, LaneRing, ::testing::Values(ENOBUFS, ENOMEM),
                         [](const auto& of) { return of.param == ENOMEM ? "Enomem" : "Enobufs"; });

}  // namespace
}  // namespace atbus::test
