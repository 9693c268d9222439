#include "node/report_publisher.h"

#include <algorithm>
#include <new>
#include <utility>

#include "atbus/clock.hpp"

namespace atbus::detail {
namespace {

constexpr std::chrono::nanoseconds shortest_interval = std::chrono::milliseconds{250};
constexpr std::chrono::nanoseconds idle_interval = std::chrono::seconds{5};
// A report takes at most one in so many parts of the node's time.
constexpr int share_of_time = 1000;

}  // namespace

report_publisher::report_publisher(const std::string& directory, node_core& of)
    : interval_(shortest_interval) {
  of.report(report_);
  auto made = report_file::make(directory, report_);
  if (!made) {
    of.events().log("this node makes no reports (node_options::report_directory): " +
                    std::string{made.error().text()});
    return;
  }
  file_ = std::move(*made);
  progress_ = of.progress();
  written_at_ = of.clock().now();
  look_at_ = written_at_ + interval_;
}

void report_publisher::look(node_core& of) {
  const std::chrono::nanoseconds at = of.polled_at();
  look_at_ = at + interval_;
  const std::uint64_t progress = of.progress();
  if (progress == progress_ && at - written_at_ < idle_interval)
    return;
  const std::chrono::nanoseconds begun = now();
  try {
    of.report(report_);
    (void)file_->write(report_);
  } catch (const std::bad_alloc&) {  // the one before stays
  }
  progress_ = progress;
  written_at_ = at;
  // It may have been interrupted: what is always so long gets there in a few steps.
  interval_ = std::clamp((now() - begun) * share_of_time, shortest_interval, 2 * interval_);
  look_at_ = at + interval_;
}

std::chrono::nanoseconds report_publisher::longest_sleep(const node_core& of) const noexcept {
  if (file_ == nullptr)
    return std::chrono::nanoseconds{-1};
  // Not before it is looked again: until then a poll writes nothing.
  const std::chrono::nanoseconds due =
      of.progress() != progress_ ? look_at_ : std::max(look_at_, written_at_ + idle_interval);
  return std::max(due - of.clock().now(), std::chrono::nanoseconds{0});
}

}  // namespace atbus::detail
