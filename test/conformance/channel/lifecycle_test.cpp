// Opening, closing, taking over, removing; more than one of each side.
#include <fstream>

#include "channel_kind.h"

namespace atbus {
namespace {

using Life = ChannelTest;
INSTANTIATE_TEST_SUITE_P(Channel, Life, ::testing::ValuesIn(channel_kinds), kind_name);

// What only shared memory promises: it outlives its receiver.
class LaneLifecycle : public ChannelTest {};
INSTANTIATE_TEST_SUITE_P(Channel, LaneLifecycle, ::testing::ValuesIn(lane_kinds), kind_name);

TEST_P(Life, SenderWithoutReceiverIsToldSo) {
  if (GetParam().stream)
    open_receiver().close();  // a port that was just free
  auto out = sender::open(address);
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error(), errc::not_found);
  EXPECT_NE(out.error().text().find(address), std::string::npos);
}

TEST_P(Life, SecondReceiverIsToldWhoTheFirstIs) {
  auto first = open_receiver();
  auto second = receiver::open(address);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error(), errc::receiver_exists);
  EXPECT_NE(second.error().text().find(address), std::string::npos);
  if (GetParam().stream)
    return;
  EXPECT_NE(second.error().text().find("pid " + std::to_string(getpid())), std::string::npos)
      << second.error().text();
}

TEST_P(LaneLifecycle, SuccessorGoesOnWhereTheReceiverStopped) {
  auto first = open_receiver();
  auto out = open_sender();
  for (int i = 0; i < 10; ++i)
    ASSERT_TRUE(out.send(as_bytes(std::to_string(i))));
  EXPECT_EQ(first.poll([](bytes_view) {}, {.messages = 4}), 4U);
  first.close();
  EXPECT_FALSE(first.is_open());
  ASSERT_TRUE(out.send(as_bytes("while away")));
  auto second = open_receiver();
  ASSERT_TRUE(out.send(as_bytes("back")));
  std::vector<std::string> got;
  while (second.poll([&](const received_message& m) {
    got.emplace_back(as_text(m.bytes));
    EXPECT_FALSE(m.redelivered);
  }) != 0) {
  }
  EXPECT_EQ(got, (std::vector<std::string>{"4", "5", "6", "7", "8", "9", "while away", "back"}));
}

TEST_P(Life, ClosedSendersMessagesArriveAndItsLaneIsFreeAtOnce) {
  auto inbox = open_receiver({.lanes = 1});
  for (int round = 0; round < 20; ++round) {
    auto out = open_sender();
    ASSERT_TRUE(out.send(as_bytes(std::to_string(round))));
    out.close();
    EXPECT_EQ(out.send(as_bytes("late")), errc::closed);
  }
  const auto got = drain(inbox);
  ASSERT_EQ(got.size(), 20U);
  for (int round = 0; round < 20; ++round)
    EXPECT_EQ(got[static_cast<std::size_t>(round)], std::to_string(round));
}

TEST_P(LaneLifecycle, MoreSendersThanLanesIsAClearError) {
  auto inbox = open_receiver({.lanes = 3});
  auto a = open_sender();
  auto b = open_sender();
  auto c = open_sender();
  auto d = sender::open(address);
  ASSERT_FALSE(d);
  EXPECT_EQ(d.error(), errc::no_free_lane);
  EXPECT_NE(d.error().text().find('3'), std::string::npos);
  b.close();
  EXPECT_TRUE(sender::open(address));
}

TEST_P(Life, RemovedSegmentTellsItsSendersAndFreesTheName) {
  auto inbox = open_receiver();
  auto out = open_sender();
  ASSERT_TRUE(out.send(as_bytes("unread")));
  ASSERT_TRUE(inbox.remove());
  EXPECT_FALSE(inbox.is_open());
  (void)out.send(as_bytes("the alert is seen with the next publish"));
  EXPECT_EQ(out.send(as_bytes("late")), GetParam().stream ? errc::peer_closed : errc::retired);
  EXPECT_EQ(sender::open(address).error(), errc::not_found);
  auto fresh = open_receiver();
  auto again = open_sender();
  ASSERT_TRUE(again.send(as_bytes("new")));
  EXPECT_EQ(drain(fresh), std::vector<std::string>{"new"});
}

