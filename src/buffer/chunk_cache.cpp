#include "atbus/detail/chunk_cache.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace atbus {
namespace {

constexpr unsigned gives_per_review = 64;

}  // namespace

chunk_cache::chunk_cache(options chosen) noexcept : options_{chosen} {
  options_.chunk_bytes = std::max<std::size_t>(options_.chunk_bytes, 256);
}

void* chunk_cache::take() noexcept {
  if (!idle_)
    return std::malloc(options_.chunk_bytes);
  // Take the chunk given back last: its lines are the most likely to be in the cache.
  idle_chunk* const chunk = idle_;
  idle_ = chunk->next;
  idle_bytes_ -= options_.chunk_bytes;
  unused_bytes_ = std::min(unused_bytes_, idle_bytes_);
  return chunk;
}

void chunk_cache::give(void* chunk) noexcept {
  if (idle_bytes_ + options_.chunk_bytes > options_.idle_bytes) {
    std::free(chunk);
    return;
  }
  idle_ = ::new (chunk) idle_chunk{idle_};
  idle_bytes_ += options_.chunk_bytes;
  if (++given_ < gives_per_review)
    return;
  for (const std::size_t kept = idle_bytes_ - unused_bytes_ / 2; idle_bytes_ > kept;)
    drop_one();
  unused_bytes_ = idle_bytes_;
  given_ = 0;
}

void chunk_cache::drop_one() noexcept {
  idle_chunk* const chunk = idle_;
  idle_ = chunk->next;
  idle_bytes_ -= options_.chunk_bytes;
  std::free(chunk);
}

void chunk_cache::trim() noexcept {
  while (idle_)
    drop_one();
  unused_bytes_ = 0;
}

}  // namespace atbus
