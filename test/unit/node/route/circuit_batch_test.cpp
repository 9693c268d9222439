// What leaves over a circuit in one batch.
#include <stdexcept>

#include "circuit_fixture.h"

namespace atbus::detail {
namespace {

using CircuitBatch = Circuit;

// So many short messages that they leave in one batch.
constexpr std::uint64_t short_batch = 10;

TEST_F(CircuitBatch, StopsInABatchWhereThePollHasToldEnough) {
  open();
  for (std::uint64_t i = 0; i != short_batch; ++i)
    EXPECT_TRUE(one.send_data(i));
  two.most = 3;
  std::vector<std::size_t> seen;
  net.run_for(5ms, [&] {
    if (!two.got.empty() && (seen.empty() || seen.back() != short_batch))
      seen.push_back(two.got.size());
  });
  EXPECT_EQ(seen, (std::vector<std::size_t>{3, 6, 9, 10}));
  expect_all(two, short_batch);
  EXPECT_EQ(one.messages_sent, 1 + short_batch) << "the call, and each once";
}

TEST_F(CircuitBatch, HasSomethingDueWhileABatchIsNotToldToItsEnd) {
  open();
  net.run_for(100ms);
  for (std::uint64_t i = 0; i != short_batch; ++i)
    EXPECT_TRUE(one.send_data(i));
  two.most = 1;
  bool seen = false;
  net.run_for(5ms, [&] {
    if (!two.got.empty() && two.got.size() != short_batch) {
      EXPECT_TRUE(two.all.has_due());
    }
    seen = seen || two.got.size() == short_batch / 2;
  });
  EXPECT_TRUE(seen);
  EXPECT_FALSE(two.all.has_due());
}

TEST_F(CircuitBatch, LooksAtTheClockWithinABatch) {
  open();
  two.on_data = [&] { net.clock.advance(1us); };
  for (std::uint64_t i = 0; i != 100; ++i)
    EXPECT_TRUE(one.send_data(500 * i));  // of 16 bytes
  two.deadline = 1ns;
  net.run_for(200us);
  std::size_t before = two.got.size();
  net.run_for(400us, [&] {
    EXPECT_LE(two.got.size() - before, 32U);
    before = two.got.size();
  });
  net.run_for(5ms);
  EXPECT_EQ(two.got.size(), 100U);
  EXPECT_EQ(two.polls_ended, 3);
}

// What comes while the rest waits is not kept, but asked for again.
TEST_F(CircuitBatch, KeepsOrderWhereBatchesComeFasterThanTheyAreTold) {
  open();
  two.most = 1;
  std::uint64_t sent = 0;
  net.run_for(100ms, [&] {
    for (int i = 0; i != 5 && sent != 300 && one.send_data(sent); ++i)
      ++sent;
  });
  net.run_for(10s);
  EXPECT_EQ(sent, 300U);
  expect_all(two, 300);
}

TEST_F(CircuitBatch, HandsUpTheRestOfABatchAfterAPause) {
  open();
  two.on_data = [&] {
    if (two.got.size() == 4)
      two.at()->pause();
  };
  for (std::uint64_t i = 0; i != short_batch; ++i)
    EXPECT_TRUE(one.send_data(i));
  net.run_for(1s);
  EXPECT_EQ(two.got.size(), 4U);
  EXPECT_FALSE(two.all.has_due()) << "it may sleep";
  EXPECT_TRUE(one.send_data(short_batch));
  net.run_for(1s);
  two.at()->resume();
  net.run_for(1s);
  expect_all(two, short_batch + 1);
}

TEST_F(CircuitBatch, HandsUpTheRestOfABatchAfterAHandlerThrew) {
  open();
  two.on_data = [&] {
    if (two.got.size() == 4)
      throw std::runtime_error("a handler's");
  };
  for (std::uint64_t i = 0; i != short_batch; ++i)
    EXPECT_TRUE(one.send_data(i));
  EXPECT_THROW(net.run_for(5ms), std::runtime_error);
  EXPECT_EQ(two.got.size(), 4U);
  net.run_for(5ms);
  expect_all(two, short_batch);
}

TEST_F(CircuitBatch, HandsUpNothingMoreOfABatchOnceItIsAborted) {
  open();
  two.on_data = [&] {
    if (two.got.size() == 4)
      two.at()->abort();
  };
  for (std::uint64_t i = 0; i != short_batch; ++i)
    EXPECT_TRUE(one.send_data(i));
  net.run_for(1s);
  EXPECT_EQ(two.got.size(), 4U);
  EXPECT_EQ(two.ended, errc::closed);
  EXPECT_EQ(two.all.size(), 0U);
}

TEST_F(CircuitBatch, HandsUpNothingMoreOfABatchOnceTheNodeIsClosed) {
  open();
  two.on_data = [&] { two.all.close(); };
  for (std::uint64_t i = 0; i != short_batch; ++i)
    EXPECT_TRUE(one.send_data(i));
  net.run_for(1ms);
  EXPECT_EQ(two.got.size(), 1U);
}

TEST_F(CircuitBatch, HandsBackOnlyWhatIsNotReleasedOfABatch) {
  open();
  for (std::uint64_t i = 0; i != short_batch; ++i)
    EXPECT_TRUE(one.send_data(i));
  one.all.flush();
  one.at()->release(1 + 8);  // the call, and eight
  EXPECT_FALSE(one.at()->settled());
  EXPECT_TRUE(one.send_data(short_batch));
  one.at()->abort();
  net.run_for(10ms);
  using fates = std::vector<std::pair<std::uint64_t, errc>>;
  EXPECT_EQ(
      one.not_released,
      (fates{{8, errc::outcome_unknown}, {9, errc::outcome_unknown}, {10, errc::not_delivered}}));
}

TEST_F(CircuitBatch, IsSettledOnceAllOfABatchIsReleased) {
  open();
  for (std::uint64_t i = 0; i != short_batch; ++i)
    EXPECT_TRUE(one.send_data(i));
  one.all.flush();
  one.at()->release(1 + short_batch - 1);
  EXPECT_FALSE(one.at()->settled());
  one.at()->release(1);
  EXPECT_TRUE(one.at()->settled());
}

// Which ends it, as any message that is none.
TEST_F(CircuitBatch, TellsOfABatchThatIsNone) {
  open();
  byte_buffer many;
  for (int i = 0; i != 300; ++i) {
    const byte_buffer one_more = from_hex("08 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00");
    many.insert(many.end(), one_more.begin(), one_more.end());
  }
  const std::array<byte_buffer, 5> bodies{
      many,                                                          // more than any node sends
      from_hex("10 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"),   // longer than the batch
      from_hex("08 00 00 00 01 00 00 00 00 00 00 00 00 00 00 00"),   // with a checksum
      from_hex("07 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"),   // shorter than a head
      from_hex("08 00 00 10 00 00 00 00 00 00 00 00 00 00 00 00")};  // of another kind
  std::uint64_t number = 1;
  for (const byte_buffer& body : bodies) {
    const routed_head head{
        .messages = 1, .destination = 2, .source = 1, .circuit = one.called_as, .number = ++number};
    byte_buffer bytes(routed_head_size);
    encode(head, bytes.data());
    bytes.insert(bytes.end(), body.begin(), body.end());
    two.all.arrived(head, bytes, link_trust::unproven);
    EXPECT_EQ(static_cast<std::uint64_t>(two.breaches), number - 1);
  }
  EXPECT_TRUE(two.got.empty());
}

}  // namespace
}  // namespace atbus::detail
