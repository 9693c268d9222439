// How a sender answers its lane's alerts and wakes the receiver.
#include <algorithm>
#include <cerrno>

#include "channel/shm/sender_state.h"
#include "system/fork_guard.h"

namespace atbus::detail {
namespace {

// A sender that fences ends that after so many publishes in a row without a ring. If it has rung little meanwhile, it
// begins again only after twice as many rings as before.
constexpr std::uint32_t most_quiet_publishes = 8;
constexpr std::uint32_t most_rings_before_fences = 4096;

}  // namespace

void sender_state::answer_alert() noexcept {
  // A sender that can't rely on the receiver's barrier needs a full fence between `tail` and the alert.
  if (fences())
    std::atomic_thread_fence(std::memory_order_seq_cst);
  // Acquire: pairs with receiver_state::set_alert; `sleeping` and `retired` are at least as new as the
  // alert.
  std::uint64_t alert = out_.slot()->alert.load(std::memory_order_acquire);
  if ((alert & alert_fence) != 0 && !always_fence_) {
    always_fence_ = true;
    // Release: a receiver that sees the echo knows that all later publishes of this sender fence.
    out_.slot()->fence_echo.store(1, std::memory_order_release);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    alert = out_.slot()->alert.load(std::memory_order_acquire);
  }
  // A fencing sender remembers no alert, so that each publish calls this function.
  out_.alert_seen(fences() ? no_alert : alert);
  if (alert == alert_handled_) {
    count_quiet_publish();
    return;
  }
  alert_handled_ = alert;
  owe_ring(false);
  heed(alert);
  if (usable() && (alert & alert_parked) != 0)
    rouse_receiver();
}

void sender_state::rouse_receiver() noexcept {
  segment_header& header = segment_.header();
  // Seq_cst: pairs with receiver_state::prepare_sleep. Either the receiver finds the bit after its fence,
  // or this sender finds it asleep.
  header.ready[lane_ / 64].fetch_or(std::uint64_t{1} << (lane_ % 64), std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  test_hook(step::ready_bit_set);
  const std::uint64_t sleeping = header.sleeping.load(std::memory_order_seq_cst);
  const bool asleep = (sleeping & 0xffffffff) != 0;
  const bool known = bell_.connected() && bell_generation_ == sleeping >> 32;
  // Connect to a new receiver even if it is awake: until then it watches the file for this sender's death.
  if (known && (!asleep || sleeping == last_rung_))
    return;
  last_rung_ = sleeping;
  count_ring();
  test_hook(step::before_ring);
  lane_writer::count(out_.slot()->rings, 1);
  if (known && bell_.ring()) {
    test_hook(step::after_ring);
    if (!requesting_)  // else a ring of the receiver's may be the one that tells of room
      bell_.look_for_event();
    return;
  }
  // A handed segment has no other bell: ring again when the kernel has memory.
  owe_ring(known && bell_.connected() && segment_.name.handed);
  if (!ring_owed_)
    connect_bell();  // a new connection rings by itself
  if (ring_owed_ || (bell_busy_ && errno != EAGAIN)) {
    // No descriptors or no memory: nothing rang, and each further publish tries again. (A full backlog does
    // wake the receiver.)
    if (!ring_owed_)
      bell_client::ring_by_file(segment_);
    last_rung_ = 0;
    alert_handled_ = no_alert;
    out_.alert_seen(no_alert);
  }
  test_hook(step::after_ring);
}

void sender_state::count_ring() noexcept {
  quiet_publishes_ = 0;
  if (++rings_ >= rings_before_fences_ && !fences())
    fence_while_sparse(true);
}

void sender_state::count_quiet_publish() noexcept {
  if (!sparse_ || ++quiet_publishes_ != most_quiet_publishes)
    return;
  const bool paid = rings_ >= fewest_rings_before_fences;
  rings_before_fences_ = paid ? fewest_rings_before_fences
                              : std::min(2 * rings_before_fences_, most_rings_before_fences);
  fence_while_sparse(false);
}

// If the receiver goes to sleep before nearly each message, a fence for each of them costs less than its barrier for
// each sleep.
void sender_state::fence_while_sparse(bool on) noexcept {
  if (always_fence_)
    return;
  sparse_ = on;
  rings_ = quiet_publishes_ = 0;
  // Release: as in answer_alert. The fence pairs with that of receiver_state::prepare_sleep: the receiver finds 0 and
  // executes a barrier, or each later look at the alert finds the lane parked.
  out_.slot()->fence_echo.store(on ? 1 : 0, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  test_hook(step::fence_echo_stored);
  out_.alert_seen(no_alert);
}

void sender_state::owe_ring(bool owed) noexcept {
  if (owing_ != nullptr && owed && !ring_owed_)
    ++*owing_;
  if (owing_ != nullptr && !owed && ring_owed_)
    --*owing_;
  ring_owed_ = owed;
}

void sender_state::connect_bell() noexcept {
  // Load the generation before connecting. Acquire: pairs with the release store in receiver_state::start,
  // which follows the opening of the new bell. A bell newer than the noted generation costs one needless
  // reconnection, never a lost ring.
  const fork_pause no_fork;
  bell_generation_ = segment_.header().generation.load(std::memory_order_acquire);
  if (segment_.name.handed) {
    // A handed segment has only the bell it came with, and only one receiver.
    bell_busy_ = false;
    if (!bell_.connected())
      return end(condition::gone);
    bell_watched_ = watch(bell_.descriptor());
    return;
  }
  bool connected = bell_.connect(segment_.name, lane_);
  // The name of a removed segment, and with it the bell, may be another segment's by now, where this lane is
  // another sender's. The process that removed this one set the alert first.
  if (connected && (out_.slot()->alert.load(std::memory_order_acquire) & alert_retired) != 0) {
    bell_.close();
    connected = false;
    errno = ENOENT;
  }
  // The bell exists but did not accept the connection: no event will report a change.
  bell_busy_ = !connected && errno != ENOENT && errno != ECONNREFUSED;
  bell_watched_ = connected && watch(bell_.descriptor());
}

}  // namespace atbus::detail
