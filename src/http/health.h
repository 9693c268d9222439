// Whether a node works, for monitoring: one sentence.
#pragma once

#include <cstdint>
#include <string>

#include "atbus/node_report.hpp"

namespace atbus::detail {

struct health {
  bool good = false;
  std::string text;  // with a line feed at its end
};

// Good: the node's process lives and polls it. `at`: nanoseconds since 1970.
[[nodiscard]] health health_of(const node_report_file& file, std::uint64_t at);
// Good: also, each wanted peer is linked, and if it needs one, a parent.
[[nodiscard]] health readiness_of(const node_report_file& file, bool needs_parent,
                                  std::uint64_t at);

}  // namespace atbus::detail
