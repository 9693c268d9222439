// Batches that only the two ends of a circuit can read.
#include "protocol/batch_cipher.h"

#include <algorithm>

#include "protocol/control.h"
#include "test.h"

namespace atbus::detail {
namespace {

constexpr routed_head of_circuit{
    .messages = 2, .destination = 2, .source = 1, .circuit = 77, .number = 5};

batch_cipher cipher(std::string_view secret = "the secret of these two ends",
                    const routed_head& of = of_circuit, std::uint64_t salt = 99) {
  auto made = batch_cipher::make(as_bytes(secret), of, salt);
  EXPECT_TRUE(made);
  return std::move(*made);
}

byte_buffer sealed(std::string_view text, batch_cipher& with,
                   const routed_head& head = of_circuit) {
  byte_buffer made(text.size() + batch_cipher::overhead);
  EXPECT_TRUE(with.seal(head, as_bytes(text), made.data()));
  return made;
}

bool opens(bytes_view batch, batch_cipher& with, const routed_head& head = of_circuit) {
  byte_buffer plain(batch.size());
  return with.open(head, batch, plain.data());
}

TEST(BatchCipher, GivesBackWhatWasSealed) {
  batch_cipher out = cipher();
  batch_cipher in = cipher();
  for (const std::string& text : {std::string{}, std::string{"text"}, std::string(16'000, 'x')}) {
    const byte_buffer batch = sealed(text, out);
    byte_buffer plain(text.size());
    EXPECT_EQ(batch_cipher::salt_of(batch), 99U);
    ASSERT_TRUE(in.open(of_circuit, batch, plain.data()));
    EXPECT_EQ(as_text(plain), text);
  }
}

TEST(BatchCipher, ShowsNothingAndNeverTheSameTwice) {
  batch_cipher out = cipher();
  const std::string text(1000, 'x');
  const byte_buffer first = sealed(text, out);
  const byte_buffer second = sealed(text, out);
  EXPECT_EQ(as_text(first).find("xxxx"), std::string_view::npos);
  EXPECT_FALSE(std::ranges::equal(bytes_view{first}.subspan(batch_cipher::prefix_size),
                                  bytes_view{second}.subspan(batch_cipher::prefix_size)));
}

TEST(BatchCipher, OpensNothingThatWasChanged) {
  batch_cipher out = cipher();
  batch_cipher in = cipher();
  byte_buffer batch = sealed("some text", out);
  for (std::byte& one : batch) {
    one ^= std::byte{1};
    EXPECT_FALSE(opens(batch, in));
    one ^= std::byte{1};
  }
  for (std::size_t size = 0; size != batch.size(); ++size)
    EXPECT_FALSE(opens(bytes_view{batch}.first(size), in));
  EXPECT_TRUE(opens(batch, in));
}

TEST(BatchCipher, OpensNothingThatWasMovedElsewhere) {
  batch_cipher out = cipher();
  batch_cipher in = cipher();
  const byte_buffer batch = sealed("some text", out);
  routed_head head = of_circuit;
  head.number = 6;
  EXPECT_FALSE(opens(batch, in, head));
  head = of_circuit;
  head.messages = 1;
  EXPECT_FALSE(opens(batch, in, head));
  head = of_circuit;
  head.hops_left = 3;  // what relays change
  head.flags = flag_unproven;
  EXPECT_TRUE(opens(batch, in, head));
  for (const routed_head& other :
       {routed_head{.messages = 2, .destination = 1, .source = 2, .circuit = 77, .number = 5},
        routed_head{.messages = 2, .destination = 2, .source = 1, .circuit = 78, .number = 5}}) {
    batch_cipher elsewhere = cipher("the secret of these two ends", other);
    EXPECT_FALSE(opens(batch, elsewhere, other));
    EXPECT_FALSE(opens(batch, elsewhere));
  }
}

TEST(BatchCipher, OpensNothingWithAnotherSecretOrSalt) {
  batch_cipher out = cipher();
  const byte_buffer batch = sealed("some text", out);
  batch_cipher other_secret = cipher("another secret, as long as it has to be");
  batch_cipher other_salt = cipher("the secret of these two ends", of_circuit, 98);
  EXPECT_FALSE(opens(batch, other_secret));
  EXPECT_FALSE(opens(batch, other_salt));
}

}  // namespace
}  // namespace atbus::detail
