// Agrees on a lane in each direction for a Unix connection. This is part of the opening, before on_open is
// called.
//
//   initiator                                          acceptor
//     hello ----------------------------------------->
//           <----------- hello, lanes {n, segment, bell}   a lane of the acceptor's
//     takes it
//     lanes {m, segment, bell} ------------------------>   takes it
//           <--------------------------------------- switch
//
// An end that can't use lanes sends lanes {none} in its turn, and the socket carries everything. Both ends
// come to the same decision. doc/design/frame.md has the bytes.
#pragma once

#include <cstdint>
#include <optional>

#include "atbus/status.hpp"
#include "channel/stream/stream_link.h"
#include "system/kernel.h"

namespace atbus::detail {

// Provides lanes for connections, which it names by their ids. Its functions never call user code.
class lane_exchange {
 public:
  struct ends {
    std::uint32_t lane = 0;
    file segment;
    file bell;
  };
  // A lane of this end, for the other end.
  [[nodiscard]] virtual result<ends> offer_lane(std::uint64_t connection) noexcept = 0;
  // Takes the lane that the other end offered.
  [[nodiscard]] virtual error take_lane(std::uint64_t connection, ends theirs) noexcept = 0;
  // The connection does not use lanes. `why` has the reason if it is an error.
  virtual void give_up(std::uint64_t connection, const error& why) noexcept = 0;

 protected:
  ~lane_exchange() = default;
};

// The state of one connection.
class lane_pairing {
 public:
  enum class state : std::uint8_t {
    socket,  // the socket carries the messages
    greeting,
    offered,  // offered to the other end, whose answer is awaited
    lanes,    // lanes carry the messages
    broken,   // the other end violated the order of the opening
  };

  lane_pairing() = default;
  lane_pairing(lane_exchange& from, std::uint64_t connection, bool dialled) noexcept
      : from_(&from), connection_(connection), dialled_(dialled), now_(state::greeting) {}

  [[nodiscard]] state now() const noexcept { return now_; }
  [[nodiscard]] bool undecided() const noexcept {
    return now_ == state::greeting || now_ == state::offered;
  }
  // Whether the other end may take an offered lane.
  [[nodiscard]] bool offered() const noexcept { return now_ == state::offered; }
  // Handles what the other end has sent, and queues the answer in the link. Called when the hello has
  // arrived, and after each frame until the decision.
  void go_on(stream_link& link) noexcept;
  // A message arrived before the decision.
  void break_off() noexcept;
  // The connection has ended.
  void end() noexcept;

 private:
  void offer(stream_link& link) noexcept;
  // False: there is no lane, or it can't be used.
  [[nodiscard]] bool take(stream_link& link, std::uint32_t lane) noexcept;
  void refuse(stream_link& link, const error& why) noexcept;
  void use_socket(stream_link& link, const error& why) noexcept;

  lane_exchange* from_ = nullptr;
  std::uint64_t connection_ = 0;
  bool dialled_ = false;
  state now_ = state::socket;
};

}  // namespace atbus::detail
