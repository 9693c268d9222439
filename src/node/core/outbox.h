// Where a message of the user's gets room: in a link, in what is held for a peer, or in what goes to the
// node itself. And the limits and policies of that.
//
// One claim is open at a time. Another claim takes it away, and so does all that may change where messages go:
// poll, each event of a link but messages, and the verbs that end links. One thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>

#include "node/core/access_control.h"
#include "node/core/directory_watch.h"
#include "node/core/event_queue.h"
#include "node/core/link_output.h"
#include "node/core/loopback.h"
#include "node/core/peer_retention.h"
#include "node/core/peer_table.h"
#include "node/core/reachability.h"
#include "node/core/receive_path.h"
#include "node/core/session_set.h"

namespace atbus::detail {

class outbox {
 public:
  outbox(node_context& node, receive_path& receive, event_queue& events, access_control& access,
         peer_table& peers, const reachability& reach, link_output& output, session_set& sessions,
         loopback& own, peer_retention& retention, directory_watch& directory)
      : node_(node),
        receive_(receive),
        events_(events),
        access_(access),
        peers_(peers),
        reach_(reach),
        output_(output),
        sessions_(sessions),
        loopback_(own),
        retention_(retention),
        directory_(directory) {}

  // As node_core's.
  [[nodiscard]] std::byte* claim(bus_id to, std::uint32_t type, std::size_t length,
                                 status& why) noexcept;
  void commit(std::size_t length) noexcept;
  // Closes the direct paths too, both ways.
  void give_up_claim() noexcept;
  [[nodiscard]] std::uint64_t last_claim() const noexcept { return output_.path().claims; }
  [[nodiscard]] bool has_claim() const noexcept {
    return output_.has_claim() || held_.in != nullptr || held_.to_self;
  }

  [[nodiscard]] std::byte* claim_elsewhere(bus_id to, std::uint32_t type, std::uint8_t flags,
                                           std::size_t length, status& why) noexcept;
  // Sends a command or a reply; it is held when the link is full. `in` is the peer that is known as `to`,
  // or null. A deadline of 0 is none.
  status send_command(peer* in, bus_id to, std::uint32_t type, std::uint8_t flags,
                      bytes_view payload, std::chrono::nanoseconds deadline);
  // Room for a request or a response. `in` as of send_command.
  [[nodiscard]] std::byte* claim_exchange(peer* in, bus_id to, std::uint32_t type,
                                          std::uint8_t flags, std::size_t length,
                                          status& why) noexcept;
  // The same for what a blob needs, which no policy drops, refuses or counts: it comes again when there is room.
  [[nodiscard]] std::byte* claim_blob(peer* in, bus_id to, std::uint32_t type, std::uint8_t flags,
                                      std::size_t length, status& why) noexcept;
  // Whether the rules let a blob of that type begin.
  [[nodiscard]] status check_blob(bus_id to, std::uint32_t type) noexcept;
  // What fits into a message there, as far as is known.
  [[nodiscard]] std::size_t longest_message(bus_id to) noexcept;
  // What waits for a link is reported once the deadline has passed. False: the claim is gone.
  bool commit_exchange(std::size_t length, std::chrono::nanoseconds deadline) noexcept;
  // As node_core's.
  bool send_for_thread(bus_id to, std::uint32_t type, bytes_view bytes);

  // A claim for that peer is taken away.
  void forget(const peer& of) noexcept;

 private:
  // A message that has no room in a link, and waits for its commit.
  struct held_claim {
    peer* in = nullptr;  // it is to be held for that peer;
    bool to_self = false;
    std::size_t length = 0;
    std::list<held_message> held;  // one, so that a commit takes no memory
  };

