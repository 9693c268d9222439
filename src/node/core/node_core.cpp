#include "node/core/node_core.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "atbus/address.hpp"
#include "core/first_exception.h"

namespace atbus::detail {
namespace {

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

std::optional<id_range> children_of(const node_options& options) {
  const result<id_range> range = id_range::parse(options.children());
  return range ? std::optional{*range} : std::nullopt;
}

}  // namespace

node_core::node_core(bus_id id, const node_options& options, const node_environment& on)
    : node_(id, options, on),
      routes_(id, children_of(options)),
      circuits_(
          id,
          {.message_limit = std::max(options.message_limit() + message_head_size, control_size_max),
           .queue_size = options.send_buffer_size(),
           .secret = node_.circuit_secret.get()},
          relay_, *this, node_.timers, on.clock, on.random, node_.progress) {
  events_.ask(
      {.endpoint_of = [this](bus_id whom) { return endpoint_of(whom); },
       .exchange_undelivered = [this](bus_id to, const held_message& what,
                                      errc reason) { exchange_undelivered(to, what, reason); },
       .peer_of = [this](bus_id whom) { return peers_.find(whom); }});
  peers_.set({.made =
                  [this](peer& of) {
                    access_.mark(of);
                    retention_.made(of);
                  },
              .erased =
                  [this](peer& of) {
                    choice_.forget(of);
                    outbox_.forget(of);
                    topics_.forget(of);
                    blobs_.forgotten(of.id);
                  }});
  commands_.set_built_in([this](command& asked) { return built_in_.answer(asked); });
  sessions_.on_timer([this](session& of) {
    if (of.stage == session_stage::away)
      seek_successor(of);
    else
      liveness_.timer_due(of);
  });
  if (node_.fault && !can_compute_hmac())
    node_.fault =
        error{errc::system_error, "OpenSSL computes no HMAC: no registration is possible"};
  if (node_.fault)
    node_.tokens = make_tokens(options, node_.fault);
  if (node_.fault && on.keys != nullptr)
    node_.fault = on.keys->fault();
  while (node_.self.incarnation == 0)
    node_.self.incarnation = on.random.word();
  on.channels.start(node_.self, *this);
  if (node_.fault && is_client() && (!options.parents().empty() || routes_.own()))
    node_.fault = error{errc::invalid_argument, "a node without a bus id has no place in a tree"};
  if (node_.fault)
    node_.fault = access_.open([this] { apply_access(); });
  if (node_.fault)
    node_.fault = tree_.dial_parent();
  if (node_.fault)
    keys_.open();
  if (node_.fault)
    directory_.open();
}

node_core::~node_core() {
  close();
}

void node_core::close() noexcept {
  if (node_.closed)
    return;
  node_.closed = true;
  *open_ = false;
  directory_.close();
  outbox_.give_up_claim();
  taps_.close();
  circuits_.close();
  node_.on.channels.close();
  ready_.close();
  events_.close();
  commands_.close();
  requests_.close();
  blobs_.close();
  sleeping_.close();
}

result<std::string> node_core::listen(std::string_view text) {
  if (node_.closed)
    return error{errc::closed};
  if (!node_.fault)
    return node_.fault;
  if (node_.is_client())
    return error{errc::invalid_argument, "a node without a bus id can't be reached"};
  const result<address> where = address::parse(text);
  if (!where)
    return where.error();
  if (error denied = node_.options.lets_through(*where); !denied)
    return denied;
  constexpr std::uint64_t least = routed_size(control_size_max);
  if (const auto limit = where->option(address_option::message_limit); limit && *limit < least) {
    return error{errc::invalid_argument, std::string{text} + ": message_limit must be " +
                                             std::to_string(least) +
                                             " or more, so that a handshake fits"};
  }
  result<std::string> made = node_.on.channels.listen(*where);
  if (!made)
    return made;
  first_exception thrown;  // for want of memory: it listens there all the same
  thrown.keep([&] { registration_.add_address(*made); });
  thrown.keep([&] { directory_.announce(registration_.addresses()); });
  thrown.rethrow();
  return made;
}

error node_core::connect(bus_id id, std::string_view text) {
  if (node_.closed)
    return errc::closed;
  if (!node_.fault)
    return node_.fault;
  if (node_.is_client() && id != bus_id{})
    return {errc::invalid_argument,
            "a node without a bus id connects to 0, whatever node is there"};
  if (!node_.is_client() && (id == node_.self.id || id == bus_id{}))
    return {errc::invalid_argument, "a node can't connect to bus id " + id.to_string() +
                                        (id == node_.self.id ? ": it is its own" : "")};
  const result<address> where = address::parse(text);
  if (!where)
    return where.error();
  if (error denied = node_.options.lets_through(*where); !denied)
    return denied;
  peer& to = peers_.find_or_make(id);
  for (dial& known : to.dials) {
    if (known.to == where.value()) {
      known.offered = known.listed = false;
      known.as = relation::peer;  // also if it is a sibling: it is dialled until it answers
      retention_.set_wanted(to);
      return {};
    }
  }
  if (error bad = dialing_.start_dial(to.dials, &to, *where, false); !bad) {
    if (!to.wanted && to.sessions.empty() && !to.out.holds())
      retention_.forget(to);
    return bad;
  }
  retention_.set_wanted(to);
  return {};
}

error node_core::set_policy(bus_id id, const peer_policy& policy) {
  if (node_.closed)
    return errc::closed;
  if (id == node_.self.id || id == bus_id{})
    return {errc::invalid_argument, "there is no policy for " + id.to_string() +
                                        (id == node_.self.id ? ", this node's own id" : "")};
  if (policy.message_deadline < std::chrono::nanoseconds{0})
    return {errc::invalid_argument,
            "the deadline of messages to " + id.to_string() + " must be 0 (none) or longer"};
  peers_.set_policy(id, policy);
  return {};
}

error node_core::offer(std::string_view service) {
  if (node_.closed || node_.leaving)
    return errc::closed;
  if (!node_.fault)
    return node_.fault;
  if (node_.is_client())
    return {errc::invalid_argument,
            "a node without a bus id can't be reached, so it offers nothing"};
  return directory_.offer(service);
}

error node_core::withdraw(std::string_view service) {
  return node_.closed ? error{errc::closed} : directory_.withdraw(service);
}

error node_core::subscribe(std::string_view topic,
                           std::function<void(const topic_message&)> handler,
                           const subscription_options& options) {
  if (node_.closed || node_.leaving)
    return errc::closed;
  if (node_.is_forked())
    return errc::used_after_fork;
  if (!node_.fault)
    return node_.fault;
  if (node_.is_client())
    return {errc::not_supported, "a node without a bus id can't subscribe"};
  return topics_.subscribe(topic, std::move(handler), options);
}

error node_core::unsubscribe(std::string_view topic) {
  if (node_.closed)
    return errc::closed;
  return node_.is_forked() ? error{errc::used_after_fork} : topics_.unsubscribe(topic);
}

bool node_core::is_away(bus_id id) noexcept {
  const peer* const known = peers_.find(id);
  if (known == nullptr || known->dials.empty())
    return false;
  const bool has_link = std::ranges::any_of(
      known->sessions, [](const session* one) { return one->stage == session_stage::registered; });
  return !has_link &&
         std::ranges::all_of(known->dials, [](const dial& one) { return one.failures != 0; });
}

error node_core::set_tokens(const std::vector<std::string>& secrets) {
  if (node_.closed)
    return errc::closed;
  if (!node_.fault)
    return node_.fault;
  outbox_.give_up_claim();
  return keys_.set_tokens(secrets);
}

error node_core::disconnect(bus_id id) {
  if (node_.closed)
    return errc::closed;
  if (!node_.fault)
    return node_.fault;
  outbox_.give_up_claim();
  peer* const to = peers_.find(id);
  if (to == nullptr)
    return {errc::not_found, "there is no connection to " + id.to_string() + " to end"};
  blobs_.disconnected(id);
  outbox_.forget(*to);
  retention_.end_wanted(*to);
  retention_.abandon(*to, errc::closed);
  for (session* one : std::vector<session*>{to->sessions}) {
    if (!std::exchange(one->given_up, true) && one->stage != session_stage::dropped)
      sessions_.drop(*one, true, errc::closed, "disconnected");
  }
  if (to->sessions.empty())
    retention_.let_go(*to);
  return {};
}

error node_core::on_ready(bus_id id, std::chrono::nanoseconds timeout,
                          std::function<void(status)> call) {
  if (node_.closed)
    return errc::closed;
  if (!node_.fault)
    return node_.fault;
  const peer* const known = directory_.find_or_look_up(id);
  const bool is_connected = known != nullptr && view(*known).connected();
  return ready_.add(id, timeout, std::move(call), is_connected);
}

std::size_t node_core::poll(const poll_limits& limits, std::size_t others) {
  if (events_.is_polling() || node_.closed)
    return 0;
  events_.begin_poll();
  outbox_.give_up_claim();
  struct frame {
    node_core& of;
    ~frame() {
      of.outbox_.give_up_claim();
      of.end_handling();
      of.events_.end_poll();
    }
  } const at_end{*this};
  const std::chrono::nanoseconds now = polled_at_ = node_.now();
  heard_all_ = false;
  node_.progress = {.most = limits.messages};
  if (limits.time > std::chrono::nanoseconds{0})
    node_.progress.deadline = moment_after(now, limits.time);
  node_.timers.run(now);
  directory_.glance(now);
  requests_.expire(now);
  blobs_.tell();
  if (node_.closed)
    return node_.progress.told;
  if (sessions_.has_too_slow())
    sessions_.drop_too_slow();
  if (output_.copies_yield())
    topics_.copies().go_on();
  if (sharing_.is_wanted()) {  // before circuits take what is free
    sharing_.hand_out([this](session& of) {
      if (of.of->current != &of)
        return;
      of.of->blocked = false;
      output_.drain(*of.of);
    });
  }
  const auto deliver_own = [this](const held_message& own) {
    if ((own.flags & flag_topic) != 0)
      return topics_.take_own(own.type, own.bytes);
    inbox_.deliver_any(node_.self, message_head{message_kind::data, own.flags, 0, own.type},
                       own.bytes, false, true);
  };
  // Half of the messages, so that a node that sends to itself without end hears of others too.
  own_first_ = !own_first_;
  const std::size_t own_most = limits.messages / 2 + (own_first_ ? limits.messages % 2 : 0);
  if (!loopback_.tell_all(own_most, deliver_own) || !events_.tell_in_time() ||
      !sleeping_.resume_due(now))
    return node_.progress.told;
  circuits_.poll_rests();
  receive_.close();
  poll_limits rest = limits;
  rest.messages -= std::min(rest.messages, node_.progress.told);
  if (others < rest.messages)  // of what the links carry only users' messages count
    node_.progress.most = node_.progress.told + others;
  if (node_.progress.deadline.count() != 0)
    rest.time = std::max(node_.progress.deadline - node_.now(), std::chrono::nanoseconds{1});
  // Events come before messages, but not for ever: handlers may bring about others all the time.
  const bool has_time = events_.empty() || skipped_links_ || !node_.is_late();
  skipped_links_ = !has_time;
  heard_all_ =
      rest.messages != 0 && others != 0 && !node_.closed && !circuits_.has_rests() && has_time;
  if (heard_all_) {
    // Lanes and streams have half of the records each, if they need it.
    const std::size_t heard = node_.on.channels.poll(rest);
    heard_all_ = heard < rest.messages / 2 && !node_.progress.is_enough();
  }
  if (!node_.closed)
    circuits_.poll();
  end_handling();
  measure(now);
  events_.rethrow();
  if (node_.closed)
    return node_.progress.told;
  outbox_.give_up_claim();
  output_.forget_path();  // a program that sends one message a poll has no use for the direct path
  choice_.move_settled();
  if (acknowledgements_.next() != timer_queue::never)
    acknowledgements_.acknowledge_due(now);
  registration_.say_owed_addresses();
  if (topics_.has_work())
    topics_.interest().tell();
  commands_.tell_room();
  blobs_.work();
  if (node_.closed)
    return node_.progress.told;
  circuits_.flush();
  node_.on.channels.flush_due();
  events_.tell_in_time();
  events_.rethrow();
  return node_.progress.told;
}

void node_core::end_handling() noexcept {
  receive_.close();
  acknowledgements_.set_in_hand(nullptr);
  if (sessions_.owes_goodbyes() && !node_.closed)
    sessions_.say_owed_goodbyes();
}

void node_core::flush() noexcept {
  if (output_.claimed.path == nullptr && !output_.path().has_claim() && !node_.closed) {
    if (acknowledgements_.next() != timer_queue::never) {
      receive_.close();
      acknowledgements_.acknowledge_due(node_.now());
    }
    circuits_.flush();
  }
  node_.on.channels.flush();
}

bool node_core::has_work() const noexcept {
  return node_.closed || !events_.empty() || !loopback_.empty() || sessions_.has_too_slow() ||
         blobs_.has_work() || circuits_.has_due() || circuits_.has_unflushed() ||
         topics_.has_work() || output_.copies_yield();
}

bool node_core::prepare_sleep() {
  return !has_work() && node_.on.channels.prepare_sleep();
}

std::chrono::nanoseconds node_core::longest_sleep() const noexcept {
  const std::chrono::nanoseconds until =
      std::min({node_.timers.next(), requests_.next(), commands_.next(), sleeping_.next(),
                acknowledgements_.next(), choice_.next_look()});
  const std::chrono::nanoseconds below = node_.on.channels.longest_sleep();
  if (until == timer_queue::never)
    return below;
  const std::chrono::nanoseconds own = std::max(until - node_.now(), std::chrono::nanoseconds{0});
  return below < std::chrono::nanoseconds{0} ? own : std::min(below, own);
}

void node_core::exchange_undelivered(bus_id to, const held_message& what, errc reason) {
  if (is_blob(what.flags))
    blobs_.undelivered(to, what, reason);
  else if ((what.flags & flag_topic) != 0)
    topics_.copies().undelivered(to, peers_.find(to), what);
  else if ((what.flags & flag_request) != 0)
    requests_.undelivered(what, reason);
  else
    commands_.undelivered(what, reason);
}

namespace {

// Of a lane to a process that is gone: what is said of blobs there has no outcome of its own.
bool awaits_outcomes(const session& away) noexcept {
  bool found = false;
  away.at.visit_unhandled([&found](bytes_view message) {
    message_head head;
    found = found || (decode(message, head) == head_fault::none &&
                      (head.kind == message_kind::data || head.kind == message_kind::broadcast) &&
                      !is_blob(head.flags));
  });
  return found;
}

}  // namespace

bool node_core::settled() const noexcept {
  if (!loopback_.empty() || !topics_.copies().settled() || !blobs_.settled())
    return false;
  const auto is_settled = [](const peer& of) {
    const session* const path = of.current != nullptr ? of.current : of.left_behind;
    const bool is_here = path != nullptr && path->stage != session_stage::away;
    if (is_here)
      return !of.out.holds() && path->settled();
    return of.out.held_bytes(false) == 0 &&
           (path == nullptr || path->settled() || !awaits_outcomes(*path));
  };
  return std::ranges::all_of(peers_.all(),
                             [&](const auto& one) { return is_settled(*one.second); }) &&
         std::ranges::all_of(peers_.clients(), [&](const auto& one) { return is_settled(*one); });
}

void node_core::leave() {
  outbox_.give_up_claim();
  directory_.withdraw();
  blobs_.leave();
  node_.leaving = true;
  std::vector<bus_id> all;
  for (const auto& [id, one] : peers_.all())
    all.push_back(one->id);
  // Goodbyes over other nodes need the links to these.
  std::partition(all.begin(), all.end(), [this](bus_id id) {
    const peer* const of = peers_.find(id);
    return of->current != nullptr && !of->current->is_direct;
  });
  for (const bus_id id : all)
    (void)disconnect(id);
  const auto report = events_.reporter(node_.self.id);
  for (held_message& own : loopback_.take_all())
    report(std::move(own), errc::closed);
  dialing_.end_dials(parent_.dials);
  for (const auto& one : session_list_) {
    if (one->stage == session_stage::opening || one->stage == session_stage::registering)
      sessions_.drop(*one, false, errc::closed, {});
    else if (one->stage == session_stage::registered && node_.is_client(*one->of))
      sessions_.drop(*one, true, errc::closed, "this node ends");
  }
}

endpoint node_core::view(const peer& of) const {
  return {of.id, of.instance.incarnation,
          of.current != nullptr ? of.current->at.peer() : std::string{}, of.round_trip,
          of.current != nullptr && of.current->stage != session_stage::away};
}

endpoint node_core::endpoint_of(bus_id id) {
  const peer* const of = peers_.find(id);
  return of != nullptr ? view(*of) : endpoint{id, 0, {}, {}, false};
}

std::vector<endpoint> node_core::endpoints() const {
  std::vector<endpoint> all;
  all.reserve(peers_.all().size());
  for (const auto& [id, one] : peers_.all())
    all.push_back(view(*one));
  return all;
}

node_stats node_core::stats() const noexcept {
  node_stats all = node_.stats;
  all.accepted += output_.path().messages;
  all.accepted_bytes += output_.path().bytes;
  all.delivered += receive_.messages();
  all.delivered_bytes += receive_.bytes();
  all.sessions_forgotten = sessions_.away().forgotten();
  all.registrations_failed += circuits_.refused() + node_.on.channels.tls_failed();
  all.strangers = node_.on.channels.strangers();
  return all;
}

}  // namespace atbus::detail