TEST_P(LaneLifecycle, AskingForAnotherGeometryThanTheSegmentHasIsAnError) {
  auto first = open_receiver({.lanes = 4, .message_limit = 1000});
  first.close();
  auto other = receiver::open(address, {.lanes = 5});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error(), errc::geometry_mismatch);
  EXPECT_NE(other.error().text().find('4'), std::string::npos);
  EXPECT_NE(other.error().text().find('5'), std::string::npos);
  auto same = receiver::open(address, {.lanes = 4});
  ASSERT_TRUE(same) << same.error().text();
  EXPECT_EQ(same->lane_count(), 4U);
  EXPECT_EQ(same->message_limit(), 1000U);
}

TEST_P(LaneLifecycle, AddressCarriesTheGeometry) {
  auto inbox = receiver::open(address + "?lanes=7&lane_size=256K&message_limit=100K");
  ASSERT_TRUE(inbox) << inbox.error().text();
  EXPECT_EQ(inbox->lane_count(), 7U);
  EXPECT_EQ(inbox->message_limit(), 100U * 1024);
}

TEST_P(LaneLifecycle, DurabilityIsRefusedInsteadOfIgnored) {
  auto durable = receiver::open(address + "?durable=true");
  ASSERT_FALSE(durable);
  EXPECT_EQ(durable.error(), errc::not_supported);
  EXPECT_NE(durable.error().text().find("durable"), std::string::npos) << durable.error().text();
  EXPECT_EQ(sender::open(address).error(), errc::not_found) << "nothing may be made";
  auto plain = receiver::open(address + "?durable=false");
  ASSERT_TRUE(plain) << plain.error().text();
  EXPECT_TRUE(plain->remove());
}

TEST_P(LaneLifecycle, ImpossibleGeometryNamesTheNumberAtFault) {
  EXPECT_EQ(receiver::open(address, {.lanes = 5000}).error(), errc::invalid_argument);
  EXPECT_EQ(receiver::open(address, {.lane_size = 64}).error(), errc::invalid_argument);
  EXPECT_EQ(receiver::open(address, {.lane_size = std::uint64_t{1} << 40}).error(),
            errc::invalid_argument);
  EXPECT_EQ(receiver::open(address, {.message_limit = std::uint64_t{65} << 20}).error(),
            errc::invalid_argument);
  auto small = receiver::open(address, {.lane_size = 65536, .message_limit = 65536});
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error(), errc::invalid_argument);
  EXPECT_NE(small.error().text().find("262144"), std::string::npos) << small.error().text();
}

TEST_P(Life, LargestMessageLimitWorks) {
  // Of the streams one is enough: a large message takes seconds under a sanitizer.
  const bool largest = !GetParam().stream || std::string_view{GetParam().name} == "ipv6";
  const std::size_t limit = std::size_t{largest ? 64U : 4U} << 20;
  auto inbox = open_receiver({.lanes = 1, .message_limit = limit});
  auto out = open_sender();
  std::string huge(limit, 'h');
  huge.back() = '!';
  ASSERT_TRUE(out.send(as_bytes(huge)));
  std::size_t size = 0;
  char last = 0;
  const auto deadline = now() + 30s;
  while (size == 0 && now() < deadline) {
    (void)out.flush();
    inbox.poll([&](bytes_view m) {
      size = m.size();
      last = as_text(m).back();
    });
  }
  EXPECT_EQ(size, huge.size());
  EXPECT_EQ(last, '!');
}

TEST_P(Life, MovedObjectsGoOnAndMovedFromOnesAreClosed) {
  auto inbox = open_receiver();
  auto out = open_sender();
  auto moved_inbox = std::move(inbox);
  auto moved_out = std::move(out);
  EXPECT_EQ(out.send(as_bytes("x")), errc::closed);
  EXPECT_EQ(inbox.poll([](bytes_view) {}), 0U);
  EXPECT_EQ(inbox.wait(0ns), errc::closed);
  ASSERT_TRUE(moved_out.send(as_bytes("y")));
  EXPECT_EQ(drain(moved_inbox), std::vector<std::string>{"y"});
}

TEST_P(Life, ReceiverMayBeClosedAndDestroyedByItsHandler) {
  for (const bool destroy : {false, true}) {
    auto inbox = std::make_unique<receiver>(open_receiver());
    auto out = open_sender();
    ASSERT_TRUE(out.send(as_bytes("1")));
    ASSERT_TRUE(out.send(as_bytes("2")));
    int handled = 0;
    auto* const raw = inbox.get();
    const auto delivered = raw->poll([&](bytes_view m) {
      ++handled;
      destroy ? inbox.reset() : inbox->close();
      EXPECT_EQ(as_text(m), "1");  // the bytes are still there
    });
    EXPECT_EQ(delivered, 1U);
    EXPECT_EQ(handled, 1);
    if (GetParam().stream) {
      EXPECT_EQ(sender::open(address).error(), errc::not_found);
      address = GetParam().fresh_address();
      continue;
    }
    auto successor = open_receiver();
    EXPECT_EQ(drain(successor), std::vector<std::string>{"2"});
    EXPECT_EQ(successor.stats().redelivered, 0U);
    (void)successor.remove();
  }
}

