// The blobs of other nodes that this node's handlers take.
//
//   receiving --> over    all was taken; or it was refused, or broke off
//
// A blob becomes `over` once. Its receiver is told the end between messages, and then the sender. A blob is kept
// until both are done. doc/design/blobs.md. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "node/core/access_control.h"
#include "node/core/blob_party.h"
#include "node/core/event_queue.h"
#include "node/core/outbox.h"
#include "node/core/peer_retention.h"
#include "node/core/peer_table.h"
#include "protocol/blob_body.h"

namespace atbus::detail {

class incoming_blobs {
 public:
  incoming_blobs(node_context& node, blob_parties& parties, event_queue& events,
                 access_control& access, peer_table& peers, outbox& user,
                 peer_retention& retention) noexcept
      : node_(node),
        parties_(parties),
        events_(events),
        access_(access),
        peers_(peers),
        outbox_(user),
        retention_(retention) {}

  // `call` is called with a blob that is over, where there is no memory to say so or to remember it. Set once.
  void on_unsaid(std::function<void(const blob_id&, std::uint32_t type)> call) {
    unsaid_ = std::move(call);
  }

  // See node::resume_blob and node::refuse_blob.
  status resume(const blob_id& which);
  status refuse(const blob_id& which, std::string_view why);

  // What a sender says.
  void take(const node_instance& source, std::uint32_t type, const blob_head& head,
            bytes_view payload, bool redelivered);
  // A message to a sender does not get there.
  void undelivered(bus_id to, const held_message& what, errc reason);
  // As of outgoing_blobs.
  void registered(blob_party& of, const node_instance& as);
  void ask(blob_party& of) noexcept;
  void lost(blob_party& of);
  void leave(blob_party& of);
  void work(blob_party& to);
  // Whether something waits there for room.
  [[nodiscard]] static bool waits(const blob_party& to) noexcept;
  void tell();
  [[nodiscard]] bool has_untold() const noexcept { return !over_.empty(); }
  void close() noexcept;

 private:
  using blob_list = std::list<receiving_blob>;
  struct key {
    explicit key(const blob_id& of) noexcept
        : source(of.source.value()), incarnation(of.incarnation), number(of.number) {}
    std::uint64_t source;
    std::uint64_t incarnation;
    std::uint64_t number;
    friend auto operator<=>(const key&, const key&) noexcept = default;
  };

  // How many of that node are known, also those that are over.
  [[nodiscard]] std::size_t known_of(bus_id source) const noexcept;
  // Also one that is over.
  [[nodiscard]] receiving_blob* find(const blob_id& which) noexcept;
  void begin(const blob_id& id, std::uint32_t type, std::uint64_t size, std::string_view note,
             bool redelivered);
  // Why no more of that node's are taken; ok: they are.
  [[nodiscard]] errc check_begin(const blob_id& id, std::uint32_t type,
                                 std::uint64_t size) noexcept;
  // One that is known from now on; nullptr: there is no memory for it.
  [[nodiscard]] receiving_blob* make(const blob_id& id, std::uint32_t type,
                                     std::uint64_t size) noexcept;
  // What comes of one that is over.
  void take_over(receiving_blob& which, blob_step step);
  void chunk(receiving_blob& which, std::uint64_t position, bytes_view bytes);
  // Its receiver has refused it, or threw.
  void give_up(receiving_blob& which, std::string_view why);
  // All is taken.
  void finish(receiving_blob& which);
  // The receiver is told `how`, if there is any; the sender `said`, unless that is ok.
  void break_off(receiving_blob& which, status how, errc said, std::string_view text = {});
  void move_over(receiving_blob& which) noexcept;
  void tell_first();
  void tell_of_close(const receiving_blob& which);
  // Whether it was said, or can't be.
  [[nodiscard]] bool say_end(receiving_blob& which);
  [[nodiscard]] bool say_grant(receiving_blob& which);
  // Now, or at the end of this poll.
  void grant(receiving_blob& which);
  // Tells the sender of one that is not known here that it is over: now, or when there is room.
  void answer(const blob_id& id, std::uint32_t type, errc said, std::string_view text = {});
  void owe(const blob_id& id, std::uint32_t type, errc said, std::string_view text = {});
  // As much of the text as there is room for in a message.
  status say(const blob_id& to, std::uint32_t type, const blob_head& head,
             std::string_view text = {}, std::uint64_t limit = 0);
  [[nodiscard]] std::byte* claim(const blob_id& to, std::uint32_t type, std::size_t size,
                                 status& why);

  node_context& node_;
  blob_parties& parties_;
  event_queue& events_;
  access_control& access_;
  peer_table& peers_;
  outbox& outbox_;
  peer_retention& retention_;
  std::function<void(const blob_id&, std::uint32_t)> unsaid_;
  std::map<key, blob_list::iterator> known_;
  blob_list over_;                     // to be told
  receiving_blob* in_hand_ = nullptr;  // whose receiver runs
};

}  // namespace atbus::detail
