// The static send queue: a ring of node-sized blocks, allocated once, at the first message; no
// allocation after that.
//
//   base            cursor      head                    wrapped_at      end
//   |  newer bytes  |   free    |  older bytes           |  not used    |
//
// Messages are packed byte by byte; blocks are the unit in which the ring is sized (blocks x block
// size is the hard limit), not a unit that messages are rounded to: doc/design/buffers.md gives the
// figures for both. A message never wraps: one that does not fit before the end starts at the base,
// if there is room before the head, and the bytes before the end stay unused until the head has passed
// them. So there are never more than two runs. Every operation is O(1).
//
// A drained ring starts again at its base. So a ring that is drained often uses only a few cache lines,
// however large its limit is.
//
// Guarantees, errors and threads: see send_queue. The ring keeps its memory until its end.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "atbus/build_settings.hpp"
#include "atbus/detail/send_queue.hpp"

namespace atbus {

class ATBUS_API block_ring final : public send_queue {
 public:
  struct options {
    std::size_t blocks = 8096;  // as in the ancestor's benchmark: 1 MiB
    std::size_t block_size = build_settings::data_node_size;  // bytes
  };

  // Allocates nothing. blocks x block_size that no size_t can hold makes a ring of limit 0, which
  // refuses every claim.
  explicit block_ring(options chosen) noexcept;
  block_ring() noexcept : block_ring(options{}) {}

  void release(std::size_t bytes) noexcept override;

  // 0 before the first claim, then byte_limit().
  [[nodiscard]] std::size_t memory() const noexcept override { return base_ ? byte_limit() : 0; }

 private:
  status claim_elsewhere(std::size_t bytes, mutable_bytes& place) noexcept override;
  void claim_abandoned() noexcept override;
  std::size_t runs_from(std::uint64_t position, std::span<bytes_view> runs,
                        std::size_t bytes_max) const noexcept override;
  void restart() noexcept;

  struct deleter {
    void operator()(std::byte* memory) const noexcept;
  };
  std::unique_ptr<std::byte, deleter> base_;
  std::byte* head_ = nullptr;        // the oldest byte not released
  std::byte* wrapped_at_ = nullptr;  // end of the older run, if the newer one starts at the base
};

}  // namespace atbus
