// A node's state of another node: the flows in both directions, the links and the dials.
#pragma once

#include <cstdint>
#include <limits>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "atbus/address.hpp"
#include "atbus/bus_id.hpp"
#include "atbus/id_range.hpp"
#include "atbus/node_report.hpp"
#include "core/timer_queue.h"
#include "delivery/incoming_flow.h"
#include "delivery/outgoing_flow.h"
#include "delivery/reported_numbers.h"
#include "node/peer/session.h"
#include "protocol/control.h"
#include "protocol/relation.h"

namespace atbus::detail {

struct peer;

// A dial to an address, or over other nodes. It is repeated until it is cancelled.
struct dial {
  dial(peer* whom, timer_queue& timers, std::optional<address> where, bool by_offer)
      : of(whom), to(std::move(where)), again(timers, nullptr), offered(by_offer) {}

  // For log lines.
  [[nodiscard]] std::string where() const { return to ? to->to_string() : "other nodes"; }
  [[nodiscard]] bool is_relayed() const noexcept { return !to; }
  // Failures of these are not reported one by one, but only if all have failed.
  [[nodiscard]] bool is_to_sibling() const noexcept { return as == relation::sibling; }

  peer* of;                   // null: the parent, with any id
  std::optional<address> to;  // none: over other nodes
  session* at = nullptr;      // under way, or up
  timer again;
  unsigned failures = 0;         // in a row
  unsigned denials = 0;          // among them, in a row
  errc told = errc::ok;          // the failure that was logged last
  bool offered;                  // the peer or the parent named the address, not the user
  bool listed = false;           // the directory names it, and connect() has not
  relation as = relation::peer;  // sibling: the parent has told of it
};

// For reports. The messages sent are those of its flow.
struct peer_counts {
  std::uint64_t sent_bytes = 0;
  std::uint64_t received = 0;
  std::uint64_t received_bytes = 0;
  std::uint64_t would_block = 0;
  std::uint64_t undelivered = 0;
  std::uint64_t queued_bytes_most = 0;
  std::uint64_t links = 0;
  std::uint64_t links_lost = 0;
  errc last_loss = errc::ok;
  std::chrono::system_clock::time_point last_loss_at{};
  time_histogram round_trips;
};

struct peer {
  peer(bus_id who, std::uint64_t numbers_used, timer_queue& timers)
      : id(who),
        out(numbers_used),
        numbers_before(numbers_used),
        forget(timers, nullptr),
        expiry(timers, nullptr) {}

  bus_id id;
  std::size_t message_limit = std::numeric_limits<std::size_t>::max();  // what it takes at most
  node_instance instance;                // the one that registered last; incarnation 0: none yet
  relation as = relation::peer;          // what it is to this node
  std::optional<id_range> range;         // of its children, if it may have any
  std::vector<std::string> addresses{};  // where it listens, as it said last
  host_identity host{};
  peer_policy policy;   // of what is sent to it
  bool silent = false;  // it did not answer when another incarnation asked to register
  outgoing_flow out;
  const std::uint64_t
      numbers_before;  // the first message that was accepted for it has the next one
  incoming_flow in;
  session* in_from = nullptr;  // that announced a number last: what others still carry is old

  session* current = nullptr;  // what is sent goes here
  session* next = nullptr;     // and will go here, once all of `current` is settled
  // In `current`'s place while another incarnation is to handle what an earlier one has left in it.
  session* left_behind = nullptr;
  std::vector<session*> sessions;  // registered ones, all of these too
  bool blocked = false;            // current said would_block and has not told of room since
  bool wants_room = false;         // a send was refused: on_writable is owed
  bool copies_wait = false;        // of topics, for room in current
  bool blobs_wait = false;         // for room in current, or for a link
  bool owes_writable = false;      // an event says that on_writable is to be called
  bool copies_yield = false;       // until the poll after that call: what wants_room goes first
  bool messages_first = false;     // when there is room for both; in turn
  bool wants_topics = false;       // from this node
  bool interest_waits = false;     // what it is to be told of topics, for room
  // Who was told to wait takes no room before it is shared out: link_output::drain.
  [[nodiscard]] bool shares_room() const noexcept {
    return wants_room && blocked && (copies_wait || interest_waits);
  }
  // The access rules refuse some messages or requests of what is sent there, of what comes from there.
  bool checked_to = false;
  bool checked_from = false;
  reported_numbers reported;  // which it has refused, or may refuse yet

  std::list<dial> dials;
  bool wanted = false;  // connect() or the directory names it, until disconnect()
  // For a peer that is not wanted: when to give up its messages.
  timer forget;
  timer expiry;  // of what is held
  // Told to on_endpoint.
  bool told_connected = false;
  errc refused = errc::ok;  // why registration failed last, since it succeeded
  std::chrono::nanoseconds round_trip{0};
  peer_counts counts;
};

}  // namespace atbus::detail
