// What the workers of a cache benchmark count, in the arena of their run: the server's tally first,
// then one for each client. Zeroed memory is an empty tally.
#pragma once

#include <cstdint>

#include "atbus/bench/control_block.h"

namespace atbus::bench {

struct cache_server_tally {
  std::uint64_t peak_kib;  // VmHWM of the server's process
  std::int64_t cpu_ns;     // what it used during the run
};

struct cache_client_tally {
  std::uint64_t gets;
  std::uint64_t hits;
  std::uint64_t hot_gets;
  std::uint64_t hot_hits;
  std::uint64_t sets;
  std::uint64_t sets_refused;  // the server answered, and did not store the value
  std::uint64_t failed;        // requests without an answer
  std::uint64_t corrupt;       // values of another case, or damaged
  std::uint64_t value_bytes;   // both ways
  std::int64_t end_ns;         // when the last answer came
  bool is_complete;            // all gets of this client have an outcome

  void add(const cache_client_tally& other) noexcept {
    gets += other.gets;
    hits += other.hits;
    hot_gets += other.hot_gets;
    hot_hits += other.hot_hits;
    sets += other.sets;
    sets_refused += other.sets_refused;
    failed += other.failed;
    corrupt += other.corrupt;
    value_bytes += other.value_bytes;
    end_ns = end_ns > other.end_ns ? end_ns : other.end_ns;
    is_complete = is_complete && other.is_complete;
  }
};

constexpr std::uint64_t cache_tally_bytes(std::uint32_t clients) noexcept {
  return line_bytes + clients * 2 * line_bytes;
}
static_assert(sizeof(cache_server_tally) <= line_bytes);
static_assert(sizeof(cache_client_tally) <= 2 * line_bytes);

inline cache_server_tally& cache_tally_of_server(control_block& block) noexcept {
  return *reinterpret_cast<cache_server_tally*>(block.arena());
}

// Of the worker with that index, from 1.
inline cache_client_tally& cache_tally_of_client(control_block& block,
                                                 std::size_t worker) noexcept {
  return *reinterpret_cast<cache_client_tally*>(block.arena() + line_bytes +
                                                (worker - 1) * 2 * line_bytes);
}

}  // namespace atbus::bench
