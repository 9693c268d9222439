#include "node/link/pairing_record.h"

#include "atbus/address.hpp"
#include "test.h"

namespace atbus::detail {
namespace {

pairing_record a_call() {
  return {.kind = pairing_kind::call,
          .durable = true,
          .token = 0x0102030405060708,
          .address = "shm://zone"};
}

TEST(PairingRecord, HasTheDocumentedBytes) {
  const auto bytes = to_bytes(a_call());
  const std::string expected =
      std::string{"\xff\x01\x01\x01\x0a\0\0\0atbusPR1\x08\x07\x06\x05\x04\x03\x02\x01", 24} +
      "shm://zone";
  EXPECT_EQ(as_text(bytes), expected);
  EXPECT_TRUE(is_transports_own(bytes));
}

TEST(PairingRecord, IsReadAsItWasWritten) {
  pairing_record answer = a_call();
  answer.kind = pairing_kind::answer;
  answer.durable = false;
  answer.address.clear();
  pairing_record longest = a_call();
  longest.address.assign(address_length_max, 'x');
  for (const auto& record : {a_call(), answer, longest}) {
    const auto read = read_pairing_record(to_bytes(record));
    ASSERT_TRUE(read);
    EXPECT_EQ(*read, record);
  }
}

TEST(PairingRecord, IsRefusedWithAnyByteOfItsHeadWrong) {
  const auto good = to_bytes(a_call());
  for (std::size_t i = 0; i != 24; ++i) {
    if (i >= 16)
      continue;  // any token but 0 is one
    for (const int flipped : {0x01, 0x02, 0x80}) {
      auto bad = good;
      bad[i] ^= static_cast<std::byte>(flipped);
      if (i == 3 && flipped == 1)
        continue;  // the flag itself
      EXPECT_FALSE(read_pairing_record(bad)) << "byte " << i << " flipped " << flipped;
    }
  }
}

TEST(PairingRecord, IsRefusedIfItIsTooShortOrTooLong) {
  const auto good = to_bytes(a_call());
  for (std::size_t length = 0; length != good.size(); ++length)
    EXPECT_FALSE(read_pairing_record(bytes_view{good}.first(length))) << length;
  auto longer = good;
  longer.push_back(std::byte{'x'});
  EXPECT_FALSE(read_pairing_record(longer));
  pairing_record beyond = a_call();
  beyond.address.assign(address_length_max + 1, 'x');
  EXPECT_FALSE(read_pairing_record(to_bytes(beyond)));
}

TEST(PairingRecord, NeedsATokenAndAnAddressWhereOneBelongs) {
  pairing_record record = a_call();
  record.token = 0;
  EXPECT_FALSE(read_pairing_record(to_bytes(record)));
  record = a_call();
  record.address.clear();
  EXPECT_FALSE(read_pairing_record(to_bytes(record)));
  record = a_call();
  record.kind = pairing_kind::answer;
  EXPECT_FALSE(read_pairing_record(to_bytes(record)));
}

TEST(PairingRecord, IsToldFromMessages) {
  EXPECT_FALSE(is_transports_own({}));
  EXPECT_FALSE(is_transports_own(as_bytes("\xfe")));
  EXPECT_TRUE(is_transports_own(as_bytes("\xff")));
}

}  // namespace
}  // namespace atbus::detail
