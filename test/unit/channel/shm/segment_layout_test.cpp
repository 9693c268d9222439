// Where the parts of a segment lie.
#include "channel/shm/segment_layout.h"

#include <set>

#include "test.h"

namespace atbus::detail {
namespace {

TEST(SegmentGeometry, FollowsFromThreeNumbers) {
  const struct {
    segment_geometry geometry;
    std::uint64_t control_size;
    std::uint64_t lanes_offset;
    std::uint64_t file_size;
  } cases[] = {
      {{1, 4096, 1000}, 5120, 65536, 131072},
      {{2, 4096, 1000}, 6144, 65536, 196608},  // the example of doc/design/segment.md
      {{2, 65536, 1000}, 6144, 65536, 196608},
      {{2, 131072, 1000}, 6144, 65536, 327680},
      {{60, 4096, 1000}, 65536, 65536, 3997696},
      {{61, 4096, 1000}, 66560, 131072, 4128768},  // the table goes on behind 64 KiB
      {{64, 1 << 20, 65536}, 69632, 131072, 67239936},
      {{max_lanes, min_lane_size, 1}, 4198400, 4259840, 272695296},
      {{max_lanes, max_lane_size, max_message_limit}, 4198400, 4259840, 4398050770944},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(c.geometry.table_offset(), header_space);
    EXPECT_EQ(c.geometry.control_size(), c.control_size);
    EXPECT_EQ(c.geometry.lanes_offset(), c.lanes_offset);
    EXPECT_EQ(c.geometry.file_size(), c.file_size);
    EXPECT_EQ(c.geometry.lane_offset(0), c.lanes_offset);
    EXPECT_EQ(c.geometry.lane_offset(c.geometry.lane_count - 1) + c.geometry.lane_distance(),
              c.file_size);
  }
}

TEST(SegmentGeometry, PutsEachLaneOnPagesOfItsOwnHoweverLargeTheyAre) {
  for (std::uint32_t lanes = 1; lanes <= 70; ++lanes) {
    const segment_geometry g{lanes, min_lane_size, 1000};
    EXPECT_GE(g.lanes_offset(), g.table_offset() + lanes * sizeof(lane_slot));
    EXPECT_GE(g.lane_distance(), g.lane_size);
    for (std::uint32_t i = 0; i < lanes; ++i) {
      EXPECT_EQ(g.lane_offset(i) % 4096, 0U);
      EXPECT_EQ(g.lane_offset(i) % 16384, 0U);
      EXPECT_EQ(g.lane_offset(i) % 65536, 0U);
    }
  }
}

TEST(SegmentLocks, HaveAByteForEachOwner) {
  std::set<std::uint64_t> bytes{receiver_lock_byte};
  for (std::uint32_t lane = 0; lane < max_lanes; ++lane)
    EXPECT_TRUE(bytes.insert(lane_lock_byte(lane)).second) << lane;
}

TEST(Alerts, CountWithoutReachingTheGeneration) {
  constexpr std::uint64_t generation = std::uint64_t{5} << 36;
  EXPECT_EQ(next_alert(generation), generation | alert_step);
  EXPECT_EQ(next_alert(generation | alert_step | alert_parked | alert_quarantined),
            generation | 2 * alert_step);
  EXPECT_EQ(next_alert(generation | alert_count | alert_parked), generation);
}

TEST(SharedWords, GiveBackTheRecordThatWasStored) {
  std::array<shared_word, 8> words{};
  receiver_note note{.pid = 42, .reserved = 0, .opened_at = 0x0102030405060708, .program = {}};
  std::memcpy(note.program, "program", sizeof "program");
  store_words(words.data(), note);
  const auto copy = load_words<receiver_note>(words.data());
  EXPECT_EQ(std::memcmp(&copy, &note, sizeof note), 0);
}

TEST(Records, TakeMultiplesOfEightBytesWithTheirHeaders) {
  for (std::uint64_t length = 0; length < 100; ++length) {
    EXPECT_EQ(record_size(length) % 8, 0U);
    EXPECT_GE(record_size(length), length + record_header_size);
    EXPECT_LT(record_size(length), length + record_header_size + 8);
  }
  for (const std::uint64_t length : {std::uint64_t{0}, max_message_limit, std::uint64_t{1} << 31}) {
    const std::uint64_t header = make_record_header(record_kind::message, length);
    EXPECT_EQ(record_length(header), length);
    EXPECT_EQ(record_kind_of(header), record_kind::message);
    EXPECT_NE(header, 0U);
  }
}

}  // namespace
}  // namespace atbus::detail
