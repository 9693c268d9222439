// A link of simulated_network.h: two ends and the wire between them.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/node_instance.h"
#include "node/link/link.h"
#include "testing/simulated_network.h"

namespace atbus::detail {

// Messages one way. They are counted from 0; each of the counters below is the first one that is not
// yet so, and released <= committed, handled <= arrived <= written <= committed.
struct simulated_way {
  static constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

  std::deque<std::vector<std::byte>> queue;  // the oldest is number `first`
  std::uint64_t first = 0;
  std::uint64_t committed = 0;
  std::uint64_t written = 0;
  std::uint64_t arrived = 0;
  std::uint64_t handled = 0;
  std::uint64_t released = 0;
  std::size_t queued_bytes = 0;     // not released
  std::size_t unwritten_bytes = 0;  // of these
  std::size_t under_way_bytes = 0;  // written and not handled
  std::uint64_t lost_from = never;  // what never arrives
  std::chrono::nanoseconds last_arrival{0};
  std::optional<node_instance> note;  // its writer, once its reader has made sure of it,
  bus_id note_by;                     // and that reader
  bool begun = false;    // the reader's process ended within the handler of message `handled`
  bool dropped = false;  // the rest is never read

  [[nodiscard]] const std::vector<std::byte>& at(std::uint64_t number) const {
    return queue[static_cast<std::size_t>(number - first)];
  }
};

struct simulated_inbox;

struct simulated_wire {
  std::uint64_t number = 0;
  std::array<node_instance, 2> who;  // at each end, also when it is gone
  link_kind kind = link_kind::tcp;
  std::string to;  // the address that was dialled
  // ways[n] is what ends[n] writes.
  std::array<simulated_way, 2> ways;
  std::array<simulated_link*, 2> ends{};  // null: gone
  std::array<bool, 2> process_gone{};
  // Where ends[n] reads, if that outlives its process.
  std::array<simulated_inbox*, 2> inboxes{};
  bool called = false;  // behind all that was committed: a successor is asked for its end
  bool cut = false;

  [[nodiscard]] bool keeps() const noexcept {
    return kind == link_kind::tcp || kind == link_kind::unix_socket;
  }
  // What ends[from] wrote and has not arrived is lost from a random message on; so is what it writes
  // from now on.
  void lose_some(simulated_network& net, std::size_t from);
  // ends[end] sees the end of the link once `delay` is over and what has arrived is handled.
  void tell_end(simulated_network& net, std::size_t end, std::chrono::nanoseconds delay, errc why);
  // ends[reader] has handled one more.
  void handled_one(std::size_t reader) noexcept;
};

// While a handler has a message: if its process ends there, that may be all that is known of it.
class simulated_dispatch {
 public:
  simulated_dispatch(simulated_transport& by, simulated_wire& wire, std::size_t reader) noexcept
      : by_(by), wire_(wire), reader_(reader) {}
  ~simulated_dispatch();
  // The message stays the next one of its lane.
  void leave() noexcept { is_left_ = true; }
  simulated_dispatch(const simulated_dispatch&) = delete;
  simulated_dispatch& operator=(const simulated_dispatch&) = delete;

 private:
  simulated_transport& by_;
  simulated_wire& wire_;
  std::size_t reader_;
  bool is_left_ = false;
};

class simulated_link final : public link {
 public:
  simulated_link(simulated_transport& owner, std::shared_ptr<simulated_wire> wire, std::size_t end);
  ~simulated_link() override;

  [[nodiscard]] std::byte* claim(std::size_t length, message_purpose purpose,
                                 status& why) noexcept override;
  [[nodiscard]] std::size_t share() const noexcept override;
  bool commit(std::size_t length) noexcept override;
  [[nodiscard]] bool has_claim() const noexcept override { return !slot_.empty(); }
  void flush() noexcept override;
  [[nodiscard]] bool keeps() const noexcept override { return wire_->keeps(); }
  void release(std::uint64_t messages) noexcept override;
  [[nodiscard]] bool settled() const noexcept override;
  void take_unreleased(const std::function<void(bytes_view, errc)>& each) override;
  void visit_unhandled(const std::function<void(bytes_view)>& each) const override;
  void pause() noexcept override { paused_ = true; }
  void resume() noexcept override;
  void close(std::chrono::nanoseconds linger) noexcept override;
  void abort() noexcept override;
  [[nodiscard]] link_kind kind() const noexcept override { return wire_->kind; }
  [[nodiscard]] link_trust trust() const noexcept override;
  [[nodiscard]] link_origin origin() const override;
  [[nodiscard]] std::string peer() const override;
  [[nodiscard]] std::uint64_t message_limit() const noexcept override { return message_limit_; }
  void confirm(const node_instance& peer) noexcept override {
    in().note = peer;
    in().note_by = owner_.self_;
  }
  [[nodiscard]] bool has_successor() const noexcept override;
  [[nodiscard]] bool may_be_inherited() const noexcept override {
    return inbox_there() != nullptr && !out().dropped;
  }

  // Bytes that wait to be released.
  [[nodiscard]] std::size_t queued() const noexcept override { return out().queued_bytes; }

 private:
  friend class simulated_network;
  friend class simulated_transport;
  friend struct simulated_inbox;
  friend struct simulated_wire;

  [[nodiscard]] simulated_way& out() const noexcept { return wire_->ways[end_]; }
  [[nodiscard]] simulated_way& in() const noexcept { return wire_->ways[1 - end_]; }
  [[nodiscard]] bool is_due() const noexcept;
  [[nodiscard]] bool has_read_all() const noexcept { return in().handled == in().arrived; }
  // Tells what there is to tell, at most so many messages; returns how many.
  std::size_t tell(link_events& events, std::size_t most);
  std::size_t tell_messages(link_events& events, std::size_t most);
  // Of an inbox that outlives its process: what happens when that is gone.
  [[nodiscard]] simulated_inbox* inbox_there() const noexcept { return wire_->inboxes[1 - end_]; }
  [[nodiscard]] bool is_left_behind() const noexcept;
  void tell_left(link_events& events);
  void tell_recalling(link_events& events);
  void look_for_successor();
  void take_over(std::shared_ptr<simulated_wire> fresh);
  void end_now(errc why) noexcept;
  [[nodiscard]] error reason_of_end() const;
  [[nodiscard]] link_watcher::place whereabouts() const noexcept {
    return {wire_->number,     end_, &owner_, wire_->who[end_], wire_->who[1 - end_],
            may_be_inherited()};
  }
  // Those are not needed any more.
  void let_go(std::uint64_t messages) noexcept;
  // Nothing is read or written here any more; the other end sees that in its time.
  void leave_wire() noexcept;

  simulated_transport& owner_;
  std::shared_ptr<simulated_wire> wire_;
  std::size_t end_;
  std::size_t queue_size_;
  std::size_t kernel_holds_;
  std::size_t message_limit_;
  std::vector<std::byte> slot_;
  bool is_listed_ = false;    // its owner looks at it
  bool is_to_flush_ = false;  // and its queue
  bool open_due_ = false;
  bool open_ = false;
  bool paused_ = false;
  bool waits_ = false;     // for room
  bool roomy_ = false;     // to be told
  bool closing_ = false;   // gracefully
  bool goodbye_ = false;   // which was said
  bool end_seen_ = false;  // behind what has arrived
  bool left_ = false;      // the other end's process is gone, and its inbox is not
  bool recall_due_ = false;
  bool recalled_ = false;  // a successor was called
  bool return_due_ = false;
  bool ended_ = false;  // here, at once
  bool over_ = false;   // it was told
  errc why_ = errc::ok;
};

}  // namespace atbus::detail
