// Requests: those of this node, each of which has one outcome, and the answers to those of others.
//
//   waiting --> told    by the response, the deadline, a cancel, the report that it was not delivered,
//                       the end of the process that had it in hand, or the end of this node
//
// An entry leaves the table once, whatever comes first; what comes later finds another number there.
// doc/design/requests.md has the argument. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "atbus/request.hpp"
#include "node/core/directory_watch.h"
#include "node/core/event_queue.h"
#include "node/core/kept_requests.h"
#include "node/core/link_output.h"
#include "node/core/outbox.h"
#include "node/core/peer_retention.h"
#include "node/core/peer_table.h"
#include "node/core/request_table.h"
#include "protocol/message_head.h"

namespace atbus::detail {

class request_exchange {
 public:
  request_exchange(node_context& node, event_queue& events, access_control& access,
                   peer_table& peers, outbox& user, link_output& output, peer_retention& retention,
                   directory_watch& directory)
      : node_(node),
        events_(events),
        access_(access),
        peers_(peers),
        outbox_(user),
        output_(output),
        retention_(retention),
        directory_(directory) {}

  // See node::request and node::cancel.
  request_handle ask(bus_id to, std::uint32_t type, bytes_view bytes,
                     std::chrono::nanoseconds timeout, const std::optional<trace_context>& trace,
                     request_call call);
  status cancel(const request_handle& which);
  // As cancel, but no call is made.
  void forget(const request_handle& which) noexcept;

  // Outlives this object, and becomes false once close() is over: nothing is to be forgotten any more.
  [[nodiscard]] std::shared_ptr<const bool> is_open() const noexcept { return open_; }

  // How many requests to that node wait for their outcome.
  [[nodiscard]] std::size_t waiting_for(bus_id id) const noexcept { return table_.waiting_for(id); }

  // A request or a response has come; behind a traced one is its context. `same_clock`: its deadline is of this
  // host's clock. False: it makes no sense, or may not come from there.
  bool deliver(const node_instance& source, const message_head& head, bytes_view payload,
               bool redelivered, bool same_clock);
  // The asking node waits no longer.
  void cancelled(const node_instance& source, std::uint64_t number) noexcept;

  // A request or a response of this node's does not get there.
  void undelivered(const held_message& what, errc reason);
  // When the time of the request in that message is over; none: its outcome was told already.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> deadline_of(
      const held_message& sent) noexcept;
  // That peer has registered through that link. It is asked about each request that does not wait for it.
  void registered(peer& of, session& through);
  // The asking node wants to know whether that request is in hand here. If not, it is told.
  void asked_about(const node_instance& source, std::uint64_t number);

  // Requests whose time is over, and on_writable where it is owed, are told with the next events.
  void expire(std::chrono::nanoseconds now);
  [[nodiscard]] std::chrono::nanoseconds next() const noexcept {
    return is_room_owed_ ? std::chrono::nanoseconds{0} : table_.next();
  }
  void close() noexcept;

  // Of atbus::request.
  status answer(request& which, errc how, bytes_view bytes) noexcept;
  [[nodiscard]] response_slot claim(request& which, std::size_t length) noexcept;
  void commit(request& which, std::uint64_t claim, std::size_t length) noexcept;
  void give_up_claim(std::uint64_t claim) noexcept;
  [[nodiscard]] bool is_wanted(const request& which) const noexcept;
  void moved(request& from, request& to) noexcept;
  void gone(request& which) noexcept;
  void refuse_malformed(request& which) noexcept;

 private:
  // `bytes` behind the head of a response. Null and why.
  [[nodiscard]] std::byte* claim_response(request& which, errc how, std::size_t bytes,
                                          status& why) noexcept;
  [[nodiscard]] std::byte* claim_for(const request& which, errc how, std::size_t length,
                                     status& why);
  bool deliver_request(const node_instance& source, const message_head& outer, bytes_view payload,
                       bool redelivered, bool same_clock);
  bool deliver_response(bus_id source, errc how, bytes_view payload);
  // Null also if its outcome is known, and only has to be told.
  [[nodiscard]] request_table::entry* find(std::uint64_t number) noexcept {
    request_table::entry* const found = table_.find(number);
    return found != nullptr && !found->ends ? found : nullptr;
  }
  // The numbers, in order, of those that wait for the peer here or in a lane.
  [[nodiscard]] static std::vector<std::uint64_t> unhandled_requests(const peer& of);
  // The call is made with the next events.
  void end(request_table::entry& which, status how);
  void tell(std::uint64_t number);
  void free(request_table::entry& which) noexcept;
  void tell_room();
  void say_cancel(const request_table::entry& which) noexcept;
  [[nodiscard]] bool is_about(const request_table::entry& which, const peer& of) const noexcept {
    return which.to->id == of.id && !node_.is_client(of);
  }

  node_context& node_;
  event_queue& events_;
  access_control& access_;
  peer_table& peers_;
  outbox& outbox_;
  link_output& output_;
  peer_retention& retention_;
  directory_watch& directory_;
  std::shared_ptr<bool> open_ = std::make_shared<bool>(true);
  request_table table_{node_.on.random};
  bool table_was_full_ = false;  // on_writable is owed for that
  bool is_room_owed_ = false;    // on_writable is to be told of some node
  kept_requests kept_{node_.on.random.word()};
  request* in_hand_ = nullptr;    // whose handler runs, while it has no answer and is not moved out
  request* moved_out_ = nullptr;  // of the handler that runs
};

}  // namespace atbus::detail
