// The kinds of send queue that the typed tests run over, and what the tests do with them.
#pragma once

#include "atbus/detail/block_ring.hpp"
#include "atbus/detail/malloc_queue.hpp"
#include "test.h"

namespace atbus::test {

// Each kind makes a queue with that byte limit, a multiple of 128.
struct ring_kind {
  static std::unique_ptr<send_queue> make(std::size_t byte_limit) {
    return std::make_unique<block_ring>(
        block_ring::options{.blocks = byte_limit / 128, .block_size = 128});
  }
};

struct malloc_kind {
  static std::unique_ptr<send_queue> make(std::size_t byte_limit) {
    return std::make_unique<malloc_queue>(malloc_queue::options{.byte_limit = byte_limit});
  }
};

// So small that nearly every message meets the end of a chunk.
struct small_chunks_kind {
  static std::unique_ptr<send_queue> make(std::size_t byte_limit) {
    return std::make_unique<malloc_queue>(
        malloc_queue::options{.byte_limit = byte_limit, .chunks = {.chunk_bytes = 256}});
  }
};

struct shared_cache_kind {
  static std::unique_ptr<send_queue> make(std::size_t byte_limit) {
    static chunk_cache cache{{.chunk_bytes = 1024, .idle_bytes = 4096}};
    return std::make_unique<malloc_queue>(byte_limit, cache);
  }
};

using queue_kinds = ::testing::Types<ring_kind, malloc_kind, small_chunks_kind, shared_cache_kind>;

// `length` bytes that continue a counted sequence, so that a lost or doubled byte shows.
inline std::vector<std::byte> numbered_bytes(std::size_t length, std::uint64_t first) {
  std::vector<std::byte> bytes(length);
  for (std::size_t i = 0; i < length; ++i) {
    bytes[i] = static_cast<std::byte>((first + i) * 31 >> 3);
  }
  return bytes;
}

inline std::vector<std::byte> joined(std::span<const bytes_view> runs) {
  std::vector<std::byte> all;
  for (const bytes_view run : runs) {
    all.insert(all.end(), run.begin(), run.end());
  }
  return all;
}

// Everything not written, through a gather list that is long enough for any test here.
inline std::vector<std::byte> unwritten_bytes(const send_queue& queue) {
  std::vector<bytes_view> runs(4096);
  return joined(std::span(runs).first(queue.gather(runs)));
}

inline std::vector<std::byte> unreleased_bytes(const send_queue& queue) {
  std::vector<bytes_view> runs(4096);
  return joined(std::span(runs).first(queue.gather_unreleased(runs)));
}

}  // namespace atbus::test
