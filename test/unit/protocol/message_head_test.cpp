// The 8 bytes in front of every message.
#include "protocol/message_head.h"

#include "raw_body.h"
#include "test.h"

namespace atbus::detail {
namespace {

head_fault fault_of(const byte_buffer& message) {
  message_head head;
  return decode(message, head);
}

TEST(MessageHead, HasTheDocumentedBytes) {
  byte_buffer bytes(message_head_size);
  encode(message_head{.flags = flag_redelivered | flag_require_delivery, .type = 0x11223344},
         bytes.data());
  EXPECT_EQ(bytes, raw({0, 3, 0, 0, 0x44, 0x33, 0x22, 0x11}));
  encode(message_head{.flags = flag_acknowledge}, bytes.data());
  EXPECT_EQ(bytes, raw({0, 4, 0, 0, 0, 0, 0, 0}));
  encode(message_head{.kind = message_kind::addresses}, bytes.data());
  EXPECT_EQ(bytes, raw({11, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(MessageHead, IsReadAsItWasWritten) {
  for (unsigned bits = 0; bits <= known_flags; ++bits) {
    const auto flags = static_cast<std::uint8_t>(bits & known_flags);
    for (const std::uint32_t type : {0U, 1U, 0xfffffffeU}) {
      const message_head written{.flags = flags, .type = type};
      byte_buffer message(message_head_size + 3);
      encode(written, message.data());
      message_head read;
      ASSERT_EQ(decode(message, read), head_fault::none);
      EXPECT_EQ(read, written);
      EXPECT_EQ(payload_of(message).size(), 3U);
    }
  }
}

TEST(MessageHead, IsRefusedWhenItIsCutShort) {
  for (std::size_t size = 0; size < message_head_size; ++size)
    EXPECT_EQ(fault_of(byte_buffer(size)), head_fault::truncated) << size;
}

TEST(MessageHead, HasNoFlagsButThoseOfItsKind) {
  for (int bit = 0; bit < 8; ++bit) {
    const bool is_of_routed = bit == 2 || bit == 5;
    EXPECT_EQ(fault_of(raw({0, 1 << bit, 0, 0, 0, 0, 0, 0})), head_fault::none);
    EXPECT_EQ(fault_of(raw({13, 1 << bit, 0, 0, 0, 0, 0, 0})),
              is_of_routed ? head_fault::none : head_fault::unknown_flags);
    EXPECT_EQ(fault_of(raw({7, 1 << bit, 0, 0, 0, 0, 0, 0})), head_fault::unknown_flags);
  }
}

TEST(MessageHead, HasNothingInItsReservedField) {
  EXPECT_EQ(fault_of(raw({0, 0, 1, 0, 0, 0, 0, 0})), head_fault::reserved_bits);
  EXPECT_EQ(fault_of(raw({0, 0, 0, 0x80, 0, 0, 0, 0})), head_fault::reserved_bits);
}

TEST(MessageHead, HasAUsersTypeInDataOnly) {
  for (std::size_t i = 4; i < message_head_size; ++i) {
    byte_buffer message = raw({0, 0, 0, 0, 0, 0, 0, 0});
    message[i] = std::byte{1};
    EXPECT_EQ(fault_of(message), head_fault::none);
    message[0] = std::byte{6};
    EXPECT_EQ(fault_of(message), head_fault::type_in_control);
  }
}

TEST(MessageHead, IsPassedOverWhenItsKindIsUnknownAndMayBe) {
  for (int kind = 0; kind < 256; ++kind) {
    const bool known = kind < 14 || (kind >= 128 && kind <= 133);
    const bool ignorable = kind >= 128 && !known;
    EXPECT_EQ(fault_of(raw({kind, 0, 0, 0, 0, 0, 0, 0})),
              known || ignorable ? head_fault::none : head_fault::unknown_kind)
        << kind;
    EXPECT_EQ(is_ignorable(static_cast<message_kind>(kind)), ignorable);
    const head_fault full = fault_of(raw({kind, 255, 255, 255, 255, 255, 255, 255}));
    EXPECT_EQ(full == head_fault::none, ignorable) << kind;
  }
}

}  // namespace
}  // namespace atbus::detail
