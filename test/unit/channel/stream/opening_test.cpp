// Control frames, and what two ends agree on.
#include "channel/stream/opening.h"

#include "core/crc32c.h"
#include "stream_bytes.h"
#include "test.h"

namespace atbus::detail {
namespace {

byte_string payload_of(bytes_view frame) {
  const auto length = frame_length(load_little_endian<std::uint32_t>(frame.data()));
  const auto payload = frame.subspan(frame_header_size, length);
  return {payload.begin(), payload.end()};
}

// With one byte of the payload changed.
byte_string hello_with(std::size_t offset, std::uint8_t value) {
  byte_string payload = payload_of(hello_frame({.session = 7}));
  payload.at(offset) = std::byte{value};
  return payload;
}

byte_string bytes_of(std::initializer_list<int> values) {
  byte_string bytes;
  for (const int value : values)
    bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

// The example of doc/design/frame.md, byte by byte.
TEST(Opening, HasTheDocumentedBytes) {
  const hello example{.version_min = 1,
                      .version_max = 1,
                      .wants_checksums = true,
                      .offers_lanes = true,
                      .payload_max = 65536,
                      .session = 0x1122334455667788};
  byte_string stream;
  append(stream, hello_frame(example));
  append(stream, data_frame(as_bytes("hello"), true));
  append(stream, data_frame(as_bytes("to all 8"), true));
  append(stream, data_frame({}, true));
  append(stream, goodbye_frame(errc::ok, true));

  const byte_string documented = bytes_of({
      0x20, 0x00, 0x00, 0x18, 0x80, 0x9d, 0x21, 0xe9,  // 00: hello, 32 bytes of control
      0x01, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00,  // type 1, flags 3
      0x61, 0x74, 0x62, 0x75, 0x73, 0x53, 0x54, 0x52,  // "atbusSTR"
      0x01, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x00,  // versions 1 to 1, payloads up to 65536
      0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,  // session
      0x05, 0x00, 0x00, 0x08, 0xbe, 0xa9, 0x11, 0x2e,  // 28: data, 5 bytes
      0x68, 0x65, 0x6c, 0x6c, 0x6f, 0x00, 0x00, 0x00,  // "hello" and padding
      0x08, 0x00, 0x00, 0x08, 0x1b, 0xd0, 0xd8, 0x9e,  // 38: data, 8 bytes
      0x74, 0x6f, 0x20, 0x61, 0x6c, 0x6c, 0x20, 0x38,  // "to all 8"
      0x00, 0x00, 0x00, 0x08, 0x08, 0x13, 0xbe, 0xc2,  // 48: data, empty
      0x08, 0x00, 0x00, 0x18, 0x0d, 0x84, 0x3e, 0xb3,  // 50: goodbye, 8 bytes of control
      0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // type 3, reason 0
  });
  EXPECT_EQ(stream, documented);
}

TEST(Opening, IsReadAsItWasWritten) {
  for (const bool checksums : {false, true}) {
    for (const bool lanes : {false, true}) {
      const hello written{.version_min = 3,
                          .version_max = 0xfffe,
                          .wants_checksums = checksums,
                          .offers_lanes = lanes,
                          .offers_lane_pair = lanes != checksums,
                          .payload_max = 0x04000000,
                          .session = 0xfedcba9876543210};
      const auto frame = hello_frame(written);
      EXPECT_TRUE(is_checked(load_little_endian<std::uint32_t>(frame.data())));
      EXPECT_EQ(load_little_endian<std::uint32_t>(frame.data() + 4),
                crc32c_frame(frame.data(), hello_size));
      hello read;
      ASSERT_EQ(read_hello(payload_of(frame), read), frame_fault::none);
      EXPECT_EQ(read, written);
    }
  }
}

TEST(Opening, IsRefusedWhenAnyOfItIsImpossible) {
  hello read;
  EXPECT_EQ(read_hello(hello_with(0, 3), read), frame_fault::bad_opening);  // a goodbye
  EXPECT_EQ(read_hello(hello_with(1, 0x80), read), frame_fault::bad_opening);
  EXPECT_EQ(read_hello(hello_with(2, 1), read), frame_fault::reserved_bits);
  EXPECT_EQ(read_hello(hello_with(3, 1), read), frame_fault::reserved_bits);
  for (std::size_t i = 8; i < 16; ++i)
    EXPECT_EQ(read_hello(hello_with(i, '?'), read), frame_fault::bad_opening) << "magic " << i;
  EXPECT_EQ(read_hello(hello_with(16, 0), read), frame_fault::bad_opening);  // version 0
  EXPECT_EQ(read_hello(hello_with(16, 2), read), frame_fault::bad_opening);  // 2 to 1
  const byte_string whole = hello_with(0, 1);
  for (std::size_t length = 0; length < hello_size; ++length) {
    EXPECT_EQ(read_hello(bytes_view{whole}.first(length), read), frame_fault::truncated_control);
  }
}

TEST(Opening, PassesOverOffersAndFieldsOfLaterVersions) {
  byte_string longer = hello_with(4, 0xff);
  longer[7] = std::byte{0xff};
  longer.resize(control_payload_max, std::byte{0xee});
  hello read;
  ASSERT_EQ(read_hello(longer, read), frame_fault::none);
  EXPECT_TRUE(read.wants_checksums && read.offers_lanes);
  EXPECT_EQ(read.session, 7U);
}

TEST(Opening, AgreesOnTheHighestCommonVersion) {
  agreement agreed;
  const hello own{.version_min = 2, .version_max = 5, .session = 1};
  ASSERT_EQ(agree(own, {.version_min = 1, .version_max = 9, .session = 2}, agreed),
            frame_fault::none);
  EXPECT_EQ(agreed.version, 5);
  ASSERT_EQ(agree(own, {.version_min = 1, .version_max = 2, .session = 2}, agreed),
            frame_fault::none);
  EXPECT_EQ(agreed.version, 2);
  EXPECT_EQ(agree(own, {.version_min = 6, .version_max = 9, .session = 2}, agreed),
            frame_fault::no_common_version);
  EXPECT_EQ(agree(own, {.version_min = 1, .version_max = 1, .session = 2}, agreed),
            frame_fault::no_common_version);
}

TEST(Opening, UsesChecksumsIfOneWantsThemAndLanesIfBothDo) {
  for (const bool own : {false, true}) {
    for (const bool theirs : {false, true}) {
      agreement agreed;
      ASSERT_EQ(agree({.wants_checksums = own, .offers_lanes = own, .session = 1},
                      {.wants_checksums = theirs, .offers_lanes = theirs, .session = 2}, agreed),
                frame_fault::none);
      EXPECT_EQ(agreed.checksums, own || theirs);
      EXPECT_EQ(agreed.lanes, own && theirs);
      EXPECT_FALSE(agreed.lane_pair);
      ASSERT_EQ(agree({.offers_lane_pair = own, .session = 1},
                      {.offers_lanes = true, .offers_lane_pair = theirs, .session = 2}, agreed),
                frame_fault::none);
      EXPECT_EQ(agreed.lane_pair, own && theirs);
      EXPECT_FALSE(agreed.lanes);
    }
  }
}

TEST(Opening, LetsNobodySendMoreThanTheOtherAcceptsOrAFrameHolds) {
  agreement agreed;
  const hello own{.payload_max = 10, .session = 1};
  ASSERT_EQ(agree(own, {.payload_max = 1000, .session = 2}, agreed), frame_fault::none);
  EXPECT_EQ(agreed.send_payload_max, 1000U);
  ASSERT_EQ(agree(own, {.payload_max = 0xffffffff, .session = 2}, agreed), frame_fault::none);
  EXPECT_EQ(agreed.send_payload_max, frame_payload_max);
  EXPECT_EQ(agreed.peer_session, 2U);
}

TEST(Opening, IsNotAgreedOnWithOneself) {
  agreement agreed;
  const hello own{.session = 1};
  EXPECT_EQ(agree(own, own, agreed), frame_fault::own_opening);
}

TEST(ControlFrame, SaysGoodbyeWithAReason) {
  errc reason = errc::ok;
  ASSERT_EQ(read_goodbye(payload_of(goodbye_frame(errc::timed_out, true)), reason),
            frame_fault::none);
  EXPECT_EQ(reason, errc::timed_out);
  EXPECT_EQ(read_goodbye(bytes_of({3, 0, 0, 0, 0xff, 0xff, 0, 0}), reason), frame_fault::none);
  EXPECT_EQ(static_cast<int>(reason), 0xffff);
}

TEST(ControlFrame, HasItsVeryLengthAndNoReservedBits) {
  errc reason{};
  EXPECT_EQ(read_goodbye(bytes_of({3, 0, 0, 0, 1, 0, 0}), reason), frame_fault::truncated_control);
  EXPECT_EQ(read_goodbye(bytes_of({3, 0, 0, 0, 1, 0, 0, 0, 0}), reason),
            frame_fault::overlong_control);
  EXPECT_EQ(read_goodbye(bytes_of({3, 0, 1, 0, 1, 0, 0, 0}), reason), frame_fault::reserved_bits);
  EXPECT_EQ(read_goodbye(bytes_of({3, 0, 0, 0, 1, 0, 1, 0}), reason), frame_fault::reserved_bits);
  EXPECT_EQ(read_switch(payload_of(switch_frame(true))), frame_fault::none);
  EXPECT_EQ(read_switch(bytes_of({2, 0, 0})), frame_fault::truncated_control);
  EXPECT_EQ(read_switch(bytes_of({2, 0, 0, 0, 0})), frame_fault::overlong_control);
  EXPECT_EQ(read_switch(bytes_of({2, 0, 0, 1})), frame_fault::reserved_bits);
  control_type type{};
  EXPECT_EQ(read_control_type(bytes_of({2, 0, 0}), type), frame_fault::truncated_control);
}

TEST(ControlFrame, CarriesAChecksumOnlyIfAskedTo) {
  EXPECT_EQ(load_frame_header(switch_frame(false).data()) >> 32, 0U);
  EXPECT_EQ(load_frame_header(goodbye_frame(errc::ok, false).data()) >> 32, 0U);
  EXPECT_NE(load_frame_header(switch_frame(true).data()) >> 32, 0U);
  EXPECT_NE(load_frame_header(goodbye_frame(errc::ok, true).data()) >> 32, 0U);
  const auto word_of = [](bytes_view frame) {
    return load_little_endian<std::uint32_t>(frame.data());
  };
  EXPECT_FALSE(is_checked(word_of(switch_frame(false))));
  EXPECT_FALSE(is_checked(word_of(goodbye_frame(errc::ok, false))));
  EXPECT_TRUE(is_checked(word_of(switch_frame(true))));
  EXPECT_TRUE(is_checked(word_of(goodbye_frame(errc::ok, true))));
}

}  // namespace
}  // namespace atbus::detail
