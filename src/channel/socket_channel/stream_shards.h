// What the shards of one listening socket share: the receivers of one process, each on a thread of its own.
// doc/design/shards.md.
//
// Every shard accepts. The hello of a connection says which sender it is; the connection then goes to the shard of
// that sender, whatever it has read.
//
// Guarantees:
//  - A sender keeps its shard over all its connections while that shard is open, unless so many others have come and
//    gone meanwhile that it is forgotten.
//  - What a connection brings never comes behind what a later one of its sender has brought: what counts is whose
//    messages begin to be handed out first, not whose hello is read first.
//  - The table is bounded by the connections that are open and a constant.
//  - Nothing here is used for a connection that is known.
//
// Any thread. What may hold descriptors changes only inside a fork_pause.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "atbus/status.hpp"
#include "channel/socket_channel/stream_connection.h"
#include "system/fork_guard.h"
#include "system/kernel.h"
#include "system/socket.h"

namespace atbus::detail {

// What stays the same in all hellos of a sender, and which of its connections it is.
[[nodiscard]] constexpr std::uint32_t sender_identity(std::uint64_t session) noexcept {
  return static_cast<std::uint32_t>(session >> 32);
}
[[nodiscard]] constexpr std::uint32_t connection_of_sender(std::uint64_t session) noexcept {
  return static_cast<std::uint32_t>(session);
}

class stream_shards final : public fork_guard {
 public:
  // `waiting_max`: most connections that wait for one shard. Throws std::bad_alloc.
  stream_shards(listening_socket listener, std::uint32_t count, std::uint32_t waiting_max);

  // Makes what wakes the shards.
  [[nodiscard]] error open();
  // The listening socket for one of them. It ends with the last one.
  [[nodiscard]] result<listening_socket> share_listener() const { return listener_.duplicate(); }
  // Readable while there is something for `take`.
  [[nodiscard]] int box_descriptor(std::uint32_t shard) const noexcept {
    return boxes_[shard].event.get();
  }

  // A connection has said hello, with that session, at an open shard. Returns the shard that it belongs to; nothing if
  // a later one of its sender has begun, or if there is no memory. `asked_at`: a time before it was accepted.
  [[nodiscard]] std::optional<std::uint32_t> arrived(std::uint64_t session,
                                                     std::chrono::nanoseconds asked_at) noexcept;
  // Its messages are handed out from now on, at its shard. False: a later one of its sender was first.
  [[nodiscard]] bool begins(std::uint64_t session) noexcept;
  // A connection that has arrived has ended, at its shard.
  void gone(std::uint32_t sender, std::uint32_t shard) noexcept;

  // Hands over a connection that belongs to no list any more. False: that shard has closed, or too many wait for it, or
  // there is no memory; the connection is gone. A shard that hands one to itself takes what waits for it next.
  [[nodiscard]] bool pass(std::unique_ptr<stream_connection> one, std::uint32_t from,
                          std::uint32_t to) noexcept;
  // The next connection that was handed over; null if there is none.
  [[nodiscard]] std::unique_ptr<stream_connection> take(std::uint32_t shard) noexcept;
  // The shard has closed: its senders go to others.
  void leave(std::uint32_t shard) noexcept;

  void abandon_in_child() noexcept override;

  // Senders without a connection that are remembered.
  static constexpr std::size_t remembered_max = 16 * 1024;

 private:
  struct box {
    file event;
    std::deque<std::unique_ptr<stream_connection>> connections;
    std::size_t senders = 0;  // with a connection
    bool left = false;
  };
  struct place {
    std::uint32_t shard = 0;
    std::uint32_t connections = 0;
    std::uint32_t begun = 0;  // the highest number of a connection that has begun
    std::uint64_t ended = 0;  // which end of its last connection it was
    std::chrono::nanoseconds ended_at{0};
  };
  [[nodiscard]] std::uint32_t emptiest() const noexcept;
  void forget_oldest() noexcept;

  std::mutex mutex_;  // locked only inside a fork_pause
  listening_socket listener_;
  std::vector<box> boxes_;
  std::map<std::uint32_t, place> places_;  // no hash: peers choose the keys
  std::deque<std::pair<std::uint32_t, std::uint64_t>>
      ended_;  // senders, in the order of their ends
  std::uint64_t ends_ = 0;
  std::size_t waiting_max_;
};

}  // namespace atbus::detail
