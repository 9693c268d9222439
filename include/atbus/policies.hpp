// What a sender decides about messages that can't go on.
#pragma once

#include <chrono>
#include <cstdint>

namespace atbus {

// What to do with a message for which there is no room.
enum class overflow_policy : std::uint8_t {
  would_block,  // refuse it: send says would_block, on_writable tells when to go on
  drop_newest,  // accept it and report it as not delivered
  drop_oldest,  // keep it, and report the oldest that no channel has taken yet
  disconnect,   // break the link to that node: send says not_connected; what was accepted waits for
                // the next link, and is reported if none comes
};

// What to do with messages that an earlier life of the receiving process may have handled.
enum class restart_policy : std::uint8_t {
  redeliver,  // the later life gets them, marked: message::redelivered
  report,     // on_undelivered
};

// What to do with a message while nobody knows a way to its destination.
enum class delivery_policy : std::uint8_t {
  report,   // on_undelivered, when it is known or the destination has been away for long
  require,  // keep it, and try again until it is delivered, or its deadline has come; that begins
            // anew when a link is lost that had the message
};

// What holds for the messages to one node, instead of what the options say for all.
struct peer_policy {
  overflow_policy overflow = overflow_policy::would_block;
  std::chrono::nanoseconds message_deadline{0};  // as node_options::message_deadline
};

}  // namespace atbus
