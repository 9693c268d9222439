// One frame: its bytes, its padding, its checksum.
#include "channel/common/frame.h"

#include <set>

#include "atbus/detail/malloc_queue.hpp"
#include "core/crc32c.h"
#include "stream_bytes.h"
#include "test.h"

namespace atbus::detail {
namespace {

static_assert(frame_size(0) == 8 && frame_size(1) == 16 && frame_size(8) == 16);
static_assert(frame_size(9) == 24 && frame_size(frame_payload_max) == frame_payload_max + 8);
static_assert(make_frame_word(frame_kind::data, 5) == 5);
static_assert(make_frame_word(frame_kind::control, 32) == 0x10000020);
static_assert(!is_checked(make_frame_word(frame_kind::control, frame_payload_max)));
static_assert(is_checked(0x08000000) && is_checked(0xffffffff) && !is_checked(0xf7ffffff));
static_assert(frame_length(0x18000020) == 32);
static_assert(frame_length(make_frame_word(frame_kind::control, frame_payload_max)) ==
              frame_payload_max);

bool is_zero(bytes_view bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

TEST(Frame, HasNothingButZeroesInItsPadding) {
  for (std::size_t length = 0; length < 40; ++length) {
    byte_string memory(frame_size(length) + 8, std::byte{0xee});
    std::byte* const payload = begin_frame(memory.data(), frame_kind::data, length);
    std::fill_n(payload, length, std::byte{0x11});
    ASSERT_EQ(load_frame_header(memory.data()), length);
    const bytes_view frame{memory.data(), frame_size(length)};
    EXPECT_TRUE(is_zero(frame.subspan(8 + length)));
    EXPECT_EQ(memory[frame.size()], std::byte{0xee}) << "wrote behind the frame";
  }
}

TEST(Frame, CanBeMadeShorterWhenItsPayloadIsKnown) {
  for (std::size_t length = 0; length <= 24; ++length) {
    byte_string memory(frame_size(24), std::byte{0xee});
    std::byte* const payload = begin_frame(memory.data(), frame_kind::control, 24);
    std::fill_n(payload, 24, std::byte{0x11});
    ASSERT_EQ(shorten_frame(memory.data(), length), frame_size(length));
    EXPECT_EQ(load_frame_header(memory.data()), make_frame_word(frame_kind::control, length));
    const bytes_view frame{memory.data(), frame_size(length)};
    EXPECT_TRUE(is_zero(frame.subspan(8 + length)));
    EXPECT_EQ(std::ranges::count(frame.subspan(8), std::byte{0x11}),
              static_cast<std::ptrdiff_t>(length));
  }
}

TEST(Frame, CarriesTheChecksumOfItsFirstWordAndPayload) {
  byte_string frame = data_frame(as_bytes("hello"), true);
  EXPECT_EQ(load_little_endian<std::uint32_t>(frame.data()), 0x08000005U) << "does not say so";
  const byte_string covered{frame.begin(), frame.begin() + 4};
  const std::uint32_t expected = crc32c_extend(crc32c(covered), as_bytes("hello"));
  EXPECT_EQ(load_little_endian<std::uint32_t>(frame.data() + 4), expected);

  frame[13] = std::byte{0xff};  // padding
  seal_frame(frame.data());
  EXPECT_EQ(load_little_endian<std::uint32_t>(frame.data() + 4), expected);
}

TEST(Frame, IsSealedWithItsNeighboursInARun) {
  byte_string unsealed;
  byte_string expected;
  for (std::size_t length = 0; length < 300; ++length) {
    const byte_string payload(length, static_cast<std::byte>(length));
    append(unsealed, data_frame(payload, false));
    append(expected, data_frame(payload, true));
  }
  EXPECT_EQ(seal(unsealed), expected.size());
  EXPECT_EQ(unsealed, expected);
  EXPECT_EQ(seal(unsealed), expected.size());  // once more changes nothing
  EXPECT_EQ(unsealed, expected);
}

TEST(Frame, StaysUnsealedWhileItsEndIsMissing) {
  const byte_string first = data_frame(as_bytes("first"), true);
  for (std::size_t missing = 1; missing <= first.size(); ++missing) {
    byte_string run = data_frame(as_bytes("first"), false);
    append(run, data_frame(as_bytes("other"), false));
    run.resize(run.size() - missing);
    const byte_string second{run.begin() + static_cast<std::ptrdiff_t>(first.size()), run.end()};
    ASSERT_EQ(seal(run), first.size());
    EXPECT_TRUE(std::equal(first.begin(), first.end(), run.begin()));
    EXPECT_TRUE(std::equal(second.begin(), second.end(), run.end() - std::ssize(second)));
  }
  EXPECT_EQ(seal({}), 0U);
}

// The way a stream writes: claim, begin, fill, commit what was used, seal the queue's runs.
TEST(Frame, IsMadeInPlaceInASendQueue) {
  malloc_queue queue;
  byte_string expected;
  for (std::size_t length = 0; length < 100; ++length) {
    mutable_bytes place;
    ASSERT_TRUE(queue.claim(frame_size(length + 10), place));
    std::byte* const payload = begin_frame(place.data(), frame_kind::data, length + 10);
    std::fill_n(payload, length, static_cast<std::byte>(length));
    queue.commit(shorten_frame(place.data(), length));
    append(expected, data_frame(byte_string(length, static_cast<std::byte>(length)), true));
  }
  bytes_view run;
  ASSERT_EQ(queue.gather({&run, 1}), 1U);
  EXPECT_EQ(seal({const_cast<std::byte*>(run.data()), run.size()}), run.size());
  EXPECT_TRUE(std::ranges::equal(run, expected));
}

TEST(FrameFault, HasANameAndASentenceOfItsOwn) {
  std::set<std::string_view> names;
  std::set<std::string_view> sentences;
  for (std::size_t i = 0; i < frame_fault_count; ++i) {
    const auto fault = static_cast<frame_fault>(i);
    names.insert(name(fault));
    sentences.insert(explain(fault));
    EXPECT_TRUE(explain(fault).ends_with('.'));
  }
  EXPECT_EQ(names.size(), frame_fault_count);
  EXPECT_EQ(sentences.size(), frame_fault_count);
}

}  // namespace
}  // namespace atbus::detail
