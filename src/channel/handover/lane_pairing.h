// How the two ends of a Unix connection come to use a lane in each direction: agreed on in its
// opening, before anybody is told that it is open.
//
//   initiator                                          acceptor
//     hello ----------------------------------------->
//           <----------- hello, lanes {n, segment, bell}   a lane of the acceptor's
//     takes it
//     lanes {m, segment, bell} ------------------------>   takes it
//           <--------------------------------------- switch
//
// Whoever can't says lanes {none} in its turn, and the socket carries everything. What is decided is
// the same at both ends. doc/design/frame.md has the bytes.
#pragma once

#include <cstdint>
#include <optional>

#include "atbus/status.hpp"
#include "channel/stream/stream_link.h"
#include "system/kernel.h"

namespace atbus::detail {

// Whoever has lanes for connections, each named by its id. It never tells its user anything from
// within.
class lane_exchange {
 public:
  struct ends {
    std::uint32_t lane = 0;
    file segment;
    file bell;
  };
  // One of ours for the other end.
  [[nodiscard]] virtual result<ends> offer_lane(std::uint64_t connection) noexcept = 0;
  // The one that the other end has offered.
  [[nodiscard]] virtual error take_lane(std::uint64_t connection, ends theirs) noexcept = 0;
  // Nothing comes of it. If `why` is an error: what has kept a connection from using lanes.
  virtual void give_up(std::uint64_t connection, const error& why) noexcept = 0;

 protected:
  ~lane_exchange() = default;
};

// Of one connection.
class lane_pairing {
 public:
  enum class state : std::uint8_t {
    socket,  // it carries the messages
    greeting,
    offered,  // to the other end, whose word is awaited
    lanes,    // they carry the messages
    broken,   // the other end has said what it must not say now
  };

  lane_pairing() = default;
  lane_pairing(lane_exchange& from, std::uint64_t connection, bool dialled) noexcept
      : from_(&from), connection_(connection), dialled_(dialled), now_(state::greeting) {}

  [[nodiscard]] state now() const noexcept { return now_; }
  [[nodiscard]] bool undecided() const noexcept {
    return now_ == state::greeting || now_ == state::offered;
  }
  // Whether a lane of ours is the other end's to take.
  [[nodiscard]] bool offered() const noexcept { return now_ == state::offered; }
  // Goes on with what the other end has said; what is to be said is in the link then. To be called
  // when its hello is there, and after each frame until it is decided.
  void go_on(stream_link& link) noexcept;
  // A message came, which has to wait until it is decided.
  void break_off() noexcept;
  // The connection has ended.
  void end() noexcept;

 private:
  void offer(stream_link& link) noexcept;
  // False: there is none, or it is of no use.
  [[nodiscard]] bool take(stream_link& link, std::uint32_t lane) noexcept;
  void refuse(stream_link& link, const error& why) noexcept;
  void use_socket(stream_link& link, const error& why) noexcept;

  lane_exchange* from_ = nullptr;
  std::uint64_t connection_ = 0;
  bool dialled_ = false;
  state now_ = state::socket;
};

}  // namespace atbus::detail
