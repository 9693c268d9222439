// What goes into a link: the user's messages, control messages, and the direct path of messages that go
// where the one before went.
//
// One claim is open at a time. The direct path is closed before each event and each verb that may change
// where messages go, or that asks how many have gone; the second message in a row to one peer opens it.
// One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "atbus/detail/direct_path.hpp"
#include "node/core/event_queue.h"
#include "node/core/link_sharing.h"
#include "node/core/node_context.h"
#include "node/route/circuit.h"
#include "protocol/control.h"
#include "protocol/message_head.h"

namespace atbus::detail {

class link_output {
 public:
  link_output(node_context& node, event_queue& events, link_sharing& sharing, circuits& relayed);

  // A message of the user's that has room in a link and waits for its commit.
  struct open_claim {
    session* path = nullptr;  // null: there is none
    std::size_t length = 0;
  };
  open_claim claimed;
  [[nodiscard]] bool has_claim() const noexcept {
    return claimed.path != nullptr && claimed.path->at.has_claim();
  }

  // Room for a message of the user's in the link that `to` uses, with its number and its head written;
  // null and why. Then end_data(), which is false if the link has let go of it.
  [[nodiscard]] std::byte* begin_data(peer& to, std::uint64_t number, std::uint32_t type,
                                      std::uint8_t flags, std::size_t length, status& why);
  static bool end_data(session& path, std::size_t length) noexcept {
    if (!path.at.commit(message_head_size + length)) [[unlikely]]
      return false;
    path.last_data = ++path.committed;
    return true;
  }
  // Sends what is held for the peer, as far as there is room.
  void drain(peer& of);
  // Drains it in a moment: there may be memory then.
  void try_again(peer& of) noexcept;
  // Called by drain() for a peer that copies of topics wait for, once nothing else does. Set once.
  void on_room_for_copies(std::function<void(peer&)> call) { drain_copies_ = std::move(call); }
  // Called by it for a peer that is to be told of topics. False: there is less room than that takes. Set once.
  void on_room_for_interest(std::function<bool(peer&)> call) { tell_interest_ = std::move(call); }
  // Called by it for a peer that blobs wait for. Set once.
  void on_room_for_blobs(std::function<void(peer&)> call) { drain_blobs_ = std::move(call); }
  // Whether copies wait only until on_writable was called: peer::copies_yield.
  [[nodiscard]] bool copies_yield() const noexcept { return copies_yield_; }
  void yield_copies(peer& to) noexcept { to.copies_yield = copies_yield_ = true; }
  void end_yielding() noexcept { copies_yield_ = false; }
  // Says which number the next message in that link has.
  status announce(peer& of, session& path, std::uint64_t number);
  // For a message of that size on a link: whether it is to be acknowledged at once.
  [[nodiscard]] std::uint8_t flags_after(session& path, std::size_t size) const noexcept;

  // Room in a link for what is not the user's. The user's open claim there is gone, also if there is none.
  [[nodiscard]] std::byte* claim_in(session& path, std::size_t length, message_purpose purpose,
                                    status& why) noexcept {
    if (direct_session_ == &path)
      close_path();
    if (claimed.path == &path)
      claimed = {};
    return path.at.claim(length, purpose, why);
  }
  // A control message. Not ok: nothing was said, mostly for want of room. What there can be many of leaves
  // room for the others, as data does: without acknowledgements nothing is released.
  template <class Body>
  status say(session& to, const Body& body, message_purpose purpose = message_purpose::control) {
    encode(body, scratch_);
    return send_control(to, scratch_, purpose);
  }
  status send_control(session& to, bytes_view message,
                      message_purpose purpose = message_purpose::control);

  [[nodiscard]] direct_path& path() noexcept { return direct_; }
  [[nodiscard]] const direct_path& path() const noexcept { return direct_; }
  // To whom the direct path leads while it is open; else null.
  [[nodiscard]] const peer* direct_peer() const noexcept {
    return direct_.is_open() ? direct_session_->of : nullptr;
  }
  // A message of the user's was sent there: the second one in a row opens the direct path.
  void sent_data(session& path) noexcept {
    if (direct_session_ == &path)
      open_path(path);
    direct_session_ = &path;
  }
  void close_path() noexcept {
    if (direct_.is_open())
      end_path();
  }
  // The path is closed: the next message does not open it.
  void forget_path() noexcept { direct_session_ = nullptr; }

 private:
  void open_path(session& path) noexcept;
  void end_path() noexcept;

  node_context& node_;
  event_queue& events_;
  link_sharing& sharing_;
  circuits& circuits_;
  direct_path direct_;
  // Of the direct path; while that is closed, of the last message that this poll has sent.
  session* direct_session_ = nullptr;
  byte_buffer scratch_;
  std::function<void(peer&)> drain_copies_;
  std::function<bool(peer&)> tell_interest_;
  std::function<void(peer&)> drain_blobs_;
  bool copies_yield_ = false;
  std::uint64_t last_turn_ = 0;  // flow_body::turn
};

}  // namespace atbus::detail
