#include "core/text.h"

#include "test.h"

namespace atbus::detail {
namespace {

constexpr auto largest = std::numeric_limits<std::uint64_t>::max();

std::string number_error(std::string_view text, std::uint64_t max = largest) {
  return parse_number(text, max).error().text();
}

TEST(InQuotes, ShowsPrintableTextAsItIs) {
  EXPECT_EQ(in_quotes("a b~"), "'a b~'");
}

TEST(InQuotes, EscapesWhatCouldForgeALogLine) {
  EXPECT_EQ(in_quotes(std::string_view{"a\n\0\x7f\xc3\xa4", 6}), "'a\\x0a\\x00\\x7f\\xc3\\xa4'");
}

TEST(InQuotes, CutsLongTextOff) {
  const std::string exact(quoted_bytes_max, 'x');
  EXPECT_EQ(in_quotes(exact), "'" + exact + "'");
  EXPECT_EQ(in_quotes(exact + "y"), "'" + exact + "...'");
}

TEST(BadCharacter, CountsFromOne) {
  EXPECT_EQ(bad_character("a/b", 1, "letters"),
            "'a/b': character 2, '/', is not allowed (letters)");
}

TEST(BadCharacter, SaysThatPercentEncodingIsNotUsed) {
  EXPECT_NE(bad_character("a%20", 1, "x").find("percent-encoding is not used"), std::string::npos);
}

TEST(ParseNumber, ReadsDecimalAndHexadecimal) {
  EXPECT_EQ(*parse_number("0"), 0U);
  EXPECT_EQ(*parse_number("18446744073709551615"), largest);
  EXPECT_EQ(*parse_number("0x00fF"), 255U);
  EXPECT_EQ(*parse_number("0XffffFFFFffffFFFF"), largest);
}

TEST(ParseNumber, RefusesEmptyText) {
  EXPECT_EQ(number_error(""), "'' is empty where a number is expected");
  EXPECT_EQ(number_error("0x"), "'0x' has no digits after 0x");
}

TEST(ParseNumber, RefusesSignsSpacesAndJunkByPosition) {
  EXPECT_NE(number_error("-1").find("character 1, '-'"), std::string::npos);
  EXPECT_NE(number_error("+1").find("character 1, '+'"), std::string::npos);
  EXPECT_NE(number_error(" 1").find("character 1, ' '"), std::string::npos);
  EXPECT_NE(number_error("1 ").find("character 2, ' '"), std::string::npos);
  EXPECT_NE(number_error("12a").find("character 3, 'a'"), std::string::npos);
  EXPECT_NE(number_error("0x1g").find("character 4, 'g'"), std::string::npos);
  EXPECT_NE(number_error("0x-1").find("character 3, '-'"), std::string::npos);
  EXPECT_NE(number_error({"1\0", 2}).find("character 2, 0x00"), std::string::npos);
}

TEST(ParseNumber, RefusesLeadingZerosInDecimal) {
  EXPECT_NE(number_error("010").find("octal"), std::string::npos);
  EXPECT_FALSE(parse_number("00"));
}

TEST(ParseNumber, RefusesMoreThanTheLimit) {
  EXPECT_EQ(*parse_number("255", 255), 255U);
  EXPECT_EQ(number_error("256", 255), "'256' is larger than 255");
}

TEST(ParseNumber, RefusesMoreThan64Bits) {
  EXPECT_EQ(number_error("18446744073709551616"),
            "'18446744073709551616' is larger than 18446744073709551615");
  EXPECT_FALSE(parse_number("0x10000000000000000"));
  EXPECT_FALSE(parse_number(std::string(10000, '9')));
}

TEST(ParseSize, KnowsBinaryUnits) {
  EXPECT_EQ(*parse_size("7"), 7U);
  EXPECT_EQ(*parse_size("64K"), 65536U);
  EXPECT_EQ(*parse_size("1M"), 1048576U);
  EXPECT_EQ(*parse_size("2G"), 2147483648U);
  EXPECT_EQ(*parse_size("0x10K"), 16384U);
}

TEST(ParseSize, RefusesWhatOverflows) {
  EXPECT_EQ(*parse_size("17179869183G"), 17179869183ULL << 30U);
  EXPECT_NE(parse_size("17179869184G").error().text().find("64 bits"), std::string::npos);
}

TEST(ParseSize, RefusesOtherUnits) {
  for (const auto* text : {"1k", "1T", "1B", "5x"}) {
    EXPECT_NE(parse_size(text).error().text().find("unknown unit"), std::string::npos) << text;
  }
  for (const auto* text : {"K", "", "1KK", "1.5M", "M1", "0xK"}) {
    EXPECT_FALSE(parse_size(text)) << text;
  }
}

TEST(FormatSize, PicksTheLargestWholeUnit) {
  EXPECT_EQ(format_size(0), "0");
  EXPECT_EQ(format_size(1023), "1023");
  EXPECT_EQ(format_size(1024), "1K");
  EXPECT_EQ(format_size(1536 * 1024), "1536K");
  EXPECT_EQ(format_size(1ULL << 40U), "1024G");
  EXPECT_EQ(format_size(largest), "18446744073709551615");
}

TEST(FormatSize, IsReadBackTheSame) {
  for (unsigned bit = 0; bit < 64; ++bit) {
    const auto size = (1ULL << bit) | (1ULL << (bit / 2));
    EXPECT_EQ(*parse_size(format_size(size)), size);
  }
}

TEST(ParseFlag, KnowsTwoSpellingsOfEach) {
  EXPECT_TRUE(*parse_flag("true"));
  EXPECT_TRUE(*parse_flag("1"));
  EXPECT_FALSE(*parse_flag("false"));
  EXPECT_FALSE(*parse_flag("0"));
}

TEST(ParseFlag, RefusesAllElse) {
  for (const auto* text : {"", "True", "yes", "2", "true "})
    EXPECT_FALSE(parse_flag(text).error());
  EXPECT_EQ(parse_flag("on").error().text(), "'on' is neither true (1) nor false (0)");
}

TEST(TakePart, CutsAtTheSeparators) {
  std::string_view rest = "a..b.";
  EXPECT_EQ(take_part(rest, '.'), "a");
  EXPECT_EQ(take_part(rest, '.'), "");
  EXPECT_EQ(take_part(rest, '.'), "b");
  EXPECT_EQ(rest, "");
  EXPECT_EQ(take_part(rest, '.'), "");
}

TEST(TakePart, TakesAllWithoutASeparator) {
  std::string_view rest = "abc";
  EXPECT_EQ(take_part(rest, '.'), "abc");
  EXPECT_EQ(rest, "");
}

}  // namespace
}  // namespace atbus::detail
