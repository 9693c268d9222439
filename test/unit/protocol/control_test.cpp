// What is in the control messages, written and read again.
#include "protocol/control.h"

#include <limits>

#include "counting_allocator.h"
#include "handshake_pair.h"
#include "raw_body.h"
#include "test.h"

namespace atbus::detail {
namespace {

constexpr auto most = std::numeric_limits<std::uint64_t>::max();

template <class Body>
byte_buffer encoded(const Body& body) {
  byte_buffer message;
  encode(body, message);
  return message;
}

template <class Body>
void expect_same_again(const Body& written) {
  const byte_buffer message = encoded(written);
  EXPECT_LE(message.size(), control_size_max);
  Body read;
  const error problem = decode(message, read);
  ASSERT_TRUE(problem) << problem.text();
  EXPECT_EQ(read, written);
}

introduction full_introduction() {
  introduction self = introduction_of(most, 0xe0);
  self.version_min = 0xfffe;
  self.version_max = 0xffff;
  self.capabilities = most;
  self.incarnation = most;
  self.addresses = {"", "unix:///run/b\xc3\xbcs", std::string(address_size_max, 'a')};
  self.host.fill(std::byte{0xff});
  self.message_limit = most;
  self.range_first = most;
  self.range_length = 0xff;
  self.as = relation::sibling;
  return self;
}

TEST(Control, IsReadAsItWasWritten) {
  expect_same_again(hello_body{.self = full_introduction(), .expected = most});
  expect_same_again(hello_body{});
  expect_same_again(welcome_body{.self = full_introduction(), .version = 0xffff});
  message_mac mac;
  mac.fill(std::byte{0xab});
  expect_same_again(proof_body{.resume = {.session = most, .last = 1, .sole = true}, .mac = mac});
  expect_same_again(accept_body{.resume = {.session = 1, .last = most}, .mac = mac});
  expect_same_again(refuse_body{.reason = errc::denied, .text = std::string(text_size_max, 't')});
  expect_same_again(bye_body{.reason = errc::ok, .text = std::string{"a\0b", 3}});
  expect_same_again(addresses_body{.addresses = {"shm://a", "shm://b"}});
  expect_same_again(addresses_body{});
  expect_same_again(where_body{.id = most});
  expect_same_again(cancel_body{.number = most});
  expect_same_again(in_hand_body{.number = most});
  expect_same_again(
      turned_away_body{.number = most, .type = 77, .handled = most, .redelivered = true});
  expect_same_again(interest_body{.topic = std::string(128, 't'),
                                  .wanted = true,
                                  .slow = 0xff,
                                  .waiting = most,
                                  .fresh = true,
                                  .whole = true,
                                  .turn = most});
  expect_same_again(interest_body{});
  expect_same_again(found_body{.asked = most, .id = 1, .addresses = {"shm://a"}, .host = {}});
}

// doc/design/protocol.md has these.
TEST(Control, HasTheDocumentedBytesOfAQuestionAndItsAnswer) {
  byte_buffer bytes;
  encode(where_body{.id = 0x12020003}, bytes);
  EXPECT_EQ(bytes, raw({0x80, 0, 0, 0, 0, 0, 0, 0, 0x81, 1, 0xce, 0x12, 2, 0, 3}));
  host_identity host;
  host.fill(std::byte{0xaa});
  encode(
      found_body{
          .asked = 0x12020003, .id = 0x12020000, .addresses = {"ipv4://1.2.3.4:5"}, .host = host},
      bytes);
  byte_buffer expected =
      raw({0x81, 0,    0,    0,   0,   0,   0,   0,    0x84, 1,   0xce, 0x12, 2,   0,   3,
           2,    0xce, 0x12, 2,   0,   0,   3,   0x91, 0xb0, 'i', 'p',  'v',  '4', ':', '/',
           '/',  '1',  '.',  '2', '.', '3', '.', '4',  ':',  '5', 4,    0xc4, 16});
  expected.insert(expected.end(), host.begin(), host.end());
  EXPECT_EQ(bytes, expected);
}

TEST(Control, CarriesEveryNumber) {
  for (unsigned bit = 0; bit < 64; ++bit) {
    for (const std::uint64_t number : {most >> bit, (most >> bit) + 1, (most >> bit) - 1}) {
      expect_same_again(acknowledge_body{.handled = number});
      expect_same_again(ping_body{.number = number});
      expect_same_again(pong_body{.number = number});
      expect_same_again(flow_body{.next = number, .before = number / 3});
    }
  }
}

TEST(Control, CarriesAReasonThatHasNoNameHere) {
  expect_same_again(refuse_body{.reason = static_cast<errc>(0xffff), .text = {}});
}

// The smaller of the examples in doc/design/protocol.md, byte by byte.
TEST(Control, HasTheDocumentedBytes) {
  EXPECT_EQ(encoded(acknowledge_body{.handled = 1000}),
            raw({6, 0, 0, 0, 0, 0, 0, 0, 0x81, 0x01, 0xcd, 0x03, 0xe8}));
  EXPECT_EQ(encoded(refuse_body{.reason = errc::denied, .text = {}}),
            raw({5, 0, 0, 0, 0, 0, 0, 0, 0x82, 0x01, 0x1c, 0x02, 0xa0}));
}

TEST(Control, SaysWhatAnyFormOfANumberSays) {
  for (const auto& five : {raw({5}), raw({0xcc, 5}), raw({0xcd, 0, 5}), raw({0xce, 0, 0, 0, 5}),
                           raw_number(5), raw({0xd0, 5}), raw({0xd1, 0, 5}),
                           raw({0xd2, 0, 0, 0, 5}), raw({0xd3, 0, 0, 0, 0, 0, 0, 0, 5})}) {
    for (const auto& key : {raw({1}), raw({0xcc, 1}), raw_number(1)}) {
      ping_body read;
      const error problem =
          decode(raw_message(message_kind::ping, joined({raw({0x81}), key, five})), read);
      ASSERT_TRUE(problem) << problem.text();
      EXPECT_EQ(read.number, 5U);
    }
  }
}

TEST(Control, CutsOffATextThatIsTooLong) {
  refuse_body read;
  ASSERT_TRUE(decode(encoded(refuse_body{.text = std::string(5000, 't')}), read));
  EXPECT_EQ(read.text, std::string(text_size_max, 't'));
}

TEST(Control, LeavesOutAddressesAboveTheLimits) {
  std::vector<std::string> addresses(100, std::string(address_size_max, 'a'));
  addresses[1] = std::string(address_size_max + 1, 'b');
  hello_body read;
  const byte_buffer message = encoded(hello_body{
      .self = {.capabilities = most, .id = most, .incarnation = most, .addresses = addresses},
      .expected = most});
  EXPECT_LE(message.size(), control_size_max);
  ASSERT_TRUE(decode(message, read));
  EXPECT_EQ(read.self.addresses,
            std::vector<std::string>(addresses_max, std::string(address_size_max, 'a')));
}

TEST(Control, OfOneNumberIsWrittenAndReadWithoutAllocating) {
  if (!test::counts_allocations())
    GTEST_SKIP() << "this build can't count allocations";
  byte_buffer message;
  encode(acknowledge_body{.handled = most}, message);
  const auto before = test::allocations();
  for (std::uint64_t number = 1; number < most / 3; number *= 3) {
    encode(acknowledge_body{.handled = number}, message);
    acknowledge_body read;
    ASSERT_TRUE(decode(message, read));
    ASSERT_EQ(read.handled, number);
  }
  EXPECT_EQ(test::allocations(), before);
}

}  // namespace
}  // namespace atbus::detail
