// A node's state of one link, from its opening through the handshake to its end, with its counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/timer_queue.h"
#include "delivery/incoming_flow.h"
#include "node/link/link.h"
#include "node/peer/sibling_search.h"
#include "protocol/handshake.h"

namespace atbus::detail {

struct peer;
struct dial;

enum class session_stage : std::uint8_t {
  opening,      // the channel is not open yet
  registering,  // the handshake goes on
  registered,
  away,     // the process at the other end is gone; the next incarnation finds the messages
  dropped,  // ends next; further messages are ignored
};

struct session {
  session(timer_queue& timers, link& link_of_it, std::function<void()> on_timer)
      : at(link_of_it),
        is_direct(link_of_it.kind() != link_kind::relayed),
        clock(timers, std::move(on_timer)) {}

  link& at;
  const bool is_direct;  // false: over other nodes
  session_stage stage = session_stage::opening;
  dial* dialled = nullptr;  // the dial that opened it; null: accepted, or the dial was cancelled
  bool by_us = false;
  std::unique_ptr<handshake> shake;  // until it is registered
  // Once registered, until the other end has registered this one too: where it listens.
  std::optional<std::vector<std::string>> offers;
  peer* of = nullptr;            // once registered
  node_instance instance;        // of the other end, once registered
  relation as = relation::peer;  // what the other end is to this node, as this link sees it
  host_identity host{};
  bool encrypted = false;     // the link is
  bool knows_topics = false;  // the other end does (capability_topics)
  bool knows_blobs = false;
  std::string address;      // link::peer, once a report has asked for it
  message_mac proven_by{};  // the name of its token, once registered
  answer_budget answers;    // to a child that asks for siblings
  // When its handshake began, and when it was registered: counted in registrations of the node's.
  std::uint64_t began_after = 0;
  std::uint64_t registration = 0;
  // The positions in a handshake may be older than a link that registered after the handshake began.
  [[nodiscard]] bool is_newer_than(const session& other) const noexcept {
    return other.registration <= began_after;
  }
  bool gives_way = false;  // dropped, but not ended: another link to that incarnation registers
  bool said_sole = false;  // this link was the only one of ours when the answer was given
  // While registering: this node's position in the flow of that incarnation.
  bool has_flow = false;
  node_instance flow_of;
  node_instance told_position;  // to this incarnation, in this handshake
  incoming_flow flow;

  // Whether the other end has handled all user messages.
  [[nodiscard]] bool settled() const noexcept {
    return keeps ? released >= last_data : at.settled();
  }
  resume_point answer;  // its position in this node's flow
  // Whether earlier messages can no longer arrive, because neither end knew of another link.
  [[nodiscard]] bool is_answer_final() const noexcept { return said_sole && answer.sole; }
  errc failure = errc::ok;  // why it did not register
  byte_buffer refusal;      // sent when the clock is due
  bool superseded =
      false;  // another incarnation of its id has come since: it is told so, and no more
  bool too_slow = false;        // its queue was full: the link has to be ended
  bool owes_addresses = false;  // this node's addresses are to be sent
  byte_buffer goodbye;    // dropped, and ended once the message in hand is handled: what is said
  bool given_up = false;  // disconnect() ends it: unsettled messages are reported
  std::chrono::nanoseconds registered_at{0};
  std::chrono::nanoseconds left_at{0};  // since when it is away
  // How many of this node's addresses its handshake has named.
  std::size_t addresses_told = 0;

  // Counted since the link opened, messages of every kind.
  std::uint64_t handled = 0;
  std::uint64_t told = 0;  // of these, acknowledged
  std::uint64_t untold_at =
      0;  // `handled` with the first one that is refused, and whose word waits; 0: none
  std::uint64_t committed = 0;
  std::uint64_t released = 0;
  std::uint64_t last_data = 0;    // `committed` after the last message of the user's, or its number
  std::size_t unasked_bytes = 0;  // sent since we asked for an acknowledgement
  bool keeps = false;             // link::keeps
  // Batches of circuits found no room beside this node's own messages. While `shared` is set, the node may
  // send `share_left` more bytes of its own (node_sharing.cpp).
  bool shared = false;
  std::size_t share_left = 0;
  bool wants_share = false;  // its node's user does
  // Of batches that went while it did, and how many may before its next share.
  std::size_t carried_bytes = 0;
  std::size_t carried_most = 64 * 1024;
  bool carried = false;  // a batch, since the last look
  std::chrono::nanoseconds acknowledged_at{0};
  bool acknowledge_listed = false;
  bool acknowledge_now = false;
  std::uint64_t committed_at_flush = 0;

  // First the registration timeout, then pings. While it is away: when to look for another way.
  timer clock;
  std::uint64_t handled_at_ping = 0;
  std::uint64_t bytes_read_at_ping = 0;
  std::uint64_t data_at_ping = 0;         // messages of the user's, both ways
  std::chrono::nanoseconds active_at{0};  // when a ping found that there had been some
  unsigned unanswered = 0;
  unsigned pings_spared = 0;  // in a row: the other end was heard
  bool probed = false;  // another node with its id asks to register: it has `probe_time` to answer
  std::uint64_t ping_number = 0;
  std::chrono::nanoseconds ping_sent{0};
};

[[nodiscard]] inline session* session_of(link& at) noexcept {
  return static_cast<session*>(at.context);
}

}  // namespace atbus::detail
