// A node: wires its parts to each other, and says in what order they work in a poll.
//
//   node_context      what all parts read           event_queue      what the user is told
//   peer_table        the nodes that it knows       session_set      one session for each link
//   link_output       what goes into a link         outbox           the user's messages
//   acknowledgements, liveness, link_sharing        what a link costs and proves
//   registration, dialing, link_choice, peer_retention               how links come, are used and go
//   access_control    what the rules allow
//   topics            what is published, and who wants it
//   relay, broadcasts, tree_membership, sibling_links, reachability  other nodes between
//   command_exchange, request_exchange, blob_exchange, sleeping_coroutines, inbox, message_taps, loopback, ready_waits,
//   directory_watch
//
// It reaches time, randomness and channels through what it is handed, so that it runs on a simulated
// network as it does on a real one. Handlers run from poll alone, one at a time: messages in place, all
// else in between. What happens inside one can close the node: nothing is told after that.
//
// One thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "node/core/access_control.h"
#include "node/core/acknowledgements.h"
#include "node/core/blob_exchange.h"
#include "node/core/broadcasts.h"
#include "node/core/built_in_commands.h"
#include "node/core/command_exchange.h"
#include "node/core/dialing.h"
#include "node/core/directory_watch.h"
#include "node/core/event_queue.h"
#include "node/core/inbox.h"
#include "node/core/key_rotation.h"
#include "node/core/link_choice.h"
#include "node/core/link_output.h"
#include "node/core/link_sharing.h"
#include "node/core/liveness.h"
#include "node/core/loopback.h"
#include "node/core/message_taps.h"
#include "node/core/node_context.h"
#include "node/core/outbox.h"
#include "node/core/peer_retention.h"
#include "node/core/peer_table.h"
#include "node/core/reachability.h"
#include "node/core/ready_waits.h"
#include "node/core/receive_path.h"
#include "node/core/refusals.h"
#include "node/core/registration.h"
#include "node/core/relay.h"
#include "node/core/request_exchange.h"
#include "node/core/session_set.h"
#include "node/core/sibling_links.h"
#include "node/core/sleeping_coroutines.h"
#include "node/core/topics.h"
#include "node/core/tree_membership.h"

namespace atbus::detail {

class node_core final : private link_events {
 public:
  node_core(bus_id id, const node_options& options, const node_environment& on);
  ~node_core();
  node_core(const node_core&) = delete;
  node_core& operator=(const node_core&) = delete;

  [[nodiscard]] const node_instance& self() const noexcept { return node_.self; }
  [[nodiscard]] bool is_client() const noexcept { return node_.is_client(); }
  [[nodiscard]] const clock_source& clock() const noexcept { return node_.on.clock; }
  // Handlers are set here; between polls also through handlers().
  [[nodiscard]] event_queue& events() noexcept { return events_; }
  [[nodiscard]] node_handlers& handlers() noexcept { return events_.handlers(); }
  // Why this node can't be used at all; no error: it can.
  [[nodiscard]] const error& fault() const noexcept { return node_.fault; }
  void fail(error why) { node_.fault = std::move(why); }

  result<std::string> listen(std::string_view address);
  error connect(bus_id id, std::string_view address);
  error disconnect(bus_id id);
  error set_policy(bus_id id, const peer_policy& policy);
  error set_tokens(const std::vector<std::string>& secrets);
  error offer(std::string_view service);
  error withdraw(std::string_view service);
  error subscribe(std::string_view topic, std::function<void(const topic_message&)> handler,
                  const subscription_options& options);
  error unsubscribe(std::string_view topic);
  [[nodiscard]] topics& topic() noexcept { return topics_; }
  // For `service`. Null: there is none.
  [[nodiscard]] std::shared_ptr<atbus::directory> directory() const { return directory_.used(); }
  // Outlives this object, and becomes false when it is closed.
  [[nodiscard]] std::shared_ptr<const bool> is_open() const noexcept { return open_; }
  [[nodiscard]] std::uint64_t draw_word() noexcept { return node_.on.random.word(); }
  // There is no link to it, and each attempt to make one has failed or waits for the next one.
  [[nodiscard]] bool is_away(bus_id id) noexcept;
  [[nodiscard]] std::size_t requests_to(bus_id id) const noexcept {
    return requests_.waiting_for(id);
  }
  [[nodiscard]] key_rotation& keys() noexcept { return keys_; }
  // 0: none is registered.
  [[nodiscard]] bus_id parent() const noexcept { return tree_.parent(); }

