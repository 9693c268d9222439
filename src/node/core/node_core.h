// A node: registration, sending, receiving, what to tell its user. It reaches time, randomness and
// channels through what it is handed, so that it runs on a simulated network as it does on a real one.
//
// Handlers run from poll alone, one at a time: messages in place, all else (`user_event`) in between. What
// happens inside one can end the node: nothing of it is touched after that but `closed_`.
//
// In parts: node_core.cpp (verbs of the user, poll), node_sending.cpp, node_links.cpp (links, handshake),
// node_control.cpp, node_acknowledgements.cpp, node_liveness.cpp (pings and probes),
// node_paths.cpp (which link a peer's messages take, and what a lost one leaves), node_restart.cpp
// (shared memory that outlives a process), node_routes.cpp (messages that pass through other nodes, or
// through this one), node_sharing.cpp (that these find room beside this node's own), node_broadcast.cpp, node_tree.cpp (who may be parent, child and sibling),
// node_siblings.cpp (how siblings find each other), node_directory.cpp (peers that stand in the
// directory), node_commands.cpp (commands and replies), node_events.cpp (what is told between messages).
//
// One thread.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "atbus/bus_id.hpp"
#include "atbus/bytes.hpp"
#include "atbus/clock.hpp"
#include "atbus/command.hpp"
#include "atbus/detail/direct_path.hpp"
#include "atbus/directory.hpp"
#include "atbus/endpoint.hpp"
#include "atbus/message.hpp"
#include "atbus/node_options.hpp"
#include "atbus/node_stats.hpp"
#include "atbus/status.hpp"
#include "core/log_limit.h"
#include "core/random_source.h"
#include "core/timer_queue.h"
#include "delivery/session_table.h"
#include "node/core/refusal_delay.h"
#include "node/link/link.h"
#include "node/peer/peer.h"
#include "node/peer/session.h"
#include "node/peer/sibling_search.h"
#include "node/route/broadcast_history.h"
#include "node/route/circuit.h"
#include "node/route/route_table.h"
#include "protocol/handshake.h"
#include "protocol/message_head.h"

namespace atbus::detail {

// What a node stands on. All of it outlives the node.
struct node_environment {
  const clock_source& clock;
  random_source& random;
  transport& channels;
  host_identity host{};  // equal for nodes that can share memory
};

struct broadcast_head;

struct node_handlers {
  std::function<void(const message&)> on_message;
  std::function<void(const undelivered&)> on_undelivered;
  std::function<void(const endpoint&, endpoint_event)> on_endpoint;
  std::function<void(command&)> on_command;
  std::map<std::string, std::function<void(command&)>, std::less<>> on_command_named;
  std::function<void(bus_id)> on_writable;
  std::function<void(std::string_view)> on_log;
};

class node_core final : private link_events, private next_hops {
 public:
  node_core(bus_id id, const node_options& options, const node_environment& on);
  ~node_core();

  [[nodiscard]] const node_instance& self() const noexcept { return self_; }
  // It has no bus id, and one peer, which it knows as 0.
  [[nodiscard]] bool is_client() const noexcept { return self_.id == bus_id{}; }
  [[nodiscard]] const clock_source& clock() const noexcept { return on_.clock; }
  // To be set by who likes; what is set within a handler holds from the next poll on.
  [[nodiscard]] node_handlers& handlers();
  // Why this node can't be used at all; no error: it can.
  [[nodiscard]] const error& fault() const noexcept { return fault_; }
  void fail(error why) { fault_ = std::move(why); }

  result<std::string> listen(std::string_view address);
  error connect(bus_id id, std::string_view address);
  error disconnect(bus_id id);
  error set_policy(bus_id id, const peer_policy& policy);
  // 0: none is registered.
  [[nodiscard]] bus_id parent() const noexcept;

