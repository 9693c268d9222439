// Median and spread of a few repeated measurements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace atbus::bench {

struct spread {
  double median = 0;
  double min = 0;
  double max = 0;
};

// All zero for no values. The median of an even number is the mean of the two in the middle.
inline spread spread_of(std::vector<double> values) {
  if (values.empty()) {
    return {};
  }
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

// The spread of one figure of each item.
template <class Items, class Figure>
spread spread_of(const Items& items, Figure figure) {
  std::vector<double> values;
  values.reserve(items.size());
  for (const auto& item : items) {
    values.push_back(static_cast<double>(figure(item)));
  }
  return spread_of(std::move(values));
}

}  // namespace atbus::bench
