// Circuits between two nodes over relays that drop, delay, reorder and refuse.
#include "node/route/circuit.h"

#include "circuit_fixture.h"

namespace atbus::detail {
namespace {

TEST_F(Circuit, CarriesMessagesBothWaysInOrder) {
  open();
  send(one, 1000);
  send(two, 1000);
  expect_all(two, 1000);
  expect_all(one, 1000);
}

TEST_F(Circuit, SendsAMessageOnceWhereNothingIsLost) {
  open();
  const std::uint64_t before = one.messages_sent;
  send(one, 1000);
  EXPECT_LT(one.messages_sent - before, 1001U);
}

TEST_F(Circuit, SendsManyMessagesInABatch) {
  open();
  const std::uint64_t before = net.carried;
  send(one, 1000);                        // 282 KB, as fast as there is room
  EXPECT_LT(net.carried - before, 200U);  // acknowledgements too
}

// Else each acknowledgement of the session above would wake all nodes on the way once more.
TEST_F(Circuit, AnswersWhatIsNotDataOnceInAWhile) {
  open();
  net.run_for(1s);
  const std::uint64_t before = net.carried;
  for (int i = 0; i != 10; ++i) {
    status why;
    std::byte* const at = one.at()->claim(16, message_purpose::control, why);
    ASSERT_NE(at, nullptr);
    std::memset(at, 0, 16);
    at[0] = told_kind;
    one.at()->commit(16);
    net.run_for(1ms);
  }
  EXPECT_EQ(net.carried - before, 10U);
  net.run_for(100ms);
  EXPECT_EQ(net.carried - before, 11U);
}

TEST_F(Circuit, TellsOfRoomAfterItHadNone) {
  open();
  while (one.send_data(1)) {
  }
  EXPECT_EQ(one.writables, 0);
  net.run_for(1s);
  EXPECT_EQ(one.writables, 1);
}

// Nobody acknowledges a few control messages that come alone.
TEST_F(Circuit, HasRoomForTheLongestMessageBesideControlMessages) {
  end small{net, 3, {.message_limit = 16 * 1024, .queue_size = 1024}};
  small.call(2);
  net.run_for(5ms);
  ASSERT_EQ(two.accepts, 1);
  status why;
  for (int i = 0; i != 10; ++i) {
    std::byte* const at = small.at()->claim(16, message_purpose::control, why);
    ASSERT_NE(at, nullptr);
    std::memset(at, 0, 16);
    at[0] = call_kind;
    small.at()->commit(16);
  }
  net.run_for(1s);
  EXPECT_NE(small.at()->claim(16 * 1024, message_purpose::data, why), nullptr) << why.text();
}

TEST_F(Circuit, KeepsWhatTheNextLinkHasNoRoomFor) {
  open();
  net.blocks = 100;
  EXPECT_TRUE(one.send_data(0));
  net.run_for(1s);
  EXPECT_TRUE(two.got.empty());
  net.blocks = 0;
  net.run_for(1s);
  expect_all(two, 1);
}

TEST_F(Circuit, WaitsLongerEachTimeARelayHasNoRoom) {
  open();
  net.fails = 100;
  const std::uint64_t before = net.carried;
  EXPECT_TRUE(one.send_data(0));
  net.run_for(10s);
  EXPECT_LT(net.carried - before, 60U);
  net.fails = 0;
  net.run_for(2s);
  expect_all(two, 1);
}

// Else it would have the window again that was too much as soon as the relay has room.
TEST_F(Circuit, FindsOutHowMuchARelayHasRoomFor) {
  open();
  net.capacity = 40 * 1024;
  std::uint64_t sent = 0;
  net.run_for(5s, [&] {
    while (one.send_data(sent))
      ++sent;
  });
  EXPECT_GT(sent, 30000U);
  EXPECT_LT(net.failed, 200U);
}

TEST_F(Circuit, EndsWhereThereIsNoWayAndSaysWhatNeverLeft) {
  open();
  EXPECT_TRUE(one.send_data(0));
  one.all.flush();
  one.no_way = true;
  EXPECT_TRUE(one.send_data(1));
  net.run_for(10ms);
  EXPECT_EQ(one.ended, errc::no_route);
  using fates = std::vector<std::pair<std::uint64_t, errc>>;
  EXPECT_EQ(one.not_released, (fates{{0, errc::outcome_unknown}, {1, errc::not_delivered}}));
  EXPECT_EQ(one.all.size(), 0U);
}

TEST_F(Circuit, EndsWhenARelayKnowsNoWay) {
  open();
  net.fails = 100;
  net.reason = errc::hop_limit;
  EXPECT_TRUE(one.send_data(0));
  net.run_for(10ms);
  EXPECT_EQ(one.ended, errc::hop_limit);
}

TEST_F(Circuit, LeavesWithTheNextFlushAndNotBefore) {
  open();
  const std::uint64_t before = net.carried;
  EXPECT_TRUE(one.send_data(0));
  EXPECT_TRUE(one.send_data(1));
  EXPECT_TRUE(one.all.has_unflushed());
  EXPECT_EQ(net.carried, before);
  one.all.flush();
  EXPECT_FALSE(one.all.has_unflushed());
  EXPECT_EQ(net.carried, before + 1);  // in one batch
}

TEST_F(Circuit, TakesWhatIsPutInItsStretchBetweenItsOwnMessages) {
  open();
  for (std::uint64_t i = 0; i != 2000; i += 2) {
    ASSERT_TRUE(one.send_data(i));
    const direct_place place = one.at()->place();
    ASSERT_NE(place.chunk, nullptr);
    if (place.chunk->room() >= frame_size(16)) {
      std::byte* const at = place.chunk->claim(16);
      std::memset(at, 0, 16);
      store_little_endian(at + 8, i + 1);
      place.chunk->append(16, 16);
    } else {
      ASSERT_TRUE(one.send_data(i + 1));
    }
    if (i % 20 == 0)
      net.run_for(25ms);
  }
  net.run_for(1s);
  expect_all(two, 2000);
}

TEST_F(Circuit, LeavesAnOpenClaimInItsStretchWhereItIs) {
  open();
  status why;
  ASSERT_TRUE(one.send_data(0));
  std::byte* const at = one.at()->claim(16, message_purpose::data, why);
  ASSERT_NE(at, nullptr);
  const std::uint64_t before = net.carried;
  one.at()->release(0);  // which sends what there is
  EXPECT_EQ(net.carried, before + 1);
  std::memset(at, 0, 16);
  store_little_endian(at + 8, std::uint64_t{1});
  one.at()->commit(16);
  net.run_for(1s);
  expect_all(two, 2);
}

TEST_F(Circuit, GivesUpAnOpenClaimWhenItIsFlushed) {
  open();
  status why;
  ASSERT_NE(one.at()->claim(16, message_purpose::data, why), nullptr);
  one.all.flush();
  EXPECT_FALSE(one.all.has_unflushed());
  const std::uint64_t before = net.carried;
  one.at()->commit(16);
  one.all.flush();
  EXPECT_EQ(net.carried, before);
  EXPECT_TRUE(one.send_data(0));
  net.run_for(1s);
  expect_all(two, 1);
}

// Each message has a place in the ring, which a long claim is none the less one of.
TEST_F(Circuit, KeepsWhatIsSentBehindALongClaimOfAShortMessage) {
  open();
  std::uint64_t number = 0;
  for (int round = 0; round != 10; ++round) {
    status why;
    std::byte* const at = one.at()->claim(16 * 1024, message_purpose::data, why);
    ASSERT_NE(at, nullptr);
    std::memset(at, 0, 16);
    store_little_endian(at + 8, number++);
    one.at()->commit(16);
    for (frame_chunk* more = one.at()->place().chunk;
         more != nullptr && more->room() >= frame_size(16);) {
      std::byte* const next = more->claim(16);
      std::memset(next, 0, 16);
      store_little_endian(next + 8, number++);
      more->append(16, 16);
    }
    net.run_for(100ms);
  }
  expect_all(two, number);
}

TEST_F(Circuit, HandsBackWhatWasPutInItsStretch) {
  open();
  ASSERT_TRUE(one.send_data(0));
  one.all.flush();
  ASSERT_TRUE(one.send_data(1));
  one.at()->abort();
  net.run_for(10ms);
  using fates = std::vector<std::pair<std::uint64_t, errc>>;
  EXPECT_EQ(one.not_released, (fates{{0, errc::outcome_unknown}, {1, errc::not_delivered}}));
}

TEST_F(Circuit, EndsAtTheOtherEndToo) {
  open();
  one.at()->abort();
  net.run_for(10ms);
  EXPECT_EQ(one.ended, errc::closed);
  EXPECT_EQ(two.ended, errc::peer_closed);
}

TEST_F(Circuit, LetsLeaveWhatWasCommittedBeforeItCloses) {
  open();
  net.blocks = 100;
  for (std::uint64_t i = 0; i != 20; ++i)
    EXPECT_TRUE(one.send_data(i));
  one.at()->close(10s);
  net.run_for(1s);
  EXPECT_FALSE(one.ended);
  net.blocks = 0;
  net.run_for(1s);
  EXPECT_EQ(one.ended, errc::closed);
  expect_all(two, 20);
}

TEST_F(Circuit, ClosesWhenItsTimeIsOver) {
  open();
  net.blocks = 100;
  EXPECT_TRUE(one.send_data(0));
  one.at()->close(1s);
  net.run_for(2s);
  EXPECT_EQ(one.ended, errc::timed_out);
}

TEST_F(Circuit, HandsNothingUpWhilePausedAndAllAfterwards) {
  open();
  two.at()->pause();
  EXPECT_TRUE(one.send_data(0));
  EXPECT_TRUE(one.send_data(1));
  net.run_for(1s);
  EXPECT_TRUE(two.got.empty());
  two.at()->resume();
  net.run_for(1s);
  expect_all(two, 2);
}

TEST_F(Circuit, IsNotTouchedInTheNameOfAnotherNode) {
  open();
  EXPECT_TRUE(two.send_data(0));
  const routed_head forged{.step = circuit_step::ended,
                           .destination = 2,
                           .source = 3,
                           .circuit = two.called_as,
                           .number = 1};
  std::vector<std::byte> bytes(routed_head_size);
  encode(forged, bytes.data());
  two.all.arrived(forged, bytes, link_trust::unproven);
  net.run_for(1s);
  EXPECT_FALSE(two.ended);
  expect_all(one, 1);
}

TEST_F(Circuit, WithoutACallIsRefused) {
  open();
  one.all.close();
  end other{net, 1};
  std::swap(net.ends.front(), net.ends.back());
  net.ends.pop_back();
  EXPECT_TRUE(two.send_data(0));
  net.run_for(1s);
  EXPECT_EQ(two.ended, errc::peer_closed);
  EXPECT_EQ(other.accepts, 0);
}

// Calls from anywhere, and a node that is called.
class CircuitFlood : public ::testing::Test {
 protected:
  CircuitFlood() { called.expect_many = true; }
  void call_from(std::uint64_t source) {
    const routed_head head{
        .messages = 1, .destination = 2, .source = source, .circuit = ++number, .number = 1};
    byte_buffer call(16);
    call[0] = call_kind;
    called.all.arrived(head, routed_message(head, {call}), link_trust::unproven);
  }
  void call_and_register(std::uint64_t source) {
    call_from(source);
    called.at()->confirm({});
  }
  std::size_t left() {
    called.all.poll();
    return called.all.size();
  }