  // `length` bytes for a message, 8-byte aligned; null and why. Only commit() may follow for it to be
  // sent; another claim takes it away, and so does poll.
  [[nodiscard]] std::byte* claim(bus_id to, std::uint32_t type, std::size_t length,
                                 status& why) noexcept;
  // The same for a message with delivery_policy::require.
  [[nodiscard]] std::byte* claim_required(bus_id to, std::uint32_t type, std::size_t length,
                                          status& why) noexcept {
    return claim_elsewhere(to, type, flag_require_delivery, length, why);
  }
  void commit(std::size_t length) noexcept;
  void give_up_claim() noexcept {
    close_ways();
    claimed_.path = nullptr;
    claimed_.in = nullptr;
    claimed_.to_self = false;
  }
  [[nodiscard]] std::uint64_t last_claim() const noexcept { return way_.claims; }
  [[nodiscard]] direct_path& way() noexcept { return way_; }
  // A message that a lane of another thread's has accepted. False: there is no room for it, and nothing
  // has happened. Any other refusal is told to on_undelivered.
  bool send_for_thread(bus_id to, std::uint32_t type, bytes_view bytes);

  // To every node of the range that there is a way to now, but this one; not acknowledged. no_route:
  // there is no link that leads to any; would_block: none of these has room.
  status broadcast(const id_range& to, std::uint32_t type, bytes_view payload);
  // Those that were reached and said so in time.
  using reached_handler = std::function<void(const std::vector<bus_id>&)>;
  status broadcast(const id_range& to, std::uint32_t type, bytes_view payload,
                   std::chrono::nanoseconds timeout, reached_handler call);

  using command_call = std::function<void(status, const command_reply&)>;
  // See node::command.
  status ask(bus_id to, const std::vector<std::string>& words, std::chrono::nanoseconds timeout,
             command_call call);
  // The answer to a command of that incarnation's.
  status answer(const node_instance& to, std::uint64_t number, errc how,
                const std::vector<std::string>& values);

  // Calls back once with ok when `id` is connected, or with timed_out; with closed if the node ends
  // first.
  error on_ready(bus_id id, std::chrono::nanoseconds timeout, std::function<void(status)> call);

  std::size_t poll(const poll_limits& limits);
  void flush() noexcept;
  // As of a receiver.
  [[nodiscard]] bool prepare_sleep();
  void finish_sleep() { on_.channels.finish_sleep(); }
  [[nodiscard]] std::chrono::nanoseconds longest_sleep() const noexcept;
  [[nodiscard]] int descriptor() const noexcept { return on_.channels.descriptor(); }

  // Whether all that was accepted is settled.
  [[nodiscard]] bool settled() const noexcept;
  // Says goodbye to all and ends the links; what is not settled is reported with the next events.
  void leave();
  [[nodiscard]] bool has_left() const noexcept { return leaving_ && sessions_.empty(); }
  // Ends it. Within a handler: what stands below ends when poll returns.
  void close() noexcept;
  [[nodiscard]] bool is_closed() const noexcept { return closed_; }
  [[nodiscard]] bool dispatching() const noexcept { return dispatching_; }

  [[nodiscard]] node_stats stats() const noexcept;
  [[nodiscard]] std::vector<std::string> addresses() const { return addresses_; }
  [[nodiscard]] std::vector<endpoint> endpoints() const;

 private:
  // link_events.
  void opened(link& at, bool accepted) override;
  bool received_other(link& from, bytes_view message, bool redelivered) override;
  void writable(link& at) override;
  void closed(link& at, const error& why) override;
  void left(link& at) override;
  void recalling(link& at) override;
  void returned(link& at) override;
  bool inherited(const node_instance& source, bytes_view message, bool redelivered,
                 bool awaited) override;
  void problem(const error& what) override;

