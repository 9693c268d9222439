/// @class atbus::receiver
/// The receiving end of a channel: `shm://name` between processes of one host, `mem://name` between
/// threads of one process, `ipv4://`, `ipv6://` and `unix://` through sockets.
///
/// ```cpp
/// auto inbox = atbus::receiver::open("shm://12345679");  // makes the segment, or takes it over
/// if (!inbox) return inbox.error().print(), 1;
/// for (;;) {
///   inbox->wait(std::chrono::seconds{1});                // sleeps until something is there
///   inbox->poll([](atbus::bytes_view message) { ... });  // in place, valid until this returns
/// }
/// ```
///
/// Ownership: one receiver owns a segment, held by a kernel lock that ends with the process.
/// Closing or destroying a receiver leaves the segment and its messages to a successor, which
/// continues with the first unhandled message. `remove` ends the segment.
///
/// A receiver at a socket owns its listener and the connections it accepted. They end with it, and
/// messages that it had not delivered are lost.
///
/// Threads: one thread at a time uses a receiver. Any number of senders send meanwhile. Several
/// threads share one address as the shards of open_shards.
///
/// Errors: `open` says what is wrong and what to do. After that, no sender can make a receiver
/// fail: the receiver quarantines a lane with impossible values, counts it and reports it to
/// `on_problem`, and the other lanes go on.
///
/// The functions that name a lane, and session_changes, are for lanes only. For streams, and for
/// lanes that do not exist, they have no effect.
///
/// Exceptions: those that a handler throws, and std::bad_alloc where a text or a handler is copied.
///
/// Fork: in a forked child a receiver is unusable (poll delivers nothing, wait returns
/// used_after_fork); the parent's receiver is not affected.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "atbus/channel_options.hpp"
#include "atbus/detail/export.hpp"
#include "atbus/detail/frame_inbox.hpp"
#include "atbus/detail/receiver_core.hpp"
#include "atbus/status.hpp"

namespace atbus {

namespace detail {
struct lane_handles;
}

class ATBUS_API receiver {
 public:
  /// Opens `address` ("shm://name[?lanes=64&lane_size=1M&message_limit=64K]", "mem://name"): makes
  /// the segment or, if its receiver is gone, takes it over with everything in it. Or listens there
  /// ("ipv6://[::]:7000", "ipv4://127.0.0.1:0", "unix:///run/x.sock", "unix://@name"). Errors:
  /// invalid_address, invalid_name, invalid_argument, not_supported (another kind of address),
  /// receiver_exists (text: which process), no_space (text: wanted and free), not_a_segment,
  /// version_mismatch, geometry_mismatch, wrong_owner, wrong_mode, out_of_memory, system_error. For
  /// a socket also denied (the system refuses the path or port) and not_found (there is no such
  /// directory).
  static result<receiver> open(std::string_view address, const receiver_options& options = {});

  /// Most shards of one address.
  static constexpr std::uint32_t shards_max = 64;
  /// Opens `address` for several threads: `shards` receivers, 1 to shards_max, one for each thread.
  /// All that one sender sends comes to one of them, in order. Senders open the address as ever.
  ///
  /// Threads: one thread at a time uses a shard. None of them waits for another one.
  ///
  /// Lanes: shard i of n has lanes i, i + n, and so on, so new senders are shared out in turns. A
  /// restart may open the address with another number of shards: what was not handled comes to the
  /// shards that have its lanes now. session, note and the other functions that name a lane have an
  /// effect at its shard only; stats are those of its lanes. When a shard is closed before the
  /// others, its senders' messages wait until the last one is closed too and the address is opened
  /// again. So do those of each new sender that takes a lane of it, one in n: close no shard alone
  /// while the others go on. remove ends the segment where all others are closed or removed; before, it closes.
  ///
  /// Sockets: the sender, not the connection, has a shard: the one with the fewest senders, when it
  /// first comes, and the same one when it has dialled again. Limits of `options` count for each
  /// shard. When a shard is closed, its senders go to the others as they dial again.
  ///
  /// Errors: as open; invalid_argument also for a number of shards that is not possible, or above
  /// the number of lanes.
  static result<std::vector<receiver>> open_shards(std::string_view address, std::uint32_t shards,
                                                   const receiver_options& options = {});

  /// Takes the receiver over; `other` is closed afterwards.
  receiver(receiver&& other) noexcept : backend_(std::exchange(other.backend_, nullptr)) {}
  /// Closes this receiver and takes the other over.
  receiver& operator=(receiver&& other) noexcept {
    if (this != &other) {
      close();
      backend_ = std::exchange(other.backend_, nullptr);
    }
    return *this;
  }
  ~receiver() { close(); }

