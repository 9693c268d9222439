/// @file
/// What a sending node does with messages that it can't send or deliver now. Plain values.
#pragma once

#include <chrono>
#include <cstdint>

namespace atbus {

/// What to do with a message for which there is no room.
enum class overflow_policy : std::uint8_t {
  would_block,  ///< Refuses it: send returns would_block; on_writable tells when there is room.
  drop_newest,  ///< Accepts it and reports it as not delivered.
  drop_oldest,  ///< Keeps it, and reports the oldest one that no channel has taken yet.
  disconnect,  ///< Breaks the link to that node: send returns not_connected. Accepted messages wait
               ///< for the next link, and are reported if none comes.
};

/// What to do with messages that an earlier incarnation of the receiving process may have handled.
enum class restart_policy : std::uint8_t {
  redeliver,  ///< The later incarnation gets them, marked: message::redelivered.
  report,     ///< They are reported to on_undelivered.
};

/// What to do with a message while no route to its destination is known.
enum class delivery_policy : std::uint8_t {
  report,  ///< Reports it to on_undelivered, once it is known that no route exists or the
           ///< destination has been away for node_options::first_idle_timeout.
  require,  ///< Keeps it and retries until it is delivered, or its deadline has passed. If a link that
            ///< had the message is lost, the deadline starts anew.
};

/// Policy for the messages to one node, in place of the node's options; see node::set_policy.
struct peer_policy {
  /// What to do with a message for which there is no room.
  overflow_policy overflow = overflow_policy::would_block;
  /// How long a message may wait, as node_options::message_deadline.
  std::chrono::nanoseconds message_deadline{0};
};

}  // namespace atbus
