#include "atbus/bench/histogram.h"

#include "test.h"

namespace atbus::bench {
namespace {

TEST(Histogram, IsZeroWhenNothingWasRecorded) {
  const auto empty = std::make_unique<histogram>();
  EXPECT_EQ(empty->total(), 0U);
  EXPECT_EQ(empty->percentile(0.5), 0U);
  EXPECT_EQ(empty->max(), 0U);
}

TEST(Histogram, KeepsSmallValuesExactly) {
  const auto times = std::make_unique<histogram>();
  for (std::uint64_t value = 1; value <= 100; ++value) {
    times->record(value);
  }
  EXPECT_EQ(times->percentile(0.5), 50U);
  EXPECT_EQ(times->percentile(0.9), 90U);
  EXPECT_EQ(times->percentile(0.99), 99U);
  EXPECT_EQ(times->percentile(1), 100U);
}

TEST(Histogram, ErrsByLessThanOnePercent) {
  for (std::uint64_t value = 1; value < histogram::largest; value = value * 5 / 4 + 1) {
    const std::size_t bucket = histogram::bucket_of(value);
    const auto middle = static_cast<double>(histogram::middle_of(bucket));
    EXPECT_NEAR(middle, static_cast<double>(value), static_cast<double>(value) * 0.01) << value;
  }
}

TEST(Histogram, PutsEveryValueIntoTheBucketWhoseEdgesHoldIt) {
  for (std::uint64_t value = 0; value < 100'000; ++value) {
    const std::size_t bucket = histogram::bucket_of(value);
    ASSERT_LE(histogram::lower_edge_of(bucket), value);
    ASSERT_GT(histogram::lower_edge_of(bucket + 1), value);
  }
}

TEST(Histogram, HasABucketForTheLargestValueAndNoneBeyond) {
  EXPECT_EQ(histogram::bucket_of(histogram::largest), histogram::bucket_count - 1);
}

TEST(Histogram, CountsWhatIsTooLargeAsTheLargest) {
  const auto times = std::make_unique<histogram>();
  times->record(~std::uint64_t{0});
  EXPECT_EQ(times->total(), 1U);
  EXPECT_EQ(times->max(), histogram::largest);
  EXPECT_LE(times->percentile(0.5), histogram::largest);
}

TEST(Histogram, NeverReportsAPercentileAboveTheMaximum) {
  const auto times = std::make_unique<histogram>();
  times->record(1'000'001);
  EXPECT_LE(times->percentile(0.999), 1'000'001U);
  EXPECT_EQ(times->max(), 1'000'001U);
}

TEST(Histogram, FindsTheRareSlowOnes) {
  const auto times = std::make_unique<histogram>();
  for (int i = 0; i != 9'980; ++i) {
    times->record(500);
  }
  for (int i = 0; i != 20; ++i) {
    times->record(40'000);
  }
  EXPECT_NEAR(static_cast<double>(times->percentile(0.99)), 500, 5);
  EXPECT_NEAR(static_cast<double>(times->percentile(0.999)), 40'000, 400);
}

TEST(Histogram, CountsEachValueInOneSpanOnly) {
  const auto times = std::make_unique<histogram>();
  for (std::uint64_t value = 0; value != 10'000; ++value) {
    times->record(value);
  }
  std::uint64_t sum = 0;
  for (std::uint64_t from = 0; from < 11'000; from += 500) {
    sum += times->count_between(from, from + 500);
  }
  EXPECT_EQ(sum, times->total());
}

TEST(Histogram, TakesInAnother) {
  histogram all;
  histogram other;
  all.record(10);
  other.record(1'000'000);
  other.record(20);
  all.add(other);
  EXPECT_EQ(all.total(), 3U);
  EXPECT_EQ(all.max(), 1'000'000U);
  EXPECT_EQ(all.percentile(0.5), 20U);
}

}  // namespace
}  // namespace atbus::bench