  /// Hands waiting messages to `handler`, which takes std::span<const std::byte> (bytes_view) or
  /// const atbus::received_message&. Returns the number delivered; 0 at once if there are none.
  /// Never blocks. A handler may throw (the message counts as handled), close or destroy this
  /// receiver, or fork. Called from a handler, poll delivers nothing and returns 0.
  template <class Handler>
  std::size_t poll(Handler&& handler, const poll_limits& limits = {}) {
    if (backend_ == nullptr)
      return 0;
    if (backend_->kind() == detail::backend_kind::streams)
      return static_cast<detail::frame_inbox*>(backend_)->poll(handler, limits);
    return static_cast<detail::receiver_core*>(backend_)->poll(handler, limits);
  }

  /// From a handler: the poll that called it delivers no more messages. No effect elsewhere.
  void end_poll() noexcept;

  /// Sleeps until a message is there (ok) or `timeout` has passed (timed_out; negative: no limit).
  /// Uses no CPU while it sleeps, after a spin of at most `receiver_options::spin`. Errors: closed,
  /// used_after_fork, invalid_argument (from a handler).
  status wait(std::chrono::nanoseconds timeout);

  /// A descriptor for event loops: it becomes readable when something arrives while the receiver is
  /// prepared to sleep. Watch it level-triggered; do not read from it or close it.
  ///
  /// 1. prepare_sleep(): true = nothing is there, the descriptor reports the next arrival;
  ///    false = go to 3.
  /// 2. Sleep in the loop, at most longest_sleep(); then finish_sleep().
  /// 3. poll().
  ///
  /// loop_receiver does this for libuv. -1 once the receiver is closed.
  [[nodiscard]] int descriptor() const noexcept;
  /// Before a sleep in an event loop. True: nothing is there, and the descriptor reports the next
  /// arrival. False: call poll.
  [[nodiscard]] bool prepare_sleep();
  /// Ends the sleep that prepare_sleep began. Call it whatever woke the loop.
  void finish_sleep();
  /// How long a prepared receiver may sleep before finish_sleep and poll are due although the
  /// descriptor is quiet: limited where the kernel refuses membarrier, and for a moment after a
  /// sender's death. Otherwise negative: no limit.
  [[nodiscard]] std::chrono::nanoseconds longest_sleep() const noexcept;

  /// Called with internal problems (a quarantined lane, a kernel without membarrier), at most once
  /// per cause and lane: from poll, wait, prepare_sleep and finish_sleep, and from here with what
  /// was found before. May close or destroy this receiver, or fork; within it, the receiver
  /// delivers nothing and does not wait. Must not throw.
  void on_problem(std::function<void(const error&)> handler);

  /// The address for senders, with the port that was bound if port 0 was asked for.
  [[nodiscard]] std::string address() const;
  /// Sums over all lanes or connections.
  [[nodiscard]] channel_stats stats() const;
  /// Largest message in payload bytes.
  [[nodiscard]] std::uint64_t message_limit() const noexcept;
  /// Number of lanes; at a socket, the most connections at a time.
  [[nodiscard]] std::uint32_t lane_count() const noexcept;

  /// The session of a lane: a number that identifies its sender, unique during this receiver's
  /// lifetime. 0 if the lane has no sender: the last one has ended and all its messages were
  /// handled.
  [[nodiscard]] std::uint64_t session(std::uint32_t lane) const noexcept;
  /// A counter that grows whenever the sender of any lane changes.
  [[nodiscard]] std::uint64_t session_changes() const noexcept;
  /// Whether a sender holds the lane: it lives and has not closed it. Asks the kernel.
  [[nodiscard]] bool has_sender(std::uint32_t lane) const noexcept;
  /// The three words about a lane's sender, kept for this receiver and its successors. All are 0
  /// when another sender begins and when the lane becomes free.
  [[nodiscard]] std::array<std::uint64_t, 3> note(std::uint32_t lane) const noexcept;
  /// Sets the three words of a lane.
  void set_note(std::uint32_t lane, const std::array<std::uint64_t, 3>& words) noexcept;
  /// Pauses delivery from a lane. While the lane is paused, the receiver does not notice that its
  /// sender has ended.
  void pause(std::uint32_t lane) noexcept;
  /// Resumes delivery from a lane.
  void resume(std::uint32_t lane) noexcept;
  /// Delivers no more messages of the lane's present sender. The sender gets `quarantined` (from
  /// its second send after this, or from look), and its take_back returns the messages that were
  /// not delivered. The lane is free again when the sender has ended. No effect if it has none.
  void drop(std::uint32_t lane) noexcept;

  /// Ends the segment and closes this receiver: the name is free, senders get `retired`, and what
  /// the segment still holds is not delivered. Errors: closed, used_after_fork, system_error,
  /// out_of_memory. This receiver is closed also then; after out_of_memory the segment may be left,
  /// as after close.
  error remove();
  /// Closes the receiver; the segment, unless removed, waits for a successor. Idempotent; allowed
  /// in a handler.
  void close() noexcept;
  /// False after close() and remove(), and once the receiver was moved away.
  [[nodiscard]] bool is_open() const noexcept;

 private:
  friend struct detail::lane_handles;
  explicit receiver(detail::receiver_backend* backend) noexcept : backend_(backend) {}

  detail::receiver_backend* backend_ = nullptr;
};

}  // namespace atbus
