// What differs in a receiver that is one of several shards. Off the per-message path.
#include <cstdint>

#include "channel/shm/receiver_state.h"

namespace atbus::detail {

bool receiver_state::own_lane_ready() const noexcept {
  if (shards_ == nullptr)
    return some_lane_ready();
  for (std::size_t i = 0; i < ready_words_; ++i) {
    // Relaxed: a hint, as in some_lane_ready.
    if ((ready_[i].load(std::memory_order_relaxed) & own_ready_[i]) != 0)
      return true;
  }
  return false;
}

std::uint64_t receiver_state::take_ready(std::size_t word) noexcept {
  // Acquire: pairs with the sender's fetch_or; its record was published before the bit.
  if (shards_ == nullptr)
    return ready_[word].exchange(0, std::memory_order_acq_rel);
  const std::uint64_t own = own_ready_[word];
  // Another shard's bits may stay for as long as its handler runs.
  if ((ready_[word].load(std::memory_order_relaxed) & own) == 0)
    return 0;
  return ready_[word].fetch_and(~own, std::memory_order_acq_rel) & own;
}

void receiver_state::count_once(shared_word& counter) const noexcept {
  if (shards_ == nullptr)
    lane_writer::count(counter, 1);
  else
    counter.fetch_add(1, std::memory_order_relaxed);
}

void receiver_state::tell_refused() noexcept {
  shared_word& told = segment_.header().connections_refused;
  if (shards_ == nullptr)
    return told.store(bell_.refused(), std::memory_order_relaxed);
  const std::uint64_t own = bell_.refused() - refused_told_;
  refused_told_ = bell_.refused();
  told.fetch_add(own + shards_->take_refused(), std::memory_order_relaxed);
}

}  // namespace atbus::detail
