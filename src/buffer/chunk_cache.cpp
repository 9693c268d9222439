#include "atbus/buffer/chunk_cache.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace atbus {

chunk_cache::chunk_cache(options chosen) noexcept : options_{chosen} {
  options_.chunk_bytes = std::max<std::size_t>(options_.chunk_bytes, 256);
}

void* chunk_cache::take() noexcept {
  if (!idle_)
    return std::malloc(options_.chunk_bytes);
  // The one given back last: its lines are the likeliest to be in the cache.
  idle_chunk* const chunk = idle_;
  idle_ = chunk->next;
  idle_bytes_ -= options_.chunk_bytes;
  return chunk;
}

void chunk_cache::give(void* chunk) noexcept {
  if (idle_bytes_ + options_.chunk_bytes > options_.idle_bytes) {
    std::free(chunk);
    return;
  }
  idle_ = ::new (chunk) idle_chunk{idle_};
  idle_bytes_ += options_.chunk_bytes;
}

void chunk_cache::trim() noexcept {
  while (idle_) {
    idle_chunk* const chunk = idle_;
    idle_ = chunk->next;
    std::free(chunk);
  }
  idle_bytes_ = 0;
}

}  // namespace atbus
