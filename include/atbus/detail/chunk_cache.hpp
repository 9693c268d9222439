// A cache of equally large chunks for malloc_queues. With it, steady traffic needs no malloc and a drained
// queue holds no memory. Many queues of one loop share a cache, which bounds idle memory per loop instead
// of per queue. After every 64 returned chunks, the cache frees half of the chunks that stayed unused.
//
// A cache belongs to one thread, and outlives the queues that use it.
#pragma once

#include <cstddef>

#include "atbus/detail/export.hpp"

namespace atbus {

class ATBUS_API chunk_cache {
 public:
  struct options {
    std::size_t chunk_bytes = 64 * 1024;  // each chunk, its bookkeeping included; at least 256
    std::size_t idle_bytes = 256 * 1024;  // kept unused at most; the rest goes back to malloc
  };

  explicit chunk_cache(options chosen) noexcept;
  chunk_cache() noexcept : chunk_cache(options{}) {}
  ~chunk_cache() { trim(); }
  chunk_cache(const chunk_cache&) = delete;
  chunk_cache& operator=(const chunk_cache&) = delete;

  // chunk_bytes() of memory aligned to 16, not initialized; nullptr if malloc has none.
  [[nodiscard]] void* take() noexcept;
  // A chunk that take() returned.
  void give(void* chunk) noexcept;
  // Gives all that is idle back to malloc.
  void trim() noexcept;

  [[nodiscard]] std::size_t chunk_bytes() const noexcept { return options_.chunk_bytes; }
  [[nodiscard]] std::size_t idle_bytes() const noexcept { return idle_bytes_; }

 private:
  void drop_one() noexcept;

  struct idle_chunk {
    idle_chunk* next;
  };

  options options_;
  idle_chunk* idle_ = nullptr;
  std::size_t idle_bytes_ = 0;
  std::size_t unused_bytes_ = 0;  // the fewest that were idle since the last review
  unsigned given_ = 0;            // since then
};

}  // namespace atbus
