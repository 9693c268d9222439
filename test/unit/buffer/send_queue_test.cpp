// What both kinds of send queue promise alike.
#include "atbus/detail/send_queue.hpp"

#include "counting_allocator.h"
#include "queue_kinds.h"

namespace atbus {
namespace {

using test::numbered_bytes;
using test::unreleased_bytes;
using test::unwritten_bytes;

template <class Kind>
class SendQueue : public ::testing::Test {
 protected:
  static constexpr std::size_t limit = 8192;
  std::unique_ptr<send_queue> queue_ = Kind::make(limit);

  void push(std::size_t length) {
    ASSERT_TRUE(queue_->push(numbered_bytes(length, queue_->committed())));
  }
};

TYPED_TEST_SUITE(SendQueue, test::queue_kinds);

TYPED_TEST(SendQueue, HoldsNothingAndNoMemoryBeforeTheFirstMessage) {
  EXPECT_TRUE(this->queue_->empty());
  EXPECT_EQ(this->queue_->size(), 0U);
  EXPECT_EQ(this->queue_->memory(), 0U);
  EXPECT_EQ(this->queue_->byte_limit(), this->limit);
  EXPECT_TRUE(unwritten_bytes(*this->queue_).empty());
}

TYPED_TEST(SendQueue, WritingReleasingAndRewindingNothingIsAllowedAtAnyTime) {
  const auto nothing = [&] {
    this->queue_->mark_written(0);
    this->queue_->release(0);
    this->queue_->rewind();
  };
  nothing();
  EXPECT_EQ(this->queue_->memory(), 0U);
  this->push(10);
  nothing();
  EXPECT_EQ(unwritten_bytes(*this->queue_), numbered_bytes(10, 0));
  this->queue_->release(10);
  nothing();
  this->push(this->limit);
  EXPECT_EQ(this->queue_->size(), this->limit);
}

TYPED_TEST(SendQueue, AllocatesNothingUntilTheFirstMessage) {
  if (!test::counts_allocations())
    GTEST_SKIP() << "this build can't count allocations";
  alignas(std::max_align_t) std::array<std::byte, sizeof(malloc_queue) + sizeof(block_ring)> room;
  const std::uint64_t before = test::allocations();
  auto* const ring = new (room.data()) block_ring;
  auto* const malloced = new (room.data() + sizeof(block_ring)) malloc_queue;
  EXPECT_EQ(test::allocations(), before);
  ring->~block_ring();
  malloced->~malloc_queue();
}

TYPED_TEST(SendQueue, ReturnsTheBytesInTheOrderTheyWereCommitted) {
  for (const std::size_t length : {1U, 7U, 8U, 100U, 1000U, 3U}) {
    this->push(length);
  }
  EXPECT_EQ(unwritten_bytes(*this->queue_), numbered_bytes(1119, 0));
}

TYPED_TEST(SendQueue, PacksSmallMessagesIntoOneRun) {
  for (int i = 0; i < 5; ++i) {
    this->push(17);
  }
  std::array<bytes_view, 4> runs;
  ASSERT_EQ(this->queue_->gather(runs), 1U);
  EXPECT_EQ(runs[0].size(), 85U);
}

TYPED_TEST(SendQueue, ACommitOfLessThanWasClaimedLeavesNoHole) {
  mutable_bytes place;
  ASSERT_TRUE(this->queue_->claim(100, place));
  ASSERT_EQ(place.size(), 100U);
  std::ranges::copy(numbered_bytes(10, 0), place.begin());
  this->queue_->commit(10);
  this->push(20);
  EXPECT_EQ(unwritten_bytes(*this->queue_), numbered_bytes(30, 0));
}

TYPED_TEST(SendQueue, AnAbortedClaimLeavesNoTrace) {
  this->push(50);
  mutable_bytes place;
  ASSERT_TRUE(this->queue_->claim(4000, place));
  std::ranges::fill(place, std::byte{0xee});
  this->queue_->abort();
  EXPECT_EQ(this->queue_->size(), 50U);
  this->push(50);
  EXPECT_EQ(unwritten_bytes(*this->queue_), numbered_bytes(100, 0));
}

TYPED_TEST(SendQueue, AnAbortedFirstClaimLeavesAnEmptyQueue) {
  mutable_bytes place;
  ASSERT_TRUE(this->queue_->claim(10, place));
  this->queue_->abort();
  EXPECT_TRUE(this->queue_->empty());
  EXPECT_TRUE(unwritten_bytes(*this->queue_).empty());
  this->push(10);
  EXPECT_EQ(unwritten_bytes(*this->queue_), numbered_bytes(10, 0));
}

TYPED_TEST(SendQueue, AnAbortWithoutAClaimDoesNothing) {
  this->queue_->abort();
  this->push(10);
  this->queue_->abort();
  EXPECT_EQ(unwritten_bytes(*this->queue_), numbered_bytes(10, 0));
}

TYPED_TEST(SendQueue, ASecondClaimIsRefusedAndTheFirstStays) {
  mutable_bytes first;
  mutable_bytes second;
  ASSERT_TRUE(this->queue_->claim(10, first));
  EXPECT_EQ(this->queue_->claim(5, second), errc::invalid_argument);
  std::ranges::copy(numbered_bytes(10, 0), first.begin());
  this->queue_->commit(10);
  EXPECT_EQ(unwritten_bytes(*this->queue_), numbered_bytes(10, 0));
}

TYPED_TEST(SendQueue, AClaimOfNothingIsAllowed) {
  mutable_bytes place;
  EXPECT_TRUE(this->queue_->claim(0, place));
  EXPECT_TRUE(place.empty());
  this->queue_->commit(0);
  EXPECT_TRUE(this->queue_->empty());
}

TYPED_TEST(SendQueue, TakesAMessageAsLongAsTheLimit) {
  this->push(this->limit);
  EXPECT_EQ(unwritten_bytes(*this->queue_), numbered_bytes(this->limit, 0));
}

TYPED_TEST(SendQueue, RefusesAMessageLongerThanTheLimitNamingBoth) {
  mutable_bytes place;
  const status refused = this->queue_->claim(this->limit + 1, place);
  EXPECT_EQ(refused, errc::message_too_large);
  EXPECT_EQ(refused.fact(0), this->limit + 1);
  EXPECT_EQ(refused.fact(1), this->limit);
  EXPECT_EQ(this->queue_->claim(send_queue::no_limit, place), errc::message_too_large);
}

TYPED_TEST(SendQueue, WouldBlockWhenFullAndLosesNothing) {
  while (this->queue_->push(numbered_bytes(96, this->queue_->committed()))) {
  }
  const std::size_t held = this->queue_->size();
  EXPECT_GT(held + 96, this->limit);
  mutable_bytes place;
  const status refused = this->queue_->claim(96, place);
  EXPECT_EQ(refused, errc::would_block);
  EXPECT_EQ(refused.fact(0), 96U);
  EXPECT_EQ(refused.fact(1), this->limit - held);
  EXPECT_EQ(unwritten_bytes(*this->queue_), numbered_bytes(held, 0));
}

TYPED_TEST(SendQueue, FillsToTheLastByte) {
  this->push(this->limit - 100);
  this->push(99);
  this->push(1);
  EXPECT_EQ(this->queue_->push(numbered_bytes(1, 0)), errc::would_block);
  EXPECT_EQ(this->queue_->size(), this->limit);
}

TYPED_TEST(SendQueue, AClaimLeftOpenDoesNotCountAsQueued) {
  mutable_bytes place;
  ASSERT_TRUE(this->queue_->claim(1000, place));
  EXPECT_EQ(this->queue_->size(), 0U);
  EXPECT_TRUE(unwritten_bytes(*this->queue_).empty());
  this->queue_->abort();
}

TYPED_TEST(SendQueue, AClaimUpToSomethingTakesWhatLiesBehindWhatItNeeds) {
  this->push(40);
  mutable_bytes place;
  ASSERT_TRUE(this->queue_->claim_up_to(50, 100, place));
  EXPECT_EQ(place.size(), 100U);
  std::ranges::copy(numbered_bytes(70, 40), place.begin());
  this->queue_->commit(70);
  EXPECT_EQ(unwritten_bytes(*this->queue_), numbered_bytes(110, 0));
  // No more than is there, and never less than is needed.
  ASSERT_TRUE(this->queue_->claim_up_to(1, send_queue::no_limit, place));
  EXPECT_LE(place.size(), this->limit - 110);
  EXPECT_GE(place.size(), 1U);
  this->queue_->abort();
  ASSERT_TRUE(this->queue_->claim_up_to(20, 0, place));
  EXPECT_EQ(place.size(), 20U);
  this->queue_->abort();
  EXPECT_EQ(this->queue_->claim_up_to(this->limit - 109, this->limit, place), errc::would_block);
}

TYPED_TEST(SendQueue, HasRoomAgainOnceReleased) {
  while (this->queue_->push(numbered_bytes(100, 0))) {
  }
  this->queue_->mark_written(this->queue_->size());
  EXPECT_EQ(this->queue_->push(numbered_bytes(100, 0)), errc::would_block);
  this->queue_->release(this->queue_->size());
  EXPECT_TRUE(this->queue_->empty());
  EXPECT_TRUE(this->queue_->push(numbered_bytes(this->limit, 0)));
}

TYPED_TEST(SendQueue, WrittenBytesAreNotGatheredAgainButStayUntilReleased) {
  this->push(300);
  this->queue_->mark_written(120);
  const auto all = numbered_bytes(300, 0);
  EXPECT_EQ(unwritten_bytes(*this->queue_), std::vector(all.begin() + 120, all.end()));
  EXPECT_EQ(unreleased_bytes(*this->queue_), all);
  EXPECT_EQ(this->queue_->unwritten(), 180U);
  EXPECT_EQ(this->queue_->in_flight(), 120U);
  this->queue_->release(100);
  EXPECT_EQ(this->queue_->size(), 200U);
  EXPECT_EQ(this->queue_->in_flight(), 20U);
  EXPECT_EQ(unwritten_bytes(*this->queue_), std::vector(all.begin() + 120, all.end()));
}

TYPED_TEST(SendQueue, ARewindGathersAgainWhatWasNotReleased) {
  this->push(300);
  this->push(300);
  this->queue_->mark_written(500);
  this->queue_->release(200);
  this->queue_->rewind();
  const auto all = numbered_bytes(600, 0);
  EXPECT_EQ(unwritten_bytes(*this->queue_), std::vector(all.begin() + 200, all.end()));
  EXPECT_EQ(this->queue_->in_flight(), 0U);
}

TYPED_TEST(SendQueue, WhatIsReleasedUnwrittenCountsAsWritten) {
  this->push(300);
  this->queue_->mark_written(250);
  this->queue_->rewind();
  this->queue_->release(240);
  EXPECT_EQ(this->queue_->written(), 240U);
  EXPECT_EQ(this->queue_->unwritten(), 60U);
  const auto all = numbered_bytes(300, 0);
  EXPECT_EQ(unwritten_bytes(*this->queue_), std::vector(all.begin() + 240, all.end()));
}

TYPED_TEST(SendQueue, GathersAtMostTheBytesAskedFor) {
  this->push(1000);
  this->push(1000);
  std::array<bytes_view, 64> runs;
  const std::size_t count = this->queue_->gather(runs, 1500);
  EXPECT_EQ(test::joined(std::span(runs).first(count)), numbered_bytes(1500, 0));
}

TYPED_TEST(SendQueue, GathersAtMostTheRunsThereIsRoomFor) {
  this->push(1000);
  EXPECT_EQ(this->queue_->gather({}), 0U);
  bytes_view one;
  ASSERT_EQ(this->queue_->gather({&one, 1}), 1U);
  EXPECT_EQ(one.front(), numbered_bytes(1, 0).front());
}

TYPED_TEST(SendQueue, AnOpenClaimStaysInPlaceWhileAllElseIsReleased) {
  this->push(5000);
  mutable_bytes place;
  ASSERT_TRUE(this->queue_->claim(3000, place));
  std::ranges::copy(numbered_bytes(3000, 5000), place.begin());
  this->queue_->mark_written(5000);
  this->queue_->release(5000);
  EXPECT_TRUE(this->queue_->empty());
  this->queue_->commit(3000);
  std::vector<std::byte> expected = numbered_bytes(8000, 0);
  EXPECT_EQ(unwritten_bytes(*this->queue_), std::vector(expected.begin() + 5000, expected.end()));
}

TYPED_TEST(SendQueue, AClaimAbortedAfterAllElseWasReleasedLeavesAnEmptyQueue) {
  this->push(5000);
  mutable_bytes place;
  ASSERT_TRUE(this->queue_->claim(3000, place));
  this->queue_->release(5000);
  this->queue_->abort();
  EXPECT_TRUE(this->queue_->empty());
  ASSERT_TRUE(this->queue_->push(numbered_bytes(this->limit, 0)));
  EXPECT_EQ(unwritten_bytes(*this->queue_), numbered_bytes(this->limit, 0));
}

TYPED_TEST(SendQueue, CountsOnlyGrow) {
  this->push(10);
  this->queue_->mark_written(10);
  this->queue_->release(10);
  this->push(5);
  EXPECT_EQ(this->queue_->committed(), 15U);
  EXPECT_EQ(this->queue_->written(), 10U);
  EXPECT_EQ(this->queue_->released(), 10U);
}

TYPED_TEST(SendQueue, SaysSoWhenThereIsNoMemoryAndWorksOnceThereIs) {
  if (!test::can_fail_allocations())
    GTEST_SKIP() << "this build can't make malloc fail";
  mutable_bytes place;
  status refused;
  {
    // The limit of all kinds in one message, so that no cached chunk will do.
    const test::allocation_failure none;
    refused = this->queue_->claim(this->limit, place);
  }
  EXPECT_EQ(refused, errc::out_of_memory);
  EXPECT_TRUE(this->queue_->empty());
  this->push(100);
  EXPECT_EQ(unwritten_bytes(*this->queue_), numbered_bytes(100, 0));
}

TYPED_TEST(SendQueue, SteadyTrafficAllocatesNothing) {
  if (!test::counts_allocations())
    GTEST_SKIP() << "this build can't count allocations";
  const auto message = numbered_bytes(100, 0);
  const auto round = [&] {
    ASSERT_TRUE(this->queue_->push(message));
    this->queue_->mark_written(100);
    this->queue_->release(100);
  };
  round();
  const std::uint64_t before = test::allocations();
  for (int i = 0; i < 1000; ++i) {
    round();
  }
  EXPECT_EQ(test::allocations(), before);
}

}  // namespace
}  // namespace atbus