  // next_hops: node_routes.cpp, as the next ones
  status pass_on(const routed_head& head, bytes_view batch) noexcept override;
  [[nodiscard]] link_trust trust_towards(bus_id destination) const noexcept override;
  [[nodiscard]] std::string way_to(bus_id destination) const override;
  void end_poll() noexcept override { on_.channels.end_poll(); }
  // The same, for a message that came from there.
  status send_on(const routed_head& head, bytes_view batch, const peer* from) noexcept;
  // The one to use of its links; null: none is registered.
  [[nodiscard]] session* link_to(const peer& next) const noexcept;
  // Neither a token nor the kernel has proven who is at its other end.
  [[nodiscard]] bool is_unproven_link(const session& from) const noexcept;
  void relay(session& from, bytes_view message);
  void say_failed(session& to, const routed_head& head, errc why);
  // node_sharing.cpp
  void share(session& path) noexcept;
  // False: there is nothing left of it; the peer is drained when there is.
  [[nodiscard]] bool takes_share(const peer& to, session& path, std::size_t size) noexcept;
  void want_share(session& path) noexcept;
  void hand_out_shares();
  void end_sharing();
  // For a message of that size on a link: whether it is to be acknowledged at once.
  [[nodiscard]] std::uint8_t flags_after(session& path, std::size_t size) const noexcept;
  // Whether other nodes may know a way there, now or when the parent is back.
  [[nodiscard]] bool is_reachable(bus_id id) const noexcept;
  // Whether there may ever be a way there: it is not for nodes without a tree.
  [[nodiscard]] bool may_become_reachable(bus_id id) const noexcept;
  [[nodiscard]] bool awaits_parent() const noexcept {
    return !parent_dials_.empty() && routes_.parent() == nullptr;
  }
  // Begins to reach it over other nodes if they may know a way, and nothing better is under way.
  void seek(peer& of);
  void circuit_failed(peer& of, errc why, unsigned denials);
  void ways_changed();

  // node_broadcast.cpp
  struct fan_out {
    unsigned links = 0;  // that lead to ids of the range,
    unsigned sent = 0;   // and that had room
    status refused{};    // why others had none; a link that is full may have room later
  };
  status start_broadcast(const id_range& to, std::uint32_t type, bytes_view payload, bool answers);
  fan_out spread(const broadcast_head& head, bytes_view message, const peer* from) noexcept;
  status copy_to(session& path, const broadcast_head& head, bytes_view message) noexcept;
  void take_broadcast(session& from, bytes_view message);
  void broadcast_reached(std::uint64_t number, bus_id whom);
  void broadcast_over(std::uint64_t number);

  // node_sending.cpp
  [[nodiscard]] std::byte* claim_elsewhere(bus_id to, std::uint32_t type, std::uint8_t flags,
                                           std::size_t length, status& why) noexcept;
  // `in` is who is known as `to`; no other claim is open. Commands and replies are held when the link
  // is full. Throws std::bad_alloc, and then nothing has happened that is not to be taken back so:
  [[nodiscard]] std::byte* claim_for(peer* in, bus_id to, std::uint32_t type, std::uint8_t flags,
                                     std::size_t length, status& why);
  [[nodiscard]] bool is_only_awaited(const peer& of) const noexcept;
  // One that was never met: it is given up in time, unless it comes or its user wishes for it.
  void await_for_a_time(peer& of);
  [[nodiscard]] status take_back_claim(bus_id to, std::size_t length) noexcept;
  void commit_held(std::size_t length) noexcept;
  // An acknowledgement is asked for each so many bytes. Not more: what waits for it should not
  // outgrow the processor's caches.
  [[nodiscard]] std::size_t ask_after() const noexcept {
    return std::min(options_.send_buffer_size() / 4, std::size_t{512} * 1024);
  }

  // The way that messages take without the core. It is closed before each event and each verb that may
  // change where messages go or asks how many have gone; who sends twice to one peer opens it anew.
  void open_way(session& path) noexcept;
  void close_way() noexcept {
    if (way_.is_open())
      end_way();
  }
  void end_way() noexcept;
  // The same for what comes; before the message that opens it is told.
  void open_receive_path(session& by) noexcept;
  void close_receive_path() noexcept {
    if (receive_path_.from != nullptr)
      end_receive_path();
  }
  void end_receive_path() noexcept;
  void close_ways() noexcept {
    close_way();
    close_receive_path();
  }
  // Room in a link for what is not the user's. His open claim there is gone, also if there is none.
  [[nodiscard]] std::byte* claim_in(session& path, std::size_t length, message_purpose purpose,
                                    status& why) noexcept {
    if (way_path_ == &path)
      close_way();
    if (claimed_.path == &path)
      claimed_ = {};
    return path.at.claim(length, purpose, why);
  }

