// What the workers of a request benchmark count, in the arena of their run: the service's tally first,
// then one for each client. Zeroed memory is an empty tally.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "atbus/bench/control_block.h"

namespace atbus::bench {

struct service_tally {
  std::int64_t cpu_ns;      // used until the run was over, by then
  std::int64_t elapsed_ns;  // since its start
  std::uint64_t in_hand_max;
  std::uint64_t in_hand_limit;  // at the end; 0: memory set none
  std::uint64_t data_bytes_max;
  std::uint64_t refused;
  std::uint64_t out_of_memory;  // requests that failed because an allocation did
};

struct client_tally {
  static constexpr std::size_t parts = 10;  // of a run, to find its peak

  histogram latency;  // of requests that were answered
  std::array<std::uint64_t, parts> answered_in_part;
  std::uint64_t answered;  // before the run was over
  std::uint64_t answered_late;
  std::uint64_t refused;  // by the service, with a text
  std::uint64_t timed_out;
  std::uint64_t failed;      // any other outcome
  std::uint64_t unanswered;  // no outcome when the client gave up waiting for the last ones
  std::uint64_t unsent;      // of a paced run: due before its end, and never sent
  std::uint64_t blocked;     // would_block
  std::uint64_t corrupt;
  std::int64_t cpu_ns;
  std::int64_t elapsed_ns;
};

constexpr std::uint64_t request_tally_bytes(std::uint32_t clients) noexcept {
  return sizeof(service_tally) + line_bytes + clients * (sizeof(client_tally) + line_bytes);
}

inline service_tally& tally_of_service(control_block& block) noexcept {
  return *reinterpret_cast<service_tally*>(block.arena());
}

// Of the worker with that index, from 1.
inline client_tally& tally_of_client(control_block& block, std::size_t worker) noexcept {
  constexpr std::size_t first = (sizeof(service_tally) + line_bytes - 1) / line_bytes * line_bytes;
  constexpr std::size_t each = (sizeof(client_tally) + line_bytes - 1) / line_bytes * line_bytes;
  return *reinterpret_cast<client_tally*>(block.arena() + first + (worker - 1) * each);
}

}  // namespace atbus::bench
