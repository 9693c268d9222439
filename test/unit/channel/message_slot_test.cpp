// Which slot of a sender is open: only the newest, and only until something else is claimed or sent.
#include <unistd.h>

#include "atbus/atbus.hpp"
#include "scratch_directory.h"
#include "test.h"

namespace atbus {
namespace {

using text_list = std::vector<std::string>;

// The parameter is the beginning of an address.
class MessageSlot : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    static int count = 0;
    std::string at = GetParam();
    if (!at.starts_with("ipv4"))
      at += "slot-" + std::to_string(getpid()) + "-" + std::to_string(++count);
    receiver_options options{.lanes = 1, .lane_size = 4096, .message_limit = 1000};
    options.directory = directory.path();
    auto opened = receiver::open(at, options);
    ASSERT_TRUE(opened) << opened.error().text();
    inbox.emplace(std::move(*opened));
    auto dialled = sender::open(inbox->address(), {.directory = directory.path()});
    ASSERT_TRUE(dialled) << dialled.error().text();
    out.emplace(std::move(*dialled));
  }
  // The sender may move on to a lane meanwhile.
  void send_and_receive(std::string_view text) {
    ASSERT_TRUE(out->send(as_bytes(text)));
    ASSERT_EQ(collect(1), text_list{std::string{text}});
  }
  static void fill(message_slot& slot, std::string_view text) {
    ASSERT_TRUE(slot);
    ASSERT_EQ(slot.bytes().size(), text.size());
    std::memcpy(slot.bytes().data(), text.data(), text.size());
  }
  text_list collect(std::size_t count) {
    text_list texts;
    const auto deadline = now() + 30s;
    while (texts.size() < count && now() < deadline) {
      (void)out->flush();
      if (inbox->poll([&](bytes_view m) { texts.emplace_back(as_text(m)); }) == 0)
        (void)inbox->wait(1ms);
    }
    return texts;
  }
  text_list received_now() {
    text_list texts;
    while (inbox->poll([&](bytes_view m) { texts.emplace_back(as_text(m)); }) != 0) {
    }
    return texts;
  }
  // What was sent up to here: whatever comes before this message.
  text_list received() {
    EXPECT_TRUE(out->send(as_bytes("end")));
    text_list texts;
    do {
      const text_list one = collect(1);
      if (one.empty())
        return texts;
      texts.insert(texts.end(), one.begin(), one.end());
    } while (texts.back() != "end");
    texts.pop_back();
    return texts;
  }

  const test::scratch_directory directory;
  std::optional<receiver> inbox;
  std::optional<sender> out;
};

INSTANTIATE_TEST_SUITE_P(Channel, MessageSlot,
                         ::testing::Values("mem://", "shm://", "ipv4://127.0.0.1:0", "unix://@"),
                         [](const auto& tested) {
                           const std::string_view scheme{tested.param};
                           return std::string{scheme.substr(0, scheme.find(':'))};
                         });

TEST_P(MessageSlot, ThatWasReplacedByOneOfTheSameLengthSendsNothing) {
  for (int i = 0; i != 3; ++i)  // a Unix socket has moved on to its lane then
    send_and_receive("opening");
  auto old = out->claim(4);
  auto fresh = out->claim(4);
  fill(fresh, "half");
  old.commit();
  EXPECT_EQ(received_now(), text_list{});
  fill(fresh, "full");
  fresh.commit();
  EXPECT_EQ(received(), text_list{"full"});
}

TEST_P(MessageSlot, ThatWasReplacedDoesNotSendWhatTheNewOneDiscards) {
  auto old = out->claim(7);
  {
    auto discarded = out->claim(7);
    fill(discarded, "private");
  }
  old.commit();
  EXPECT_EQ(received(), text_list{});
}

TEST_P(MessageSlot, ThatWasReplacedInABatchAddsNothing) {
  {
    auto batch = out->batch();
    auto old = batch.claim(4);
    auto fresh = batch.claim(4);
    fill(fresh, "half");
    old.commit();
    batch.flush();
    EXPECT_EQ(received_now(), text_list{});
    fill(fresh, "full");
    fresh.commit();
    ASSERT_TRUE(batch.send(as_bytes("next")));
  }
  EXPECT_EQ(received(), (text_list{"full", "next"}));
}

TEST_P(MessageSlot, IsDiscardedByARefusedSend) {
  auto slot = out->claim(4);
  fill(slot, "slot");
  const std::string too_large(out->message_limit() + 1, 'x');
  EXPECT_EQ(out->send(as_bytes(too_large)), errc::message_too_large);
  slot.commit();
  EXPECT_EQ(received(), text_list{});
}

TEST_P(MessageSlot, IsDiscardedByARefusedClaim) {
  auto slot = out->claim(4);
  fill(slot, "slot");
  EXPECT_EQ(out->claim(out->message_limit() + 1).why(), errc::message_too_large);
  slot.commit();
  EXPECT_EQ(received(), text_list{});
}

TEST_P(MessageSlot, StaysOpenWhileItsSenderOnlyLooks) {
  auto slot = out->claim(4);
  fill(slot, "slot");
  (void)out->poll_writable();
  (void)out->flush();
  (void)out->receiver_alive();
  (void)out->stats();
  slot.commit();
  EXPECT_EQ(received(), text_list{"slot"});
}

// Lanes only.
using DroppedSlot = MessageSlot;
INSTANTIATE_TEST_SUITE_P(Channel, DroppedSlot, ::testing::Values("mem://", "shm://"),
                         [](const auto& tested) {
                           const std::string_view scheme{tested.param};
                           return std::string{scheme.substr(0, scheme.find(':'))};
                         });

// The claim of a record that would wrap pads the end of the ring.
TEST_P(DroppedSlot, AtTheEndOfTheRingLeavesItsSenderSettled) {
  const std::string of_1000_bytes(1000, 'x');
  for (int i = 0; i != 3; ++i)
    send_and_receive(of_1000_bytes);
  EXPECT_TRUE(out->settled());
  EXPECT_TRUE(out->claim(1000));
  EXPECT_GT(out->stats().padding_bytes, 0U) << "the ring did not end there";
  EXPECT_TRUE(out->settled());
  EXPECT_EQ(out->unhandled([](bytes_view) {}), 0U);
  ASSERT_TRUE(out->send(as_bytes("next")));
  EXPECT_FALSE(out->settled());
  EXPECT_EQ(collect(1), text_list{"next"});
  EXPECT_TRUE(out->settled());
}

}  // namespace
}  // namespace atbus
