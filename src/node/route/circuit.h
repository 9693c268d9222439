// A link to a node through other nodes. Its messages travel in numbered batches. The origin keeps them;
// relays only pass them on, and may drop any (doc/design/routing.md).
//
// Each direction uses go-back-n: the sender keeps unreleased batches; the receiver accepts only the next
// number and acknowledges from time to time. So the session above sees a link without loss and in order, even
// when the route changes during traffic.
//
// `circuits` are those of one node. One thread; events are told from poll() and from arrived().
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "atbus/clock.hpp"
#include "atbus/detail/chunk_cache.hpp"
#include "atbus/detail/frame_chunk.hpp"
#include "atbus/detail/malloc_queue.hpp"
#include "core/random_source.h"
#include "core/timer_queue.h"
#include "node/link/link.h"
#include "node/link/poll_progress.h"
#include "protocol/batch_cipher.h"
#include "protocol/routed_head.h"
#include "system/fork_guard.h"

namespace atbus::detail {

class circuits;

// Passes the messages of circuits to the next node. The node implements it with its links.
class next_hops {
 public:
  // Sends that head with a copy of the batch. would_block: circuits::writable() is called when there is room.
  // no_route: there is no next node. message_too_large: its link refuses the message.
  virtual status pass_on(const routed_head& head, bytes_view batch) noexcept = 0;
  // The trust of the link to the next node on the path.
  [[nodiscard]] virtual link_trust trust_towards(bus_id destination) const noexcept = 0;
  // Ends the poll of the link that delivers messages to circuits.
  virtual void end_poll() noexcept = 0;
  // For log lines.
  [[nodiscard]] virtual std::string way_to(bus_id destination) const = 0;

 protected:
  ~next_hops() = default;
};

struct circuit_options {
  std::size_t message_limit = 0;  // bytes of a message of the circuit, with its head
  std::size_t queue_size = 0;     // bytes of data; control messages find some more
  bytes_view secret =
      {};  // of batch_cipher; empty: batches are not encrypted. Outlives the circuits.
};

class circuit final : public link {
 public:
  circuit(circuits& owner, std::uint64_t number, bus_id peer, link_trust trust, bool accepted);

  [[nodiscard]] std::byte* claim(std::size_t length, message_purpose purpose,
                                 status& why) noexcept override;
  [[nodiscard]] std::size_t share() const noexcept override {
    return queue_.size() <= data_limit_ / 2 ? data_limit_ / 4 : 0;
  }
  [[nodiscard]] std::size_t queued() const noexcept override { return queue_.size(); }
  bool commit(std::size_t length) noexcept override;
  [[nodiscard]] bool has_claim() const noexcept override { return chunk_.frame != nullptr; }
  void flush() noexcept override;
  [[nodiscard]] direct_place place() noexcept override;
  [[nodiscard]] bool keeps() const noexcept override { return true; }
  void release(std::uint64_t messages) noexcept override;
  [[nodiscard]] bool settled() const noexcept override {
    return released_ == committed_ && chunk_.appended() == 0;
  }
  void take_unreleased(const std::function<void(bytes_view, errc)>& each) override;
  [[nodiscard]] std::uint64_t bytes_read() const noexcept override { return bytes_read_; }
  void pause() noexcept override { paused_ = true; }
  void resume() noexcept override;
  void close(std::chrono::nanoseconds linger) noexcept override;
  void abort() noexcept override { end(errc::closed); }
  [[nodiscard]] link_kind kind() const noexcept override { return link_kind::relayed; }
  [[nodiscard]] link_trust trust() const noexcept override { return trust_; }
  [[nodiscard]] link_origin origin() const override {
    return {.where = link_origin::place::relayed, .node = peer_};
  }
  [[nodiscard]] std::string peer() const override;
  [[nodiscard]] std::uint64_t message_limit() const noexcept override;
  void confirm(const node_instance&) noexcept override;

 private:
  friend class circuits;

  // A batch that was sent from the chunk: frames with a message each, or a fragment of one frame.
  struct sent_batch {
    const std::byte* at;
    std::size_t size;
    std::uint16_t messages;  // that end here; 0: a fragment with others behind it
    std::size_t before;      // bytes of the frame in the fragments before this one

    // With its routed head.
    [[nodiscard]] std::size_t whole() const noexcept { return routed_head_size + size; }
  };

