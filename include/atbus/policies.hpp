// Policies of a sending node for messages that can't be sent on or delivered. Plain values.
#pragma once

#include <chrono>
#include <cstdint>

namespace atbus {

// What to do with a message for which there is no room.
enum class overflow_policy : std::uint8_t {
  would_block,  // refuse it: send returns would_block; on_writable tells when there is room
  drop_newest,  // accept it and report it as not delivered
  drop_oldest,  // keep it, and report the oldest one that no channel has taken yet
  disconnect,   // break the link to that node: send returns not_connected. Accepted messages wait
                // for the next link, and are reported if none comes
};

// What to do with messages that an earlier incarnation of the receiving process may have handled.
enum class restart_policy : std::uint8_t {
  redeliver,  // the later incarnation gets them, marked: message::redelivered
  report,     // report them to on_undelivered
};

// What to do with a message while no route to its destination is known.
enum class delivery_policy : std::uint8_t {
  report,   // on_undelivered, once that is known or the destination has been away for long
  require,  // keep it and retry until it is delivered, or its deadline has passed. The deadline
            // starts anew when a link is lost that had the message
};

// Policy for the messages to one node, in place of the node's options; see node::set_policy.
struct peer_policy {
  overflow_policy overflow = overflow_policy::would_block;
  std::chrono::nanoseconds message_deadline{0};  // as node_options::message_deadline
};

}  // namespace atbus
