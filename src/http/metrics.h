// A report as text for Prometheus: https://prometheus.io/docs/instrumenting/exposition_formats/
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "atbus/node_report.hpp"

namespace atbus::detail {

inline constexpr const char* metrics_type = "text/plain; version=0.0.4; charset=utf-8";

// With the first `peers` of its peers. `at`: nanoseconds since 1970. Whatever the report says, the text is
// valid: each series is there once, labels are printable, histograms rise. The file must be readable.
[[nodiscard]] std::string metrics_text(const node_report_file& file, std::size_t peers,
                                       std::uint64_t at);

}  // namespace atbus::detail