  // node_links.cpp
  session& make_session(link& at);
  session& move_session(session& from, link& to);
  void end_session(session& gone);
  void prepare_flow(session& on, const node_instance& instance);
  void give_back_flow(session& gone);
  [[nodiscard]] bool has_heard_of(const node_instance& sender) noexcept;
  void begin_handshake(session& on);
  // `as`: what this node is to the other end.
  [[nodiscard]] introduction introduce(relation as);
  result<resume_point> admit(session& on, const peer_identity& who);
  void advance(session& on, bytes_view message);
  [[nodiscard]] std::chrono::nanoseconds delay_of_refusal(const session& on);
  void registered(session& on);
  void both_registered(session& on);
  void control(session& from, const message_head& head, bytes_view message);
  void acknowledged(session& by, std::uint64_t handled);
  void count_handled(session& from, bool data) {
    ++from.handled;
    if (from.keeps && !from.acknowledge_listed)
      list_acknowledgement(from, data);
  }
  void list_acknowledgement(session& from, bool data);
  void acknowledge_due(std::chrono::nanoseconds now);
  void acknowledge_at_once(session& by);
  // False: there is no room.
  bool acknowledge(session& by, std::chrono::nanoseconds now);
  // Not ok: nothing was said, mostly for want of room.
  template <class Body>
  status say(session& to, const Body& body) {
    encode(body, scratch_);
    return send_control(to, scratch_);
  }
  // To those whom they are owed: there is room for them only now, maybe.
  void say_addresses();
  status send_control(session& to, bytes_view message);
  void violation(session& by, error what);
  void drop_too_slow();
  void drop(session& which, bool say_bye, errc reason, std::string_view text);
  void session_timer(session& of);
  void begin_to_listen(session& of) noexcept;
  void ping(session& of);
  void probe(session& of);
  [[nodiscard]] bool is_idle(session& over_nodes) const;
  bool received_special(link& from, bytes_view message, bool redelivered);
  bool received_data(session& by, const message_head& head, bytes_view message, bool redelivered);
  void take_data(session& by, const message_head& head, bytes_view message, bool redelivered);
  void count_delivered(std::size_t bytes, bool redelivered) noexcept;
  void deliver(const node_instance& source, std::uint32_t type, bytes_view payload,
               bool redelivered);
  // Also a command or a reply. False: it makes no sense, or may not come from there.
  bool deliver_any(const node_instance& source, const message_head& head, bytes_view payload,
                   bool redelivered);

  // node_commands.cpp
  struct asked_command {
    bus_id to;
    command_call call;
    std::unique_ptr<timer> clock;
  };
  status send_command(peer* in, bus_id to, std::uint32_t type, std::uint8_t flags,
                      bytes_view payload, std::chrono::nanoseconds deadline);
  bool deliver_command(const node_instance& source, const message_head& head, bytes_view payload,
                       bool redelivered);
  void deliver_reply(bus_id source, errc how, std::uint64_t number,
                     std::vector<std::string> values);
  [[nodiscard]] bool has_expired(const message_head& head, bytes_view payload) const;
  void command_undelivered(const held_message& what, errc reason);
  // The command in that message; null: who asked was told what became of it.
  [[nodiscard]] const asked_command* find_asked(const held_message& sent) const;
  // Who asked is told that with the next events, unless he was told something before.
  void end_command(std::uint64_t number, status how);
  void forget_command(std::map<std::uint64_t, asked_command>::iterator which);
  void close_commands() noexcept;

