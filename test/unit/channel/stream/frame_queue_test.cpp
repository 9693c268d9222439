// Room for frames in a send queue, claimed for many messages at a time.
#include "channel/stream/frame_queue.h"
#include "test.h"

namespace atbus::detail {
namespace {

constexpr std::size_t queue_size = std::size_t{4} << 20;
constexpr std::uint64_t much = std::uint64_t{1} << 30;

class FrameQueue : public ::testing::TestWithParam<send_buffer_kind> {
 protected:
  std::unique_ptr<send_queue> make(std::size_t bytes) const {
    return make_frame_queue(
        {.buffer = GetParam(), .bytes = bytes, .blocks = bytes / 128, .message_limit = 1000});
  }
  // How much there is for a message of that length.
  static std::size_t room(send_queue& queue, std::size_t length, std::uint64_t due) {
    mutable_bytes place;
    EXPECT_TRUE(claim_frames(queue, length, due, place));
    queue.abort();
    return place.size();
  }

  std::unique_ptr<send_queue> queue_ = make(queue_size);
};

TEST_P(FrameQueue, HasRoomForSeveralLongMessages) {
  EXPECT_GE(room(*queue_, 8000, much), 7 * frame_size(8000));
}

TEST_P(FrameQueue, GivesNoMoreRoomThanUntilTheNextWrite) {
  EXPECT_EQ(room(*queue_, 100, 2000), 2000U);
  EXPECT_EQ(room(*queue_, 100, 0), frame_size(100));
}

TEST_P(FrameQueue, GivesNoMoreThanAnEighthOfASmallQueueBeyondTheMessage) {
  const auto small = make(8192);
  EXPECT_EQ(room(*small, 10, much), small->byte_limit() / 8);
  EXPECT_EQ(room(*small, 4000, much), frame_size(4000));
}

// What is left of a chunk or at the end of a ring is used before the next one is begun.
TEST_P(FrameQueue, GoesOnWhereTheLastMessageEnded) {
  mutable_bytes first;
  ASSERT_TRUE(claim_frames(*queue_, 8000, much, first));
  queue_->commit(frame_size(8000));
  mutable_bytes second;
  ASSERT_TRUE(claim_frames(*queue_, 8000, much, second));
  EXPECT_EQ(second.data(), first.data() + frame_size(8000));
  queue_->abort();
}

INSTANTIATE_TEST_SUITE_P(Kinds, FrameQueue,
                         ::testing::Values(send_buffer_kind::fixed, send_buffer_kind::growing),
                         [](const auto& kind) {
                           return kind.param == send_buffer_kind::fixed ? "fixed" : "growing";
                         });

}  // namespace
}  // namespace atbus::detail
