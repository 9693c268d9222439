#include "atbus/bus_id.hpp"

#include <type_traits>
#include <unordered_set>

#include "test.h"

namespace atbus {
namespace {

constexpr auto max64 = std::numeric_limits<std::uint64_t>::max();

// What may and may not become an id without being asked.
static_assert(std::is_convertible_v<int, bus_id>);
static_assert(std::is_convertible_v<std::uint64_t, bus_id>);
static_assert(!std::is_convertible_v<bool, bus_id>);
static_assert(!std::is_convertible_v<char, bus_id>);
static_assert(!std::is_convertible_v<double, bus_id>);
static_assert(!std::is_convertible_v<bus_id, std::uint64_t>);
static_assert(std::is_trivially_copyable_v<bus_id> && sizeof(bus_id) == 8);
static_assert(bus_id{7} == 7 && bus_id{7} < bus_id{8} && bus_id{} == 0);
static_assert(bus_id{max64}.value() == max64);

bus_id_layout layout(std::string_view text) {
  return *bus_id_layout::parse(text);
}

std::string id_error(std::string_view text, const bus_id_layout& by = {}) {
  const auto id = bus_id::parse(text, by);
  EXPECT_EQ(id.error(), errc::invalid_argument) << text;
  return id.error().text();
}

std::string layout_error(std::string_view text) {
  const auto parsed = bus_id_layout::parse(text);
  EXPECT_EQ(parsed.error(), errc::invalid_argument) << text;
  return parsed.error().text();
}

TEST(BusIdLayout, IsEightEightSixteenThirtyTwoByDefault) {
  EXPECT_EQ(bus_id_layout{}.to_string(), "8.8.16.32");
  EXPECT_EQ(bus_id_layout{}, layout("8.8.16.32"));
}

TEST(BusIdLayout, TakesFromOneTo64Parts) {
  EXPECT_EQ(layout("64").part_count(), 1U);
  std::string ones = "1";
  for (int i = 1; i < 64; ++i)
    ones += ".1";
  EXPECT_EQ(layout(ones).part_count(), 64U);
  EXPECT_EQ(layout(ones).to_string(), ones);
}

TEST(BusIdLayout, MustAddUpTo64) {
  EXPECT_NE(layout_error("8.8.16.31").find("add up to 63 bits, not 64"), std::string::npos);
  EXPECT_NE(layout_error("32.33").find("add up to 65 bits"), std::string::npos);
  EXPECT_NE(layout_error("8").find("add up to 8 bits"), std::string::npos);
}

TEST(BusIdLayout, NamesThePartAtFault) {
  EXPECT_NE(layout_error("8.8.x.32").find("part 3: 'x'"), std::string::npos);
  EXPECT_NE(layout_error("0.64").find("part 1: 0 bits"), std::string::npos);
  EXPECT_NE(layout_error("65").find("part 1: '65' is larger than 64"), std::string::npos);
  EXPECT_NE(layout_error("32..32").find("part 2: '' is empty"), std::string::npos);
  EXPECT_NE(layout_error("32.32.").find("part 3: '' is empty"), std::string::npos);
  EXPECT_NE(layout_error("").find("part 1: '' is empty"), std::string::npos);
}

TEST(BusIdLayout, RefusesMoreThan64Parts) {
  EXPECT_NE(layout_error(std::string(64, '.')).find("more than 64 parts"), std::string::npos);
  EXPECT_NE(layout_error(std::string(100'000, '.')).find("more than 64 parts"), std::string::npos);
}

TEST(BusId, ReadsTheThreeForms) {
  EXPECT_EQ(*bus_id::parse("305397760"), 0x12340000);
  EXPECT_EQ(*bus_id::parse("0x12340000"), 0x12340000);
  EXPECT_EQ(*bus_id::parse("1.2.3.4"), 0x0102000300000004);
}

TEST(BusId, ReadsPartsInHexadecimalToo) {
  EXPECT_EQ(*bus_id::parse("0x1.0xff.3.0x10"), 0x01ff000300000010);
}

TEST(BusId, WritesTheThreeForms) {
  const bus_id id = 0x0102000300000004;
  EXPECT_EQ(id.to_string(), "72620556876251140");
  EXPECT_EQ(id.to_hex(), "0x102000300000004");
  EXPECT_EQ(id.to_dotted(), "1.2.3.4");
  EXPECT_EQ(bus_id{}.to_hex(), "0x0");
  EXPECT_EQ(bus_id{}.to_dotted(), "0.0.0.0");
}

TEST(BusId, FollowsTheGivenLayout) {
  EXPECT_EQ(*bus_id::parse("1.2", layout("32.32")), 0x100000002);
  EXPECT_EQ(bus_id{0x100000002}.to_dotted(layout("32.32")), "1.2");
  EXPECT_EQ(bus_id{max64}.to_dotted(layout("64")), "18446744073709551615");
  EXPECT_EQ(bus_id{max64}.to_dotted(layout("1.63")), "1.9223372036854775807");
}

TEST(BusId, IsReadBackInEveryFormAndLayout) {
  for (const auto* text : {"8.8.16.32", "64", "1.63", "63.1", "32.32", "16.16.16.16"}) {
    const auto by = layout(text);
    for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{1}, max64, max64 - 1,
                                      std::uint64_t{1} << 63U, std::uint64_t{0x0123456789abcdef}}) {
      const bus_id id = value;
      EXPECT_EQ(*bus_id::parse(id.to_string(), by), id);
      EXPECT_EQ(*bus_id::parse(id.to_hex(), by), id);
      EXPECT_EQ(*bus_id::parse(id.to_dotted(by), by), id);
    }
  }
}

TEST(BusId, NamesThePartThatIsTooLarge) {
  EXPECT_EQ(id_error("1.256.3.4"), "bus id '1.256.3.4': part 2: '256' is larger than 255");
  EXPECT_EQ(id_error("1.2.3.4294967296"),
            "bus id '1.2.3.4294967296': part 4: '4294967296' is larger than 4294967295");
  EXPECT_EQ(*bus_id::parse("255.255.65535.4294967295"), max64);
}

TEST(BusId, NamesThePartThatIsNoNumber) {
  EXPECT_NE(id_error("1.2.a.4").find("part 3: 'a': character 1, 'a'"), std::string::npos);
  EXPECT_NE(id_error("1.2..4").find("part 3: '' is empty"), std::string::npos);
  EXPECT_NE(id_error(".2.3.4").find("part 1: '' is empty"), std::string::npos);
  EXPECT_NE(id_error("1.2.3.").find("part 4: '' is empty"), std::string::npos);
  EXPECT_NE(id_error("1.2.3.4 ").find("part 4: '4 ': character 2, ' '"), std::string::npos);
}

TEST(BusId, NeedsAsManyPartsAsTheLayoutHas) {
  EXPECT_EQ(id_error("1.2.3"), "bus id '1.2.3': 3 parts, but the layout 8.8.16.32 has 4");
  EXPECT_NE(id_error("1.2.3.4.5").find("5 parts"), std::string::npos);
  EXPECT_NE(id_error("1.2", layout("64")).find("layout 64 has 1"), std::string::npos);
  EXPECT_NE(id_error(std::string(100'000, '.')).find("100001 parts"), std::string::npos);
}

TEST(BusId, RefusesWhatIsNoNumber) {
  for (const auto* text : {"", " ", "-1", "+1", "1 ", " 1", "1x", "x", "0x", "0xg", "01", "1,2",
                           "1/2", "0x10000000000000000", "18446744073709551616"}) {
    EXPECT_TRUE(id_error(text).starts_with("bus id '")) << text;
  }
  EXPECT_NE(id_error({"1\0", 2}).find("character 2, 0x00"), std::string::npos);
}

TEST(BusId, IsAKeyInHashedContainers) {
  const std::unordered_set<bus_id> ids{1, 2, 2, max64};
  EXPECT_EQ(ids.size(), 3U);
  EXPECT_TRUE(ids.contains(max64));
}

#ifndef NDEBUG
TEST(BusIdDeathTest, AssertsOnANegativeNumber) {
  EXPECT_DEATH(bus_id{-1}, "value >= 0");
}
#endif

}  // namespace
}  // namespace atbus