  // `length` bytes for a message, 8-byte aligned; null and why. Only commit() may follow for it to be
  // sent; another claim takes it away, and so does poll.
  [[nodiscard]] std::byte* claim(bus_id to, std::uint32_t type, std::size_t length,
                                 status& why) noexcept {
    return outbox_.claim(to, type, length, why);
  }
  // The same for a message with delivery_policy::require.
  [[nodiscard]] std::byte* claim_required(bus_id to, std::uint32_t type, std::size_t length,
                                          status& why) noexcept {
    return outbox_.claim_elsewhere(to, type, flag_require_delivery, length, why);
  }
  // The same for a message with a trace context, which counts in the length and stands at its end.
  [[nodiscard]] std::byte* claim_traced(bus_id to, std::uint32_t type, std::size_t length,
                                        status& why) noexcept {
    return outbox_.claim_elsewhere(to, type, flag_traced, length, why);
  }
  // A message with that context was sent there. The nodes that pass it on log that.
  void tell_relays(bus_id to, const trace_context& trace) noexcept {
    output_.close_path();
    if (trace.sampled())
      relay_.tell_trace(to, trace);
  }
  void commit(std::size_t length) noexcept { outbox_.commit(length); }
  void give_up_claim() noexcept { outbox_.give_up_claim(); }
  [[nodiscard]] std::uint64_t last_claim() const noexcept { return outbox_.last_claim(); }
  // Whether it waits for its commit.
  [[nodiscard]] bool has_claim() const noexcept { return outbox_.has_claim(); }
  [[nodiscard]] direct_path& path() noexcept { return output_.path(); }
  // A message that a lane of another thread's has accepted. False: there is no room for it, and nothing
  // has happened. Any other refusal is told to on_undelivered.
  bool send_for_thread(bus_id to, std::uint32_t type, bytes_view bytes) {
    return outbox_.send_for_thread(to, type, bytes);
  }

  [[nodiscard]] broadcasts& broadcast() noexcept { return broadcasts_; }
  [[nodiscard]] command_exchange& commands() noexcept { return commands_; }
  [[nodiscard]] request_exchange& requests() noexcept { return requests_; }
  [[nodiscard]] blob_exchange& blobs() noexcept { return blobs_; }
  [[nodiscard]] sleeping_coroutines& sleeping() noexcept { return sleeping_; }
  // Calls back once with ok when `id` is connected, or with timed_out; with closed if the node ends
  // first.
  error on_ready(bus_id id, std::chrono::nanoseconds timeout, std::function<void(status)> call);

  // At most `others` messages of other nodes.
  std::size_t poll(const poll_limits& limits, std::size_t others = SIZE_MAX);
  // Whether the last poll has read all that links had when it began.
  [[nodiscard]] bool has_heard_all() const noexcept { return heard_all_; }
  void flush() noexcept;
  // Whether a poll has something to do besides what comes through links.
  [[nodiscard]] bool has_work() const noexcept;
  // As of a transport.
  void flush_links() noexcept { node_.on.channels.flush(); }
  [[nodiscard]] bool has_lanes() const noexcept { return node_.on.channels.has_lanes(); }
  [[nodiscard]] bool has_messages() noexcept { return node_.on.channels.has_messages(); }
  // As of a receiver.
  [[nodiscard]] bool prepare_sleep();
  void finish_sleep() { node_.on.channels.finish_sleep(); }
  [[nodiscard]] std::chrono::nanoseconds longest_sleep() const noexcept;
  [[nodiscard]] int descriptor() const noexcept { return node_.on.channels.descriptor(); }

  // Whether all that was accepted is settled.
  [[nodiscard]] bool settled() const noexcept;
  // Says goodbye to all and ends the links; what is not settled is reported with the next events.
  void leave();
  [[nodiscard]] bool has_left() const noexcept { return node_.leaving && session_list_.empty(); }
  // Ends it. Within a handler: what stands below ends when poll returns.
  void close() noexcept;
  [[nodiscard]] bool is_closed() const noexcept { return node_.closed; }
  [[nodiscard]] bool dispatching() const noexcept { return events_.is_polling(); }

  [[nodiscard]] node_stats stats() const noexcept;
  [[nodiscard]] std::vector<std::string> addresses() const { return registration_.addresses(); }
  [[nodiscard]] std::vector<endpoint> endpoints() const;
  // Replaces `into`, whose memory is used again. The process fills in what is its own.
  void report(node_report& into);
  // Changes when something happens that a report shows.
  [[nodiscard]] std::uint64_t progress() const noexcept;
  // When the last poll began.
  [[nodiscard]] std::chrono::nanoseconds polled_at() const noexcept { return polled_at_; }

 private:
  // link_events: node_core_links.cpp
  void opened(link& at, bool accepted) override;
  bool received_other(link& from, bytes_view message, bool redelivered) override;
  void writable(link& at) override;
  void closed(link& at, const error& why) override;
  void left(link& at) override;
  void recalling(link& at) override;
  void returned(link& at) override;
  bool inherited(const node_instance& source, bytes_view message, bool redelivered,
                 bool awaited) override;
  void problem(const error& what) override { events_.log_cause(what.code(), what.text()); }

  bool received_special(link& from, bytes_view message, bool redelivered);
  bool received_data(session& by, const message_head& head, bytes_view message, bool redelivered);
  bool take_data(session& by, const message_head& head, bytes_view message, bool redelivered);
  void turned_away(session& from, const turned_away_body& body);
  [[nodiscard]] bool may_go(bus_id to, const held_message& what) noexcept;
  void apply_access();
  void end_if_forbidden(session& one);
  void control(session& from, const message_head& head, bytes_view message);
  void take_control(session& from, const message_head& head, bytes_view message);
  void announced(session& from, const flow_body& body);
  void tell_untold(session& to);
  void acknowledged(session& by, std::uint64_t handled);
  void count_lost(const session& gone, const error& why);
  void lost_link(peer& of, bool was_relayed);
  bool dial_ended(dial& which, session& gone, const error& why);
  void dial_successor(peer& of);
  void seek_successor(session& away);

