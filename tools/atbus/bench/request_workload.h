// What a request benchmark does besides what every run has. Plain data, part of workload.
#pragma once

#include <cstdint>
#include <limits>

namespace atbus::bench {

struct request_workload {
  static constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

  std::uint32_t in_flight =
      0;  // requests of each client without an outcome; 0: no request benchmark
  std::uint64_t reply_size = 0;
  std::uint32_t fan_out = 0;  // tasks that a request starts; 0: the reply is written at once
  std::int64_t delay_min_ns = 0;
  std::int64_t delay_max_ns = 0;
  std::int64_t timeout_ns = 0;
  std::uint64_t memory_bytes = no_limit;  // RLIMIT_DATA of the service
};

}  // namespace atbus::bench
