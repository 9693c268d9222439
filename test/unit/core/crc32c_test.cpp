// The checksum of frames: published vectors, and every implementation against the plain definition.
#include "core/crc32c.h"

#include "atbus/bytes.hpp"
#include "test.h"

namespace atbus::detail {
namespace {

// Bit by bit, as the definition has it.
std::uint32_t crc_by_definition(bytes_view bytes) {
  std::uint32_t state = 0xffffffff;
  for (const std::byte byte : bytes) {
    state ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit)
      state = (state >> 1) ^ ((state & 1) != 0 ? 0x82f63b78 : 0);
  }
  return ~state;
}

std::vector<std::byte> random_bytes(std::size_t count, std::uint32_t seed) {
  std::mt19937 random{seed};
  std::vector<std::byte> bytes(count);
  std::ranges::generate(bytes, [&random] { return static_cast<std::byte>(random()); });
  return bytes;
}

std::vector<std::byte> from_hex(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

std::uint32_t extend(const crc32c_implementation& with, std::uint32_t crc, bytes_view bytes) {
  return with.extend(crc, bytes.data(), bytes.size());
}

// RFC 3720, B.4; the RFC lists the four bytes in the order they are sent, lowest first.
TEST(Crc32c, GivesThePublishedValues) {
  const std::vector<std::byte> zeroes(32, std::byte{0});
  const std::vector<std::byte> ones(32, std::byte{0xff});
  std::vector<std::byte> rising(32);
  for (std::size_t i = 0; i < rising.size(); ++i)
    rising[i] = static_cast<std::byte>(i);
  const std::vector<std::byte> falling(rising.rbegin(), rising.rend());
  const std::vector<std::byte> iscsi_read = from_hex(
      "01c00000000000000000000000000000140000000000040000000014000000182800000000000000"
      "0200000000000000");
  ASSERT_EQ(iscsi_read.size(), 48U);

  for (const auto& with : crc32c_implementations()) {
    SCOPED_TRACE(with.name);
    EXPECT_EQ(extend(with, 0, zeroes), 0x8a9136aaU);
    EXPECT_EQ(extend(with, 0, ones), 0x62a8ab43U);
    EXPECT_EQ(extend(with, 0, rising), 0x46dd794eU);
    EXPECT_EQ(extend(with, 0, falling), 0x113fdb5cU);
    EXPECT_EQ(extend(with, 0, iscsi_read), 0xd9963a56U);
    EXPECT_EQ(extend(with, 0, as_bytes("123456789")), 0xe3069283U);
    EXPECT_EQ(extend(with, 0, {}), 0U);
  }
}

TEST(Crc32c, IsTheDefinitionForEverySizeAndAlignment) {
  const auto pool = random_bytes(8192, 1);
  const std::size_t edges[] = {383, 384, 385, 391, 767, 768, 3071, 3072, 3073, 3455, 3456, 7000};
  for (const auto& with : crc32c_implementations()) {
    SCOPED_TRACE(with.name);
    for (std::size_t shift = 0; shift < 8; ++shift) {
      for (std::size_t size = 0; size < 300; ++size) {
        const auto bytes = bytes_view{pool}.subspan(shift, size);
        ASSERT_EQ(extend(with, 0, bytes), crc_by_definition(bytes)) << size << " at " << shift;
      }
      for (const std::size_t size : edges) {
        const auto bytes = bytes_view{pool}.subspan(shift, size);
        ASSERT_EQ(extend(with, 0, bytes), crc_by_definition(bytes)) << size << " at " << shift;
      }
    }
  }
}

TEST(Crc32c, CanBeComputedInParts) {
  const auto pool = random_bytes(5000, 2);
  const std::uint32_t whole = crc_by_definition(pool);
  std::mt19937 random{3};
  for (const auto& with : crc32c_implementations()) {
    SCOPED_TRACE(with.name);
    for (int round = 0; round < 50; ++round) {
      std::uint32_t crc = 0;
      bytes_view left{pool};
      while (!left.empty()) {
        const std::size_t part = std::min<std::size_t>(left.size(), random() % 700);
        crc = extend(with, crc, left.first(part));
        left = left.subspan(part);
      }
      ASSERT_EQ(crc, whole);
    }
  }
}

// A frame in memory of exactly its size, so that a sanitizer sees a byte too many being read; what
// is not covered (the field and the padding) holds anything.
class framed {
 public:
  framed(bytes_view payload, std::uint32_t word, std::size_t shift)
      : shift_{shift},
        memory_{std::make_unique<std::byte[]>(shift + 8 + (payload.size() + 7) / 8 * 8)} {
    std::byte* const at = memory_.get() + shift;
    std::memset(at, 0xa5, 8 + (payload.size() + 7) / 8 * 8);
    std::memcpy(at, &word, 4);
    if (!payload.empty())
      std::memcpy(at + 8, payload.data(), payload.size());
  }
  [[nodiscard]] const std::byte* bytes() const { return memory_.get() + shift_; }

 private:
  std::size_t shift_;
  std::unique_ptr<std::byte[]> memory_;
};

std::uint32_t frame_crc_by_definition(std::uint32_t word, bytes_view payload) {
  std::vector<std::byte> covered(4);
  std::memcpy(covered.data(), &word, 4);
  covered.insert(covered.end(), payload.begin(), payload.end());
  return crc_by_definition(covered);
}

TEST(Crc32c, CoversAFramesFirstWordAndItsPayloadOnly) {
  const auto pool = random_bytes(8192, 4);
  for (const auto& with : crc32c_implementations()) {
    SCOPED_TRACE(with.name);
    for (std::size_t size = 0; size < 1000; ++size) {
      const auto payload = bytes_view{pool}.first(size);
      const auto word = static_cast<std::uint32_t>(size * 2654435761U);
      const framed frame{payload, word, size % 3};
      ASSERT_EQ(with.frame(frame.bytes(), size), frame_crc_by_definition(word, payload)) << size;
    }
    for (const std::size_t size : {3071U, 3072U, 3080U, 7001U}) {
      const auto payload = bytes_view{pool}.first(size);
      const framed frame{payload, 0x12345678, 0};
      ASSERT_EQ(with.frame(frame.bytes(), size), frame_crc_by_definition(0x12345678, payload));
    }
  }
}

TEST(Crc32c, UsesTheFirstOfTheImplementations) {
  const auto pool = random_bytes(100, 5);
  const framed frame{pool, 100, 0};
  const std::uint32_t expected = frame_crc_by_definition(100, pool);
  EXPECT_EQ(crc32c_frame(frame.bytes(), pool.size()), expected);  // chooses
  EXPECT_EQ(crc32c_frame(frame.bytes(), pool.size()), expected);
  EXPECT_EQ(crc32c_frame_entry.load(), crc32c_implementations().front().frame);
  EXPECT_EQ(crc32c(pool), crc_by_definition(pool));
  EXPECT_EQ(crc32c_implementations().back().name, "table");
}

}  // namespace
}  // namespace atbus::detail