TEST_P(Life, SenderMayBeDestroyedByItsCallback) {
  auto inbox = open_receiver({.lanes = 1, .lane_size = 4096, .message_limit = 1024});
  auto out = std::make_unique<sender>(open_sender());
  while (out->send(as_bytes("fill"))) {
  }
  int called = 0;
  out->on_writable([&] {
    ++called;
    out.reset();
  });
  drain(inbox);
  auto* const raw = out.get();
  EXPECT_TRUE(raw->wait_writable(30s));
  EXPECT_EQ(called, 1);
}

TEST_P(Life, TakingBackNeedsAnAbsentReceiver) {
  auto inbox = open_receiver();
  auto out = open_sender();
  ASSERT_TRUE(out.send(as_bytes("mine")));
  EXPECT_TRUE(out.receiver_alive());
  EXPECT_EQ(out.take_back([](bytes_view, errc) { FAIL(); }).error(), errc::receiver_alive);
  EXPECT_EQ(drain(inbox), std::vector<std::string>{"mine"});
}

TEST_P(LaneLifecycle, TakenBackMessagesAreNotDelivered) {
  auto inbox = open_receiver();
  auto out = open_sender();
  for (int i = 0; i < 5; ++i)
    ASSERT_TRUE(out.send(as_bytes(std::to_string(i))));
  EXPECT_EQ(inbox.poll([](bytes_view) {}, {.messages = 2}), 2U);
  inbox.close();
  EXPECT_FALSE(out.receiver_alive());
  std::vector<std::string> back;
  auto count = out.take_back([&](bytes_view m, errc why) {
    EXPECT_EQ(why, errc::not_delivered);
    back.emplace_back(as_text(m));
  });
  ASSERT_TRUE(count) << count.error().text();
  EXPECT_EQ(*count, 3U);
  EXPECT_EQ(back, (std::vector<std::string>{"2", "3", "4"}));
  ASSERT_TRUE(out.send(as_bytes("new")));
  auto successor = open_receiver();
  ASSERT_TRUE(out.send(as_bytes("newer")));
  EXPECT_EQ(drain(successor), (std::vector<std::string>{"new", "newer"}));
}

TEST_P(LaneLifecycle, PredecessorsMessagesAreNotTakenBack) {
  auto inbox = open_receiver({.lanes = 1});
  {
    auto first = open_sender();
    ASSERT_TRUE(first.send(as_bytes("theirs")));
  }
  auto second = open_sender();
  ASSERT_TRUE(second.send(as_bytes("mine")));
  inbox.close();
  std::vector<std::string> back;
  ASSERT_TRUE(second.take_back([&](bytes_view m, errc) { back.emplace_back(as_text(m)); }));
  EXPECT_EQ(back, std::vector<std::string>{"mine"});
  auto successor = open_receiver();
  EXPECT_EQ(drain(successor), std::vector<std::string>{"theirs"});
}

TEST_P(LaneLifecycle, CountersSurviveTheReceiver) {
  auto first = open_receiver();
  auto out = open_sender();
  ASSERT_TRUE(out.send(as_bytes("12345678")));
  drain(first);
  first.close();
  auto second = open_receiver();
  ASSERT_TRUE(out.send(as_bytes("1234")));
  drain(second);
  EXPECT_EQ(second.stats().messages, 2U);
  EXPECT_EQ(second.stats().bytes, 12U);
  EXPECT_GT(second.stats().high_water_mark, 0U);
}

TEST(Address, WhatCanNotBeOpenedSaysWhy) {
  EXPECT_EQ(receiver::open("shm://").error(), errc::invalid_name);
  EXPECT_EQ(receiver::open("shm://a/b").error(), errc::invalid_name);
  EXPECT_EQ(receiver::open("nonsense").error(), errc::invalid_address);
  EXPECT_EQ(receiver::open("dns://localhost:0").error(), errc::invalid_argument);
  EXPECT_EQ(sender::open("ipv4://127.0.0.1:0").error(), errc::invalid_address);
  EXPECT_EQ(
      receiver::open("ipv4://127.0.0.1:0", {.message_limit = std::uint64_t{65} << 20}).error(),
      errc::invalid_argument);
}

}  // namespace
}  // namespace atbus
