// The bytes in front of what was published to a topic.
#include "protocol/topic_head.h"

#include "raw_body.h"
#include "test.h"

namespace atbus::detail {
namespace {

byte_buffer written(const topic_head& head) {
  byte_buffer made(topic_head_size(head.name) +
                   (head.what == topic_part::mark ? topic_mark_size : 0));
  encode(head, made.data());
  return made;
}
bool is_good(const byte_buffer& bytes) {
  topic_head head;
  return decode(bytes, head);
}

// doc/design/protocol.md has these.
TEST(TopicHead, HasTheDocumentedBytes) {
  const topic_head head{
      .publisher = 0x1203, .stream = 7, .number = 258, .hops_left = 16, .name = "news"};
  const byte_buffer bytes = written(head);
  EXPECT_EQ(bytes, raw({3, 0x12, 0, 0, 0, 0,  0, 0, 7, 0, 0, 0, 0,   0,   0,   0,   2, 1, 0, 0,
                        0, 0,    0, 0, 0, 16, 0, 4, 0, 0, 0, 0, 'n', 'e', 'w', 's', 0, 0, 0, 0}));
  topic_head again;
  ASSERT_TRUE(decode(bytes, again));
  EXPECT_EQ(again, head);
}

TEST(TopicHead, IsReadAsItWasWritten) {
  for (const std::size_t length : {1U, 7U, 8U, 9U, 128U}) {
    const std::string name(length, 't');
    const std::array heads{
        topic_head{.publisher = 1, .stream = 2, .number = 3, .unproven = true, .name = name},
        topic_head{.publisher = 1,
                   .stream = 2,
                   .number = 9,
                   .base = 9,
                   .what = topic_part::mark,
                   .hops_left = 1,
                   .name = name},
        topic_head{.number = 5, .what = topic_part::begin, .name = name},
        topic_head{.number = 5, .what = topic_part::refused, .name = name}};
    for (const topic_head& head : heads) {
      const byte_buffer bytes = written(head);
      topic_head again;
      EXPECT_TRUE(decode(bytes, again));
      EXPECT_EQ(again, head);
    }
  }
}

TEST(TopicHead, IsRefusedWhenItIsMalformed) {
  const topic_head good{.publisher = 1, .stream = 2, .number = 3, .name = "news"};
  const byte_buffer bytes = written(good);
  ASSERT_TRUE(is_good(bytes));
  for (std::size_t size = 0; size != bytes.size(); ++size)
    EXPECT_FALSE(is_good({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)}));
  struct change {
    std::size_t at;
    int to;
  };
  // no publisher, stream or number; another part; hops; flags; lengths; reserved; a name; what fills it up
  for (const change& one : {change{0, 0},
                            {8, 0},
                            {16, 0},
                            {24, 4},
                            {25, 17},
                            {26, 2},
                            {27, 0},
                            {27, 9},
                            {27, 129},
                            {28, 1},
                            {31, 1},
                            {32, '\n'},
                            {32, 0x80},
                            {36, 1},
                            {39, 1}}) {
    byte_buffer changed = bytes;
    changed[one.at] = static_cast<std::byte>(one.to);
    EXPECT_FALSE(is_good(changed)) << one.at << " is " << one.to;
  }
  topic_head mark = good;
  mark.what = topic_part::mark;
  EXPECT_TRUE(is_good(written(mark)));
  byte_buffer longer = written(mark);
  longer.push_back(std::byte{0});
  EXPECT_FALSE(is_good(longer));
  mark.base = mark.number + 1;
  EXPECT_FALSE(is_good(written(mark)));
  topic_head begin{.what = topic_part::begin, .name = "news"};
  EXPECT_TRUE(is_good(written(begin)));
  begin.publisher = 1;
  EXPECT_FALSE(is_good(written(begin)));
}

}  // namespace
}  // namespace atbus::detail
