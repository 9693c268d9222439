// Counters of a node, from its start. Each kind of drop has one. Commands and replies count as
// messages too. A plain value.
#pragma once

#include <cstdint>

namespace atbus {

struct node_stats {
  std::uint64_t accepted = 0;        // messages accepted by send or commit
  std::uint64_t accepted_bytes = 0;  // their payload
  std::uint64_t delivered = 0;       // messages handed to on_message, commands and replies
  std::uint64_t delivered_bytes = 0;
  std::uint64_t redelivered = 0;      // of the delivered: with the mark
  std::uint64_t commands = 0;         // from others: handled, or refused because no handler exists
  std::uint64_t replies = 0;          // to commands of this node
  std::uint64_t stray_replies = 0;    // dropped: too late, or to no command of this node
  std::uint64_t would_block = 0;      // sends refused for lack of room
  std::uint64_t refused = 0;          // sends refused for another reason
  std::uint64_t not_delivered = 0;    // messages with this outcome
  std::uint64_t outcome_unknown = 0;  // messages with this outcome
  std::uint64_t deadline_drops = 0;   // reported because their deadline had passed
  std::uint64_t overflow_drops = 0;   // dropped for lack of room
  std::uint64_t duplicates = 0;       // messages that came again and were dropped
  std::uint64_t broadcast_drops = 0;  // broadcasts to this node: too long, or passed on without a
                                      // token
  std::uint64_t registrations = 0;    // links that were registered
  std::uint64_t registrations_failed = 0;
  std::uint64_t links_lost = 0;  // registered links that were lost
  std::uint64_t violations = 0;  // links ended because the peer broke the protocol
  std::uint64_t dials = 0;
  std::uint64_t relayed = 0;      // messages of other nodes that were passed on
  std::uint64_t relay_drops = 0;  // messages not passed on: no route, or no room on it. The origin
                                  // is told of all but broadcasts
  std::uint64_t acknowledgements = 0;    // sent
  std::uint64_t sessions_forgotten = 0;  // of nodes that were away for too long
};

}  // namespace atbus
