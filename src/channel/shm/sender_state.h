// The parts of a sender off the per-message path: taking a lane, alerts, bells, waiting, taking back.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "atbus/bytes.hpp"
#include "atbus/channel_options.hpp"
#include "atbus/detail/sender_backend.hpp"
#include "channel/shm/doorbell.h"
#include "channel/shm/segment.h"
#include "channel/shm/taken_lane.h"
#include "system/fork_guard.h"
#include "system/spin_budget.h"

namespace atbus::detail {

// A value that no alert has: its change count would have to overflow first.
inline constexpr std::uint64_t no_alert = ~std::uint64_t{0};

// A lane whose sender has ended: it stays mapped, and no other sender can take it.
struct held_lane {
  held_lane() = default;
  held_lane(const held_lane&) = delete;
  held_lane& operator=(const held_lane&) = delete;
  // Releases the lane's lock before the bell, as a sender does.
  ~held_lane() {
    if (opened.fd)
      unlock_byte(opened.fd.get(), lane_lock_byte(lane));
  }
  // For a forked child.
  void abandon() noexcept {
    opened.abandon();
    bell.close();
  }

  segment opened;
  std::uint32_t lane = 0;
  bell_client bell;
};

class sender_state final : public sender_backend, public fork_guard {
 public:
  // `opened` has the lane mapped, its memory reserved, and its lock held through its descriptor.
  // `shared`: the writer that the user's claims use instead of this object's own; it outlives this object.
  sender_state(segment opened, std::uint32_t lane, const sender_options& options,
               lane_writer* shared = nullptr);
  // For a handed segment, before start().
  void adopt_bell(file bell) noexcept { bell_.adopt(std::move(bell)); }
  // For an owner of many senders: counts itself there while it owes the receiver a ring, which flush makes up
  // for. `owing` outlives this object.
  void count_owed_ring_in(std::size_t& owing) noexcept { owing_ = &owing; }

  // Announces the sender in the lane. would_block if records of a previous sender fill it; system_error if
  // it can't connect to the bell (errno tells why).
  [[nodiscard]] status start();
  // After a start() that failed, of a lane that had no memory.
  void give_memory_back() noexcept { give_lane_memory_back(segment_, lane_); }

  status flush(std::chrono::nanoseconds timeout) override;
  status wait_writable(std::chrono::nanoseconds timeout, std::size_t length) override;
  [[nodiscard]] int descriptor() override;
  bool prepare_sleep() override;
  void finish_sleep() override;
  [[nodiscard]] std::chrono::nanoseconds longest_sleep() const noexcept override;
  bool poll_writable() override;
  result<std::size_t> take_back(const std::function<void(bytes_view, errc)>& each) override;
  [[nodiscard]] bool receiver_alive() noexcept override { return has_receiver(); }
  [[nodiscard]] std::uint64_t receiver_generation() const noexcept override;
  [[nodiscard]] status look_at_alert() noexcept override;
  [[nodiscard]] bool settled() const noexcept override;
  [[nodiscard]] std::uint64_t share() const noexcept override;
  [[nodiscard]] std::uint64_t unhandled_bytes() const noexcept override;
  std::size_t unhandled(const std::function<void(bytes_view)>& each) const override;
  [[nodiscard]] channel_stats stats() const override;
  [[nodiscard]] std::uint32_t lane() const noexcept override { return lane_; }

  [[nodiscard]] status make_room(std::uint64_t size) noexcept override;
  void answer_alert() noexcept override;
  [[nodiscard]] status usable() const noexcept;
  // Whether the receiver has not handled all messages, as far as `head` tells.
  [[nodiscard]] bool holds_messages() const noexcept;
  // The most bytes of records that take_back may hand out.
  [[nodiscard]] std::uint64_t held_bytes() const noexcept;
  // Whether a message was refused and its sender waits for room.
  [[nodiscard]] bool wants_room() const noexcept { return refused_size_ != 0; }
  [[nodiscard]] std::uint64_t capacity() const noexcept { return out_.capacity(); }
  // Ends this sender, which is to be released then, and leaves its lane there. Takes no memory.
  void leave_lane_in(held_lane& place) noexcept;

  void abandon_in_child() noexcept override;

 private:
  static constexpr std::uint32_t fewest_rings_before_fences = 16;

  // gone: the receiver of a handed segment has ended; there is no next one.
  enum class condition : std::uint8_t { open, retired, quarantined, gone, closed, forked };
  // Releases the lane's lock before the bell: the end-of-file is the event, the free lock the proof.
  ~sender_state() override { segment_.fd.reset(); }

  // Lanes have no frames.
  status new_chunk(std::size_t) noexcept override { return errc::closed; }
  void publish_frames() noexcept override {}
  void stop() noexcept override;
  void destroy() noexcept override;
  void end(condition why) noexcept;
  // Queries the kernel's lock.
  [[nodiscard]] bool has_receiver() const noexcept;
  // Ends this sender if the alert says so.
  void heed(std::uint64_t alert) noexcept;
  void rouse_receiver() noexcept;
  // Begin and end to fence each publish.
  void count_ring() noexcept;
  void count_quiet_publish() noexcept;
  void fence_while_sparse(bool on) noexcept;
  [[nodiscard]] bool fences() const noexcept { return always_fence_ || sparse_; }
  void owe_ring(bool owed) noexcept;
  void connect_bell() noexcept;
  [[nodiscard]] bool has_room() noexcept;
  // False: the kernel refuses.
  [[nodiscard]] bool watch(int fd) noexcept;
  // Waits for the bell and the directory, then reads their events.
  void sleep(std::int64_t timeout_ns) noexcept;
  void room_found();

  // The records to take back, after the receiver's lock was found free.
  struct own_records {
    std::uint64_t begin = 0;  // first record to hand back
    std::uint64_t end = 0;
    std::uint64_t keep = 0;  // the new tail; behind the first one if its handler was entered
  };
  [[nodiscard]] bool find_own_records(own_records& own) const noexcept;
  // Passes the messages between two positions to `each(bytes_view)`, and returns their number.
  template <class Each>
  std::size_t walk_records(std::uint64_t at, std::uint64_t end, const Each& each) const;

  segment segment_;
  std::uint32_t lane_ = 0;
  lane_writer& out_;
  std::uint64_t first_own_ = 0;  // position behind this sender's open record
  condition condition_ = condition::open;
  std::uint64_t alert_handled_ = ~std::uint64_t{0};
  bool always_fence_ = false;
  bool sparse_ = false;      // it fences because many publishes ring: see fence_while_sparse
  std::uint32_t rings_ = 0;  // since sparse_ changed
  std::uint32_t quiet_publishes_ = 0;  // without a ring, in a row, while sparse_
  std::uint32_t rings_before_fences_ = fewest_rings_before_fences;
  std::uint64_t last_rung_ = 0;
  bell_client bell_;
  std::uint64_t bell_generation_ = 0;
  bool bell_watched_ = false;
  bool bell_busy_ = false;          // the bell exists, but connecting to it failed
  file epoll_;                      // made at the first wait: bell and directory
  file inotify_;                    // made at a wait without a receiver: reports a new bell
  std::uint64_t refused_size_ = 0;  // size of the refused record; 0: none since the last room
  bool requesting_ = false;
  bool ring_owed_ = false;  // the kernel had no memory for the last ring
  std::size_t* owing_ = nullptr;
  spin_budget spin_;
};

}  // namespace atbus::detail
