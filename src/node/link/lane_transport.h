// Links through shared memory, shm:// and mem://: pairs of lanes. And those that begin at a socket,
// unix://.
//
// A node has an inbox (a receiver) for each kind: the one it listens on, or a private one that is made at the
// first dial. A link is a lane of this node in the other's inbox, and a lane of the other in this node's
// inbox. The dialling node writes a call into its lane, with the address of its inbox; the other end opens a
// lane there and answers (pairing_record.h). For a Unix connection, each end passes the other a lane of an
// inbox without a name (lane_pairing.h), and the link is open at once.
//
// What ends a link:
//  - close() and abort() drop the other end's lane in our inbox, then end our own lane in theirs: it
//    sees the end of our lane, and that its own was dropped.
//  - A process that dies drops nothing. If its inbox is private, the link is closed, and the other end
//    removes the inbox. If the inbox outlives its process, the link has `left` until another process holds
//    the inbox. Then the link calls again, behind the messages that wait in its lane.
// A lane shows which of its messages were handled, so the others are known exactly. The exception is a link
// that is aborted while the other end is alive and may be handling a message.
//
// doc/design/node_channels.md has the states.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "channel/handover/lane_pairing.h"
#include "node/link/link.h"
#include "node/link/pairing_record.h"
#include "system/guarded_file.h"

namespace atbus::detail {

class lane_link;

struct lane_transport_options {
  // The longest message of a link in bytes, with whatever the node puts before the user's.
  // 0: ATBUS_MACRO_MSG_LIMIT + 8.
  std::uint64_t message_limit = 0;
  // Of each inbox, as in receiver_options.
  std::uint32_t lanes = 0;
  std::uint64_t lane_size = 0;
  std::string directory = "/dev/shm";
  // How long the other end may take to answer.
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds{5};
};

class lane_transport final : public transport, public lane_exchange {
 public:
  explicit lane_transport(lane_transport_options options = {});
  ~lane_transport() override;

  void start(const node_instance& self, link_events& events) override;
  result<std::string> listen(const address& at) override;
  [[nodiscard]] std::uint64_t message_limit() const noexcept override;
  result<link*> connect(const address& to) override;
  void close() noexcept override;
  std::size_t poll(const poll_limits& limits) override;
  void end_poll() noexcept override;
  void flush() noexcept override;
  [[nodiscard]] int descriptor() const noexcept override { return epoll_.get(); }
  bool prepare_sleep() override;
  void finish_sleep() override;
  [[nodiscard]] std::chrono::nanoseconds longest_sleep() const noexcept override;
  [[nodiscard]] bool has_lanes() const noexcept override {
    return !inboxes_.empty() && waiting_.empty();  // room is seen by the kernel's means only
  }
  [[nodiscard]] bool has_messages() noexcept override;

  result<ends> offer_lane(std::uint64_t connection) noexcept override;
  error take_lane(std::uint64_t connection, ends theirs) noexcept override;
  void give_up(std::uint64_t connection, const error& why) noexcept override;
  // The link over the lanes that were exchanged for that connection; the caller reports that it is open.
  // `peer` is for texts. Null: the other end has not announced itself in its lane.
  [[nodiscard]] link* join(std::uint64_t connection, const std::string& peer);

 private:
  friend class lane_link;

  // Whose a lane of an inbox is.
  struct place {
    lane_link* link = nullptr;
    std::uint64_t session = 0;
  };
  struct inbox {
    receiver in;
    address where;
    bool durable = false;
    std::uint64_t changes_seen = 0;  // receiver::session_changes
    std::vector<place> lanes = {};
    std::optional<std::uint32_t> refused = {};  // to be dropped when its poll has ended
  };

  // Lanes for a connection that is about to open.
  struct exchange {
    std::uint64_t connection = 0;
    std::optional<std::uint32_t> lane = {};  // ours, for the other end
    std::optional<sender> out = {};          // in the other end's
  };
  [[nodiscard]] exchange& exchange_for(std::uint64_t connection);
  [[nodiscard]] result<ends> try_offer_lane(std::uint64_t connection);
  [[nodiscard]] error try_take_lane(std::uint64_t connection, ends theirs);
  [[nodiscard]] result<receiver> open_handed(const address& at, const receiver_options& options);

  // Inboxes.
  [[nodiscard]] result<inbox*> open_inbox(const address& at, bool durable);
  [[nodiscard]] result<inbox*> own_inbox(address_kind kind);
  [[nodiscard]] address private_address(address_kind kind) const;
  void clean_earlier_incarnations() const;

  // What comes through them.
  taken receive(inbox& from, const received_message& message);
  taken receive_other(inbox& from, const received_message& message);
  void called(inbox& from, const received_message& message, const pairing_record& call);
  void answered(inbox& from, const received_message& message, const pairing_record& answer);
  void refuse(inbox& from, std::uint32_t lane, const std::string& what);
  void look_for_ends(inbox& at);

  // Links come and go.
  lane_link& add(inbox& own, std::string peer);
  void call(lane_link& of);
  void attach(lane_link& of, std::uint32_t lane, std::uint64_t session);
  void lane_ended(lane_link& of) noexcept;
  void judge_end(lane_link& of) noexcept;
  void tend(lane_link& of);
  void end(lane_link& of, error why) noexcept;
  void watch(lane_link& of, std::chrono::nanoseconds again_in) noexcept;
  void unwatch(lane_link& of) noexcept;
  void wait_for_room(lane_link& of) noexcept;
  void wait_no_more(lane_link& of) noexcept;
  void due(lane_link& of) noexcept;
  void tell_due();
  void tell_problems();
  void ring_again() noexcept;
  void tell_writable();
  void tend_watched();

  lane_transport_options options_;
  node_instance self_;
  link_events* events_ = nullptr;
  guarded_file epoll_;
  std::vector<std::unique_ptr<inbox>> inboxes_;
  std::vector<std::unique_ptr<lane_link>> links_;
  // Each of these has room for all links, so that a link joins it without memory.
  std::vector<lane_link*> watched_;      // to be looked at again at a time of their own
  std::vector<lane_link*> waiting_;      // for room in their lanes
  std::vector<lane_link*> unpublished_;  // something was appended there
  std::vector<lane_link*> due_;          // to be told that they have ended, or left
  std::vector<error> problems_;
  std::vector<exchange> exchanges_;
  std::size_t rings_owed_ = 0;     // senders that owe one, because the kernel had no memory for it
  error no_handed_;                // why there is no inbox for connections, once that is known
  std::vector<errc> sockets_why_;  // why connections were left without lanes, as far as told
  std::size_t turn_ = 0;           // the inbox that is first in the next poll
  bool polling_ = false;
  bool poll_ends_ = false;
  bool closed_ = false;
  bool room_unwatched_ = false;  // the kernel refused to watch for room in some lane
};

}  // namespace atbus::detail
