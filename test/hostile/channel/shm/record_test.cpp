// Record headers of any kind and length, published as a broken or hostile sender would: what is
// possible is delivered or skipped, everything else quarantines the lane and delivers nothing.

#include <limits>

#include "hostile/channel/shm/hostile_channel.h"

namespace atbus::hostile {
namespace {

using detail::record_kind;
using detail::record_size;

class RecordHeader : public hostile_channel {
 protected:
  // Behind whatever the lane holds, as its sender would.
  static void publish(raw_segment& file, std::uint32_t lane, std::uint64_t header,
                      std::uint64_t advance) {
    detail::lane_slot& slot = file.slot(lane);
    const std::uint64_t tail = slot.tail.load();
    std::memcpy(file.record(lane, tail), &header, sizeof header);
    slot.tail.store(tail + advance);
    file.header().ready[lane / 64].fetch_or(std::uint64_t{1} << (lane % 64));
  }

  // What one forged record in a lane that stands at `start` leads to.
  struct outcome {
    std::vector<std::size_t> lengths;
    bool quarantined = false;
  };
  outcome forge(std::uint64_t start, std::uint64_t header, std::uint64_t advance) {
    open_receiver().close();
    problems_.clear();
    raw_segment file = raw();
    detail::lane_slot& slot = file.slot(0);
    for (detail::shared_word* word : {&slot.head, &slot.done, &slot.handling, &slot.tail})
      word->store(start);
    receiver in = open_receiver();
    publish(file, 0, header, advance);
    outcome seen;
    for (int i = 0; i < 3; ++i) {
      in.poll([&](const received_message& m) {
        EXPECT_EQ(m.lane, 0U);
        seen.lengths.push_back(copy_of(m.bytes).size());
      });
    }
    seen.quarantined = in.stats().quarantined != 0;
    EXPECT_EQ(problems_.size(), seen.quarantined ? 1U : 0U);
    EXPECT_FALSE(in.remove().code() != errc::ok);
    return seen;
  }
};

constexpr std::uint64_t limit = message_limit;
constexpr std::uint64_t lengths[] = {
    0,         1,     7,         8,          9,          63,          64,         65,
    limit - 1, limit, limit + 1, 2048,       4080,       4087,        4088,       4089,
    4096,      8192,  1U << 31,  0xfffffff0, 0xfffffff7, 0xfffffff8U, 0xffffffffU};
constexpr std::uint64_t starts[] = {0,
                                    8,
                                    lane_size - 1032,
                                    lane_size - 1000,
                                    lane_size - 72,
                                    lane_size - 16,
                                    lane_size - 8,
                                    7 * lane_size + 2048};

TEST_F(RecordHeader, OfAMessageIsBelievedOnlyWithinLimitLapAndTail) {
  for (const std::uint64_t start : starts) {
    for (const std::uint64_t length : lengths) {
      SCOPED_TRACE(std::to_string(start) + " " + std::to_string(length));
      const std::uint64_t size = record_size(length);
      const std::uint64_t rest = lane_size - start % lane_size;
      const bool possible = length <= limit && size <= rest;
      const auto seen = forge(start, make_record_header(record_kind::message, length),
                              size <= lane_size ? size : lane_size);
      EXPECT_EQ(seen.quarantined, !possible);
      EXPECT_EQ(seen.lengths,
                possible ? std::vector{std::size_t{length}} : std::vector<std::size_t>{});
    }
  }
}

TEST_F(RecordHeader, IsNotBelievedBeyondTheTail) {
  for (const std::uint64_t length : {1U, 8U, 500U, 1000U}) {
    const auto seen = forge(0, make_record_header(record_kind::message, length), 8);
    EXPECT_TRUE(seen.quarantined) << length;
    EXPECT_TRUE(seen.lengths.empty());
  }
}

TEST_F(RecordHeader, OfPaddingMayTakeAnyLengthWithinTheLapAndDeliversNothing) {
  for (const std::uint64_t start : starts) {
    for (const std::uint64_t length : lengths) {
      SCOPED_TRACE(std::to_string(start) + " " + std::to_string(length));
      const std::uint64_t size = record_size(length);
      const auto seen = forge(start, make_record_header(record_kind::padding, length),
                              size <= lane_size ? size : lane_size);
      EXPECT_EQ(seen.quarantined, size > lane_size - start % lane_size);
      EXPECT_TRUE(seen.lengths.empty());
    }
  }
}

TEST_F(RecordHeader, OfAnOpeningHasOneLengthOnly) {
  for (const std::uint64_t length : lengths) {
    const std::uint64_t size = record_size(length);
    const auto seen = forge(0, make_record_header(record_kind::open, length),
                            size <= lane_size ? size : lane_size);
    EXPECT_EQ(seen.quarantined, length != sizeof(detail::open_record)) << length;
    EXPECT_TRUE(seen.lengths.empty());
  }
}

TEST_F(RecordHeader, OfAnUnknownKindQuarantines) {
  for (const std::uint64_t kind : {0x00000000ULL, 0x00000001ULL, 0x4d534720ULL, 0x4d534722ULL,
                                   0x2147534dULL, 0x80000000ULL, 0xffffffffULL}) {
    for (const std::uint64_t length : {0ULL, 8ULL, 64ULL, 1000ULL}) {
      const auto seen = forge(0, kind << 32 | length, record_size(length));
      EXPECT_TRUE(seen.quarantined) << kind << " " << length;
      EXPECT_TRUE(seen.lengths.empty());
    }
  }
}

TEST_F(RecordHeader, ThatIsBadStopsItsLaneOnlyAndTheLaneIsFreedWithItsSender) {
  receiver in = open_receiver();
  sender victim = open_sender();
  sender good = open_sender();
  raw_segment file = raw();
  std::vector<std::string> got;
  ASSERT_TRUE(victim.send(as_bytes("before")));
  publish(file, victim.lane(), 0, 8);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(good.send(as_bytes("good"))) << i;
    collect(in, got);
  }
  EXPECT_EQ(std::count(got.begin(), got.end(), "good"), 100);
  EXPECT_EQ(std::count(got.begin(), got.end(), "before"), 1);
  ASSERT_EQ(problems_.size(), 1U);
  EXPECT_NE(problems_[0].text().find("lane " + std::to_string(victim.lane())), std::string::npos);
  EXPECT_EQ(in.stats().quarantined, 1U);