  // node_paths.cpp
  [[nodiscard]] peer* find(bus_id id) noexcept;
  peer& find_or_make(bus_id id);
  [[nodiscard]] std::unique_ptr<peer> make_peer(bus_id id);
  // As which it is known here.
  [[nodiscard]] bus_id known_as(bus_id id) const noexcept { return is_client() ? bus_id{} : id; }
  [[nodiscard]] bool is_client(const peer& of) const noexcept {
    return of.id == bus_id{} && !is_client();
  }
  // Guests are told apart by their lives, all others by their ids.
  [[nodiscard]] peer* find(const node_instance& who) noexcept;
  peer& find_or_make(const node_instance& who);
  [[nodiscard]] static std::string at_place(const std::string& where, const error& why);
  // Without an address: over other nodes.
  error start_dial(std::list<dial>& among, peer* of, std::optional<address> to, bool offered);
  error dial_now(dial& which);
  void dial_again(dial& which);
  void dial_again(std::list<dial>& idle);
  void end_dials(std::list<dial>& wishes);
  // Those that `is_useful`, up to a limit; not those that are dialled already.
  void dial_offered(peer& of, const std::vector<std::string>& addresses, relation as,
                    const std::function<bool(const address&)>& is_useful);
  void try_offers(peer& of, const std::vector<std::string>& addresses, const host_identity& host);
  // Whether `left` is the better one of two links to one incarnation; both ends say the same.
  [[nodiscard]] bool better(const session& left, const session& right) const noexcept;
  void choose(peer& of, session& fresh);
  // `settled`: nothing that was sent before is open.
  void use(peer& of, session& path, bool settled);
  void superseded(peer& of, session& path);
  void list_moving(peer& of);
  // To the next link, once all of the current one is settled; then ends those that nobody uses.
  void move_if_settled(peer& of);
  void move_settled();
  void path_ended(peer& of, session& gone);
  [[nodiscard]] std::list<held_message> take_left(peer& of, link& from);
  // Room for a message of the user's in the link that is in use, its number and head written; null
  // and why. Then end_data().
  [[nodiscard]] std::byte* begin_data(peer& to, std::uint64_t number, std::uint32_t type,
                                      std::uint8_t flags, std::size_t length, status& why);
  static void end_data(session& path, std::size_t length) noexcept;
  void drain(peer& of);
  status announce(peer& of, session& path, std::uint64_t number);
  void lost(peer& of);
  void let_go(peer& of);
  void abandon(peer& of, errc reason);
  // The same, but for messages that are required: while there are some it is not forgotten.
  void give_up(peer& of, errc reason);
  void forget(peer& of);
  [[nodiscard]] outgoing_flow::sink reporter(peer& of);

  // node_tree.cpp
  error dial_parent();
  // What the other end is to be to this node.
  [[nodiscard]] relation dialled_as(const session& on) const noexcept;
  // Why `who` can't be to this node what it says.
  [[nodiscard]] error check_place(const session& on, const peer_identity& who);
  void place(peer& of, const peer_identity& who);
  // Whether that link was opened as what the peer is to this node. Only there it takes what is not this
  // node's own: of another link it may not know yet what they are to each other.
  [[nodiscard]] static bool gives_place(const session& link, const peer& of) noexcept;
  [[nodiscard]] static bool has_place(const peer& of) noexcept;  // a link that does
  // It has none any more.
  void displace(peer& of);
  void search_parent();
  // Its user wants to be connected to it: it is not forgotten while it is away.
  static void wish_for(peer& of);
  // Nobody wants to be connected to it any more.
  void end_wishes(peer& of);

  // node_siblings.cpp
  // A circuit's message goes up: there may be a sibling that is nearer.
  void ask_where(bus_id id, session& parent) noexcept;
  void answer_where(session& from, const where_body& asked);
  void dial_sibling(session& from, const found_body& answer);
  void end_sibling_dial(peer& whom, const dial& wish, const std::string& why);
  void give_up_sibling(peer& whom, const std::string& why);
  [[nodiscard]] static bool dials_sibling(const session& on) noexcept {
    return on.dialled != nullptr && on.dialled->is_to_sibling();
  }

  // node_directory.cpp
  void open_directory();
  void look_at_directory();
  // As find(); one that there is no way to is made, or dialled, if it stands in the directory.
  [[nodiscard]] peer* find_or_look_up(bus_id id);
  // Dials it where the directory says now, and nowhere else unless connect() named that.
  void follow_directory(peer& of);

