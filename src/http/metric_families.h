// Families of Prometheus metrics, one line for each.
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "atbus/node_report.hpp"

namespace atbus::detail {

using metric_labels = std::vector<prometheus::ClientMetric::Label>;

// Which upper ends of the classes of a time_histogram are buckets: from 2^first ns to 2^last ns.
struct bucket_range {
  std::size_t first;
  std::size_t last;
  std::size_t step;
};

class metric_families {
 public:
  // The family that add() and the others extend from now on.
  void begin(prometheus::MetricType type, std::string name, std::string help);
  void add(double value, metric_labels labels = {});
  void add(const time_histogram& times, const bucket_range& buckets, metric_labels labels = {});

  [[nodiscard]] std::string text() const;

 private:
  std::vector<prometheus::MetricFamily> all_;
};

}  // namespace atbus::detail
