// The control messages of two nodes: what is in each, and their bytes.
//
// A control message is a head and a body; the body is a msgpack map with small whole numbers as keys.
// Unknown keys are skipped, whatever their values are. Any other deviation is refused with an error
// (protocol_error) that names the field. Reading keeps no more than a body below can hold, whatever a peer
// announces.
//
// Pure. doc/design/protocol.md has the keys.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "atbus/bus_id.hpp"
#include "atbus/bytes.hpp"
#include "atbus/status.hpp"
#include "protocol/message_head.h"
#include "protocol/relation.h"

namespace atbus::detail {

inline constexpr std::uint16_t protocol_version = 2;

inline constexpr std::size_t control_depth_max = 8;        // containers inside one another
inline constexpr std::size_t control_elements_max = 1024;  // values of one body, keys too
inline constexpr std::size_t addresses_max = 64;
inline constexpr std::size_t address_size_max = 240;  // so that as many of them fit
inline constexpr std::size_t text_size_max = 256;
// Bits of introduction::capabilities.
inline constexpr std::uint64_t capability_topics = 1;
inline constexpr std::uint64_t capability_blobs = 2;
inline constexpr unsigned range_length_max = 63;  // a longer prefix leaves no id to a child

using handshake_nonce = std::array<std::byte, 32>;
using host_identity = std::array<std::byte, 16>;
using message_mac = std::array<std::byte, 32>;
using byte_buffer = std::vector<std::byte>;

// A node's introduction of itself.
struct introduction {
  std::uint16_t version_min = protocol_version;
  std::uint16_t version_max = protocol_version;
  std::uint64_t capabilities = 0;  // one bit each; those that both ends have are used
  bus_id id;
  std::uint64_t incarnation = 0;
  handshake_nonce nonce{};               // random, new for each handshake
  std::vector<std::string> addresses{};  // where it listens; addresses above a limit are left out
  host_identity host{};                  // the same on both sides: one host and one network
  std::uint64_t message_limit = 0;       // payload bytes of the longest message it accepts
  bus_id range_first{};                  // of the ids of its children, where it may have any
  std::uint8_t range_length = 0;         // of the prefix that they share, in bits; 0: it has none
  relation as = relation::peer;          // its relation to the other end

  friend bool operator==(const introduction&, const introduction&) = default;
};

// The sender's position in the flow of the node that receives this.
struct resume_point {
  std::uint64_t session = 0;  // the session of that flow; never 0
  std::uint64_t last = 0;     // the highest number it has handled
  bool sole = false;          // it has no other link to that node any more
  // Another incarnation of that node has taken its place: messages of this one are never accepted again.
  bool superseded = false;

