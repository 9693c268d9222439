// What a sender decides about messages that can't go on.
#pragma once

#include <cstdint>

namespace atbus {

// What to do with a message for which there is no room.
enum class overflow_policy : std::uint8_t {
  would_block,  // refuse it: send says would_block, on_writable tells when to go on
  drop_newest,  // accept it and report it as not delivered
  drop_oldest,  // keep it, and report the oldest that no channel has taken yet
  disconnect,   // break the link to that node and report all that was not delivered
};

// What to do with messages that an earlier life of the receiving process may have handled.
enum class restart_policy : std::uint8_t {
  redeliver,  // the later life gets them, marked: message::redelivered
  report,     // on_undelivered
};

}  // namespace atbus
