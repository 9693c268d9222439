#include "channel/stream/frame_marks.h"

#include "test.h"

namespace atbus::detail {
namespace {

constexpr std::size_t mark_limit = 6300;  // while there are many they are at least 101 bytes apart

TEST(FrameMarks, TakesTheLastOneThatIsNotBeyond) {
  frame_marks marks{mark_limit};
  marks.add({.bytes = 200, .frames = 2});
  marks.add({.bytes = 400, .frames = 4});
  marks.add({.bytes = 600, .frames = 5});
  EXPECT_EQ(marks.take(199, frame_marks::any).bytes, 0U);
  EXPECT_EQ(marks.take(400, frame_marks::any).bytes, 400U);
  EXPECT_EQ(marks.take(599, frame_marks::any).bytes, 0U) << "it was taken before";
  EXPECT_EQ(marks.take(frame_marks::any, 4).bytes, 0U);
  const auto last = marks.take(frame_marks::any, 5);
  EXPECT_EQ(last.bytes, 600U);
  EXPECT_EQ(last.frames, 5U);
}

TEST(FrameMarks, KeepsNoneThatAreCloseToEachOtherWhileThereAreMany) {
  frame_marks marks{mark_limit};
  std::uint64_t at = 0;
  for (int i = 0; i != 64; ++i)
    marks.add({.bytes = ++at, .frames = at});
  marks.add({.bytes = at + 100, .frames = at + 1});
  EXPECT_EQ(marks.take(at + 100, frame_marks::any).bytes, at);
  marks.add({.bytes = at + 102, .frames = at + 3});
  EXPECT_EQ(marks.take(frame_marks::any, frame_marks::any).bytes, at + 102);
}

// A queue that fills up and drains for ever.
TEST(FrameMarks, HasRoomForAllOfAQueue) {
  frame_marks marks{mark_limit};
  std::uint64_t released = 0;
  for (std::uint64_t at = 8; at != 100'000; at += 8) {
    marks.add({.bytes = at, .frames = at / 8});
    if (at - released < mark_limit)
      continue;
    const auto half = marks.take(at - mark_limit / 2, frame_marks::any);
    EXPECT_GE(half.bytes, at - mark_limit / 2 - 108);
    EXPECT_EQ(half.frames, half.bytes / 8);
    released = half.bytes;
  }
}

TEST(FrameMarks, KeepsTheOldestWhenThereAreMoreThanItHasRoomFor) {
  frame_marks marks{mark_limit};
  for (std::uint64_t at = 200; at != 40'000; at += 200)
    marks.add({.bytes = at, .frames = at / 200});
  EXPECT_EQ(marks.take(399, frame_marks::any).bytes, 200U);
  EXPECT_LT(marks.take(frame_marks::any, frame_marks::any).bytes, 30'000U);
}

TEST(FrameMarks, ForgetsAll) {
  frame_marks marks{mark_limit};
  marks.add({.bytes = 1000, .frames = 1});
  marks.clear();
  EXPECT_EQ(marks.take(frame_marks::any, frame_marks::any).bytes, 0U);
}

}  // namespace
}  // namespace atbus::detail