  friend bool operator==(const resume_point&, const resume_point&) = default;
};

struct hello_body {
  static constexpr auto kind = message_kind::hello;
  introduction self;
  bus_id expected;  // the id that is dialled; 0: any node
  friend bool operator==(const hello_body&, const hello_body&) = default;
};

struct welcome_body {
  static constexpr auto kind = message_kind::welcome;
  introduction self;
  std::uint16_t version = 0;  // the highest common version
  friend bool operator==(const welcome_body&, const welcome_body&) = default;
};

// The last two messages of a handshake end in a MAC behind the body; it is all zeroes without a token.
struct proof_body {
  static constexpr auto kind = message_kind::proof;
  resume_point resume;
  message_mac mac{};
  friend bool operator==(const proof_body&, const proof_body&) = default;
};

struct accept_body {
  static constexpr auto kind = message_kind::accept;
  resume_point resume;
  message_mac mac{};
  friend bool operator==(const accept_body&, const accept_body&) = default;
};

// The handshake has failed; nothing follows. The reason may be unknown to this version, and the text is the
// peer's: print it with in_quotes(). Writing cuts off text beyond text_size_max.
struct refuse_body {
  static constexpr auto kind = message_kind::refuse;
  errc reason = errc::denied;
  std::string text;
  friend bool operator==(const refuse_body&, const refuse_body&) = default;
};

struct acknowledge_body {
  static constexpr auto kind = message_kind::acknowledge;
  std::uint64_t handled = 0;  // messages of any kind since the link opened
  friend bool operator==(const acknowledge_body&, const acknowledge_body&) = default;
};

struct ping_body {
  static constexpr auto kind = message_kind::ping;
  std::uint64_t number = 0;
  friend bool operator==(const ping_body&, const ping_body&) = default;
};

struct pong_body {
  static constexpr auto kind = message_kind::pong;
  std::uint64_t number = 0;  // the ping's
  friend bool operator==(const pong_body&, const pong_body&) = default;
};

struct flow_body {
  static constexpr auto kind = message_kind::flow;
  std::uint64_t next = 0;    // number of the next data message
  std::uint64_t before = 0;  // and of the last one before it on this link
  std::uint64_t turn = 0;  // counts the announcements of this incarnation on all links; 0: unknown
  friend bool operator==(const flow_body&, const flow_body&) = default;
};

// The sender leaves; nothing follows. For reason and text see refuse_body.
struct bye_body {
  static constexpr auto kind = message_kind::bye;
  errc reason = errc::ok;
  std::string text;
  friend bool operator==(const bye_body&, const bye_body&) = default;
};

// Where the sender listens now.
struct addresses_body {
  static constexpr auto kind = message_kind::addresses;
  std::vector<std::string> addresses;
  friend bool operator==(const addresses_body&, const addresses_body&) = default;
};

// From a child to its parent: asks which of its children has that id, or has it below.
struct where_body {
  static constexpr auto kind = message_kind::where;
  bus_id id;
  friend bool operator==(const where_body&, const where_body&) = default;
};

// The answer, if there is one: a sibling.
struct found_body {
  static constexpr auto kind = message_kind::found;
  bus_id asked;
  bus_id id;
  std::vector<std::string> addresses;
  host_identity host{};
  friend bool operator==(const found_body&, const found_body&) = default;
};

// The asking node waits no longer for the response to a request. There is no answer.
struct cancel_body {
  static constexpr auto kind = message_kind::cancel;
  std::uint64_t number = 0;  // of the request
  friend bool operator==(const cancel_body&, const cancel_body&) = default;
};

// The asking node asks a process that has registered. A request that is not in hand there gets a response of
// outcome_unknown; else there is no answer.
struct in_hand_body {
  static constexpr auto kind = message_kind::in_hand;
  std::uint64_t number = 0;  // of the request
  friend bool operator==(const in_hand_body&, const in_hand_body&) = default;
};

// The access rules refuse a message of the flow: its handler does not get it. There is no answer.
struct turned_away_body {
  static constexpr auto kind = message_kind::turned_away;
  std::uint64_t number = 0;
  std::uint64_t type = 0;     // the user's
  std::uint64_t handled = 0;  // as of acknowledge_body, with this message
  bool redelivered = false;   // an earlier incarnation may have handled it
  friend bool operator==(const turned_away_body&, const turned_away_body&) = default;
};

// Which topic the sender wants from the other end, or no longer wants. Begin and marks answer (topic_head.h).
struct interest_body {
  static constexpr auto kind = message_kind::interest;
  std::string topic{};  // empty: none, only `fresh` or `whole`
  bool wanted = false;
  std::uint8_t slow = 0;      // an overflow_policy, but not disconnect
  std::uint64_t waiting = 0;  // 1 to topic_waiting_max, if it is wanted
  bool fresh = false;         // the first on this link: all that is wanted is told again
  bool whole = false;         // the last of these: what was not told again is not wanted any more
  // Counts what this incarnation has told, so that the latest counts; 0: that is not of use. Begin and refused have the
  // same number.
  std::uint64_t turn = 0;
  friend bool operator==(const interest_body&, const interest_body&) = default;
};

// Replaces the contents of `message` by a whole message with its head, at most control_size_max bytes.
// Allocates nothing if `message` has the room.
template <class Body>
void encode(const Body& body, byte_buffer& message);

// Reads a whole message of that kind; `body` is valid only without an error. Does not allocate for a body of
// one number, written as by encode().
template <class Body>
[[nodiscard]] error decode(bytes_view message, Body& body);

}  // namespace atbus::detail