  network net{1};
  end called{net, 2};
  std::uint64_t number = 0;
};

TEST_F(CircuitFlood, OfOneCallerEndsItsOldestThatHaveNotRegistered) {
  call_and_register(1);
  for (int i = 0; i != 3; ++i)
    call_from(3);
  for (int i = 0; i != 5000; ++i)
    call_from(1);
  EXPECT_EQ(left(), 1U + 3U + 16U);
  EXPECT_EQ(called.closes, 5000U - 16U);
}

TEST_F(CircuitFlood, OfManyCallersEndsTheOldestThatHaveNotRegistered) {
  call_and_register(1);
  for (std::uint64_t source = 3; source != 5003; ++source)
    call_from(source);
  call_and_register(1);
  EXPECT_EQ(left(), 1024U + 1U);
  EXPECT_EQ(called.closes, 5000U + 1U - 1024U);
}

TEST_F(CircuitFlood, OfThoseThatRegisterIsLimitedToo) {
  for (std::uint64_t source = 3; source != 3 + 16'384; ++source)
    call_and_register(source);
  EXPECT_EQ(left(), 16'384U);
  EXPECT_EQ(called.problems, 0);
  for (int i = 0; i != 5; ++i)
    call_from(1);
  EXPECT_EQ(left(), 16'384U);
  EXPECT_EQ(called.all.refused(), 5U);
  EXPECT_EQ(called.problems, 5);
  called.at()->abort();
  EXPECT_EQ(left(), 16'383U);
  call_from(1);
  EXPECT_EQ(left(), 16'384U);
}

// Every fault at once, then none: all arrives in order and once.
class CircuitRuns : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(CircuitRuns, LoseNothing) {
  for (std::uint64_t seed = GetParam(); seed != GetParam() + 15; ++seed) {
    SCOPED_TRACE(seed);
    network net{seed};
    end one{net, 1};
    end two{net, 2};
    net.reorders = net.happens(50);
    net.drops = static_cast<unsigned>(net.random() % 20);
    net.fails = static_cast<unsigned>(net.random() % 10);
    net.blocks = static_cast<unsigned>(net.random() % 30);
    one.call(2);
    std::uint64_t from_one = 0;
    std::uint64_t from_two = 0;
    net.run_for(1s, [&] {
      if (net.happens(10) && two.at() != nullptr && one.send_data(from_one))
        ++from_one;
      if (net.happens(5) && two.at() != nullptr && two.send_data(from_two))
        ++from_two;
    });
    net.drops = net.fails = net.blocks = 0;
    for (int i = 0; i != 20 && (one.got.size() != from_two || two.got.size() != from_one); ++i)
      net.run_for(500ms);
    EXPECT_FALSE(one.ended);
    EXPECT_FALSE(two.ended);
    for (const auto& [at, count] : {std::pair{&one, from_two}, std::pair{&two, from_one}}) {
      ASSERT_EQ(at->got.size(), count);
      for (std::uint64_t i = 0; i != count; ++i)
        ASSERT_EQ(at->got[i], i);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, CircuitRuns, ::testing::Values(1, 101, 201));

}  // namespace
}  // namespace atbus::detail
