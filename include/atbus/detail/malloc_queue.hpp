// The send queue that grows by malloc up to a byte limit and gives its memory back.
//
// Bytes lie in chunks of one size (64 KiB unless told otherwise); a message longer than a chunk
// gets a chunk of its own size. A drained queue holds no chunk: the last one goes to a chunk_cache, which
// belongs to the queue or is shared by many. The cache bounds idle memory, and steady traffic needs no
// malloc.
//
// Memory: a new chunk is made only when a message does not fit into the last one. So two neighbouring chunks
// together hold more bytes than one chunk has room for. Claims that commit much less than they claimed could
// break that; for these, would_block enforces memory_limit().
//
// Guarantees, errors and threads: see send_queue.
#pragma once

#include <cstddef>
#include <span>

#include "atbus/detail/chunk_cache.hpp"
#include "atbus/detail/send_queue.hpp"

namespace atbus {

class ATBUS_API malloc_queue final : public send_queue {
 public:
  struct options {
    std::size_t byte_limit = std::size_t{4} << 20;  // hard limit of size()
    // Options of the queue's own cache; ignored with a shared cache.
    chunk_cache::options chunks{.idle_bytes = 64 * 1024};
  };

  // Allocates nothing.
  explicit malloc_queue(options chosen) noexcept;
  malloc_queue() noexcept : malloc_queue(options{}) {}
  // Takes chunks from `shared`, which must outlive the queue and belong to the same thread.
  malloc_queue(std::size_t byte_limit, chunk_cache& shared) noexcept;
  ~malloc_queue() override;

  void mark_written(std::size_t bytes) noexcept override;
  void release(std::size_t bytes) noexcept override;
  void rewind() noexcept override;

  // Bytes of all chunks that hold bytes or a claim. The cache counts idle chunks.
  [[nodiscard]] std::size_t memory() const noexcept override { return memory_; }

  // memory() never exceeds this: twice the byte limit and four chunks.
  [[nodiscard]] std::size_t memory_limit() const noexcept;

  // The cache in use. Call its trim() when a connection has been idle for long.
  [[nodiscard]] chunk_cache& cache() noexcept { return *cache_; }

 private:
  struct chunk;
  // A position in the queue: `at` lies between the chunk's first byte and its end.
  struct place_in {
    chunk* in = nullptr;
    std::byte* at = nullptr;
  };

  status claim_elsewhere(std::size_t bytes, mutable_bytes& place) noexcept override;
  void claim_abandoned() noexcept override;
  std::size_t runs_from(std::uint64_t position, std::span<bytes_view> runs,
                        std::size_t bytes_max) const noexcept override;
  [[nodiscard]] std::size_t chunk_bytes_for(std::size_t bytes) const noexcept;
  bool append_chunk(std::size_t bytes) noexcept;
  void drop_chunk(chunk* dropped) noexcept;
  void become_empty() noexcept;
  [[nodiscard]] std::byte* end_of(const chunk* which) const noexcept;

  chunk_cache own_cache_;
  chunk_cache* cache_;
  std::size_t memory_ = 0;
  place_in head_;          // the oldest byte not released
  place_in written_to_;    // the first byte not written
  chunk* tail_ = nullptr;  // holds the cursor
  // Set while the tail is newer than the head and still empty.
  chunk* before_tail_ = nullptr;
};

}  // namespace atbus
