// What a cache benchmark does besides what every run has. Plain data, part of workload.
#pragma once

#include <cstdint>

namespace atbus::bench {

enum class cache_system : std::uint8_t { atbus, memcached, redis };

struct cache_workload {
  cache_system system = cache_system::atbus;
  std::uint64_t memory_bytes = 0;  // of the server's cache
  std::uint64_t value_bytes = 0;   // 0: mixed sizes
  std::uint64_t cases = 0;         // keys that are asked for
  std::uint64_t hot_cases = 0;     // the first of them are hot,
  double hot_access = 0;           // and get this part of the gets
  std::uint64_t gets = 0;          // of all clients together
  std::uint64_t seed = 0;
  std::uint32_t in_flight = 0;  // of each client
  bool over_tcp = false;        // else a Unix socket or shared memory
  bool huge_pages = true;       // of atbus: memcached has half as many hits with its option -L
};

}  // namespace atbus::bench