  // Batches are counted from 0 here; number n on the wire is n - 1.
  // released_ <= received_ <= next_ <= left_here_ <= committed_.
  [[nodiscard]] const sent_batch& at(std::uint64_t index) const noexcept {
    return ring_[static_cast<std::size_t>(index) & (ring_.size() - 1)];
  }
  [[nodiscard]] bool make_room_in_ring(std::size_t batches) noexcept;
  [[nodiscard]] status new_chunk(std::size_t length, message_purpose purpose) noexcept;
  // Turns the appended frames of the chunk into a batch. An open claim stays where it is.
  void take_in() noexcept;
  // Bytes of a fragment, and of the longest batch, before they are encrypted.
  [[nodiscard]] std::size_t fragment_most() const noexcept {
    return fragment_size - (out_cipher_ ? batch_cipher::overhead : 0);
  }
  [[nodiscard]] std::size_t longest_batch() const noexcept {
    return batch_max - (out_cipher_ ? batch_cipher::overhead : 0);
  }
  // Sends batches as far as the window allows.
  void pump() noexcept;
  [[nodiscard]] status pass_on(std::uint64_t index) noexcept;
  // Continues sending with this batch.
  void go_back(std::uint64_t index) noexcept;
  void tick();

  void has_received(std::uint64_t index) noexcept;
  // Schedules an acknowledgement, or a report of a gap, for the next look at this circuit.
  void owe(circuit_step step) noexcept;

  // Handles a message of the other end or of a relay.
  void carried(const routed_head& head, bytes_view batch);
  // The next fragment of a message.
  void take_fragment(bool is_last, bytes_view fragment);
  // Hands up messages until this poll has reached its limit, or the circuit is paused; keeps the others.
  void hand_up(bytes_view batch);
  void keep(bytes_view rest) noexcept;
  [[nodiscard]] bool listens() const noexcept { return !over_ && !closing_ && !paused_; }
  void expects(std::uint64_t number) noexcept;
  void misses(std::uint64_t number) noexcept;
  void failed(std::uint64_t number, errc why) noexcept;
  void say(circuit_step step, std::uint64_t number) noexcept;
  void end(errc why) noexcept;

  circuits& owner_;
  const std::uint64_t number_;
  const bus_id peer_;
  link_trust trust_;
  const bool accepted_;
  bool open_due_ = false;  // opened() has to be called
  bool paused_ = false;
  bool blocked_ = false;     // the next link has no room, or there is no next link for a while
  bool listed_ = false;      // poll() looks at it
  bool unflushed_ = false;   // flush() does
  bool resting_ = false;     // poll_rests() does
  bool wants_room_ = false;  // the session above
  bool closing_ = false;
  bool over_ = false;                        // closed() has to be called
  circuit_step owed_ = circuit_step::carry;  // nothing
  errc why_ = errc::ok;

  // Out.
  const std::size_t data_limit_;  // bytes of the queue that data may fill
  malloc_queue queue_;            // of frames
  frame_chunk chunk_;
  bool for_one_ = false;     // the chunk is for one message: others must not use its room
  std::uint64_t taken_ = 0;  // of the chunk's frames
  std::vector<sent_batch> ring_;
  std::uint64_t committed_ = 0;
  std::uint64_t released_ = 0;
  std::uint64_t released_of_next_ = 0;  // messages of the batch `released_`
  std::uint64_t received_ = 0;          // the first one that the other end may not have
  std::uint64_t next_ = 0;
  std::uint64_t left_here_ = 0;  // the first one that never was sent
  std::size_t under_way_ = 0;    // bytes of [received_, next_)
  std::size_t window_;
  std::size_t threshold_;  // above it the window grows slowly, because a relay had no room for more
  std::size_t unasked_ = 0;  // bytes sent since the other end was asked how far it has come
  std::uint64_t went_back_to_ = 0;
  std::chrono::nanoseconds went_back_at_{0};
  std::chrono::nanoseconds held_until_{0};  // 0: not held back
  std::chrono::nanoseconds closes_at_{0};
  std::chrono::nanoseconds pause_;
  std::chrono::nanoseconds patience_;
  std::uint64_t received_at_tick_ = 0;
  timer clock_;
  std::optional<batch_cipher> out_cipher_;

  // In.
  std::optional<batch_cipher> in_cipher_;  // from the first batch that it has opened on
  std::uint64_t expected_ = 1;
  std::uint64_t gap_told_at_ = 0;
  std::size_t longest_message_;       // accepted now: small until the peer has registered
  std::vector<std::byte> fragments_;  // of an incomplete message
  std::vector<std::byte> rest_;       // messages of a batch that are not handed up yet
  bool passed_over_ = false;          // a batch was skipped meanwhile
  std::uint64_t bytes_read_ = 0;
  timer answer_;  // to what is not data
};

class circuits {
 public:
  circuits(bus_id self, const circuit_options& options, next_hops& hops, link_events& events,
           timer_queue& timers, const clock_source& clock, random_source& random,
           const poll_progress& progress);
  ~circuits();
  circuits(const circuits&) = delete;
  circuits& operator=(const circuits&) = delete;

