// What this machine allows, measured by code that shares nothing with the channels. Each function
// makes one run; repeat and alternate as you like.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "atbus/bench/figures.h"
#include "atbus/bench/workload.h"

namespace atbus::bench {

// The bare ring doing the work's lengths, check and api, one sender.
run_outcome run_bare_ring(const workload& work, bool hang_back, const std::vector<int>& cpus);

// One message of the work's (longest) length there and back over two bare rings.
run_outcome run_ring_round_trip(const workload& work, const std::vector<int>& cpus);

// A sleeping reader woken through an eventfd, there and back.
run_outcome run_event_round_trip(const workload& work, const std::vector<int>& cpus);

// A cache line there and back between two cores; the first worker's messages are round trips.
run_outcome run_cache_line_round_trip(const workload& work, const std::vector<int>& cpus);

// 16 KiB blocks copied one after the other into an area of that many bytes.
run_outcome run_copy(const workload& work, std::uint64_t area_bytes, const std::vector<int>& cpus);

// What a throughput benchmark is compared with.
class yardstick {
 public:
  yardstick() = default;
  virtual ~yardstick() = default;
  yardstick(const yardstick&) = default;
  yardstick& operator=(const yardstick&) = default;

  virtual void measure(const workload& work, const std::vector<int>& cpus) = 0;
  // The same of these rounds alone.
  virtual std::unique_ptr<yardstick> of_rounds(const std::vector<std::size_t>& rounds) const = 0;
  // The better series; meaningful after the first measure().
  virtual const run_series& best() const = 0;
  // What it is, for people.
  virtual std::string name() const = 0;
};

// The bare ring as the yardstick of lanes: which receiver is faster, the one that
// hangs back or the one that does not, depends on machine and workload; both run and the better one
// counts.
class ring_limit final : public yardstick {
 public:
  void measure(const workload& work, const std::vector<int>& cpus) override;
  std::unique_ptr<yardstick> of_rounds(const std::vector<std::size_t>& rounds) const override;
  const run_series& best() const override;
  std::string name() const override;
  bool best_hangs_back() const { return &best() == &hanging_back_; }

 private:
  run_series hanging_back_;
  run_series eager_;
};

}  // namespace atbus::bench
