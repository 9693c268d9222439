#include "atbus/bench/ledger.h"

#include "test.h"

namespace atbus::bench {
namespace {

class Ledger : public ::testing::Test {
 protected:
  void take(std::uint64_t sender, std::uint64_t number) {
    const std::vector<std::byte> message = make(sender, number);
    account.take<check_kind::full>(message);
  }

  std::vector<std::byte> make(std::uint64_t sender, std::uint64_t number) const {
    const std::uint64_t word = first_word(sender, number);
    std::vector<std::byte> message(lengths.of(word));
    fill(word, message.data(), message.size());
    return message;
  }

  verdict close(std::uint64_t first, std::uint64_t second = 0) const {
    return account.close(check_kind::full, std::array{first, second});
  }

  message_lengths lengths = message_lengths::uniform(16);
  ledger account{lengths, 2};
};

TEST_F(Ledger, FindsNothingWrongWithMessagesInOrder) {
  for (std::uint64_t number = 0; number != 100; ++number) {
    take(0, number);
    take(1, number);
  }
  const verdict found = close(100, 100);
  EXPECT_EQ(found.messages, 200U);
  EXPECT_GT(found.bytes, 200U * 8);
  EXPECT_EQ(found.lost, 0U);
  EXPECT_EQ(found.corrupt, 0U);
  EXPECT_EQ(found.reordered, 0U);
}

TEST_F(Ledger, AddsWhatAnotherThreadHasReceived) {
  ledger other = account;
  for (std::uint64_t number = 0; number != 10; ++number) {
    take(0, number);
  }
  for (const std::uint64_t number : {0, 1, 3}) {
    other.take<check_kind::full>(make(1, number));
  }
  account.add(other);
  const verdict found = close(10, 5);
  EXPECT_EQ(found.messages, 13U);
  EXPECT_EQ(found.lost, 2U) << "one in a gap, one at the end";
  EXPECT_EQ(found.corrupt + found.reordered, 0U);
}

TEST_F(Ledger, CountsAGapAsLost) {
  take(0, 0);
  take(0, 3);
  const verdict found = close(4);
  EXPECT_EQ(found.lost, 2U);
  EXPECT_EQ(found.reordered, 0U);
}

TEST_F(Ledger, CountsTheMissingEndAsLost) {
  take(0, 0);
  EXPECT_EQ(close(5, 2).lost, 6U);
}

TEST_F(Ledger, CountsAnEarlierMessageAsReorderedAndNotAsLost) {
  take(0, 0);
  take(0, 2);
  take(0, 1);
  take(0, 3);
  const verdict found = close(4);
  EXPECT_EQ(found.lost, 0U);
  EXPECT_EQ(found.reordered, 1U);
}

TEST_F(Ledger, CountsASecondDeliveryAsReordered) {
  take(0, 0);
  take(0, 0);
  take(0, 1);
  const verdict found = close(2);
  EXPECT_EQ(found.lost, 0U);
  EXPECT_EQ(found.reordered, 1U);
}

TEST_F(Ledger, CountsADamagedMessageAsCorruptAndNotAsLost) {
  take(0, 0);
  std::vector<std::byte> damaged = make(0, 1);
  damaged.back() ^= std::byte{1};
  account.take<check_kind::full>(damaged);
  take(0, 2);
  const verdict found = close(3);
  EXPECT_EQ(found.corrupt, 1U);
  EXPECT_EQ(found.lost, 0U);
}

TEST_F(Ledger, CountsAWrongLengthAsCorrupt) {
  std::vector<std::byte> message = make(0, 0);
  message.resize(message.size() + 8);
  account.take<check_kind::sequence>(message);
  EXPECT_EQ(close(1).corrupt, 1U);
}

TEST_F(Ledger, CountsAnUnknownSenderAsCorrupt) {
  take(2, 0);
  EXPECT_EQ(close(0).corrupt, 1U);
}

TEST_F(Ledger, LooksAtNoBodyWhenOnlyTheSequenceIsChecked) {
  std::vector<std::byte> message = make(0, 0);
  if (message.size() > 8) {
    message.back() ^= std::byte{1};
  }
  account.take<check_kind::sequence>(message);
  EXPECT_EQ(account.close(check_kind::sequence, std::array<std::uint64_t, 2>{1, 0}).corrupt, 0U);
}

TEST_F(Ledger, KnowsWithoutAnyCheckHowManyAreMissing) {
  const std::array<std::byte, 3> message{};
  account.take<check_kind::none>(message);
  const verdict found = account.close(check_kind::none, std::array<std::uint64_t, 2>{2, 1});
  EXPECT_EQ(found.messages, 1U);
  EXPECT_EQ(found.bytes, 3U);
  EXPECT_EQ(found.lost, 2U);
}

}  // namespace
}  // namespace atbus::bench
