// Writes the report of a node into its file, from the node's own polls: 250 ms apart while something changes,
// and every five seconds otherwise, so that a reader sees whether the node is polled. If a report takes more
// than a thousandth of that time, they are further apart.
//
// One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "atbus/node_report.hpp"
#include "node/core/node_core.h"
#include "node/report/report_file.h"

namespace atbus::detail {

class report_publisher {
 public:
  // Makes the file. If that is impossible, the node's log says why, and nothing is ever written.
  report_publisher(const std::string& directory, node_core& of);

  // After a poll.
  void publish_if_due(node_core& of) {
    if (of.polled_at() >= look_at_) [[unlikely]]
      look(of);
  }
  // For a node that goes to sleep: until the next report is due; negative: there is none.
  [[nodiscard]] std::chrono::nanoseconds longest_sleep(const node_core& of) const noexcept;

 private:
  void look(node_core& of);

  report_file::owner file_;
  node_report report_;
  std::uint64_t progress_ = 0;  // node_core::progress at the last report
  std::chrono::nanoseconds written_at_{0};
  std::chrono::nanoseconds interval_;
  std::chrono::nanoseconds look_at_ = std::chrono::nanoseconds::max();
};

}  // namespace atbus::detail
