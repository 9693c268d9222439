// When each message of a paced run is meant to be sent. Both sides know it, so latency is counted
// from the intention: a sender that falls behind does not hide its delay (coordinated omission).
#pragma once

#include <cstdint>

#include "atbus/bench/clock.h"
#include "atbus/bench/workload.h"

namespace atbus::bench {

class pace {
 public:
  pace(const workload& work, std::int64_t start_ns) noexcept
      : start_ns_{start_ns},
        senders_{work.connections},
        interval_ns_{work.rate == 0 ? 0 : 1e9 / static_cast<double>(work.rate)} {}

  bool limited() const noexcept { return interval_ns_ > 0; }

  // Senders, or the connections of all of them, take turns.
  std::int64_t intended_ns(std::uint64_t sender, std::uint64_t number) const noexcept {
    return start_ns_ + static_cast<std::int64_t>(static_cast<double>(number * senders_ + sender) *
                                                 interval_ns_);
  }

 private:
  std::int64_t start_ns_;
  std::uint64_t senders_;
  double interval_ns_;
};

}  // namespace atbus::bench
