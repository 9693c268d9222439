// From an address to a segment's name and geometry.
#include "channel/shm/channel_address.h"
#include "test.h"

namespace atbus::detail {
namespace {

using namespace std::string_view_literals;

constexpr std::uint64_t KiB = 1024;
constexpr std::uint64_t MiB = KiB * 1024;

TEST(ChannelAddress, NamesASegmentAndItsGeometry) {
  const auto wanted = parse_segment_address(
      "shm://zone-1?lanes=4&lane_size=64K&message_limit=1000&prefault=true", "/dir");
  ASSERT_TRUE(wanted) << wanted.error().text();
  EXPECT_FALSE(wanted->name.in_process);
  EXPECT_EQ(wanted->name.text(), "shm://zone-1");
  EXPECT_EQ(wanted->name.directory, "/dir");
  EXPECT_EQ(wanted->name.file_name(), "atbus-segment.zone-1");
  EXPECT_EQ(wanted->name.bell_name(), "atbus-bell.zone-1");
  EXPECT_EQ(wanted->lanes, 4U);
  EXPECT_EQ(wanted->lane_size, 64 * KiB);
  EXPECT_EQ(wanted->message_limit, 1000U);
  EXPECT_TRUE(wanted->prefault);
}

TEST(ChannelAddress, AsksForNothingThatItDoesNotSay) {
  const auto wanted = parse_segment_address("mem://zone", "/dir");
  ASSERT_TRUE(wanted) << wanted.error().text();
  EXPECT_TRUE(wanted->name.in_process);
  EXPECT_EQ(wanted->name.text(), "mem://zone");
  EXPECT_EQ(wanted->lanes, 0U);
  EXPECT_EQ(wanted->lane_size, 0U);
  EXPECT_EQ(wanted->message_limit, 0U);
  EXPECT_FALSE(wanted->prefault);
}

TEST(ChannelAddress, RefusesWhatIsNoName) {
  const std::string longest(64, 'n');
  EXPECT_TRUE(parse_segment_address("shm://" + longest, "/dir"));
  const struct {
    std::string text;
    errc expected;
  } cases[] = {
      {"shm://", errc::invalid_name},
      {"mem://", errc::invalid_name},
      {"shm://?lanes=2", errc::invalid_name},
      {"shm://a/b", errc::invalid_name},
      {"shm:///a", errc::invalid_name},
      {"shm://..", errc::invalid_name},
      {"shm://../a", errc::invalid_name},
      {"shm://.a", errc::invalid_name},
      {"shm://a~", errc::invalid_name},
      {"shm://a b", errc::invalid_name},
      {std::string{"shm://a\0b"sv}, errc::invalid_address},
      {std::string{"shm://a\0"sv}, errc::invalid_address},
      {"shm://a\n", errc::invalid_address},
      {"shm://" + longest + "n", errc::invalid_name},
      {"shm://" + std::string(100'000, 'n'), errc::invalid_address},
      {"ipv4://127.0.0.1:1", errc::not_supported},
      {"unix:///a", errc::not_supported},
      {"", errc::invalid_address},
      {"zone", errc::invalid_address},
  };
  for (const auto& c : cases) {
    const auto refused = parse_segment_address(c.text, "/dir");
    ASSERT_FALSE(refused) << c.text;
    EXPECT_EQ(refused.error().code(), c.expected) << refused.error().text();
    EXPECT_FALSE(refused.error().text().empty());
  }
}

TEST(SegmentGeometryChoice, MakesLanesThatHoldTwoOfTheLargestMessage) {
  const struct {
    std::uint64_t lanes, lane_size, message_limit;
    segment_geometry expected;
  } cases[] = {
      {1, 0, 65536, {1, MiB, 65536}},
      {0, 0, 1000, {64, MiB, 1000}},
      {max_lanes, 4096, 2040, {max_lanes, 4096, 2040}},
      {2, 4097, 1000, {2, 8192, 1000}},
      {2, 0, 524280, {2, MiB, 524280}},      // 2 x (limit + 8) is 1 MiB
      {2, 0, 524281, {2, 2 * MiB, 524281}},  // and a byte more
      {2, max_lane_size, 1, {2, max_lane_size, 1}},
      {2, 0, max_message_limit, {2, 256 * MiB, max_message_limit}},
  };
  for (const auto& c : cases) {
    segment_address wanted;
    wanted.lanes = c.lanes;
    wanted.lane_size = c.lane_size;
    wanted.message_limit = c.message_limit;
    const auto chosen = choose_geometry(wanted);
    ASSERT_TRUE(chosen) << chosen.error().text();
    EXPECT_EQ(*chosen, c.expected) << c.lanes << ", " << c.lane_size << ", " << c.message_limit;
  }
}

TEST(SegmentGeometryChoice, RefusesWhatIsImpossibleAndSaysWhichNumberIs) {
  const struct {
    std::uint64_t lanes, lane_size, message_limit;
    const char* named;
  } cases[] = {
      {max_lanes + 1, 0, 0, "4097"},
      {~std::uint64_t{0}, 0, 0, "18446744073709551615"},
      {1, min_lane_size - 1, 1, "4095"},
      {1, max_lane_size + 1, 1, "1073741825"},
      {1, ~std::uint64_t{0}, 1, "18446744073709551615"},
      {1, 0, max_message_limit + 1, "67108865"},
      {1, 0, ~std::uint64_t{0}, "18446744073709551615"},
      {1, 4096, 2041, "8192"},  // what it would have to be
  };
  for (const auto& c : cases) {
    segment_address wanted;
    wanted.name.name = "zone";
    wanted.lanes = c.lanes;
    wanted.lane_size = c.lane_size;
    wanted.message_limit = c.message_limit;
    const auto refused = choose_geometry(wanted);
    ASSERT_FALSE(refused) << c.named;
    EXPECT_EQ(refused.error().code(), errc::invalid_argument);
    EXPECT_NE(refused.error().text().find(c.named), std::string::npos) << refused.error().text();
    EXPECT_NE(refused.error().text().find("shm://zone"), std::string::npos);
  }
}

TEST(SegmentGeometry, IsComparedWithTheExistingOne) {
  segment existing;
  existing.name.name = "zone";
  existing.geometry = {4, 8192, 1000};
  const struct {
    std::uint64_t lanes, lane_size, message_limit;
    const char* differs;
  } cases[] = {
      {0, 0, 0, nullptr},
      {4, 8192, 1000, nullptr},
      {0, 4097, 0, nullptr},  // rounded up
      {5, 0, 0, "asked for was 5"},
      {0, 4096, 0, "asked for was 4096"},
      {0, 8193, 0, "asked for was 8193"},
      {0, ~std::uint64_t{0}, 0, "asked for was 18446744073709551615"},
      {0, 0, 999, "asked for was 999"},
  };
  for (const auto& c : cases) {
    segment_address wanted;
    wanted.lanes = c.lanes;
    wanted.lane_size = c.lane_size;
    wanted.message_limit = c.message_limit;
    const error e = compare_geometry(existing, wanted);
    if (c.differs == nullptr) {
      EXPECT_TRUE(e) << e.text();
    } else {
      EXPECT_EQ(e.code(), errc::geometry_mismatch) << c.differs;
      EXPECT_NE(e.text().find(c.differs), std::string::npos) << e.text();
    }
  }
}

}  // namespace
}  // namespace atbus::detail
