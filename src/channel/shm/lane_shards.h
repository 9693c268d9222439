// What the shards of one segment share: the receivers of one process each of which reads every n-th lane, on a
// thread of its own. doc/design/shards.md.
//
// Senders know nothing of it: there is one doorbell, one `sleeping` and one set of ready bits. The front is the
// doorbell's listener. Every shard watches it, so that none depends on another one's thread: who sees a connection
// first reads its lane and passes it on to the shard of that lane.
//
// Guarantees:
//  - Nothing here is used by a receiver without shards, nor by a shard that finds messages.
//  - A shard that is closed keeps its lanes, unread, until the last one is: no other one reads them, and none of its
//    senders sees an end.
//
// Any thread. What may hold descriptors changes only inside a fork_pause.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

#include "atbus/detail/lane.hpp"
#include "atbus/status.hpp"
#include "channel/shm/doorbell.h"
#include "channel/shm/segment.h"
#include "system/fork_guard.h"
#include "system/kernel.h"

namespace atbus::detail {

class receiver_state;

class lane_shards final : public fork_guard {
 public:
  // Throws std::bad_alloc.
  lane_shards(std::uint32_t count, std::uint32_t lane_count);

  // Makes what wakes the shards.
  [[nodiscard]] error open(const segment& s);
  [[nodiscard]] std::uint32_t count() const noexcept {
    return static_cast<std::uint32_t>(boxes_.size());
  }
  // To be opened by the first shard, before the others begin.
  [[nodiscard]] bell_server& front() noexcept { return front_; }

  // --- bells

  // Readable while there is something for `take`.
  [[nodiscard]] int box_descriptor(std::uint32_t shard) const noexcept {
    return boxes_[shard].event.get();
  }
  // For the front. Without room the connection is closed, which its sender takes for heard; the shard looks at its
  // lanes in any case.
  void pass_on(file peer, std::uint32_t lane) noexcept;
  // The connections that were passed on to the shard, into an empty list with as much room as its own.
  void take(std::uint32_t shard, std::vector<passed_bell>& into) noexcept;
  // Looks at the front, which does not block. If something was there, all shards look at their lanes.
  void look_at_front() noexcept;
  // As those of bell_server, of the front.
  [[nodiscard]] bool front_is_due() noexcept;
  [[nodiscard]] std::chrono::nanoseconds longest_sleep() noexcept;
  // Connections that the front has refused since the last call.
  [[nodiscard]] std::uint64_t take_refused() noexcept;

  // --- sleeping

  // A new generation has begun: all are awake.
  void begin(std::uint64_t generation) noexcept { generation_ = generation; }
  [[nodiscard]] std::uint64_t generation() const noexcept { return generation_; }
  // `sleeping` changes with each shard that falls asleep, so that a sender rings again, and says awake once none
  // sleeps. A ring for a shard that is awake is one in vain.
  void fall_asleep(shared_word& sleeping) noexcept;
  void wake(shared_word& sleeping) noexcept;

  // --- ending

  void join() noexcept { ++members_; }
  // True: that was the last open one, and now left. False for who has left already.
  [[nodiscard]] bool leave(std::uint32_t shard) noexcept;
  // Keeps the ended shard, or returns all of them with it if it is the last: the caller deletes them.
  [[nodiscard]] std::vector<receiver_state*> end(receiver_state& shard) noexcept;

  void abandon_in_child() noexcept override;

 private:
  struct box {
    file event;
    std::vector<passed_bell> connections;
    bool left = false;
  };
  void call(const box& whom) const noexcept;

  std::mutex mutex_;  // locked only inside a fork_pause
  bell_server front_;
  std::vector<box> boxes_;
  std::vector<receiver_state*> ended_;
  std::uint64_t generation_ = 0;
  std::uint64_t refused_told_ = 0;
  std::uint32_t members_ = 0;
  std::uint32_t left_ = 0;
  std::uint32_t asleep_ = 0;
  std::uint32_t sleep_count_ = 0;
};

}  // namespace atbus::detail
