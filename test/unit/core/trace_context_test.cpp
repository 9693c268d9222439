#include "atbus/trace_context.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace atbus {
namespace {

const std::string known = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST(TraceContext, IsPrintedAsItWasRead) {
  const auto read = trace_context::parse(known);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->to_string(), known);
  EXPECT_EQ(read->trace_id[1], std::byte{0xf7});
  EXPECT_EQ(read->parent_id[7], std::byte{0x31});
  EXPECT_TRUE(read->sampled());
}

TEST(TraceContext, IsTheSameInAMessage) {
  const auto read = trace_context::parse(known);
  ASSERT_TRUE(read);
  std::array<std::byte, trace_context::size> bytes{};
  read->write(bytes.data());
  EXPECT_EQ(bytes[0], std::byte{0x0a});
  EXPECT_EQ(bytes[16], std::byte{0xb7});
  EXPECT_EQ(bytes[24], std::byte{1});
  EXPECT_EQ(trace_context::read(bytes.data()), *read);
}

TEST(TraceContext, OfALaterVersionIsReadAsFarAsItIsKnown) {
  const auto read = trace_context::parse("cc" + known.substr(2) + "-what-will-be");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->to_string(), known);
  EXPECT_TRUE(trace_context::parse("cc" + known.substr(2)));
}

TEST(TraceContext, WithUnknownFlagsKeepsThem) {
  const auto read = trace_context::parse(known.substr(0, 53) + "fe");
  ASSERT_TRUE(read);
  EXPECT_FALSE(read->sampled());
  EXPECT_EQ(read->to_string().substr(53), "fe");
}

TEST(TraceContext, ThatIsNoneIsRefusedWithAReason) {
  const auto with = [](std::size_t at, const std::string& what) {
    return std::string{known}.replace(at, what.size(), what);
  };
  const std::string bad[] = {
      "",
      "-",
      known.substr(0, 54),
      known + "0",
      known + "-more",         // of version 00
      "ff" + known.substr(2),  // there is none
      with(2, "_"),
      with(35, "0"),
      with(52, " "),
      with(0, "0g"),
      with(3, "A"),
      with(40, "\n"),
      with(53, "0x"),
      with(3, std::string(32, '0')),
      with(36, std::string(16, '0')),
      std::string(4096, '0'),
  };
  for (const std::string& text : bad) {
    const auto read = trace_context::parse(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error(), errc::invalid_argument);
    EXPECT_NE(read.error().text().find("traceparent "), std::string::npos) << read.error().text();
  }
}

}  // namespace
}  // namespace atbus
