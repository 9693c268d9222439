// A histogram of durations with a fixed number of buckets and a relative error below 1 %, after the
// idea of HdrHistogram (Gil Tene): each power of two is divided into equally many buckets.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace atbus::bench {

// Trivially copyable, so that it can lie in memory shared with another process. Values are
// nanoseconds; those above `largest` count as `largest`.
class histogram {
 public:
  static constexpr unsigned precision_bits = 7;
  static constexpr unsigned value_bits = 40;  // 18 minutes
  static constexpr std::uint64_t largest = (std::uint64_t{1} << value_bits) - 1;
  static constexpr std::size_t bucket_count = (value_bits - precision_bits + 1) << precision_bits;

  void record(std::uint64_t value) noexcept {
    value = std::min(value, largest);
    ++counts_[bucket_of(value)];
    ++total_;
    max_ = std::max(max_, value);
  }

  void add(const histogram& other) noexcept {
    for (std::size_t bucket = 0; bucket != bucket_count; ++bucket) {
      counts_[bucket] += other.counts_[bucket];
    }
    total_ += other.total_;
    max_ = std::max(max_, other.max_);
  }

  std::uint64_t total() const noexcept { return total_; }
  std::uint64_t max() const noexcept { return max_; }

  // The smallest recorded value that at least this share (0..1) of all values do not exceed, up to
  // the width of its bucket; 0 when nothing was recorded.
  std::uint64_t percentile(double share) const noexcept {
    if (total_ == 0) {
      return 0;
    }
    const auto wanted = std::max<std::uint64_t>(
        1, static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(total_))));
    std::uint64_t seen = 0;
    for (std::size_t bucket = 0; bucket != bucket_count; ++bucket) {
      seen += counts_[bucket];
      if (seen >= wanted) {
        return std::min(max_, middle_of(bucket));
      }
    }
    return max_;
  }

  // How many values lie in [from, to), counting each bucket by its middle.
  std::uint64_t count_between(std::uint64_t from, std::uint64_t to) const noexcept {
    std::uint64_t count = 0;
    for (std::size_t bucket = 0; bucket != bucket_count; ++bucket) {
      const std::uint64_t middle = middle_of(bucket);
      count += middle >= from && middle < to ? counts_[bucket] : 0;
    }
    return count;
  }

  static constexpr std::size_t bucket_of(std::uint64_t value) noexcept {
    // Values below 2^precision_bits have a bucket each; above, the highest bit chooses a group and
    // the next precision_bits bits the bucket in it.
    const unsigned width = static_cast<unsigned>(std::bit_width(value));
    const unsigned group = width > precision_bits ? width - precision_bits : 0;
    const unsigned shift = group > 0 ? group - 1 : 0;
    const std::uint64_t within = (value >> shift) & ((std::uint64_t{1} << precision_bits) - 1);
    return (static_cast<std::size_t>(group) << precision_bits) + within;
  }

  static constexpr std::uint64_t lower_edge_of(std::size_t bucket) noexcept {
    const auto group = static_cast<unsigned>(bucket >> precision_bits);
    const std::uint64_t within = bucket & ((std::size_t{1} << precision_bits) - 1);
    return group == 0 ? within : (within + (std::uint64_t{1} << precision_bits)) << (group - 1);
  }

  static constexpr std::uint64_t middle_of(std::size_t bucket) noexcept {
    const auto group = static_cast<unsigned>(bucket >> precision_bits);
    const std::uint64_t width = group <= 1 ? 1 : std::uint64_t{1} << (group - 1);
    return lower_edge_of(bucket) + width / 2;
  }

 private:
  std::array<std::uint64_t, bucket_count> counts_{};
  std::uint64_t total_ = 0;
  std::uint64_t max_ = 0;
};

}  // namespace atbus::bench
