// The blobs of this node, each of which has one outcome.
//
//   waiting --> begun --> granted --> over    by the end that the receiver says, a cancel, a report that
//                                             something was not delivered, the end of the process that had it
//                                             in hand, or the end of this node
//
// A blob becomes `over` once, whatever comes first. Its call is made between messages. doc/design/blobs.md.
// One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <string_view>
#include <unordered_map>

#include "node/core/blob_party.h"
#include "node/core/directory_watch.h"
#include "node/core/link_output.h"
#include "node/core/outbox.h"
#include "node/core/peer_table.h"
#include "protocol/blob_body.h"

namespace atbus::detail {

class outgoing_blobs {
 public:
  outgoing_blobs(node_context& node, blob_parties& parties, peer_table& peers, outbox& user,
                 link_output& output, directory_watch& directory) noexcept
      : node_(node),
        parties_(parties),
        peers_(peers),
        outbox_(user),
        output_(output),
        directory_(directory) {}

  // See node::send_blob and node::cancel_blob.
  blob_handle send(bus_id to, std::uint32_t type, blob_source source,
                   std::function<void(const blob_outcome&)> call, const blob_options& options);
  status cancel(const blob_handle& which);

  // What a receiver says.
  void take(const node_instance& source, std::uint32_t type, const blob_head& head,
            bytes_view payload);
  // A message to a receiver does not get there.
  void undelivered(bus_id to, const held_message& what, errc reason);
  // That incarnation has registered.
  void registered(blob_party& of, const node_instance& as);
  // Asks there for each that is under way.
  void ask(blob_party& of) noexcept;
  // The process there has ended, or there was no link for too long.
  void lost(blob_party& of);
  // That node knows no blobs.
  void give_up(blob_party& of);
  // This node takes leave of that one.
  void leave(blob_party& of);

  // Sends what there is room for. True: there is more to do at once.
  bool work(blob_party& to);
  // Whether something waits there for room.
  [[nodiscard]] static bool waits(const blob_party& to) noexcept {
    return !to.farewells.empty() || !to.waiting.empty() || !to.active.empty();
  }
  // Makes the calls of those that are over.
  void tell();
  [[nodiscard]] bool has_untold() const noexcept { return !over_.empty(); }
  // What is still to be said of those that are over is waited for only while there is a link.
  [[nodiscard]] bool settled() const noexcept;
  void close() noexcept;

 private:
  using blob_list = std::list<outgoing_blob>;
  enum class put_result : std::uint8_t { sent, blocked, ended };

  // Null: there is none, or it is over.
  [[nodiscard]] outgoing_blob* find(std::uint64_t number) noexcept;
  // Without effect if it is over.
  void end(outgoing_blob& which, status how, std::string_view text = {});
  // The receiver is told as well, if it may know of it.
  void end_there_too(outgoing_blob& which, errc how);
  void end_lost(outgoing_blob& which);
  template <class Is>
  void end_lost_if(blob_party& of, Is&& is_it);
  [[nodiscard]] static errc lost_outcome(const outgoing_blob& which) noexcept;
  [[nodiscard]] bool withdraw_begin(const outgoing_blob& which);
  // Room for a message to the receiver, in the flow.
  [[nodiscard]] std::byte* claim(bus_id to, std::uint32_t type, std::size_t size, status& why);
  // One that waits; ok: it does no more.
  status begin(outgoing_blob& which);
  // A receiver asks about one that is over.
  void answer_unknown(bus_id to, std::uint32_t type, std::uint64_t number);
  status say(bus_id to, std::uint32_t type, const blob_head& head);
  [[nodiscard]] bool say_farewells(blob_party& to);
  [[nodiscard]] bool say_queries(blob_party& to);
  [[nodiscard]] bool begin_waiting(blob_party& to);
  [[nodiscard]] bool send_chunks(blob_party& to);
  [[nodiscard]] bool has_open_link(const peer* of) const noexcept;
  // 0: no chunk fits.
  [[nodiscard]] std::size_t longest_chunk(const peer* of) const noexcept;
  // `to` is null: this node itself.
  put_result put(peer* to, outgoing_blob& which, std::size_t length);
  // The next bytes of it. Not ok: it is over, or the claim is gone.
  [[nodiscard]] bool fill(outgoing_blob& which, std::byte* at, std::size_t length);
  void call_closed(outgoing_blob& which) noexcept;

  node_context& node_;
  blob_parties& parties_;
  peer_table& peers_;
  outbox& outbox_;
  link_output& output_;
  directory_watch& directory_;
  std::unordered_map<std::uint64_t, blob_list::iterator> known_;
  blob_list over_;  // to be told
  std::uint64_t last_ = 0;
  std::size_t farewells_ = 0;           // of all parties
  outgoing_blob* in_source_ = nullptr;  // whose source runs
};

}  // namespace atbus::detail
