// Secrets, and what is proven with them.
#include "protocol/token.h"

#include "handshake_pair.h"
#include "raw_body.h"
#include "system/kernel.h"
#include "test.h"

namespace atbus::detail {
namespace {

// A place that is watched until its pages are given back.
const void* watched = nullptr;
std::size_t watched_size = 0;
bool was_wiped = false;

class Token : public ::testing::Test {
 protected:
  Token() {
    kernel().munmap = [](void* pages, std::size_t size) {
      if (pages == watched) {
        const auto* const bytes = static_cast<const unsigned char*>(pages);
        was_wiped =
            std::all_of(bytes, bytes + watched_size, [](unsigned char b) { return b == 0; });
        watched = nullptr;
      }
      return ::munmap(pages, size);
    };
  }
  ~Token() override { kernel() = before_; }
  static void watch(bytes_view memory) {
    watched = memory.data();
    watched_size = memory.size();
    was_wiped = false;
  }

 private:
  const kernel_calls before_ = kernel();
};

byte_buffer hmac(bytes_view key, bytes_view data) {
  const auto mac = hmac_sha256(key, {data}).value();
  return {mac.begin(), mac.end()};
}

TEST_F(Token, IsFrom16To1024BytesLong) {
  const std::string secret(1025, 's');
  for (const std::size_t size : {0U, 1U, 15U, 1025U}) {
    const auto refused = token::make(as_bytes(secret).first(size));
    ASSERT_FALSE(refused) << size;
    EXPECT_EQ(refused.error(), errc::invalid_argument);
    EXPECT_EQ(refused.error().text().find("ssss"), std::string::npos);
    EXPECT_NE(refused.error().text().find(std::to_string(size)), std::string::npos);
  }
  for (const std::size_t size : {16U, 1024U}) {
    const auto taken = token::make(as_bytes(secret).first(size));
    ASSERT_TRUE(taken) << size;
    EXPECT_TRUE(std::ranges::equal(taken->secret(), as_bytes(secret).first(size)));
  }
}

TEST_F(Token, IsWipedWhenItIsDestroyed) {
  {
    const token secret = make_token("0123456789abcdef");
    watch(secret.secret());
  }
  EXPECT_EQ(watched, nullptr);
  EXPECT_TRUE(was_wiped);
}

TEST_F(Token, IsWipedWhenAnotherTakesItsPlace) {
  token secret = make_token("0123456789abcdef");
  watch(secret.secret());
  secret = make_token("fedcba9876543210");
  EXPECT_EQ(watched, nullptr);
  EXPECT_TRUE(was_wiped);
  EXPECT_EQ(as_text(secret.secret()), "fedcba9876543210");
}

TEST_F(Token, LeavesNoCopyBehindWhenAListGrows) {
  token_list list;
  list.push_back(make_token("0123456789abcdef"));
  const std::byte* const place = list[0].secret().data();
  for (int i = 0; i < 100; ++i)
    list.push_back(make_token("fedcba9876543210"));
  EXPECT_EQ(list[0].secret().data(), place);
}

// RFC 4231, test cases 1 to 7; of 5 only the first 16 bytes are given.
TEST(Hmac, GivesTheMacsOfRfc4231) {
  struct vector {
    byte_buffer key;
    byte_buffer data;
    std::string_view mac;
  };
  const byte_buffer long_key(131, std::byte{0xaa});
  byte_buffer counting;
  for (int i = 1; i <= 25; ++i)
    counting.push_back(static_cast<std::byte>(i));
  const vector vectors[] = {
      {byte_buffer(20, std::byte{0x0b}), copy_of(as_bytes("Hi There")),
       "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
      {copy_of(as_bytes("Jefe")), copy_of(as_bytes("what do ya want for nothing?")),
       "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
      {byte_buffer(20, std::byte{0xaa}), byte_buffer(50, std::byte{0xdd}),
       "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
      {counting, byte_buffer(50, std::byte{0xcd}),
       "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
      {byte_buffer(20, std::byte{0x0c}), copy_of(as_bytes("Test With Truncation")),
       "a3b6167473100ee06e0c796c2955552b"},
      {long_key, copy_of(as_bytes("Test Using Larger Than Block-Size Key - Hash Key First")),
       "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
      {long_key,
       copy_of(as_bytes("This is a test using a larger than block-size key and a larger than "
                        "block-size data. The key needs to be hashed before being used by the "
                        "HMAC algorithm.")),
       "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"},
  };
  for (const vector& each : vectors) {
    const byte_buffer expected = from_hex(each.mac);
    byte_buffer mac = hmac(each.key, each.data);
    mac.resize(expected.size());
    EXPECT_EQ(mac, expected) << as_text(each.data);
  }
}

TEST(Hmac, TakesItsPartsInARow) {
  const auto key = as_bytes("key");
  EXPECT_EQ(hmac_sha256(key, {as_bytes("Hi "), {}, as_bytes("There")}),
            hmac_sha256(key, {as_bytes("Hi There")}));
}

TEST(Hmac, ComparesEveryByte) {
  message_mac mac{};
  for (std::size_t i = 0; i < mac.size(); ++i) {
    message_mac other = mac;
    EXPECT_TRUE(equal_in_constant_time(mac, other));
    other[i] = std::byte{0x80};
    EXPECT_FALSE(equal_in_constant_time(mac, other)) << i;
  }
}

}  // namespace
}  // namespace atbus::detail
