// The memory that a run's parent and workers share: orders one way, results the other.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string_view>

#include "atbus/bench/histogram.h"
#include "atbus/bench/workload.h"

namespace atbus::bench {

inline constexpr std::size_t line_bytes = 128;  // two cache lines: neighbours are fetched in pairs

enum class worker_state : std::uint32_t { starting, listening, ready, finished, failed };

// What a worker found out. Written before the state becomes `finished`.
struct worker_figures {
  std::uint64_t messages = 0;  // sent, received, or round trips
  std::uint64_t bytes = 0;
  std::uint64_t lost = 0;
  std::uint64_t corrupt = 0;
  std::uint64_t reordered = 0;
  std::int64_t end_ns = 0;  // when it was done
  double cpu_percent = 0;
  std::uint64_t max_rss_kib = 0;
  std::uint64_t minor_faults = 0;
  std::uint64_t major_faults = 0;
  std::uint64_t socket_buffer = 0;  // of a stream: what the kernel granted
};

struct worker_slot {
  // Written by the parent before the worker starts.
  alignas(line_bytes) task work = task::none;
  std::int32_t cpu = -1;     // where to run; -1: anywhere
  bool shares_core = false;  // with another worker

  // Written by the worker; the parent writes `failed` for one that died. Release stores pair with
  // acquire loads: what the worker wrote before is visible to whoever sees the state.
  alignas(line_bytes) std::atomic<worker_state> state = worker_state::starting;
  worker_figures figures;
  std::array<char, 256> problem{};  // why it failed, NUL-terminated
  // Where it listens, NUL-terminated; written before the state becomes `listening`.
  std::array<char, workload::most_address_bytes> address{};

  // Of nodes that send to each other: this one sends no more. Release, as the state.
  alignas(line_bytes) std::atomic<bool> sent_all = false;

  // Messages so far, for the progress line. Relaxed: a figure for people.
  alignas(line_bytes) std::atomic<std::uint64_t> progress = 0;
};

struct control_block {
  static constexpr std::size_t most_workers = 1025;

  workload work;
  std::uint32_t workers = 0;
  std::uint64_t arena_bytes = 0;  // zeroed memory behind this block, for rings and counts

  // Written once by the parent, together. `go` is stored with release after `start_ns`.
  alignas(line_bytes) std::int64_t start_ns = 0;
  std::atomic<std::uint32_t> go = 0;
  // Relaxed: "stop soon".
  alignas(line_bytes) std::atomic<std::uint32_t> stop = 0;

  alignas(line_bytes) histogram latency;  // written by the one worker that measures it
  std::array<worker_slot, most_workers> slots;

  std::byte* arena() noexcept {
    return reinterpret_cast<std::byte*>(this) + (sizeof(control_block) + 4095) / 4096 * 4096;
  }
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// How many messages each connection of a channel has sent, in the arena. Written by its sender
// before that is over.
constexpr std::uint64_t sent_counts_bytes(const workload& work) noexcept {
  return work.connections * sizeof(std::uint64_t);
}
inline std::span<std::uint64_t> sent_counts(control_block& block) noexcept {
  return {reinterpret_cast<std::uint64_t*>(block.arena()), block.work.connections};
}

}  // namespace atbus::bench
