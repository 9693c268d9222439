#include "channel/shm/lane_shards.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <utility>

namespace atbus::detail {

lane_shards::lane_shards(std::uint32_t count, std::uint32_t lane_count) : boxes_(count) {
  // As many as a bell keeps. Passing on and ending need no memory.
  for (box& each : boxes_)
    each.connections.reserve(bell_server::connections_max(lane_count));
  ended_.reserve(count);
}

error lane_shards::open(const segment& s) {
  for (box& each : boxes_) {
    each.event = file{kernel().eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (!each.event)
      return {errc::system_error, s.name.text() + ": can't make what wakes its shards", errno};
  }
  front_.pass_on_to(*this);
  return {};
}

void lane_shards::call(const box& whom) const noexcept {
  const std::uint64_t one = 1;
  (void)kernel().write(whom.event.get(), &one, sizeof one);
}

// Called by the front, with the lock held.
void lane_shards::pass_on(file peer, std::uint32_t lane) noexcept {
  box& of = boxes_[lane % count()];
  if (of.connections.size() != of.connections.capacity())
    of.connections.push_back({std::move(peer), lane});
  call(of);
}

void lane_shards::take(std::uint32_t shard, std::vector<passed_bell>& into) noexcept {
  std::uint64_t calls = 0;
  const std::lock_guard lock{mutex_};
  (void)kernel().read(boxes_[shard].event.get(), &calls, sizeof calls);
  boxes_[shard].connections.swap(into);
}

void lane_shards::look_at_front() noexcept {
  const fork_pause no_fork;
  const std::lock_guard lock{mutex_};
  const auto seen = front_.take_events(0);
  if (!seen.look_everywhere)
    return;
  // A sender that the front could not take may be one of any shard.
  for (const box& each : boxes_)
    call(each);
}

bool lane_shards::front_is_due() noexcept {
  const fork_pause no_fork;
  const std::lock_guard lock{mutex_};
  return front_.is_due();
}

std::chrono::nanoseconds lane_shards::longest_sleep() noexcept {
  const fork_pause no_fork;
  const std::lock_guard lock{mutex_};
  return front_.longest_sleep();
}

std::uint64_t lane_shards::take_refused() noexcept {
  const fork_pause no_fork;
  const std::lock_guard lock{mutex_};
  return front_.refused() - std::exchange(refused_told_, front_.refused());
}

void lane_shards::fall_asleep(shared_word& sleeping) noexcept {
  const fork_pause no_fork;
  const std::lock_guard lock{mutex_};
  ++asleep_;
  if (++sleep_count_ == 0)
    sleep_count_ = 1;
  // Seq_cst: as in receiver_state::prepare_sleep.
  sleeping.store(generation_ << 32 | sleep_count_, std::memory_order_seq_cst);
}

void lane_shards::wake(shared_word& sleeping) noexcept {
  const fork_pause no_fork;
  const std::lock_guard lock{mutex_};
  // Relaxed: as in receiver_state::finish_sleep.
  if (--asleep_ == 0)
    sleeping.store(generation_ << 32, std::memory_order_relaxed);
}

bool lane_shards::leave(std::uint32_t shard) noexcept {
  const fork_pause no_fork;
  const std::lock_guard lock{mutex_};
  if (std::exchange(boxes_[shard].left, true))
    return false;
  return ++left_ == members_;
}

std::vector<receiver_state*> lane_shards::end(receiver_state& shard) noexcept {
  const std::lock_guard lock{mutex_};
  ended_.push_back(&shard);
  return ended_.size() == members_ ? std::exchange(ended_, {}) : std::vector<receiver_state*>{};
}

void lane_shards::abandon_in_child() noexcept {
  front_.abandon();
  for (box& each : boxes_) {
    each.event.reset();
    for (passed_bell& one : each.connections)
      one.peer.reset();
  }
}

}  // namespace atbus::detail
