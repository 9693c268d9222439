// The part of the accesses that one client makes, and the counts of what came of them.
#pragma once

#include <optional>

#include "atbus/bench/cache/cache_cases.h"
#include "atbus/bench/cache/cache_tally.h"
#include "atbus/bench/worker.h"

namespace atbus::bench {

class cache_load {
 public:
  explicit cache_load(worker& self) noexcept
      : self_{self},
        work_{self.work().cache},
        tally_{cache_tally_of_client(self.block(), self.index())},
        cases_{work_},
        next_{self.index() - 1} {}

  [[nodiscard]] const cache_workload& work() const noexcept { return work_; }
  [[nodiscard]] const cache_cases& cases() const noexcept { return cases_; }

  // The next access of this client; clients take turns. None: that was the last, or the run ends.
  [[nodiscard]] std::optional<cache_case> next() noexcept {
    if (next_ >= work_.gets || self_.stopped()) {
      return std::nullopt;
    }
    const cache_case found = cases_.at(next_);
    next_ += self_.work().senders;
    return found;
  }

  void hit(const cache_case& of, const void* value, std::size_t length) noexcept {
    count_get(of);
    if (!cases_.is_value(of.number, value, length)) {
      ++tally_.corrupt;
      return;
    }
    ++tally_.hits;
    tally_.hot_hits += of.is_hot ? 1 : 0;
    tally_.value_bytes += length;
  }
  void miss(const cache_case& of) noexcept { count_get(of); }
  void stored(const cache_case& of) noexcept {
    ++tally_.sets;
    tally_.value_bytes += cases_.value_bytes(of.number);
  }
  void refused() noexcept { ++tally_.sets_refused; }
  void failed() noexcept { ++tally_.failed; }

  // Call it once nothing is in flight, or what is will never be answered.
  void end(bool nothing_in_flight) noexcept {
    tally_.end_ns = now_ns();
    tally_.is_complete = nothing_in_flight && next_ >= work_.gets;
  }
  [[nodiscard]] worker_figures figures() const noexcept {
    return {.messages = tally_.gets,
            .bytes = tally_.value_bytes,
            .corrupt = tally_.corrupt,
            .end_ns = tally_.end_ns};
  }

 private:
  void count_get(const cache_case& of) noexcept {
    ++tally_.gets;
    tally_.hot_gets += of.is_hot ? 1 : 0;
  }

  worker& self_;
  const cache_workload& work_;
  cache_client_tally& tally_;
  cache_cases cases_;
  std::uint64_t next_;
};

}  // namespace atbus::bench
