/// @struct atbus::node_stats
/// Counters of a node, from its start. Each kind of drop has one. Commands, requests and
/// the answers to them count as messages too. A plain value.
#pragma once

#include <cstdint>

#include "atbus/strangers.hpp"

namespace atbus {

struct node_stats {
  std::uint64_t accepted = 0;         ///< Messages accepted by send or commit.
  std::uint64_t accepted_bytes = 0;   ///< Payload bytes of these.
  std::uint64_t delivered = 0;        ///< Messages handed to on_message, commands and replies.
  std::uint64_t delivered_bytes = 0;  ///< Payload bytes of these.
  std::uint64_t redelivered = 0;      ///< Messages delivered with the mark `redelivered`.
  /// Commands from others: handled, or refused because no handler exists.
  std::uint64_t commands = 0;
  std::uint64_t replies = 0;        ///< Replies to commands of this node.
  std::uint64_t stray_replies = 0;  ///< Replies dropped: too late, or to no command of this node.
  std::uint64_t requests = 0;       ///< Requests that came from others, and from this node itself.
  std::uint64_t expired_requests = 0;  ///< Of these, dropped: their deadline had passed.
  std::uint64_t responses = 0;         ///< Responses to requests of this node.
  std::uint64_t late_responses = 0;    ///< Responses dropped: to a request that has its outcome.
  std::uint64_t malformed = 0;         ///< Messages and requests that were no value of their type.
  std::uint64_t would_block = 0;       ///< Sends refused for lack of room.
  std::uint64_t refused = 0;           ///< Sends refused for another reason.
  std::uint64_t not_delivered = 0;     ///< Messages with the outcome not_delivered.
  std::uint64_t outcome_unknown = 0;   ///< Messages with the outcome outcome_unknown.
  std::uint64_t deadline_drops = 0;    ///< Messages reported because their deadline had passed.
  std::uint64_t overflow_drops = 0;    ///< Messages dropped for lack of room.
  std::uint64_t duplicates = 0;        ///< Messages that came again and were dropped.
  /// Broadcasts to this node that were dropped: too long, or passed on without a token.
  std::uint64_t broadcast_drops = 0;
  std::uint64_t registrations = 0;  ///< Links that were registered.
  /// Registrations that failed, and TCP links that ended in their TLS handshake.
  std::uint64_t registrations_failed = 0;
  stranger_stats strangers = {};  ///< Socket links that were accepted and did not register.
  std::uint64_t links_lost = 0;   ///< Registered links that were lost.
  std::uint64_t violations = 0;   ///< Links ended because the peer broke the protocol.
  std::uint64_t dials = 0;        ///< Attempts to connect.
  std::uint64_t relayed = 0;      ///< Messages of other nodes that were passed on.
  /// Messages not passed on: no route, or no room on it. The origin is told of all but broadcasts.
  std::uint64_t relay_drops = 0;
  /// Messages, requests, commands and broadcasts that the access rules refused: this node's own, those
  /// that came, and those that were not passed on.
  std::uint64_t access_denied = 0;
  std::uint64_t acknowledgements = 0;    ///< Acknowledgements sent.
  std::uint64_t sessions_forgotten = 0;  ///< Sessions of nodes that were away for too long.
  std::uint64_t published = 0;           ///< Messages accepted by topic::publish.
  /// Copies of topics put into links, and marks of what was dropped; this node's own, and passed on.
  std::uint64_t topic_copies = 0;
  std::uint64_t topic_drops = 0;  ///< Copies dropped: a subscriber or a link was too slow.
  std::uint64_t topic_messages =
      0;                           ///< Messages handed to subscriptions; `delivered` has them too.
  std::uint64_t topic_missed = 0;  ///< Messages that subscriptions of this node have missed.
  /// Copies dropped: of topics that are not wanted, or of a publisher that can't be where they came from.
  std::uint64_t topic_strays = 0;
  std::uint64_t subscriptions_refused = 0;  ///< Subscriptions of others: there were too many.
  std::uint64_t blobs_sent = 0;      ///< Blobs of this node's that their receivers have taken.
  std::uint64_t blobs_failed = 0;    ///< Blobs of this node's with another outcome.
  std::uint64_t blobs_received = 0;  ///< Blobs of others that were taken here.
  std::uint64_t blobs_broken = 0;    ///< Blobs that broke off, or were refused in the middle.
  std::uint64_t blobs_refused = 0;   ///< Blobs that were refused at their beginning.
};

}  // namespace atbus
