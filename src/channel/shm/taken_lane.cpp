#include "channel/shm/taken_lane.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "atbus/detail/test_hook.hpp"
#include "channel/shm/channel_address.h"
#include "core/error_text.h"

namespace atbus::detail {
namespace {

// A receiver that frees an orphaned lane holds its lock for a moment. So several rounds are made before the
// answer is that all lanes are taken.
constexpr int lane_rounds = 3;

// Whether a locked lane may be used: it holds nothing impossible, and it is drained if `drained` asks for
// that.
bool is_usable(const segment& s, std::uint32_t lane, bool drained) {
  const lane_slot& slot = s.slot(lane);
  if (slot.quarantined.load(std::memory_order_relaxed) != 0 ||
      (slot.alert.load(std::memory_order_relaxed) & (alert_retired | alert_quarantined)) != 0) {
    return false;
  }
  // Acquire: pairs with the release stores of the previous sender of the lane and of its receiver.
  const std::uint64_t tail = slot.tail.load(std::memory_order_acquire);
  const std::uint64_t head = slot.head.load(std::memory_order_acquire);
  const std::uint64_t done = slot.done.load(std::memory_order_acquire);
  const std::uint64_t used = tail - head;
  if (((tail | head) & 7) != 0 || used > s.geometry.lane_size)
    return false;
  if (drained)
    return tail == done;
  // Room for the open record and a padding record before it.
  return s.geometry.lane_size - used >= 2 * record_size(sizeof(open_record));
}

// Finds a lane and locks it. First it tries lanes that look unused, which saves a system call for each lane
// in use; then drained lanes; then lanes with a dead sender's records.
result<std::uint32_t> find_lane(const segment& s) {
  enum class search : std::uint8_t { unused, drained, any };
  for (int round = 0; round < lane_rounds; ++round) {
    for (const search pass : {search::unused, search::drained, search::any}) {
      for (std::uint32_t lane = 0; lane < s.geometry.lane_count; ++lane) {
        // Relaxed: a hint.
        if (pass == search::unused &&
            s.slot(lane).reserved_bytes.load(std::memory_order_relaxed) != 0)
          continue;
        const lock_state lock = try_lock_byte(s.fd.get(), lane_lock_byte(lane));
        if (lock == lock_state::failed) {
          const int code = errno;
          return error{errc::system_error, s.name.text() + ": can't lock a lane" + lock_hint, code};
        }
        if (lock != lock_state::taken)
          continue;
        test_hook(step::lane_locked);
        if (is_usable(s, lane, pass != search::any))
          return lane;
        unlock_byte(s.fd.get(), lane_lock_byte(lane));
      }
    }
    sched_yield();
  }
  const std::uint32_t more = std::min(2 * s.geometry.lane_count, max_lanes);
  std::string text =
      s.name.text() + ": all " + std::to_string(s.geometry.lane_count) + " lanes are taken; ";
  text += more == s.geometry.lane_count
              ? "close a sender"
              : "close a sender, or remove the segment and make it with more (lanes=" +
                    std::to_string(more) + ")";
  return error{errc::no_free_lane, std::move(text)};
}

error prepare_lane(segment& opened, std::uint32_t lane, bool was_unused) {
  // Reserve whatever `reserved_bytes` says: touching unreserved memory may raise SIGBUS.
  if (auto e = reserve_lane(opened, lane); !e)
    return e;
  // Release: pairs with the receiver's look for lanes in use. Stored before the first record.
  opened.slot(lane).reserved_bytes.store(opened.geometry.lane_size, std::memory_order_release);
  test_hook(step::lane_reserved);
  error mapped = error_of(errc::out_of_memory, [&] { return map_lane(opened, lane); });
  if (was_unused && !mapped)
    give_lane_memory_back(opened, lane);
  return mapped;
}

// `retired` means: the name has changed, try again.
result<taken_lane> open_and_take(const segment_address& wanted) {
  const segment_name& name = wanted.name;
  auto opened = open_segment(name);
  if (!opened)
    return opened.error();
  const auto is_retired = [&] {
    return opened->header().retired.load(std::memory_order_acquire) != 0;
  };
  if (is_retired())
    return error{errc::retired, name.text() + ": removed"};
  auto lane = find_lane(*opened);
  // Lock first, then check: if the segment is retired later, this lane gets the alert.
  if (!is_named(*opened) || is_retired()) {
    return error{errc::retired, name.text() + ": removed while it was opened"};
  }
  // Before it takes memory, which the receiver would not give back: it never hears of this sender.
  if (auto e = compare_geometry(*opened, wanted); !e)
    return e;
  if (!lane)
    return lane.error();
  // Relaxed: nobody else changes it under the lane's lock.
  const bool was_unused = opened->slot(*lane).reserved_bytes.load(std::memory_order_relaxed) == 0;
  if (auto e = prepare_lane(*opened, *lane, was_unused); !e)
    return e;
  return taken_lane{std::move(*opened), *lane, was_unused};
}

}  // namespace

result<taken_lane> take_lane(const segment_address& wanted) {
  for (int round = 0; round < name_rounds_max; ++round) {
    auto taken = open_and_take(wanted);
    if (taken || !(taken.error() == errc::retired))
      return taken;
  }
  return error{
      errc::retired,
      wanted.name.text() +
          ": it was removed, but its name still exists; a process is removing it or died while "
          "doing so: start the receiver, or run `atbus shm clean`"};
}

result<taken_lane> take_handed_lane(file fd, std::string text, std::uint32_t lane) {
  auto opened = adopt_segment(std::move(fd), std::move(text));
  if (!opened)
    return opened.error();
  if (lane >= opened->geometry.lane_count)
    return error{errc::geometry_mismatch,
                 opened->name.text() + ": it has no lane " + std::to_string(lane)};
  if (try_lock_byte(opened->fd.get(), lane_lock_byte(lane)) != lock_state::taken ||
      !is_usable(*opened, lane, true)) {
    return error{errc::no_free_lane,
                 opened->name.text() + ": lane " + std::to_string(lane) + " is not free"};
  }
  test_hook(step::lane_locked);
  if (auto e = prepare_lane(*opened, lane, false); !e)
    return e;
  return taken_lane{std::move(*opened), lane, false};
}

void give_lane_memory_back(const segment& s, std::uint32_t lane) noexcept {
  lane_slot& slot = s.slot(lane);
  // Relaxed: this process holds the lane's lock. What is in the lane is the receiver's.
  if (slot.tail.load(std::memory_order_relaxed) != slot.done.load(std::memory_order_relaxed))
    return;
  release_lane_memory(s, lane);
  // Relaxed: as in receiver_state::reset_lane.
  slot.reserved_bytes.store(0, std::memory_order_relaxed);
}

void prefault_lane(const taken_lane& t) {
#if defined(MADV_POPULATE_WRITE)
  (void)kernel().madvise(t.opened.lane_data(t.lane), t.opened.geometry.lane_size,
                         MADV_POPULATE_WRITE);
#else
  (void)t;
#endif
}

}  // namespace atbus::detail
