#include "atbus/bytes.hpp"

#include "test.h"

namespace atbus {
namespace {

TEST(Bytes, OfATextAreItsCharactersInPlace) {
  const std::string text{"ab\0c", 4};
  const bytes_view bytes = as_bytes(text);
  EXPECT_EQ(bytes.size(), 4U);
  EXPECT_EQ(static_cast<const void*>(bytes.data()), text.data());
  EXPECT_EQ(bytes[1], std::byte{'b'});
}

TEST(Bytes, LeaveOutTheTerminatingNul) {
  EXPECT_EQ(as_bytes("abc").size(), 3U);
}

TEST(Bytes, ComeBackAsTheSameText) {
  const std::string_view text{"\xff\0x", 3};
  EXPECT_EQ(as_text(as_bytes(text)), text);
}

TEST(Bytes, OfNothingAreEmpty) {
  EXPECT_TRUE(as_bytes({}).empty());
  EXPECT_TRUE(as_text({}).empty());
}

}  // namespace
}  // namespace atbus