  // News: what handlers are told between messages.
  struct user_event {
    enum class what : std::uint8_t { undelivered, endpoint, writable, log, ready };
    what kind = what::log;
    bus_id about{};
    held_message message{};
    errc reason = errc::ok;
    endpoint_event event = endpoint_event::connected;
    std::string text{};
    std::function<void(status)> call{};
    status result{};
    std::uint64_t count = 1;  // messages, of undelivered
  };
  void tell(user_event what) {
    close_receive_path();  // it comes before the next message
    user_events_.push_back(std::move(what));
    untold_calls_ += user_events_.back().kind == user_event::what::ready ? 1U : 0U;
  }
  void tell_undelivered(bus_id about, held_message&& what, errc reason);
  // That one is the first of the events.
  void told_undelivered(const user_event& item) noexcept;
  void tell_line(const std::string& text);
  void tell_event(const peer& of, endpoint_event event);
  void log(std::string text);
  // What peers and strangers bring about, as often as they like: once a second for each cause.
  void log_cause(errc cause, std::string text);
  // What one node brings about that has the token: 60 lines a minute.
  void log_about(bus_id whom, std::string text);
  // False: the node has been ended.
  bool tell_own() { return to_self_.empty() || tell_all_own(); }
  bool tell_events() { return user_events_.empty() || tell_all_events(); }
  // Tells all that comes before a message which a link has told of. False: a handler has closed the node
  // or disconnected that session, so the message must not be told. What a handler throws is thrown when
  // the message has been told.
  bool tell_events_before_message(const session* by) {
    if (!user_events_.empty()) [[unlikely]]
      tell_events_and_catch();
    return !closed_ && (by == nullptr || by->stage != session_stage::dropped);
  }
  void tell_events_and_catch() noexcept;
  void rethrow() {
    if (thrown_) [[unlikely]]
      std::rethrow_exception(std::exchange(thrown_, nullptr));
  }
  bool tell_all_own();
  bool tell_all_events();
  [[nodiscard]] endpoint view(const peer& of) const;

  struct ready_wait {
    bus_id id;
    std::function<void(status)> call;
    std::unique_ptr<timer> clock;
  };
  void tell_ready(bus_id id, status how);

  node_instance self_;
  const node_options options_;  // const: it has setters of the same names
  node_environment on_;
  token_list tokens_;
  error fault_;
  node_handlers handlers_;
  std::optional<node_handlers> next_handlers_;
  std::vector<std::string> addresses_;
  bool owes_addresses_ = false;  // some session does
  bool has_too_slow_ = false;    // some session is

  poll_progress progress_;
  timer_queue timers_;  // before what has timers
  std::unordered_map<std::uint64_t, std::unique_ptr<peer>> peers_;
  peer* last_found_ = nullptr;
  std::unordered_map<std::uint64_t, peer_policy> policies_;  // where they are not the options'
  std::vector<std::unique_ptr<peer>> clients_;               // clients that are here; not in peers_
  route_table routes_;
  std::list<dial> parent_dials_;
  sibling_search sibling_search_;
  byte_buffer question_;            // to the parent, with room for it
  peer* parent_ = nullptr;          // the last one; it stays wished for while it is away
  std::uint64_t numbers_used_ = 0;  // the highest in a flow to a peer that was forgotten
  std::uint64_t last_turn_ = 0;     // flow_body::turn
  std::vector<std::unique_ptr<session>> sessions_;
  session_table away_;
  refusal_delay refusal_delay_;
  std::vector<session*> to_acknowledge_;
  std::chrono::nanoseconds acknowledge_by_ = timer_queue::never;
  std::vector<peer*> moving_;
  byte_buffer scratch_;
  timer share_clock_{timers_, [this] { end_sharing(); }};
  timer share_look_{timers_, [] {}};  // in the poll that it wakes
  bool wants_share_ = false;          // some session does

  circuits circuits_;
  // What was told of circuits last: a place for many of them.
  struct failure {
    std::uint64_t circuit = 0;
    std::uint64_t number = 0;
    errc why = errc::ok;
    std::chrono::nanoseconds told_at{0};
  };
  std::array<failure, 256> failures_{};

  std::shared_ptr<directory> directory_;  // null: none
  directory::watch_id directory_watch_ = 0;
  timer directory_clock_{timers_, nullptr};
  std::vector<bus_id> directory_changes_;
  std::string directory_problem_;  // that was logged last

  struct claim_state {
    session* path = nullptr;  // in that link
    peer* in = nullptr;       // in `held`, for that peer
    bool to_self = false;     // in `held`
    std::size_t length = 0;
    std::list<held_message> held;  // one, so that a commit takes no memory
  };
  claim_state claimed_;
  direct_path way_;
  // Of the way; while it is closed, of the last message that this turn has sent.
  session* way_path_ = nullptr;
  std::list<held_message> to_self_;
  std::uint64_t self_accepted_ = 0;
  std::size_t to_self_bytes_ = 0;
  bool self_wants_room_ = false;  // as of a peer

