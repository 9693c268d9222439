// What is in a command and its reply, byte by byte.
#include "protocol/command_body.h"

#include "raw_body.h"
#include "test.h"

namespace atbus::detail {
namespace {

using words = std::vector<std::string>;

// number 1, deadline 2, then what is given.
bool is_read(const byte_buffer& array, command_body* into = nullptr) {
  command_body body;
  const bool read =
      decode(joined({raw({1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0}), array}), body);
  if (into != nullptr)
    *into = body;
  return read;
}

TEST(CommandBody, HasTheDocumentedBytes) {
  byte_buffer payload;
  encode(258, {"reload", "maps"}, payload, std::chrono::seconds{1});
  EXPECT_EQ(payload, from_hex("02 01 00 00 00 00 00 00 00 ca 9a 3b 00 00 00 00 92 a6 72 65 6c 6f "
                              "61 64 a4 6d 61 70 73"));
  encode(258, {"done"}, payload);
  EXPECT_EQ(payload, from_hex("02 01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 91 a4 64 6f 6e 65"));
  const auto head = [](std::uint8_t flag) { return head_bytes({message_kind::data, flag, 0, 0}); };
  EXPECT_EQ(as_text(head(flag_command)), as_text(from_hex("00 08 00 00 00 00 00 00")));
  EXPECT_EQ(as_text(head(flag_reply)), as_text(from_hex("00 10 00 00 00 00 00 00")));
}

TEST(CommandBody, IsReadAsItWasWritten) {
  const std::vector<words> all{{},
                               {""},
                               {"one"},
                               {std::string(40, 'a'), std::string(300, 'b')},
                               {std::string(70000, 'c'), std::string("\0\xff", 2)},
                               words(command_words_max, "x")};
  for (const words& each : all) {
    byte_buffer payload;
    encode(~std::uint64_t{0}, each, payload, std::chrono::nanoseconds::max());
    command_body body;
    ASSERT_TRUE(decode(payload, body));
    EXPECT_EQ(body.number, ~std::uint64_t{0});
    EXPECT_EQ(body.deadline, std::chrono::nanoseconds::max());
    EXPECT_EQ(body.words, each);
    EXPECT_EQ(command_name(payload), each.empty() ? "" : each[0]);
  }
}

TEST(CommandBody, HasItsNameInEachFormOfTheFormat) {
  const byte_buffer numbers(16, std::byte{1});
  const auto name = [&](const byte_buffer& array) {
    const byte_buffer payload = joined({numbers, array});
    return std::string{command_name(payload)};
  };
  EXPECT_EQ(name(raw({0x91, 0xa2, 'g', 'o'})), "go");
  EXPECT_EQ(name(raw({0xdc, 0, 1, 0xd9, 2, 'g', 'o'})), "go");
  EXPECT_EQ(name(raw({0xdd, 0, 0, 0, 1, 0xda, 0, 2, 'g', 'o'})), "go");
  EXPECT_EQ(name(raw({0x91, 0xdb, 0, 0, 0, 2, 'g', 'o'})), "go");
  for (const byte_buffer& malformed : {raw({}), raw({0x91}), raw({0x91, 0xa3, 'g', 'o'}),
                                       raw({0x91, 0xdb, 0xff, 0xff, 0xff, 0xff}), raw({0x91, 0xd9}),
                                       raw({0xdd, 0}), raw({0x91, 0xc4, 1, 'g'}), raw({0xa1, 'g'})})
    EXPECT_EQ(name(malformed), "");
  EXPECT_EQ(command_name({}), "");
}

TEST(CommandBody, IsAnArrayOfStringsAndNothingElse) {
  EXPECT_TRUE(is_read(raw({0x90})));
  EXPECT_FALSE(is_read(raw({})));
  EXPECT_FALSE(is_read(raw({0xa1, 'x'})));
  EXPECT_FALSE(is_read(raw({0x80})));
  EXPECT_FALSE(is_read(raw({0x90, 0x90})));
  for (const byte_buffer& element :
       {raw({0xc0}), raw({0xc2}), raw({5}), raw({0xff}), raw({0xc4, 1, 0}), raw({0x90}),
        raw({0x80}), raw({0xd4, 0, 0}), raw({0xca, 0, 0, 0, 0}),
        raw({0xcb, 0, 0, 0, 0, 0, 0, 0, 0}), raw({0xc1})})
    EXPECT_FALSE(is_read(joined({raw({0x91}), element})));
}

TEST(CommandBody, IsRefusedWhenItEndsEarly) {
  byte_buffer payload;
  encode(7, {"reload", "maps"}, payload);
  command_body body;
  for (std::size_t length = 0; length < payload.size(); ++length)
    EXPECT_FALSE(decode(bytes_view{payload}.first(length), body)) << length;
}

TEST(CommandBody, MakesNoRoomForWhatIsAnnounced) {
  command_body body;
  EXPECT_FALSE(is_read(raw({0xdd, 0xff, 0xff, 0xff, 0xff}), &body));
  EXPECT_EQ(body.words.capacity(), 0U);
  EXPECT_FALSE(is_read(raw({0xdc, 4, 0}), &body));  // 1,024 words, and none is there
  EXPECT_EQ(body.words.capacity(), 0U);
  EXPECT_FALSE(is_read(raw({0x91, 0xdb, 0xff, 0xff, 0xff, 0xff}), &body));
  EXPECT_EQ(body.words.capacity(), 0U);
  EXPECT_FALSE(is_read(joined({raw({0xdc, 4, 1}), repeated(raw({0xa0}), 1025)})));
  EXPECT_TRUE(is_read(joined({raw({0xdc, 4, 0}), repeated(raw({0xa0}), 1024)})));
}

}  // namespace
}  // namespace atbus::detail