  // Room in the link of `in`, which may be null; null: it is not as nearly always.
  [[nodiscard]] std::byte* claim_in_link(peer* in, std::uint32_t type, std::uint8_t flags,
                                         std::size_t length) noexcept;
  // The claim in a link is a message now. Null: there is no such claim.
  [[nodiscard]] session* commit_in_link(std::size_t length) noexcept;
  // `in` is the peer that is known as `to`; no other claim is open. Throws std::bad_alloc; then
  // take_back_claim() undoes what has happened.
  [[nodiscard]] std::byte* claim_for(peer* in, bus_id to, std::uint32_t type, std::uint8_t flags,
                                     std::size_t length, status& why);
  [[nodiscard]] status take_back_claim(bus_id to, std::size_t length) noexcept;
  // Room in the link that the peer uses. False: the message is refused or has room, as `at` says; true:
  // it is to be held.
  [[nodiscard]] bool has_to_be_held(peer& in, bus_id to, std::uint32_t type, std::uint8_t flags,
                                    std::size_t length, status& why, std::byte*& at);
  // Messages of blobs have as much room again, of their own.
  [[nodiscard]] bool is_held_full(const peer& in, bool exempt, std::size_t length) const noexcept;
  // False: what is held for the peer has no room for it.
  [[nodiscard]] bool make_room(peer& in, std::uint8_t flags, std::size_t length);
  [[nodiscard]] status check_access(bus_id to, std::uint32_t type, std::uint8_t flags) noexcept;
  void commit_held(std::size_t length) noexcept;
  std::byte* refuse(status reason, status& why) noexcept;

  node_context& node_;
  receive_path& receive_;
  event_queue& events_;
  access_control& access_;
  peer_table& peers_;
  const reachability& reach_;
  link_output& output_;
  session_set& sessions_;
  loopback& loopback_;
  peer_retention& retention_;
  directory_watch& directory_;
  held_claim held_;
};

// Where nearly all messages go that the direct path does not take, without a call that can be spared:
// while lines of a lane come from the other core, each store waits in turn, also that of a register that
// a function saves.
inline std::byte* outbox::claim(bus_id to, std::uint32_t type, std::size_t length,
                                status& why) noexcept {
  output_.close_path();
  peer* const in = peers_.last_found();
  std::byte* const at =
      in != nullptr && in->id == to ? claim_in_link(in, type, 0, length) : nullptr;
  return at != nullptr ? at : claim_elsewhere(to, type, 0, length, why);
}

inline std::byte* outbox::claim_in_link(peer* in, std::uint32_t type, std::uint8_t flags,
                                        std::size_t length) noexcept {
  if (in == nullptr || in->current == nullptr || in->next != nullptr || in->out.holds() ||
      !in->out.follows(in->out.accepted() + 1) ||
      length > std::min(in->message_limit, node_.options.message_limit()) || node_.closed ||
      node_.leaving || in->checked_to || in->shares_room() || held_.in != nullptr || held_.to_self)
      [[unlikely]]
    return nullptr;
  session& path = *in->current;
  const std::size_t size = message_head_size + length;
  if (path.shared || path.unasked_bytes + size >= node_.acknowledge_after()) [[unlikely]]
    return nullptr;
  status why;
  std::byte* const at = path.at.claim(size, message_purpose::data, why);
  if (at == nullptr) [[unlikely]]
    return nullptr;
  path.unasked_bytes += size;
  encode(message_head{message_kind::data, flags, 0, type}, at);
  ++output_.path().claims;
  output_.claimed = {&path, length};
  return at + message_head_size;
}

inline session* outbox::commit_in_link(std::size_t length) noexcept {
  session* const path = output_.claimed.path;
  if (path == nullptr || length > output_.claimed.length) [[unlikely]]
    return nullptr;
  output_.claimed.path = nullptr;
  if (!link_output::end_data(*path, length)) [[unlikely]]
    return nullptr;
  ++node_.stats.accepted;
  node_.stats.accepted_bytes += length;
  outgoing_flow& flow = path->of->out;
  flow.sent(flow.accept());
  path->of->counts.sent_bytes += length;
  return path;
}

inline void outbox::commit(std::size_t length) noexcept {
  session* const path = commit_in_link(length);
  if (path == nullptr) [[unlikely]]
    return commit_held(length);
  output_.sent_data(*path);
}

}  // namespace atbus::detail