  // The sender is told at its next message or the one after.
  (void)victim.send(as_bytes("told"));
  EXPECT_EQ(victim.send(as_bytes("told")), errc::quarantined);
  EXPECT_EQ(victim.wait_writable(0ns), errc::quarantined);

  const std::uint32_t lane = victim.lane();
  victim.close();
  sender third = open_sender();
  EXPECT_NE(third.lane(), lane) << "not to be used before it was reset";
  EXPECT_TRUE(poll_until(in, got, [&] { return file.slot(lane).quarantined.load() == 0; }));
  sender again = open_sender();
  EXPECT_EQ(again.lane(), lane);
  ASSERT_TRUE(again.send(as_bytes("again")));
  EXPECT_TRUE(poll_until(in, got, [&] { return got.back() == "again"; }));
}

TEST_F(RecordHeader, ThatChangesInsideTheHandlerDoesNotMoveTheReader) {
  receiver in = open_receiver();
  sender out = open_sender();
  raw_segment file = raw();
  const std::uint64_t first = file.slot(out.lane()).tail.load();
  ASSERT_TRUE(out.send(as_bytes("first")));
  ASSERT_TRUE(out.send(as_bytes("second")));
  std::vector<std::string> got;
  in.poll([&](bytes_view m) {
    const std::uint64_t forged = ~std::uint64_t{0};
    std::memcpy(file.record(out.lane(), first), &forged, sizeof forged);
    got.push_back(copy_of(m));
  });
  EXPECT_EQ(got, (std::vector<std::string>{"first", "second"}));
  EXPECT_TRUE(problems_.empty());
}

// An attacker who is always a little ahead must not keep a game loop in poll for ever.
TEST_F(RecordHeader, OfPaddingWithoutEndDoesNotKeepPollFromReturning) {
  constexpr std::uint64_t large_lane = std::uint64_t{16} << 20;
  receiver_options o = receiving();
  o.lanes = 1;
  o.lane_size = large_lane;
  auto in = receiver::open("shm://victim", o);
  ASSERT_TRUE(in) << in.error().text();
  raw_segment file = raw();
  detail::lane_slot& slot = file.slot(0);
  const std::uint64_t padding = detail::make_record_header(record_kind::padding, 0);
  for (std::uint64_t at = 0; at < large_lane - 16; at += 8)
    std::memcpy(file.lane(0) + at, &padding, sizeof padding);
  const std::uint64_t message = detail::make_record_header(record_kind::message, 8);
  std::memcpy(file.lane(0) + large_lane - 16, &message, sizeof message);
  slot.tail.store(large_lane);
  file.header().ready[0].store(1);

  std::vector<std::string> got;
  collect(*in, got);
  EXPECT_GT(slot.done.load(), 0U);
  EXPECT_LT(slot.done.load(), large_lane / 2) << "one poll went through all of it";
  EXPECT_TRUE(poll_until(*in, got, [&] { return got.size() == 1; }));
  EXPECT_EQ(in->stats().quarantined, 0U);
}

// What its own lane says is not believed by the sender either when it takes its messages back.
TEST_F(RecordHeader, IsCheckedWhenASenderTakesBack) {
  for (const std::uint64_t length : lengths) {
    SCOPED_TRACE(length);
    open_receiver().close();
    sender out = open_sender();
    raw_segment file = raw();
    const std::uint64_t at = file.slot(out.lane()).tail.load();
    const std::string filler(900, 'f');
    for (int i = 0; i < 4; ++i)
      ASSERT_TRUE(out.send(as_bytes(filler)));
    for (std::uint64_t p = at; p < at + 4 * record_size(filler.size()); p += 8) {
      const std::uint64_t forged = make_record_header(record_kind::message, length);
      std::memcpy(file.record(out.lane(), p), &forged, sizeof forged);
    }
    const auto taken = out.take_back([&](bytes_view m, errc why) {
      EXPECT_EQ(why, errc::not_delivered);
      EXPECT_LE(copy_of(m).size(), message_limit);
    });
    if (!taken) {
      EXPECT_EQ(taken.error().code(), errc::quarantined);
    }
    out.close();
    (void)open_receiver().remove();
  }
}

TEST_F(RecordHeader, ThatWrapsIsNotReadPastTheLaneWhenASenderTakesBack) {
  receiver in = open_receiver();
  sender out = open_sender();
  std::vector<std::string> got;
  const std::string filler(440, 'f');  // eight of them, behind the opening, reach a lap's end
  while (out.stats().padding_bytes == 0) {
    ASSERT_TRUE(out.send(as_bytes(filler)));
    if (collect(in, got) == 0)
      break;
  }
  ASSERT_GT(out.stats().padding_bytes, 0U);
  collect(in, got);
  raw_segment file = raw();
  const std::uint32_t lane = out.lane();
  const auto left_in_lap = [&] {
    const std::uint64_t tail = file.slot(lane).tail.load();
    return (tail | (lane_size - 1)) + 1 - tail;
  };
  while (left_in_lap() > 2 * record_size(440)) {
    ASSERT_TRUE(out.send(as_bytes(filler)));
    collect(in, got);
  }
  const std::uint64_t near_end = file.slot(lane).tail.load();
  ASSERT_TRUE(out.send(as_bytes(filler)));
  ASSERT_TRUE(out.send(as_bytes(filler)));
  ASSERT_TRUE(out.send(as_bytes(filler)));
  in.close();
  const std::uint64_t forged = make_record_header(record_kind::message, 1000);
  std::memcpy(file.record(lane, near_end), &forged, sizeof forged);
  const std::uint64_t rest = lane_size - near_end % lane_size - detail::record_header_size;
  ASSERT_LT(rest, 1000U);
  const auto taken =
      out.take_back([&](bytes_view m, errc) { EXPECT_LE(m.size(), rest) << "past the lane"; });
  if (!taken) {
    EXPECT_EQ(taken.error().code(), errc::quarantined);
  }
}

}  // namespace
}  // namespace atbus::hostile
