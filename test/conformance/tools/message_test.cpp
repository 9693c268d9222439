#include "atbus/bench/message.h"

#include "test.h"

namespace atbus::bench {
namespace {

TEST(MessageLengths, AreMultiplesOfEightFromEightToTheLongest) {
  const message_lengths lengths = message_lengths::uniform(16);
  EXPECT_EQ(lengths.shortest(), 8U);
  EXPECT_EQ(lengths.longest(), 128U);
  for (std::uint64_t number = 0; number != 100'000; ++number) {
    const std::uint64_t length = lengths.of(number);
    ASSERT_EQ(length % 8, 0U);
    ASSERT_GE(length, 8U);
    ASSERT_LE(length, 128U);
  }
}

TEST(MessageLengths, AreAboutEquallyFrequent) {
  const message_lengths lengths = message_lengths::uniform(16);
  std::map<std::uint64_t, int> counts;
  for (std::uint64_t number = 0; number != 160'000; ++number) {
    ++counts[lengths.of(number)];
  }
  ASSERT_EQ(counts.size(), 16U);
  for (const auto& [length, count] : counts) {
    EXPECT_NEAR(count, 10'000, 500) << length;
  }
}

TEST(MessageLengths, DifferBetweenSenders) {
  const message_lengths lengths = message_lengths::uniform(2048);
  int equal = 0;
  for (std::uint64_t number = 0; number != 1'000; ++number) {
    equal += lengths.of(first_word(0, number)) == lengths.of(first_word(1, number)) ? 1 : 0;
  }
  EXPECT_LT(equal, 20);
}

TEST(MessageLengths, StayWhatTheyAreWhenFixed) {
  const message_lengths lengths = message_lengths::fixed(100);
  EXPECT_EQ(lengths.shortest(), 100U);
  EXPECT_EQ(lengths.longest(), 100U);
  EXPECT_EQ(lengths.of(first_word(3, 77)), 100U);
}

// Every length up to a few vectors, and some beyond.
class MessageContent : public ::testing::TestWithParam<std::size_t> {};

TEST_P(MessageContent, PassesItsOwnCheckAndKeepsToItsBounds) {
  const std::size_t length = GetParam();
  std::vector<std::byte> bytes(length + 16, std::byte{0x5a});
  fill(first_word(2, 12345), bytes.data() + 8, length);
  EXPECT_TRUE(intact(first_word(2, 12345), bytes.data() + 8, length));
  for (std::size_t i = 0; i != 8; ++i) {
    EXPECT_EQ(bytes[i], std::byte{0x5a});
    EXPECT_EQ(bytes[8 + length + i], std::byte{0x5a});
  }
}

TEST_P(MessageContent, BeginsWithItsNumber) {
  const std::size_t length = GetParam();
  const std::uint64_t word = first_word(2, 12345);
  std::vector<std::byte> bytes(length);
  fill(word, bytes.data(), length);
  EXPECT_EQ(std::memcmp(bytes.data(), &word, std::min(length, sizeof word)), 0);
}

TEST_P(MessageContent, GoesOnByOneStepAWord) {
  const std::size_t length = GetParam();
  std::vector<std::byte> bytes(length);
  fill(7, bytes.data(), length);
  for (std::size_t i = 0; i + 8 <= length; i += 8)
    ASSERT_EQ(load_word(bytes.data() + i), 7 + i / 8 * detail::word_step) << "byte " << i;
}

TEST_P(MessageContent, ShowsAnyChangedBit) {
  const std::size_t length = GetParam();
  std::vector<std::byte> bytes(length);
  fill(7, bytes.data(), length);
  for (std::size_t i = 0; i != length; ++i) {
    for (const int bit : {0, 3, 7}) {
      bytes[i] ^= std::byte{1} << bit;
      EXPECT_FALSE(intact(7, bytes.data(), length)) << "byte " << i << " bit " << bit;
      bytes[i] ^= std::byte{1} << bit;
    }
  }
}

TEST_P(MessageContent, ShowsTheMessageOfAnotherNumber) {
  const std::size_t length = GetParam();
  std::vector<std::byte> bytes(length);
  fill(7, bytes.data(), length);
  EXPECT_FALSE(intact(8, bytes.data(), length));
}

TEST(MessageContentOfNoBytes, IsIntact) {
  std::byte untouched{0x5a};
  fill(7, &untouched, 0);
  EXPECT_EQ(untouched, std::byte{0x5a});
  EXPECT_TRUE(intact(7, &untouched, 0));
}

INSTANTIATE_TEST_SUITE_P(Lengths, MessageContent,
                         ::testing::Values(1, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 32, 33, 40, 64,
                                           71, 100, 128, 1000, 4096));

}  // namespace
}  // namespace atbus::bench
