// What waits for a slow neighbour, and what is left of that where there is no room for all of it.
#include "node/topic/copy_queue.h"

#include "test.h"

namespace atbus::detail {
namespace {

constexpr std::size_t marks_of_topic_max = 2 * stream_positions::publishers_max;

copy_queue make_queue() {
  return {overflow_policy::drop_oldest, 2};
}
copy_queue::copy waiting_message(std::uint64_t stream, std::uint64_t number) {
  return {.bytes = std::make_shared<byte_buffer>(100),
          .publisher = 7,
          .stream = stream,
          .number = number};
}
copy_queue::copy waiting_mark(std::uint64_t stream, std::uint64_t number) {
  return {.bytes = nullptr,
          .what = topic_part::mark,
          .publisher = 7,
          .stream = stream,
          .number = number};
}

TEST(CopyQueue, OwesMarksOfAllStreamsOnceThereAreTooMany) {
  copy_queue queue = make_queue();
  copy_queue::account account{.bytes_max = 1000};
  for (std::uint64_t stream = 1; stream <= marks_of_topic_max; ++stream)
    queue.lose(7, stream, 1, account);
  EXPECT_FALSE(queue.owes_marks());
  queue.lose(7, marks_of_topic_max + 1, 1, account);
  EXPECT_TRUE(queue.owes_marks());
  EXPECT_EQ(account.marks, marks_of_topic_max);
  while (queue.front_mark() != nullptr)
    queue.pop_mark(account);
  EXPECT_EQ(account.marks, 0U);
  EXPECT_FALSE(queue.empty());
  EXPECT_FALSE(queue.has_first());
  queue.begin_marks();
  EXPECT_TRUE(queue.empty());
}

TEST(CopyQueue, HoldsSoManyMarksOfAllTopicsOfANeighbour) {
  copy_queue::account account{.bytes_max = 1000};
  std::vector<copy_queue> queues(2 * copy_queue::marks_max / marks_of_topic_max, make_queue());
  for (copy_queue& queue : queues) {
    for (std::uint64_t stream = 1; stream <= marks_of_topic_max / 2; ++stream) {
      queue.push_mark(waiting_mark(stream, 3), account);
      queue.lose(7, stream + marks_of_topic_max, 5, account);
    }
  }
  EXPECT_EQ(account.marks, copy_queue::marks_max);
  EXPECT_TRUE(queues.back().owes_marks());
  copy_queue::copy begin = waiting_mark(0, 1);
  begin.what = topic_part::begin;
  queues.back().push_mark(begin, account);
  ASSERT_TRUE(queues.back().front() != nullptr) << "an answer has room in any case";
  for (copy_queue& queue : queues)
    queue.clear(account);
  EXPECT_EQ(account.marks, 0U);
}

TEST(CopyQueue, DoesNotTakeMarksForMessages) {
  copy_queue queue = make_queue();
  copy_queue::account account{.bytes_max = 300};
  for (std::uint64_t stream = 1; stream <= 100; ++stream)
    queue.push_mark(waiting_mark(stream, 3), account);
  EXPECT_FALSE(queue.is_full(100, account));
  EXPECT_EQ(queue.push(waiting_message(1, 4), account), 0U);
  EXPECT_EQ(queue.push(waiting_message(1, 5), account), 0U);
  EXPECT_EQ(queue.push(waiting_message(1, 6), account), 1U);
  EXPECT_EQ(account.bytes, 200U);
  queue.drop_marks(account);
  EXPECT_EQ(account.marks, 1U) << "of the one that was dropped";
  EXPECT_EQ(queue.front()->number, 5U);
}

}  // namespace
}  // namespace atbus::detail
