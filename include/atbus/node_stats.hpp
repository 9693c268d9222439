// Counters of a node, from its start. Every drop has one. Commands and replies are messages too.
#pragma once

#include <cstdint>

namespace atbus {

struct node_stats {
  std::uint64_t accepted = 0;        // messages that send or commit took
  std::uint64_t accepted_bytes = 0;  // their payload
  std::uint64_t delivered = 0;       // messages handed to on_message, commands and replies
  std::uint64_t delivered_bytes = 0;
  std::uint64_t redelivered = 0;      // of these, marked
  std::uint64_t commands = 0;         // of others, handed to a handler or refused for want of one
  std::uint64_t replies = 0;          // to commands of this node's
  std::uint64_t stray_replies = 0;    // dropped: too late, or to no command of this node's
  std::uint64_t would_block = 0;      // sends refused for want of room
  std::uint64_t refused = 0;          // sends refused for another reason
  std::uint64_t not_delivered = 0;    // reported with this outcome
  std::uint64_t outcome_unknown = 0;  // and with this
  std::uint64_t deadline_drops = 0;   // of the reported: their deadline had come
  std::uint64_t overflow_drops = 0;   // dropped for want of room
  std::uint64_t duplicates = 0;       // messages that came again and were dropped
  std::uint64_t broadcast_drops = 0;  // broadcasts to this node that were longer than message_limit
  std::uint64_t registrations = 0;    // links that were registered
  std::uint64_t registrations_failed = 0;
  std::uint64_t links_lost = 0;  // of the registered ones
  std::uint64_t violations = 0;  // links ended because the peer broke the protocol
  std::uint64_t dials = 0;
  std::uint64_t relayed = 0;             // messages of others that were passed on
  std::uint64_t relay_drops = 0;         // and that could not be: no way, or no room on it. Of all
                                         // but broadcasts the origin is told
  std::uint64_t acknowledgements = 0;    // sent
  std::uint64_t sessions_forgotten = 0;  // of nodes that were away for too long
};

}  // namespace atbus