  log_limit lines_of_causes_{std::chrono::seconds{1}, 1};
  log_limit lines_of_nodes_{std::chrono::minutes{1}, 60};
  std::deque<user_event> user_events_;
  std::exception_ptr
      thrown_;  // by a handler of an event before a message; the poll that runs throws it
  // Of these: bytes of what was dropped for want of room, with what it takes to keep them; the last one
  // of a destination and outcome, once there are too many, to which all further ones are added.
  std::size_t untold_drops_ = 0;
  std::map<std::pair<bus_id, errc>, user_event*> last_drops_;
  std::size_t untold_lines_ = 0;
  std::uint64_t lines_left_out_ = 0;
  std::size_t untold_calls_ = 0;
  std::vector<std::unique_ptr<ready_wait>> ready_;
  struct broadcast_wait {
    std::uint64_t number = 0;
    std::set<bus_id> reached;
    reached_handler call;
    std::unique_ptr<timer> clock;
  };
  std::vector<std::unique_ptr<broadcast_wait>> awaited_;
  std::uint64_t last_broadcast_ = 0;
  broadcast_history seen_broadcasts_;
  std::map<std::uint64_t, asked_command> asked_;  // by number
  std::uint64_t last_asked_ = 0;                  // begins anywhere
  std::set<bus_id> asked_in_vain_;                // on_writable is owed for these
  std::shared_ptr<node_core*> for_commands_ = std::make_shared<node_core*>(this);
  bool dispatching_ = false;
  bool closed_ = false;
  bool leaving_ = false;
  node_stats stats_;
};

// The way of nearly all messages, without a call that can be spared: while lines of a lane come from
// the other core, each store waits in turn, also that of a register that a function saves.
inline std::byte* node_core::claim(bus_id to, std::uint32_t type, std::size_t length,
                                   status& why) noexcept {
  close_way();
  peer* const in = last_found_;
  if (in == nullptr || in->id != to || in->current == nullptr || in->next != nullptr ||
      in->out.holds() || !in->out.follows(in->out.accepted() + 1) ||
      length > std::min(in->message_limit, options_.message_limit()) || closed_ || leaving_ ||
      claimed_.in != nullptr || claimed_.to_self) [[unlikely]]
    return claim_elsewhere(to, type, 0, length, why);
  session& path = *in->current;
  const std::size_t size = message_head_size + length;
  if (path.shared || path.unasked_bytes + size >= ask_after()) [[unlikely]]
    return claim_elsewhere(to, type, 0, length, why);
  std::byte* const at = path.at.claim(size, message_purpose::data, why);
  if (at == nullptr) [[unlikely]]
    return claim_elsewhere(to, type, 0, length, why);
  path.unasked_bytes += size;
  encode(message_head{message_kind::data, 0, 0, type}, at);
  ++way_.claims;
  claimed_.path = &path;
  claimed_.length = length;
  return at + message_head_size;
}

inline void node_core::commit(std::size_t length) noexcept {
  session* const path = claimed_.path;
  if (path == nullptr || length > claimed_.length) [[unlikely]]
    return commit_held(length);
  claimed_.path = nullptr;
  ++stats_.accepted;
  stats_.accepted_bytes += length;
  end_data(*path, length);
  outgoing_flow& flow = path->of->out;
  flow.sent(flow.accept());
  if (way_path_ == path)
    open_way(*path);
  way_path_ = path;
}

inline void node_core::count_delivered(std::size_t bytes, bool redelivered) noexcept {
  ++stats_.delivered;
  stats_.delivered_bytes += bytes;
  if (redelivered) [[unlikely]]
    ++stats_.redelivered;
  if (++progress_.told == progress_.most) [[unlikely]]
    on_.channels.end_poll();
}

inline void node_core::deliver(const node_instance& source, std::uint32_t type, bytes_view payload,
                               bool redelivered) {
  count_delivered(payload.size(), redelivered);
  if (handlers_.on_message)
    handlers_.on_message(message{source.id, self_.id, type, payload, redelivered});
}

inline void node_core::end_data(session& path, std::size_t length) noexcept {
  path.at.commit(message_head_size + length);
  path.last_data = ++path.committed;
}

}  // namespace atbus::detail
