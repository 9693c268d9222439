// The texts of request benchmarks: their JSON bodies, and ranges of times.
#include <nlohmann/json.hpp>

#include "atbus/bench/delay_range.h"
#include "atbus/bench/request_body.h"
#include "test.h"

namespace atbus::bench {
namespace {

TEST(RequestBody, HasTheSameCharactersOnceItWasDecodedAndEncoded) {
  for (const std::size_t bytes : {request_body::shortest, std::size_t{65}, std::size_t{80},
                                  std::size_t{256}, std::size_t{1 << 20}}) {
    request_body body{bytes};
    const std::string text{body.of(0x123abc)};
    EXPECT_EQ(text.size(), bytes);
    EXPECT_EQ(nlohmann::json::parse(text).dump(), text);
  }
}

TEST(RequestBody, CarriesItsNumber) {
  request_body body{request_body::shortest};
  EXPECT_EQ(nlohmann::json::parse(body.of(0x123abc))["id"], "0000000000123abc");
  EXPECT_EQ(nlohmann::json::parse(body.of(7))["id"], "0000000000000007");
  EXPECT_EQ(nlohmann::json::parse(body.of(~std::uint64_t{0}))["id"], "ffffffffffffffff");
}

TEST(DelayRange, ReadsTimesWithUnits) {
  EXPECT_EQ(parse_delay_range("50..100ms"), (delay_range{50'000'000, 100'000'000}));
  EXPECT_EQ(parse_delay_range("900us..1s"), (delay_range{900'000, 1'000'000'000}));
  EXPECT_EQ(parse_delay_range("20ms"), (delay_range{20'000'000, 20'000'000}));
  EXPECT_EQ(parse_delay_range("0..0us"), (delay_range{0, 0}));
  EXPECT_EQ(parse_delay_range("10s"), (delay_range{longest_delay_ns, longest_delay_ns}));
}

TEST(DelayRange, RefusesAllElse) {
  for (const char* const text :
       {"", "..", "50", "50..100", "50ms..", "..50ms", "100..50ms", "-1..5ms", "5..5hours", "11s",
        "1..2..3ms", "9223372036854775807s", "99999999999999999999ms", "1ms ", "1.5ms"}) {
    EXPECT_EQ(parse_delay_range(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace atbus::bench
