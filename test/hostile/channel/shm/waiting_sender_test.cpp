// A sender that sleeps until there is room in a lane that nobody will ever read again.
#include <poll.h>

#include "hostile/channel/shm/hostile_channel.h"

namespace atbus::hostile {
namespace {

class WaitingSender : public hostile_channel {
 protected:
  static constexpr std::string_view filling = "a message of some length, so that not many fit";

  void fill(sender& out) {
    while (out.send(as_bytes(filling)))
      ;
  }
  // In the receiver's own word: its next look at everything finds it, and so does its successor.
  void spoil() {
    const raw_segment file = raw();
    file.slot(0).done.fetch_add(4);
  }
  // In the record that it reads next.
  void spoil_record() {
    const raw_segment file = raw();
    detail::store_record_header(file.record(0, file.slot(0).done.load()), ~std::uint64_t{0});
  }
  static bool is_rung(sender& out) {
    pollfd bell{out.descriptor(), POLLIN, 0};
    return ::poll(&bell, 1, static_cast<int>(std::chrono::milliseconds{deadline}.count())) == 1;
  }
};

TEST_F(WaitingSender, IsToldThatItsLaneIsQuarantined) {
  receiver in = open_receiver();
  sender out = open_sender();
  fill(out);
  in.poll([](bytes_view) {}, {.messages = 0});  // takes its connection in
  ASSERT_TRUE(out.prepare_sleep());
  spoil_record();
  in.poll([](bytes_view) {});
  ASSERT_EQ(in.stats().quarantined, 1U);
  EXPECT_TRUE(is_rung(out));
  out.finish_sleep();
  EXPECT_EQ(out.send({}), errc::quarantined);
}

TEST_F(WaitingSender, DoesNotSleepInALaneThatIsQuarantined) {
  receiver in = open_receiver();
  sender out = open_sender();
  fill(out);
  spoil_record();
  in.poll([](bytes_view) {});
  ASSERT_EQ(in.stats().quarantined, 1U);
  EXPECT_FALSE(out.prepare_sleep());
  EXPECT_EQ(out.wait_writable(deadline), errc::quarantined);
}

TEST_F(WaitingSender, LearnsFromItsNextSendThatItsLaneIsQuarantined) {
  receiver in = open_receiver();
  sender out = open_sender();
  fill(out);
  spoil_record();
  in.poll([](bytes_view) {});
  ASSERT_EQ(in.stats().quarantined, 1U);
  EXPECT_EQ(out.send(as_bytes(filling)), errc::quarantined);
}

TEST_F(WaitingSender, ThatPollsIsToldThatItsLaneIsQuarantined) {
  receiver in = open_receiver();
  sender out = open_sender();
  fill(out);
  spoil_record();
  in.poll([](bytes_view) {});
  ASSERT_EQ(in.stats().quarantined, 1U);
  EXPECT_TRUE(out.poll_writable());
  EXPECT_EQ(out.send(as_bytes(filling)), errc::quarantined);
}

TEST_F(WaitingSender, IsToldThatASuccessorFindsItsLaneImpossible) {
  receiver in = open_receiver();
  sender out = open_sender();
  fill(out);
  spoil();
  in.close();
  std::thread waiting{[&out] { EXPECT_EQ(out.wait_writable(deadline), errc::quarantined); }};
  const raw_segment file = raw();
  const auto end_of_patience = now() + deadline;
  while (file.slot(0).request.load() == 0 && now() < end_of_patience)
    std::this_thread::yield();
  receiver next = open_receiver();
  std::vector<std::string> got;
  std::thread end{[&] {
    waiting.join();
    auto farewell = sender::open("shm://victim", sending());
    EXPECT_TRUE(farewell && farewell->send(as_bytes("over")));
  }};
  EXPECT_TRUE(poll_until(next, got, [&] { return !got.empty(); }));
  end.join();
}

}  // namespace
}  // namespace atbus::hostile
