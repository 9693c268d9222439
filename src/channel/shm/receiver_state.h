// The parts of a receiver off the per-message path: takeover, sleeping, bells, parking, quarantine.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "atbus/detail/receiver_core.hpp"
#include "channel/shm/doorbell.h"
#include "channel/shm/lane_shards.h"
#include "channel/shm/segment.h"
#include "system/fork_guard.h"
#include "system/spin_budget.h"

namespace atbus::detail {

class receiver_state final : public receiver_core, public fork_guard {
 public:
  // `opened` is mapped with all lanes, and its receiver's lock is held through its descriptor.
  // `shards`: the receivers of one process that share the segment; this one reads the lanes of its shard.
  receiver_state(segment opened, const receiver_options& options,
                 std::shared_ptr<lane_shards> shards = nullptr, std::uint32_t shard = 0);

  // Takes over the segment's contents, the first shard before the others. On failure the caller releases the state.
  [[nodiscard]] error start();

  status wait(std::chrono::nanoseconds timeout) override;
  bool prepare_sleep() override;
  void finish_sleep() override;
  [[nodiscard]] std::chrono::nanoseconds longest_sleep() const noexcept override;
  error remove() override;
  [[nodiscard]] channel_stats stats() const override;
  [[nodiscard]] std::string address() const override { return segment_.name.text(); }
  [[nodiscard]] std::uint64_t message_limit() const noexcept override { return message_limit_; }
  [[nodiscard]] std::uint32_t lane_count() const noexcept override {
    return segment_.geometry.lane_count;
  }
  [[nodiscard]] int descriptor() const noexcept override { return bell_.descriptor(); }
  [[nodiscard]] std::uint64_t session(std::uint32_t lane) const noexcept override;
  [[nodiscard]] std::uint64_t session_changes() const noexcept override { return session_changes_; }
  [[nodiscard]] bool has_sender(std::uint32_t lane) const noexcept override;
  [[nodiscard]] lane_note note(std::uint32_t lane) const noexcept override;
  void set_note(std::uint32_t lane, const lane_note& words) noexcept override;
  void pause_lane(std::uint32_t lane) noexcept override;
  void resume_lane(std::uint32_t lane) noexcept override;
  void drop_lane(std::uint32_t lane) noexcept override;
  [[nodiscard]] const segment_geometry& geometry() const noexcept { return segment_.geometry; }

  // Reads pending rings. For a caller that waits for descriptor() itself.
  void read_bells() noexcept { handle(bell_.take_events(0)); }
  // Frees the drained lanes of senders that have ended up to now. Not while a handler runs.
  void free_ended_lanes() noexcept;
  // Whether a poll would deliver a message.
  [[nodiscard]] bool anything() noexcept;

  // Handed segments: whether the lane can be handed out.
  [[nodiscard]] bool is_free(std::uint32_t lane) const noexcept;
  // The descriptors that a sender needs to use a free lane. Error no_free_lane: it is not free.
  struct lane_ends {
    file segment;
    file bell;
  };
  [[nodiscard]] result<lane_ends> hand_out(std::uint32_t lane);
  // Starts delivery from a lane that was handed out. Not called earlier, because the messages that its
  // sender sent through the socket come first.
  void open_gate(std::uint32_t lane) noexcept;
  // Opens the gate of a lane whose sender has announced itself. Returns its session, or 0 if it has not.
  [[nodiscard]] std::uint64_t meet(std::uint32_t lane) noexcept;

  void abandon_in_child() noexcept override;

 private:
  [[nodiscard]] result<lane_ends> make_ends(std::uint32_t lane);
  friend class receiver_core;
  ~receiver_state() override;
  void stop() noexcept override;
  void destroy() noexcept override;

  // Says that there is a new receiver, and where its bell is.
  [[nodiscard]] error announce(bell_server& bell);
  // As some_lane_ready, of this shard's lanes.
  [[nodiscard]] bool own_lane_ready() const noexcept;
  // Clears the ready bits of this shard's lanes, and returns them.
  [[nodiscard]] std::uint64_t take_ready(std::size_t word) noexcept;
  // Counts in the header, where shards have no word of their own.
  void count_once(shared_word& counter) const noexcept;
  void tell_refused() noexcept;

  // Used for each lane at opening, and for a lane whose sender began to take records back and then stopped.
  void take_over_lane(std::uint32_t index) noexcept;
  void wake_lane(std::uint32_t index) noexcept;
  void activate(lane_reader& lane) noexcept;
  void set_alert(lane_reader& lane, std::uint64_t flags) noexcept;
  void look_at_everything() noexcept;
  void handle(const bell_server::events& seen) noexcept;
  // Executes a barrier on every core; if the kernel refuses, asks the senders to fence.
  bool barrier() noexcept;
  [[nodiscard]] bool every_sender_fences() const noexcept;

  // Whether a sender has the lane, or had it and the lane is not reset yet.
  [[nodiscard]] static bool is_in_use(const lane_reader& lane) noexcept;
  // Frees drained lanes whose senders are gone.
  void free_orphans() noexcept;
  void look_if_owed() noexcept;
  void look_for_orphans() noexcept;
  // Watches for the death of senders that hold a lane but are not connected.
  void watch_unconnected() noexcept;
  void suspect_unconnected() noexcept;
  void free_if_orphaned(lane_reader& lane) noexcept;
  void reset_lane(lane_reader& lane) noexcept;

  // Activates the lanes of `parked` that got records before their alert was seen.
  bool reactivate(const std::vector<lane_reader*>& parked) noexcept;
  // Quarantines without a report; `why` is a quarantine_*.
  void stop_reading(lane_reader& lane, std::uint64_t why) noexcept;
  void set_inactive(lane_reader& lane) noexcept;
  // The lane that the user names; null if it does not exist or the receiver is not usable.
  [[nodiscard]] lane_reader* find_lane(std::uint32_t index) const noexcept;
  [[nodiscard]] std::uint32_t index_of(const lane_reader& lane) const noexcept {
    return static_cast<std::uint32_t>(&lane - lanes_.get());
  }

  segment segment_;
  bell_server bell_;
  std::unique_ptr<lane_reader[]> lanes_;
  std::unique_ptr<std::byte[]> copy_buffer_;
  std::vector<char> gates_;  // handed segments, per lane: 1 while the lane must not be read yet
  std::vector<lane_reader*> parked_now_;  // scratch, capacity: the number of lanes
  spin_budget spin_;
  std::uint64_t generation_ = 0;
  std::uint32_t sleep_count_ = 0;
  std::uint32_t bell_interval_ = 1;  // polls between two looks at the bells
  std::chrono::nanoseconds bells_seen_at_{0};
  std::size_t orphans_ = 0;
  bool unwatched_ = false;  // a lane is unconnected, and the kernel refuses to watch the file
  bool look_owed_ = false;  // a sender waits for a ring, for which the kernel had no memory
  // When lanes are looked at again for which the kernel had none; 0: there are none.
  std::chrono::nanoseconds starved_until_{0};
  std::chrono::nanoseconds starved_pause_{0};
  bool prefault_ = false;
  bool asleep_ = false;
  bool fence_needed_ = false;

  // Its lanes are shard_, shard_ + step_, and so on: without shards, all of them.
  std::uint32_t shard_ = 0;
  std::uint32_t step_ = 1;
  std::uint64_t refused_told_ = 0;
  std::vector<std::uint64_t> own_ready_;  // with shards: the bits of its lanes in each ready word
  std::shared_ptr<lane_shards> shards_;
};

}  // namespace atbus::detail
