#include "nats/carrier_frame.h"

#include <string>

#include "test.h"

namespace atbus::detail {
namespace {

const std::string line_and_link = ".atbus.00112233445566778899aabbccddeeff.0123456789abcdef";

byte_buffer sample_frame(carrier_kind kind, std::size_t body) {
  byte_buffer made;
  write_head(kind, 0x0102030405060708, made);
  made.insert(made.end(), body, std::byte{7});
  if (kind != carrier_kind::open)
    made.insert(made.end(), carrier_tag_size, std::byte{9});
  return made;
}

TEST(CarrierFrame, ReadsWhatWasWritten) {
  for (const auto kind : {carrier_kind::open, carrier_kind::accept, carrier_kind::data,
                          carrier_kind::credit, carrier_kind::end, carrier_kind::close}) {
    const byte_buffer bytes = sample_frame(kind, 5);
    const auto read = read_frame(bytes);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->kind, kind);
    EXPECT_EQ(read->number, 0x0102030405060708U);
    EXPECT_EQ(read->body.size(), 5U);
  }
}

TEST(CarrierFrame, IsNoneWhenCutShort) {
  for (const auto kind : {carrier_kind::open, carrier_kind::data}) {
    const byte_buffer bytes = sample_frame(kind, 0);
    for (std::size_t size = 0; size != bytes.size(); ++size)
      EXPECT_FALSE(read_frame(bytes_view{bytes}.first(size))) << size;
    EXPECT_TRUE(read_frame(bytes));
  }
}

TEST(CarrierFrame, IsNoneOfAnotherVersionOrKind) {
  for (std::size_t at = 0; at != 8; ++at) {
    byte_buffer bytes = sample_frame(carrier_kind::data, 5);
    bytes[at] ^= std::byte{0x80};
    EXPECT_FALSE(read_frame(bytes)) << at;
  }
  for (const int kind : {0, 7}) {
    byte_buffer bytes = sample_frame(carrier_kind::data, 5);
    bytes[4] = static_cast<std::byte>(kind);
    EXPECT_FALSE(read_frame(bytes)) << kind;
  }
}

TEST(CarrierFrame, NamesOnlyInboxesOfCarriers) {
  EXPECT_TRUE(is_inbox("_INBOX" + line_and_link));
  EXPECT_TRUE(is_inbox("_INBOX_zone.east" + line_and_link));
  const std::vector<std::string> others{
      std::string{},
      std::string{"_INBOX"},
      line_and_link,
      "." + line_and_link,
      "$SYS" + line_and_link,
      "a..b" + line_and_link,
      "a.*" + line_and_link,
      "> " + line_and_link,
      "_INBOX" + line_and_link + "0",
      "_INBOX.atbus.0123456789abcdef.0123456789abcdef",
      "_INBOX.atbus.00112233445566778899aabbccddeefG.0123456789abcdef",
      "_INBOX.atbus.00112233445566778899aabbccddeeff.0123456789abcde*",
      "_INBOX.atbus.00112233445566778899aabbccddeeff00123456789abcdef",
      "_INBOX.ATBUS.00112233445566778899aabbccddeeff.0123456789abcdef",
      std::string(200, 'a') + line_and_link};
  for (const std::string& subject : others)
    EXPECT_FALSE(is_inbox(subject)) << subject;
}

TEST(CarrierFrame, OpensOnlyWithAKeyAndAnInbox) {
  byte_buffer body(carrier_key_size, std::byte{1});
  EXPECT_FALSE(read_opening(body));
  const std::string inbox = "_INBOX" + line_and_link;
  for (const char c : inbox)
    body.push_back(static_cast<std::byte>(c));
  const auto said = read_opening(body);
  ASSERT_TRUE(said);
  EXPECT_EQ(said->inbox, inbox);
  body.push_back(std::byte{'.'});
  EXPECT_FALSE(read_opening(body));
}

}  // namespace
}  // namespace atbus::detail
