// How batches of circuits find room in a link that this node fills with messages of its own.
//
// A batch that was refused comes again some time later; the node's user sends whenever it likes, and
// would take all room as soon as there is some. So once a batch was refused the link is shared, for as
// long as batches come. Each time that half of its room is free, the user gets a quarter of it. What is
// left is there for batches: while the user waits for a quarter, twice as much, then they are refused,
// so that half of the room becomes free however many circuits there are.
//
// One thread.
#pragma once

#include <cstddef>
#include <functional>

#include "node/core/node_context.h"
#include "node/core/session_list.h"
#include "node/route/circuit.h"

namespace atbus::detail {

class link_sharing {
 public:
  link_sharing(node_context& node, const session_list& sessions, circuits& relayed)
      : node_(node), sessions_(sessions), circuits_(relayed) {}

  // A batch was refused there.
  void share(session& path) noexcept;
  // Room for a message of the user's, of `size` bytes. False: there is none left of its share; has_room()
  // of hand_out() tells when there is.
  [[nodiscard]] bool take(const peer& to, session& path, std::size_t size) noexcept;
  // Room for a batch of `size` bytes, while the user waits for its share.
  [[nodiscard]] static bool takes_batch(session& path, std::size_t size) noexcept;
  void want(session& path) noexcept;

  // Whether a session waits for its share.
  [[nodiscard]] bool is_wanted() const noexcept { return is_wanted_; }
  void hand_out(const std::function<void(session&)>& has_room);

 private:
  void end();

  node_context& node_;
  const session_list& sessions_;
  circuits& circuits_;
  timer clock_{node_.timers, [this] { end(); }};
  timer look_{node_.timers, [] {}};  // in the poll that it wakes
  bool is_wanted_ = false;
};

}  // namespace atbus::detail
