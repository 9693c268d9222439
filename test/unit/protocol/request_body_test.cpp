// The bytes in front of a request's and a response's payload.
#include "protocol/request_body.h"

#include "raw_body.h"
#include "test.h"

namespace atbus::detail {
namespace {

// doc/design/protocol.md has these.
TEST(RequestBody, HasTheDocumentedBytes) {
  std::array<std::byte, request_head_size> bytes{};
  encode_request(bytes.data(), 258, 1s, 999ms);
  EXPECT_TRUE(std::ranges::equal(bytes, raw({2, 1, 0, 0, 0,    0, 0, 0, 0, 0xca, 0x9a, 0x3b,
                                             0, 0, 0, 0, 0xe8, 3, 0, 0, 0, 0,    0,    0})));
  request_head head;
  ASSERT_TRUE(decode_request(bytes, head));
  EXPECT_EQ(head.number, 258U);
  EXPECT_EQ(head.deadline, 1s);
  EXPECT_EQ(head.left, 1ms);
}

TEST(RequestBody, SaysWhatIsLeftOfItsTimeAndNothingBelowOrAboveItsRange) {
  EXPECT_EQ(time_left_field(1s, 2s), 0U);
  EXPECT_EQ(time_left_field(1s, 1s), 0U);
  EXPECT_EQ(time_left_field(1s, 1s - 1ns), 0U);
  EXPECT_EQ(time_left_field(1s, 1s - 1us), 1U);
  EXPECT_EQ(time_left_field(2h, 0s), 0xffffffffU);
  EXPECT_EQ(time_left_field(std::chrono::nanoseconds::max(), 0s), 0xffffffffU);
  std::array<std::byte, request_head_size> bytes{};
  encode_request(bytes.data(), 1, 1s, 0s);
  renew_time_left(bytes.data(), 400ms);
  request_head head;
  ASSERT_TRUE(decode_request(bytes, head));
  EXPECT_EQ(head.left, 600ms);
  EXPECT_EQ(head.deadline, 1s);
  EXPECT_EQ(head.number, 1U);
}

TEST(RequestBody, IsRefusedWhenItIsMalformed) {
  std::array<std::byte, request_head_size> bytes{};
  request_head head;
  EXPECT_TRUE(decode_request(bytes, head));
  EXPECT_FALSE(decode_request(bytes_view{bytes}.first(request_head_size - 1), head));
  EXPECT_FALSE(decode_request({}, head));
  for (const std::size_t at : {20U, 23U}) {  // reserved
    bytes[at] = std::byte{1};
    EXPECT_FALSE(decode_request(bytes, head)) << at;
    bytes[at] = std::byte{0};
  }
  bytes[15] = std::byte{0x80};  // a deadline before the clock began
  EXPECT_FALSE(decode_request(bytes, head));
  std::uint64_t number = 0;
  EXPECT_FALSE(decode_response(bytes_view{bytes}.first(response_head_size - 1), number));
  EXPECT_TRUE(decode_response(bytes_view{bytes}.first(response_head_size), number));
}

}  // namespace
}  // namespace atbus::detail
