// The bare channels as what nodes are compared with.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "atbus/bench/limit.h"
#include "atbus/bench/workload.h"

namespace atbus::bench {

// One receiver and the work's senders, all of them channels or all of them nodes.
run_outcome run_throughput(const workload& work, task receiver, task sender,
                           const std::vector<int>& cpus);

class channel_limit final : public yardstick {
 public:
  void measure(const workload& work, const std::vector<int>& cpus) override;
  std::unique_ptr<yardstick> of_rounds(const std::vector<std::size_t>& rounds) const override;
  const run_series& best() const override { return series_; }
  std::string name() const override { return "bare channel"; }

 private:
  run_series series_;
};

}  // namespace atbus::bench
