#include "node/core/node_core.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <utility>

#include "atbus/address.hpp"

namespace atbus::detail {
namespace {

// How often a peer whose messages move from a lane to another link is looked at.
constexpr std::chrono::nanoseconds move_interval = std::chrono::milliseconds{1};

// Calls that wait for peers.
constexpr std::size_t waits_max = 4096;

token_list make_tokens(const node_options& options, error& fault) {
  token_list made;
  for (const std::string& secret : options.tokens()) {
    result<token> one = token::make(as_bytes(secret));
    if (!one) {
      fault = one.error();
      break;
    }
    made.push_back(std::move(*one));
  }
  return made;
}

// The node proves itself with tokens_, which are wiped when they go.
node_options without_tokens(node_options options) {
  options.wipe_tokens();
  return options;
}

std::optional<id_range> children_of(const node_options& options) {
  const result<id_range> range = id_range::parse(options.children());
  return range ? std::optional{*range} : std::nullopt;
}

}  // namespace

node_core::node_core(bus_id id, const node_options& options, const node_environment& on)
    : self_{id, 0},
      options_(without_tokens(options)),
      on_(on),
      fault_(options.check()),
      routes_(id, children_of(options)),
      away_(options.sessions()),
      circuits_(
          id,
          {.message_limit = std::max(options.message_limit() + message_head_size, control_size_max),
           .queue_size = options.send_buffer_size()},
          *this, *this, timers_, on.clock, on.random, progress_) {
  scratch_.reserve(control_size_max);  // flush() says how far this node has come, and can't fail
  if (fault_)
    tokens_ = make_tokens(options, fault_);
  encode(where_body{.id = bus_id{std::numeric_limits<std::uint64_t>::max()}}, question_);
  while (self_.incarnation == 0)
    self_.incarnation = on_.random.word();
  on_.channels.start(self_, *this);
  if (fault_ && is_client() && (!options_.parents().empty() || routes_.own()))
    fault_ = error{errc::invalid_argument, "a node without a bus id has no place in a tree"};
  if (fault_)
    fault_ = dial_parent();
  if (fault_)
    open_directory();
}

node_core::~node_core() {
  close();
  if (directory_ != nullptr)
    directory_->unwatch(directory_watch_);
}

void node_core::close() noexcept {
  if (closed_)
    return;
  closed_ = true;
  close_ways();
  circuits_.close();
  on_.channels.close();
  // Who waits for a peer is told that there is nothing to wait for.
  for (auto waits = std::exchange(ready_, {}); const auto& wait : waits)
    wait->call(errc::closed);
  last_drops_.clear();
  for (auto untold = std::exchange(user_events_, {}); const user_event& item : untold) {
    if (item.kind == user_event::what::ready)
      item.call(item.result);
  }
  close_commands();
}

node_handlers& node_core::handlers() {
  if (!dispatching_)
    return handlers_;
  if (!next_handlers_)
    next_handlers_ = handlers_;
  return *next_handlers_;
}

result<std::string> node_core::listen(std::string_view text) {
  if (closed_)
    return error{errc::closed};
  if (!fault_)
    return fault_;
  if (is_client())
    return error{errc::invalid_argument, "a node without a bus id can't be reached"};
  const result<address> where = address::parse(text);
  if (!where)
    return where.error();
  if (!options_.lets_through(*where)) {
    return error{errc::denied, std::string{text} +
                                   " can be reached by anybody: give the node a token, or set "
                                   "allow_unauthenticated"};
  }
  constexpr std::uint64_t least = routed_size(control_size_max);
  if (const auto limit = where->option(address_option::message_limit); limit && *limit < least) {
    return error{errc::invalid_argument, std::string{text} + ": message_limit must be " +
                                             std::to_string(least) +
                                             " or more, so that a handshake fits"};
  }
  result<std::string> made = on_.channels.listen(*where);
  if (!made)
    return made;
  addresses_.push_back(*made);
  for (const auto& one : sessions_)
    one->owes_addresses = one->stage == session_stage::registered;
  say_addresses();
  if (directory_ != nullptr) {
    if (const error bad = directory_->announce(self_.id, addresses_);
        !bad && bad != errc::not_supported)
      log("the directory was not told of " + *made + ": " + bad.text());
  }
  return made;
}

void node_core::say_addresses() {
  owes_addresses_ = false;
  for (const auto& one : sessions_) {
    if (!one->owes_addresses)
      continue;
    one->owes_addresses = one->stage == session_stage::registered &&
                          say(*one, addresses_body{.addresses = addresses_}) == errc::would_block;
    owes_addresses_ = owes_addresses_ || one->owes_addresses;
  }
}

error node_core::connect(bus_id id, std::string_view text) {
  if (closed_)
    return errc::closed;
  if (!fault_)
    return fault_;
  if (is_client() && id != bus_id{})
    return {errc::invalid_argument, "a node without a bus id connects to 0: to whoever is there"};
  if (!is_client() && (id == self_.id || id == bus_id{}))
    return {errc::invalid_argument, "a node can't connect to bus id " + id.to_string() +
                                        (id == self_.id ? ": it is its own" : "")};
  const result<address> where = address::parse(text);
  if (!where)
    return where.error();
  if (!options_.lets_through(*where)) {
    return {errc::denied, std::string{text} +
                              " may be anybody: give the node a token, or set "
                              "allow_unauthenticated"};
  }
  peer& to = find_or_make(id);
  for (dial& known : to.dials) {
    if (known.to == where.value()) {
      known.offered = known.listed = false;
      known.as = relation::peer;  // also if it is a sibling: it is dialled until it answers
      wish_for(to);
      return {};
    }
  }
  if (error bad = start_dial(to.dials, &to, *where, false); !bad) {
    if (!to.wished && to.sessions.empty() && !to.out.holds())
      forget(to);
    return bad;
  }
  wish_for(to);
  return {};
}

void node_core::wish_for(peer& of) {
  of.wished = true;
  of.forget.cancel();
}

error node_core::set_policy(bus_id id, const peer_policy& policy) {
  if (closed_)
    return errc::closed;
  if (id == self_.id || id == bus_id{})
    return {errc::invalid_argument, "there is no policy for " + id.to_string() +
                                        (id == self_.id ? ", this node's own id" : "")};
  if (policy.message_deadline < std::chrono::nanoseconds{0})
    return {errc::invalid_argument,
            "the deadline of messages to " + id.to_string() + " must be 0 (none) or longer"};
  policies_[id.value()] = policy;
  if (peer* const known = find(id); known != nullptr)
    known->policy = policy;
  return {};
}

error node_core::disconnect(bus_id id) {
  if (closed_)
    return errc::closed;
  if (!fault_)
    return fault_;
  close_ways();
  peer* const to = find(id);
  if (to == nullptr)
    return {errc::not_found, "there is no connection to " + id.to_string() + " to end"};
  if (claimed_.in == to || (claimed_.path != nullptr && claimed_.path->of == to))
    give_up_claim();
  end_wishes(*to);
  abandon(*to, errc::closed);
  for (session* one : std::vector<session*>{to->sessions}) {
    if (!std::exchange(one->given_up, true) && one->stage != session_stage::dropped)
      drop(*one, true, errc::ok, "disconnected");
  }
  if (to->sessions.empty())
    forget(*to);
  return {};
}

error node_core::on_ready(bus_id id, std::chrono::nanoseconds timeout,
                          std::function<void(status)> call) {
  if (closed_)
    return errc::closed;
  if (!fault_)
    return fault_;
  if (ready_.size() + untold_calls_ >= waits_max)
    return {errc::would_block, std::to_string(waits_max) + " calls wait for a node already"};
  auto wait = std::make_unique<ready_wait>();
  wait->id = id;
  wait->call = std::move(call);
  ready_wait* const key = wait.get();
  wait->clock = std::make_unique<timer>(timers_, [this, key] {
    const auto at = std::find_if(ready_.begin(), ready_.end(),
                                 [&](const auto& one) { return one.get() == key; });
    tell({.kind = user_event::what::ready,
          .call = std::move((*at)->call),
          .result = status{errc::timed_out}});
    ready_.erase(at);
  });
  if (timeout >= std::chrono::nanoseconds{0})
    wait->clock->set(moment_after(on_.clock.now(), timeout));
  ready_.push_back(std::move(wait));
  const peer* const known = find_or_look_up(id);
  if (known != nullptr && known->current != nullptr)
    tell_ready(id, {});
  return {};
}

void node_core::tell_ready(bus_id id, status how) {
  for (auto at = ready_.begin(); at != ready_.end();) {
    if ((*at)->id != id) {
      ++at;
      continue;
    }
    tell({.kind = user_event::what::ready, .call = std::move((*at)->call), .result = how});
    at = ready_.erase(at);
  }
}

std::size_t node_core::poll(const poll_limits& limits) {
  if (dispatching_ || closed_)
    return 0;
  dispatching_ = true;
  give_up_claim();
  struct frame {
    node_core& of;
    ~frame() {
      of.give_up_claim();
      of.dispatching_ = false;
      if (of.next_handlers_)
        of.handlers_ = *std::exchange(of.next_handlers_, std::nullopt);
    }
  } const at_end{*this};
  const std::chrono::nanoseconds now = on_.clock.now();
  progress_ = {.most = limits.messages};
  if (limits.time > std::chrono::nanoseconds{0})
    progress_.deadline = moment_after(now, limits.time);
  timers_.run(now);
  if (has_too_slow_)
    drop_too_slow();
  if (wants_share_)
    hand_out_shares();  // before circuits take what is free
  if (!tell_own() || !tell_events())
    return progress_.told;
  circuits_.poll_rests();
  close_receive_path();
  poll_limits rest = limits;
  rest.messages -= std::min(rest.messages, progress_.told);
  if (rest.messages != 0 && !closed_ && !circuits_.has_rests())
    on_.channels.poll(rest);
  if (!closed_)
    circuits_.poll();
  rethrow();
  if (closed_)
    return progress_.told;
  close_ways();
  way_path_ = nullptr;  // of those who send one message a turn none is worth a way
  if (!moving_.empty())
    move_settled();
  if (acknowledge_by_ != timer_queue::never)
    acknowledge_due(now);
  if (owes_addresses_)
    say_addresses();
  circuits_.flush();
  on_.channels.flush();
  tell_events();
  return progress_.told;
}

bool node_core::tell_all_own() {
  // Those that are sent from here on wait for the next poll.
  for (std::size_t left = to_self_.size(); left != 0 && !progress_.is_enough(); --left) {
    const held_message own = std::move(to_self_.front());
    to_self_.pop_front();
    to_self_bytes_ -= outgoing_flow::cost(own.bytes.size());
    deliver_any(self_, message_head{message_kind::data, own.flags, 0, own.type}, own.bytes, false);
    if (closed_)
      return false;
  }
  if (self_wants_room_ && to_self_bytes_ <= options_.send_buffer_size() / 2) {
    self_wants_room_ = false;
    tell({.kind = user_event::what::writable, .about = self_.id});
  }
  return true;
}

void node_core::move_settled() {
  for (peer* moving : std::vector<peer*>{moving_})
    move_if_settled(*moving);
}

void node_core::flush() noexcept {
  if (claimed_.path == nullptr && !way_.has_claim() && !closed_) {
    if (!to_acknowledge_.empty()) {
      close_receive_path();
      acknowledge_due(on_.clock.now());
    }
    circuits_.flush();
  }
  on_.channels.flush();
}

bool node_core::prepare_sleep() {
  if (closed_ || !user_events_.empty() || !to_self_.empty() || has_too_slow_ ||
      circuits_.has_due() || circuits_.has_unflushed())
    return false;
  return on_.channels.prepare_sleep();
}

std::chrono::nanoseconds node_core::longest_sleep() const noexcept {
  std::chrono::nanoseconds until = std::min(timers_.next(), acknowledge_by_);
  const std::chrono::nanoseconds now = on_.clock.now();
  // Only a lane doesn't tell when all that was sent is handled.
  const auto is_silent = [](const peer* of) {
    return of->next != nullptr && of->current != nullptr && !of->current->keeps;
  };
  if (std::any_of(moving_.begin(), moving_.end(), is_silent))
    until = std::min(until, now + move_interval);
  const std::chrono::nanoseconds below = on_.channels.longest_sleep();
  if (until == timer_queue::never)
    return below;
  const std::chrono::nanoseconds own = std::max(until - now, std::chrono::nanoseconds{0});
  return below < std::chrono::nanoseconds{0} ? own : std::min(below, own);
}

bool node_core::settled() const noexcept {
  if (!to_self_.empty())
    return false;
  const auto is_settled = [](const peer& of) {
    const session* const path = of.current != nullptr ? of.current : of.left_behind;
    return !of.out.holds() && (path == nullptr || path->settled());
  };
  return std::all_of(peers_.begin(), peers_.end(),
                     [&](const auto& one) { return is_settled(*one.second); }) &&
         std::all_of(clients_.begin(), clients_.end(),
                     [&](const auto& one) { return is_settled(*one); });
}

void node_core::leave() {
  close_ways();
  leaving_ = true;
  std::vector<bus_id> all;
  for (const auto& [id, one] : peers_)
    all.push_back(one->id);
  // Goodbyes over other nodes need the links to these.
  std::partition(all.begin(), all.end(), [this](bus_id id) {
    const peer* const of = find(id);
    return of->current != nullptr && !of->current->is_direct;
  });
  for (const bus_id id : all)
    (void)disconnect(id);
  for (held_message& own : std::exchange(to_self_, {})) {
    if (own.flags != 0)
      command_undelivered(own, errc::closed);
    else
      tell_undelivered(self_.id, std::move(own), errc::closed);
    ++stats_.not_delivered;
  }
  to_self_bytes_ = 0;
  end_dials(parent_dials_);
  for (const auto& one : sessions_) {
    if (one->stage == session_stage::opening || one->stage == session_stage::registering)
      drop(*one, false, errc::closed, {});
    else if (one->stage == session_stage::registered && is_client(*one->of))
      drop(*one, true, errc::ok, "this node ends");
  }
}

void node_core::open_receive_path(session& by) noexcept {
  // The first message and the last one that this poll may tell are the core's: that one ends the poll.
  if (!handlers_.on_message || progress_.most < progress_.told + 3)
    return;
  receive_path_.from = &by.at;
  receive_path_.handler = &handlers_.on_message;
  receive_path_.source = by.instance.id;
  receive_path_.destination = self_.id;
  receive_path_.longest = options_.message_limit();
  receive_path_.left = receive_path_.most = progress_.most - progress_.told - 2;
}

void node_core::end_receive_path() noexcept {
  session& by = *session_of(*std::exchange(receive_path_.from, nullptr));
  const std::uint64_t messages = receive_path_.messages();
  receive_path_.most = receive_path_.left;
  by.handled += messages;
  by.of->in.arrived_new(messages);
  stats_.delivered += messages;
  stats_.delivered_bytes += std::exchange(receive_path_.bytes, 0);
  progress_.told += messages;
}

bool node_core::received_other(link& from, bytes_view message, bool redelivered) {
  close_receive_path();
  session* const by = session_of(from);
  std::uint32_t type = 0;
  if (closed_ || by == nullptr || by->stage != session_stage::registered || by->of->in_from != by ||
      !by->of->in.is_next_new() || by->instance.id == bus_id{} || !user_events_.empty() ||
      message.size() - message_head_size > options_.message_limit() ||
      !is_plain_data(message.data(), type)) [[unlikely]]
    return received_special(from, message, redelivered);
  count_handled(*by, true);
  by->of->in.arrived_new(1);
  open_receive_path(*by);
  deliver(by->instance, type, payload_of(message), redelivered);
  return true;
}

endpoint node_core::view(const peer& of) const {
  return {of.id, of.instance.incarnation,
          of.current != nullptr ? of.current->at.peer() : std::string{}, of.round_trip,
          of.current != nullptr};
}

std::vector<endpoint> node_core::endpoints() const {
  std::vector<endpoint> all;
  all.reserve(peers_.size());
  for (const auto& [id, one] : peers_)
    all.push_back(view(*one));
  return all;
}

node_stats node_core::stats() const noexcept {
  node_stats all = stats_;
  all.accepted += way_.messages;
  all.accepted_bytes += way_.bytes;
  all.delivered += receive_path_.messages();
  all.delivered_bytes += receive_path_.bytes;
  all.sessions_forgotten = away_.forgotten();
  all.registrations_failed += circuits_.refused();
  return all;
}

}  // namespace atbus::detail