  // Begins a circuit. The next poll reports opened(), before the other end has answered. Then as a link.
  link* open(bus_id to);
  // Handles a routed message for this node. Calls `events.received` last, if at all.
  void arrived(const routed_head& head, bytes_view message, link_trust from);
  // Called when links have room again, or other links are in use.
  void writable() noexcept;
  // Called when routes have changed: batches in flight may be lost.
  void ways_changed() noexcept;

  // Hands up the rests of batches. No further batch is accepted before that.
  void poll_rests() {
    if (has_rests())
      tell_rests();
  }
  [[nodiscard]] bool has_rests() const noexcept { return !resting_.empty(); }
  // Calls all other events.
  void poll() {
    if (!due_.empty() || writable_)
      tell_due();
  }
  // Sends what was committed.
  void flush() noexcept {
    if (has_unflushed())
      send_unflushed();
  }
  [[nodiscard]] bool has_unflushed() const noexcept { return !unflushed_.empty(); }
  [[nodiscard]] bool has_due() const noexcept {
    return !closed_ && (!due_.empty() || !resting_.empty() || writable_);
  }
  void close() noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }
  // Calls from other nodes that were refused because there were too many circuits.
  [[nodiscard]] std::uint64_t refused() const noexcept { return refused_; }

 private:
  friend class circuit;
  // Most circuits opened by other nodes. Further calls are refused.
  static constexpr std::size_t accepted_max = 16 * 1024;
  // Most of these that have not registered. Above it, the oldest ends.
  static constexpr std::size_t unconfirmed_max = 1024;
  static constexpr std::size_t unconfirmed_of_one_max = 16;

  // In a forked child lanes are not mapped, and all circuits belong to the parent.
  struct child_guard final : fork_guard {
    explicit child_guard(circuits& guarded) noexcept : of(guarded) {}
    void abandon_in_child() noexcept override { of.closed_ = true; }
    circuits& of;
  };

  void tell_rests();
  void tell_due();
  void remove(circuit& gone) noexcept;
  void send_unflushed() noexcept;
  [[nodiscard]] circuit* find(const routed_head& head) noexcept;
  circuit& add(std::uint64_t number, bus_id peer, link_trust trust, bool accepted);
  // The batch as its sender has committed it; `of` is its circuit, or null. Nothing: it was not encrypted with this
  // node's secret.
  [[nodiscard]] std::optional<bytes_view> open_batch(const routed_head& head, bytes_view batch,
                                                     circuit* of,
                                                     std::optional<batch_cipher>& with);
  // What can't be opened was not for this node, or was changed on its way.
  void refuse_batch(const routed_head& head, bool is_known);
  // False: there are too many circuits.
  bool make_room_for_call(bus_id from);
  void say(bus_id to, std::uint64_t number, circuit_step step, std::uint64_t what) noexcept;
  // poll() looks at it.
  void list(circuit& of) noexcept;
  // poll_rests() does.
  void list_rest(circuit& of) noexcept;

  const bus_id self_;
  const circuit_options options_;
  next_hops& hops_;
  link_events& events_;
  timer_queue& timers_;
  const clock_source& clock_;
  random_source& random_;
  const poll_progress& progress_;
  chunk_cache chunks_;
  // A tree: peers choose the numbers, and could put all of them into one bucket of a hash table.
  std::map<std::uint64_t, std::unique_ptr<circuit>> all_;
  circuit* last_found_ = nullptr;
  // With room for all.
  std::vector<circuit*> due_;
  std::vector<circuit*> blocked_;
  std::vector<circuit*> unflushed_;
  std::vector<circuit*> resting_;      // have a rest to hand up
  std::vector<circuit*> turn_;         // poll() is at these
  std::vector<circuit*> unconfirmed_;  // accepted and not registered, the oldest in front
  std::size_t accepted_ = 0;
  std::uint64_t refused_ = 0;
  std::size_t handed_up_ = 0;  // messages, of all batches
  // One batch each; empty without a secret.
  std::vector<std::byte> sealed_;
  std::vector<std::byte> plain_;
  bool writable_ = false;
  bool closed_ = false;
  std::unique_ptr<child_guard> in_child_;
};

}  // namespace atbus::detail
