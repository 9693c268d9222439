#include "atbus/bench/crc32c.h"

#include "test.h"

namespace atbus::bench {
namespace {

std::uint32_t crc32c(const std::byte* at, std::size_t length) {
  return crc32c_end(crc32c_add(crc32c_start, at, length));
}

std::uint32_t crc32c(std::string_view text) {
  return crc32c(reinterpret_cast<const std::byte*>(text.data()), text.size());
}

std::vector<std::byte> some_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  std::uint32_t x = 1;
  for (std::byte& one : bytes) {
    x = x * 1664525 + 1013904223;
    one = static_cast<std::byte>(x >> 24);
  }
  return bytes;
}

TEST(Crc32c, HasTheValuesOfTheStandard) {
  // The check value of every catalogue, and RFC 3720, appendix B.4.
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  EXPECT_EQ(crc32c(""), 0U);
}

// Up to two rounds of the long streams and a rest of every length.
TEST(Crc32c, IsTheSameByInstructionAndByTable) {
  const std::vector<std::byte> bytes = some_bytes(8000);
  for (std::size_t length = 0; length < bytes.size(); length += length < 500 ? 1 : 97) {
    ASSERT_EQ(crc32c_add(crc32c_start, bytes.data(), length),
              detail::crc32c_by_table(crc32c_start, bytes.data(), length))
        << length;
  }
}

TEST(Crc32c, TakesAMessageInParts) {
  const std::vector<std::byte> bytes = some_bytes(4000);
  const std::uint32_t whole = crc32c(bytes.data(), bytes.size());
  for (const std::size_t first : {1U, 8U, 383U, 384U, 3071U, 3072U, 3999U}) {
    const std::uint32_t state = crc32c_add(crc32c_start, bytes.data(), first);
    EXPECT_EQ(crc32c_end(crc32c_add(state, bytes.data() + first, bytes.size() - first)), whole);
  }
}

}  // namespace
}  // namespace atbus::bench
