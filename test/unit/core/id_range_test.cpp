#include "atbus/id_range.hpp"

#include "test.h"

namespace atbus {
namespace {

constexpr std::uint64_t last_id = std::numeric_limits<std::uint64_t>::max();

static_assert(id_range{}.contains(bus_id{last_id}));
static_assert(id_range::single(7).contains(bus_id{7}) && !id_range::single(7).contains(bus_id{6}));

id_range range(std::string_view text) {
  return *id_range::parse(text);
}

std::string range_error(std::string_view text) {
  const auto parsed = id_range::parse(text);
  EXPECT_EQ(parsed.error(), errc::invalid_argument) << text;
  return parsed.error().text();
}

TEST(IdRange, HoldsTheIdsThatShareItsPrefix) {
  const id_range r = range("0x12340000/48");
  EXPECT_EQ(r.first(), 0x12340000);
  EXPECT_EQ(r.last(), 0x1234ffff);
  EXPECT_TRUE(r.contains(r.first()));
  EXPECT_TRUE(r.contains(r.last()));
  EXPECT_FALSE(r.contains(bus_id{0x1233ffff}));
  EXPECT_FALSE(r.contains(bus_id{0x12350000}));
  EXPECT_FALSE(r.contains(bus_id{0x8000000012340000}));
}

TEST(IdRange, OfLengthZeroHoldsAll) {
  const id_range all = range("0/0");
  EXPECT_EQ(all, id_range{});
  EXPECT_EQ(all.first(), 0);
  EXPECT_EQ(all.last(), last_id);
}

TEST(IdRange, OfLength64HoldsOne) {
  const id_range one = range("7/64");
  EXPECT_EQ(one, id_range::single(7));
  EXPECT_EQ(one.first(), one.last());
  EXPECT_FALSE(one.contains(bus_id{8}));
}

TEST(IdRange, ReadsEveryFormOfItsPrefix) {
  EXPECT_EQ(range("1.2.0.0/16"), *id_range::make(0x0102000000000000, 16));
  EXPECT_EQ(range("305397760/48"), range("0x12340000/48"));
  EXPECT_EQ(*id_range::parse("1.0/32", *bus_id_layout::parse("32.32")),
            *id_range::make(0x100000000, 32));
}

TEST(IdRange, IsReadBackAsWritten) {
  EXPECT_EQ(range("0x12340000/48").to_string(), "0x12340000/48");
  for (unsigned length = 0; length <= 64; ++length) {
    const auto prefix = length == 0 ? 0 : last_id << (64 - length);
    const id_range r = *id_range::make(prefix, length);
    EXPECT_EQ(range(r.to_string()), r);
  }
}

TEST(IdRange, RefusesAPrefixWithBitsBelowItsLength) {
  EXPECT_EQ(range_error("0x12340001/48"),
            "id range 0x12340001/48: bits below the first 48 are set; did you mean "
            "0x12340000/48?");
  EXPECT_EQ(id_range::make(1, 0).error(), errc::invalid_argument);
}

TEST(IdRange, NamesThePartAtFault) {
  EXPECT_NE(range_error("0x12340000").find("no '/length'"), std::string::npos);
  EXPECT_NE(range_error("x/48").find("prefix: bus id 'x'"), std::string::npos);
  EXPECT_NE(range_error("/48").find("prefix: bus id ''"), std::string::npos);
  EXPECT_NE(range_error("0/").find("length: '' is empty"), std::string::npos);
  EXPECT_NE(range_error("0/65").find("length: '65' is larger than 64"), std::string::npos);
  EXPECT_NE(range_error("0/8/8").find("length: '8/8': character 2, '/'"), std::string::npos);
  EXPECT_NE(range_error("0/-1").find("length:"), std::string::npos);
  EXPECT_NE(id_range::make(0, 65).error().text().find("65"), std::string::npos);
}

TEST(IdRange, ContainsARangeWithinIt) {
  const id_range outer = range("0x10000/48");
  EXPECT_TRUE(outer.contains(range("0x1ff00/56")));
  EXPECT_TRUE(outer.contains(outer));
  EXPECT_FALSE(outer.contains(range("0x20000/56")));
  EXPECT_FALSE(range("0x1ff00/56").contains(outer));
  EXPECT_FALSE(range("0x20000/48").contains(range("0x20000/47")));
}

TEST(IdRange, OverlapsWhereOneLiesInTheOther) {
  const id_range outer = range("0x10000/48");
  const id_range inner = range("0x1ff00/56");
  EXPECT_TRUE(outer.overlaps(inner));
  EXPECT_TRUE(inner.overlaps(outer));
  EXPECT_TRUE(id_range{}.overlaps(inner));
  EXPECT_FALSE(outer.overlaps(range("0x20000/48")));
  EXPECT_FALSE(inner.overlaps(range("0x1fe00/56")));
}

TEST(IdRange, SortsOuterBeforeInner) {
  EXPECT_LT(range("0x10000/48"), range("0x10000/56"));
  EXPECT_LT(range("0x10000/56"), range("0x20000/48"));
}

TEST(LongestPrefix, PicksTheNarrowestRange) {
  const std::array ranges{range("0/0"), range("0x10000/48"), range("0x1ff00/56")};
  EXPECT_EQ(longest_prefix(ranges, 0x1ff01), ranges.begin() + 2);
  EXPECT_EQ(longest_prefix(ranges, 0x1fe01), ranges.begin() + 1);
  EXPECT_EQ(longest_prefix(ranges, 0x20000), ranges.begin());
}

TEST(LongestPrefix, DoesNotDependOnTheOrder) {
  const std::array ranges{range("0x1ff00/56"), range("0x10000/48"), range("0/0")};
  EXPECT_EQ(longest_prefix(ranges, 0x1ff01), ranges.begin());
}

TEST(LongestPrefix, IsTheEndWhereNothingHoldsTheId) {
  const std::array ranges{range("0x10000/48")};
  EXPECT_EQ(longest_prefix(ranges, 1), ranges.end());
  const std::vector<id_range> none;
  EXPECT_EQ(longest_prefix(none, 1), none.end());
}

TEST(LongestPrefix, PicksTheFirstOfEquals) {
  const std::array ranges{range("0x10000/48"), range("0x10000/48")};
  EXPECT_EQ(longest_prefix(ranges, 0x10001), ranges.begin());
}

TEST(LongestPrefix, LooksThroughAProjection) {
  struct child {
    int number;
    id_range ids;
  };
  const std::vector<child> children{{1, range("0/0")}, {2, range("0x10000/48")}};
  const auto by_function = longest_prefix(children, 0x10001, [](const child& c) { return c.ids; });
  EXPECT_EQ(by_function->number, 2);
  EXPECT_EQ(longest_prefix(children, 5, &child::ids)->number, 1);
}

}  // namespace
}  // namespace atbus