  // Of a command, a request, or an answer to one.
  void exchange_undelivered(bus_id to, const held_message& what, errc reason);
  [[nodiscard]] bool is_here(const host_identity& host) const noexcept {
    return host == node_.on.host && host != host_identity{};
  }
  [[nodiscard]] endpoint view(const peer& of) const;
  void describe(peer& of, peer_report& into) const;
  // No message is in hand any more.
  void end_handling() noexcept;
  // Now and then how long the messages of a poll took.
  void measure(std::chrono::nanoseconds since);
  [[nodiscard]] endpoint endpoint_of(bus_id id);

  // Each is declared behind what it uses when it begins and when it ends.
  node_context node_;
  receive_path receive_{node_, receive_path_};
  event_queue events_{node_, receive_};
  access_control access_{node_, events_};
  ready_waits ready_{node_, events_};
  peer_table peers_{node_};
  route_table routes_;
  parent_search parent_;
  sibling_search sibling_search_;
  session_list session_list_;
  relay relay_{node_,    events_,           access_,   routes_,   reach_,    output_,
               sharing_, acknowledgements_, sessions_, circuits_, siblings_, broadcasts_};
  circuits circuits_;
  reachability reach_{node_, routes_, parent_};
  link_sharing sharing_{node_, session_list_, circuits_};
  link_output output_{node_, events_, sharing_, circuits_};
  acknowledgements acknowledgements_{node_, output_};
  session_set sessions_{node_,   session_list_,     events_,  peers_,
                        output_, acknowledgements_, circuits_};
  refusals refusals_{events_, access_, output_, sessions_, acknowledgements_};
  key_rotation keys_{node_, events_, sessions_};
  dialing dialing_{node_, events_, routes_, parent_, sessions_, circuits_};
  peer_retention retention_{node_,   events_,   peers_,   reach_,   parent_,
                            output_, sessions_, dialing_, circuits_};
  std::shared_ptr<bool> open_ = std::make_shared<bool>(true);
  directory_watch directory_{node_, events_, peers_, parent_, dialing_, retention_};
  loopback loopback_{node_, events_};
  // What node_report has beside the counters.
  const std::chrono::system_clock::time_point started_at_ = std::chrono::system_clock::now();
  std::chrono::nanoseconds polled_at_{0};
  std::uint64_t polls_ = 0;  // with messages
  time_histogram handling_;
  bool skipped_links_ = false;  // the last poll did, for want of time
  bool heard_all_ = false;
  bool own_first_ = false;  // the node's own messages get the odd one of those that a poll may tell
  outbox outbox_{node_,   receive_,  events_,   access_,    peers_,    reach_,
                 output_, sessions_, loopback_, retention_, directory_};
  command_exchange commands_{node_, events_, access_, peers_, outbox_, retention_, directory_};
  request_exchange requests_{node_,   events_, access_,    peers_,
                             outbox_, output_, retention_, directory_};
  blob_exchange blobs_{node_,   events_, access_,    peers_,    sessions_,
                       outbox_, output_, retention_, directory_};
  message_taps taps_{node_, events_};
  built_in_commands built_in_{
      node_,
      peers_,
      routes_,
      taps_,
      [this](node_report& all) { report(all); },
      [this](bus_id about, std::string line) { events_.log_about(about, std::move(line)); },
      [this](bus_id to, const std::vector<std::string>& words, std::chrono::nanoseconds timeout,
             built_in_commands::command_call call) {
        return commands_.ask(to, words, timeout, std::move(call));
      }};
  sleeping_coroutines sleeping_{node_};
  inbox inbox_{node_, events_, taps_, commands_, requests_, blobs_};
  tree_membership tree_{node_,  routes_,   parent_,  sibling_search_,
                        peers_, sessions_, dialing_, retention_};
  sibling_links siblings_{node_,  events_, access_,   routes_,  reach_,    sibling_search_,
                          peers_, output_, sessions_, dialing_, retention_};
  broadcasts broadcasts_{node_,   events_,           access_,   routes_, reach_, outbox_,
                         output_, acknowledgements_, sessions_, inbox_,  relay_};
  topics topics_{node_,   events_,   access_, routes_,   reach_, outbox_,
                 output_, sessions_, peers_,  loopback_, inbox_};
  link_choice choice_{node_,      events_,   ready_,    reach_, output_,  sessions_,
                      retention_, commands_, requests_, blobs_, circuits_};
  liveness liveness_{node_, events_, output_, sessions_};
  registration registration_{node_,   events_,   access_,  peers_, routes_,   reach_,
                             output_, sessions_, dialing_, tree_,  liveness_, choice_};
};

}  // namespace atbus::detail
