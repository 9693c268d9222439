#include "http/metric_families.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/text.h"

namespace atbus::detail {
namespace {

// Counts of a damaged file can be anything; in a histogram they must not go down.
std::uint64_t add_up(std::uint64_t a, std::uint64_t b) noexcept {
  return b > std::numeric_limits<std::uint64_t>::max() - a
             ? std::numeric_limits<std::uint64_t>::max()
             : a + b;
}

double seconds_of_class_end(std::size_t index) noexcept {
  return std::ldexp(1.0, static_cast<int>(index)) * 1e-9;
}

prometheus::ClientMetric::Histogram to_histogram(const time_histogram& times,
                                                 const bucket_range& buckets) {
  prometheus::ClientMetric::Histogram made;
  for (std::size_t i = 0; i != time_histogram::classes; ++i) {
    made.sample_count = add_up(made.sample_count, times.counts[i]);
    // The middle of the class.
    made.sample_sum += static_cast<double>(times.counts[i]) * 0.75 * seconds_of_class_end(i);
    if (i >= buckets.first && i <= buckets.last && (i - buckets.first) % buckets.step == 0)
      made.bucket.push_back({made.sample_count, seconds_of_class_end(i)});
  }
  return made;
}

metric_labels printable(metric_labels labels) {
  for (auto& label : labels)
    std::ranges::replace_if(
        label.value, [](char c) { return !is_printable(c); }, '?');
  return labels;
}

}  // namespace

void metric_families::begin(prometheus::MetricType type, std::string name, std::string help) {
  prometheus::MetricFamily& made = all_.emplace_back();
  made.type = type;
  made.name = std::move(name);
  made.help = std::move(help);
}

void metric_families::add(double value, metric_labels labels) {
  prometheus::ClientMetric& made = all_.back().metric.emplace_back();
  made.label = printable(std::move(labels));
  if (all_.back().type == prometheus::MetricType::Counter)
    made.counter.value = value;
  else
    made.gauge.value = value;
}

void metric_families::add(const time_histogram& times, const bucket_range& buckets,
                          metric_labels labels) {
  prometheus::ClientMetric& made = all_.back().metric.emplace_back();
  made.label = printable(std::move(labels));
  made.histogram = to_histogram(times, buckets);
}

std::string metric_families::text() const {
  return prometheus::TextSerializer{}.Serialize(all_);
}

}  // namespace atbus::detail
