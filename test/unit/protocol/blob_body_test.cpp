#include "protocol/blob_body.h"

#include <vector>

#include "test.h"

namespace atbus::detail {
namespace {

std::vector<std::byte> body(const blob_head& head, std::size_t rest = 0) {
  std::vector<std::byte> made(blob_head_size + rest);
  encode_blob(made.data(), head);
  return made;
}

TEST(BlobBody, ReadsWhatItWrites) {
  const blob_head written{.number = 0x0102030405060708,
                          .step = blob_step::end,
                          .status = errc::request_failed,
                          .value = 0x1112131415161718};
  blob_head read;
  ASSERT_TRUE(decode_blob(body(written, 5), read));
  EXPECT_EQ(read.number, written.number);
  EXPECT_EQ(read.step, written.step);
  EXPECT_EQ(read.status, written.status);
  EXPECT_EQ(read.value, written.value);
}

TEST(BlobBody, HasItsFieldsWhereTheDesignSaysThem) {
  const auto bytes =
      body({.number = 1, .step = blob_step::end, .status = errc::closed, .value = 2});
  EXPECT_EQ(bytes[0], std::byte{1});
  EXPECT_EQ(bytes[8], std::byte{4});
  EXPECT_EQ(bytes[12], std::byte{static_cast<std::uint8_t>(errc::closed)});
  EXPECT_EQ(bytes[16], std::byte{2});
}

TEST(BlobBody, EachPartHasItsOwnLengths) {
  struct rule {
    blob_step step;
    std::size_t least;
    std::size_t most;
  };
  constexpr std::size_t long_one = std::size_t{1} << 20;
  for (const rule& one : {rule{blob_step::begin, 0, blob_text_max},
                          rule{blob_step::chunk, 1, long_one}, rule{blob_step::grant, 8, 8},
                          rule{blob_step::end, 0, blob_text_max}, rule{blob_step::query, 0, 0}}) {
    blob_head head;
    EXPECT_TRUE(decode_blob(body({.step = one.step}, one.least), head));
    EXPECT_TRUE(decode_blob(body({.step = one.step}, one.most), head));
    if (one.least != 0) {
      EXPECT_FALSE(decode_blob(body({.step = one.step}, one.least - 1), head));
    }
    if (one.most != long_one) {
      EXPECT_FALSE(decode_blob(body({.step = one.step}, one.most + 1), head));
    }
  }
}

TEST(BlobBody, RefusesWhatItDoesNotKnow) {
  blob_head head;
  auto bytes = body({.step = blob_step::query});
  EXPECT_FALSE(decode_blob(bytes_view{bytes}.first(blob_head_size - 1), head)) << "too short";
  bytes[8] = std::byte{0};
  EXPECT_FALSE(decode_blob(bytes, head)) << "no part";
  bytes[8] = std::byte{6};
  EXPECT_FALSE(decode_blob(bytes, head)) << "an unknown part";
  bytes[8] = std::byte{5};
  bytes[9] = std::byte{1};
  EXPECT_FALSE(decode_blob(bytes, head)) << "reserved bits";
  bytes[9] = std::byte{0};
  bytes[12] = std::byte{1};
  EXPECT_FALSE(decode_blob(bytes, head)) << "a status in what is no end";
}

TEST(BlobBody, AnUnknownStatusReadsAsAFailure) {
  auto bytes = body({.step = blob_step::end});
  bytes[15] = std::byte{255};
  blob_head head;
  ASSERT_TRUE(decode_blob(bytes, head));
  EXPECT_EQ(head.status, errc::request_failed);
}

TEST(BlobBody, IsToldFromAllOtherMessages) {
  EXPECT_TRUE(is_blob(flags_blob));
  EXPECT_TRUE(is_blob(flags_blob | flag_reply | flag_redelivered));
  for (const unsigned flags :
       {0U, unsigned{flag_command}, unsigned{flag_reply}, unsigned{flag_topic},
        unsigned{flag_request}, unsigned{flag_request | flag_reply}})
    EXPECT_FALSE(is_blob(flags)) << flags;
}

}  // namespace
}  // namespace atbus::detail
