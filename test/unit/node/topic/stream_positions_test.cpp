// How far a node has come with the streams of a topic: how many it remembers, and what two ways say of one.
#include "node/topic/stream_positions.h"

#include <list>

#include "test.h"

namespace atbus::detail {
namespace {

constexpr std::size_t of_topic_max = stream_positions::publishers_max;
constexpr std::size_t of_topic_least = stream_positions::of_topic_least;

topic_head stream_message(std::uint64_t publisher, std::uint64_t number) {
  return {.publisher = bus_id{publisher}, .stream = 5, .number = number};
}
topic_head stream_mark(std::uint64_t publisher, std::uint64_t base, std::uint64_t number) {
  return {.publisher = bus_id{publisher},
          .stream = 5,
          .number = number,
          .base = base,
          .what = topic_part::mark};
}

TEST(StreamPositions, AreRememberedOfSoManyPublishersOfAllTopics) {
  std::size_t all = 0;
  {
    std::list<stream_positions> topics;
    for (std::size_t topic = 0; topic != stream_positions::all_max / of_topic_max + 3; ++topic) {
      topics.emplace_back(all);
      for (std::uint64_t publisher = 1; publisher != of_topic_max + 10; ++publisher)
        topics.back().take(stream_message(publisher, 1), true, relation::child);
      EXPECT_LE(topics.back().size(), of_topic_max);
    }
    EXPECT_EQ(all, stream_positions::all_max + 3 * of_topic_least);
    EXPECT_EQ(topics.back().size(), of_topic_least) << "in any case";
    EXPECT_EQ(topics.back().take(stream_message(of_topic_max + 9, 3), true, relation::child).missed,
              1U)
        << "the one that was heard last";
    topics.front().clear();
    stream_positions copied{topics.back()};
    copied.swap(topics.front());
    EXPECT_EQ(all, stream_positions::all_max + 4 * of_topic_least - of_topic_max);
  }
  EXPECT_EQ(all, 0U);
}

// Whatever is known of other topics.
TEST(StreamPositions, TellLossesAndRepeatsOfTopicsWithFewPublishersInAnyCase) {
  std::size_t all = stream_positions::all_max;
  stream_positions known{all};
  for (std::uint64_t publisher = 1; publisher <= of_topic_least; ++publisher)
    known.take(stream_message(publisher, 1), true, relation::child);
  for (std::uint64_t publisher = 1; publisher <= of_topic_least; ++publisher) {
    EXPECT_EQ(known.take(stream_message(publisher, 5), true, relation::child).missed, 3U);
    EXPECT_TRUE(known.take(stream_message(publisher, 4), true, relation::child).is_old);
  }
}

TEST(StreamPositions, OfTwoWaysBeginWhereTheEarlierOneSays) {
  std::size_t all = 0;
  stream_positions known{all};
  EXPECT_EQ(known.take(stream_mark(7, 5, 5), true, relation::parent).missed, 0U);
  const auto first = known.take(stream_message(7, 3), true, relation::peer);
  EXPECT_FALSE(first.is_old);
  EXPECT_FALSE(first.may_be_known) << "its publisher has sent it since it was asked";
  EXPECT_EQ(first.missed, 0U);
  EXPECT_EQ(known.take(stream_message(7, 6), true, relation::parent).missed, 2U);
  EXPECT_TRUE(known.take(stream_message(7, 4), true, relation::peer).is_old);
  EXPECT_EQ(known.take(stream_message(7, 4), true, relation::peer).missed, 0U);
}

TEST(StreamPositions, MissWhatTheEarlierOfTwoWaysBringsTooLate) {
  std::size_t all = 0;
  stream_positions known{all};
  known.take(stream_mark(7, 5, 5), true, relation::peer);
  known.take(stream_message(7, 6), true, relation::peer);
  const auto late = known.take(stream_message(7, 3), true, relation::child);
  EXPECT_TRUE(late.is_old);
  EXPECT_EQ(late.missed, 3U);
  EXPECT_EQ(known.take(stream_message(7, 4), true, relation::child).missed, 0U);
  EXPECT_EQ(known.take(stream_mark(7, 1, 4), true, relation::child).missed, 1U);
}

TEST(StreamPositions, DoNotBeginEarlierByTheSameWay) {
  std::size_t all = 0;
  stream_positions known{all};
  known.take(stream_mark(7, 5, 5), true, relation::parent);
  const auto again = known.take(stream_message(7, 3), true, relation::child);
  EXPECT_TRUE(again.is_old);
  EXPECT_EQ(again.missed, 0U);
}

// Late copies of a publisher that has begun anew meanwhile may still come by another way.
TEST(StreamPositions, AreRememberedOfTheFourStreamsBeforeToo) {
  std::size_t all = 0;
  stream_positions known{all};
  const auto take = [&](std::uint64_t stream, std::uint64_t number) {
    return known.take({.publisher = bus_id{7}, .stream = stream, .number = number}, true,
                      relation::peer);
  };
  for (std::uint64_t stream = 1; stream <= 5; ++stream)
    take(stream, 1);
  for (std::uint64_t stream = 1; stream <= 5; ++stream) {
    EXPECT_TRUE(take(stream, 1).is_old) << stream;
    EXPECT_EQ(take(stream, 3).missed, 1U) << stream;
  }
  take(6, 1);
  EXPECT_FALSE(take(1, 1).is_old) << "forgotten";
  EXPECT_TRUE(take(6, 1).is_old);
}

// It may have had it by the way that says that the stream begins behind it.
TEST(StreamPositions, MarkWhatAnEarlierIncarnationMayHaveHadByTheOtherWay) {
  std::size_t all = 0;
  stream_positions known{all};
  known.take(stream_mark(7, 5, 5), true, relation::peer);
  EXPECT_TRUE(known.take(stream_message(7, 4), true, relation::parent).may_be_known);
  EXPECT_TRUE(known.take(stream_message(7, 5), true, relation::parent).may_be_known);
  EXPECT_FALSE(known.take(stream_message(7, 6), true, relation::parent).may_be_known);
}

}  // namespace
}  // namespace atbus::detail
