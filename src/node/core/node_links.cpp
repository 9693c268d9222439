// Links of a node: their opening, the handshake, what comes over them, their end.
#include <algorithm>
#include <utility>

#include "core/text.h"
#include "node/core/node_core.h"

namespace atbus::detail {
namespace {

constexpr std::chrono::nanoseconds goodbye_time = std::chrono::seconds{1};
// Of a handshake that was dialled, from when another one with the same incarnation depends on its end: who
// answers there has proven nothing.
constexpr std::chrono::nanoseconds contested_time = std::chrono::seconds{2};
// Of one peer, at a time; two nodes have a use for one of them.
constexpr std::size_t links_max = 64;
// Bytes. Longer control messages are acknowledged as data is: some of them fill the sender's queue.
constexpr std::size_t short_control = 512;

}  // namespace

session& node_core::make_session(link& at) {
  auto made = std::make_unique<session>(timers_, at, nullptr);
  session& fresh = *made;
  fresh.clock.replace([this, &fresh] { session_timer(fresh); });
  sessions_.push_back(std::move(made));
  at.context = &fresh;
  return fresh;
}

// Several handshakes with one incarnation may be under way: all of them speak of one memory of its flow.
void node_core::prepare_flow(session& on, const node_instance& instance) {
  on.has_flow = true;
  on.flow_of = instance;
  for (const auto& other : sessions_) {
    if (other.get() != &on && other->has_flow && other->flow_of == instance) {
      on.flow = other->flow;
      return;
    }
  }
  on.flow = away_.take(instance);
}

void node_core::give_back_flow(session& gone) {
  if (!std::exchange(gone.has_flow, false))
    return;
  if (gone.flow_of.id == bus_id{})
    return away_.lose(gone.flow);
  const peer* const of = find(gone.flow_of);
  const bool in_use = (of != nullptr && of->instance == gone.flow_of) ||
                      std::any_of(sessions_.begin(), sessions_.end(), [&](const auto& other) {
                        return other->has_flow && other->flow_of == gone.flow_of;
                      });
  if (!in_use)
    away_.remember(gone.flow_of, gone.flow);
}

void node_core::end_session(session& gone) {
  give_back_flow(gone);
  gone.at.context = nullptr;
  std::erase(to_acknowledge_, &gone);
  circuits_.writable();  // nothing else tells those that it had no room for
  if (claimed_.path == &gone)
    claimed_ = {};
  std::erase_if(sessions_, [&](const auto& one) { return one.get() == &gone; });
}

// The link that was dialled has become another one while it opened.
session& node_core::move_session(session& from, link& to) {
  session& fresh = make_session(to);
  fresh.dialled = std::exchange(from.dialled, nullptr);
  if (fresh.dialled != nullptr)
    fresh.dialled->at = &fresh;
  std::erase_if(sessions_, [&](const auto& one) { return one.get() == &from; });
  return fresh;
}

void node_core::opened(link& at, bool accepted) {
  if (closed_)
    return;
  close_ways();
  session* on = session_of(at);
  if (on == nullptr)
    on = &make_session(at);
  else if (&on->at != &at)
    on = &move_session(*on, at);
  if (leaving_)
    return drop(*on, false, errc::closed, {});
  on->by_us = !accepted;
  begin_handshake(*on);
}

introduction node_core::introduce(relation as) {
  introduction own;
  own.id = self_.id;
  own.incarnation = self_.incarnation;
  on_.random.fill(own.nonce);
  own.addresses = addresses_;
  own.host = on_.host;
  // The same for each link, so that what was accepted for one can go over another.
  own.message_limit = std::min<std::uint64_t>(options_.message_limit(),
                                              payload_in_routed(on_.channels.message_limit()));
  own.as = as;
  if (const auto& range = routes_.own()) {
    own.range_first = range->first();
    own.range_length = static_cast<std::uint8_t>(range->length());
  }
  return own;
}

void node_core::begin_handshake(session& on) {
  on.stage = session_stage::registering;
  on.began_after = stats_.registrations;
  on.keeps = on.at.keeps();
  on.clock.set(moment_after(on_.clock.now(), options_.first_idle_timeout()));
  const auto admission_of = [this, &on](const peer_identity& who) { return admit(on, who); };
  if (!on.by_us) {
    on.shake =
        std::make_unique<handshake_acceptor>(introduce(relation::peer), tokens_, admission_of);
    return;
  }
  // One that returns stays the same peer's, also the parent's, whom nobody has named.
  const peer* const whom = on.of == nullptr && on.dialled != nullptr ? on.dialled->of : on.of;
  auto role = std::make_unique<handshake_initiator>(introduce(opposite(dialled_as(on))),
                                                    whom != nullptr ? whom->id : bus_id{}, tokens_,
                                                    admission_of);
  handshake_initiator& starting = *role;
  on.shake = std::move(role);
  send_control(on, starting.start().send);
}

result<resume_point> node_core::admit(session& on, const peer_identity& who) {
  const node_instance instance{who.id, who.incarnation};
  if (who.id == bus_id{} && (is_client() || on.by_us || !on.is_direct))
    return error{errc::denied, "a node without a bus id can't be visited, nor visit over others"};
  if (who.id == self_.id)
    return error{errc::denied, "bus id " + who.id.to_string() + " is taken: it is this node's"};
  peer* const known = find(instance);
  if (who.id == bus_id{} && known == nullptr && clients_.size() >= options_.clients())
    return error{errc::denied, std::to_string(clients_.size()) + " clients are here already"};
  // One that is the only one of the other end's takes their place, and is not one more.
  if (known != nullptr && known->sessions.size() >= links_max && !on.shake->resume().sole)
    return error{errc::denied, who.id.to_string() + " has " + std::to_string(links_max) +
                                   " links to this node already"};
  if (is_unproven_link(on) && !options_.allow_unauthenticated()) {
    return error{errc::denied, "without a token nodes meet on one host and as one user only"};
  }
  if (error bad = check_place(on, who); !bad)
    return bad;
  if (const incoming_flow* const past = away_.superseded(instance)) {
    on.superseded = true;
    const flow_position last = past->position();
    return resume_point{
        .session = last.session, .last = last.last, .sole = true, .superseded = true};
  }
  on.told_position = instance;
  resume_point answer;
  answer.sole = true;  // until another link is found
  if (known != nullptr) {
    for (session* other : known->sessions) {
      if (other->stage != session_stage::registered)
        continue;
      if (other->instance == instance) {
        if (on.shake->resume().sole && on.is_newer_than(*other))
          other->stage = session_stage::dropped;
        answer.sole = answer.sole && other->stage == session_stage::dropped;
        continue;
      }
      if (is_remote(other->at.kind())) {
        if (!on.by_us)
          probe(*other);  // who dialled has proven itself, who answers has not
        return error{errc::receiver_exists, "bus id " + who.id.to_string() +
                                                " is taken, or was until a moment ago: try again"};
      }
      return error{errc::receiver_exists,
                   "bus id " + who.id.to_string() + " is taken by a living process"};
    }
  }
  // Whoever has two answers must not take the older one for the last word.
  for (const auto& other : sessions_) {
    if (other.get() != &on && other->stage == session_stage::registering &&
        other->told_position == instance) {
      answer.sole = false;
      if (other->by_us)
        other->clock.set(std::min(other->clock.due(), on_.clock.now() + contested_time));
    }
  }
  on.said_sole = answer.sole;
  if (known == nullptr || known->instance != instance)
    prepare_flow(on, instance);
  const flow_position& position = on.has_flow ? on.flow.position() : known->in.position();
  answer.session = position.session;
  answer.last = position.last;
  return answer;
}

// Who comes with wrong tokens again and again waits longer each time, and others do not.
std::chrono::nanoseconds node_core::delay_of_refusal(const session& on) {
  if (on.by_us || !on.shake->lacks_proof())
    return {};
  const std::string from = on.at.peer();
  const bool has_port = on.at.kind() == link_kind::tcp;
  const std::chrono::nanoseconds delay =
      refusal_delay_.of_next(has_port ? from.substr(0, from.rfind(':')) : from, on_.clock.now());
  return std::min(delay, options_.first_idle_timeout() / 2);  // afterwards nobody listens
}

void node_core::advance(session& on, bytes_view message) {
  if (!on.refusal.empty())
    return;
  const handshake_step step = on.shake->receive(message);
  const std::chrono::nanoseconds delay = delay_of_refusal(on);
  if (delay.count() != 0)
    on.refusal.assign(step.send.begin(), step.send.end());
  else if (!step.send.empty() && !send_control(on, step.send))
    return drop(on, false, errc::would_block, "no room for the handshake");
  switch (step.state) {
    case handshake_state::going_on:
      return;
    case handshake_state::done:
      return registered(on);
    case handshake_state::failed: {
      ++stats_.registrations_failed;
      const error why = on.shake->problem();
      on.failure = why.code();
      if (dials_sibling(on))
        return drop(on, false, errc::denied, {});
      std::string text = "registration with " + on.at.peer() + " failed: " + why.text();
      const bool first =
          on.dialled != nullptr && std::exchange(on.dialled->told, why.code()) != why.code();
      if (on.dialled == nullptr)
        log_cause(why.code(), std::move(text));
      else if (first)
        log(std::move(text));
      const bus_id id = known_as(on.shake->peer().id);
      if (peer* const of = find(id); of == nullptr && first && id != bus_id{})
        tell({.kind = user_event::what::endpoint, .about = id, .event = endpoint_event::refused});
      else if (of != nullptr && (on.by_us || of->sessions.empty()) &&
               std::exchange(of->refused, why.code()) != why.code())
        tell_event(*of, endpoint_event::refused);
      if (delay.count() != 0) {
        on.at.pause();
        return on.clock.set(on_.clock.now() + delay);
      }
      return drop(on, false, errc::denied, {});
    }
  }
}

void node_core::registered(session& on) {
  const peer_identity& who = on.shake->peer();
  if (on.superseded) {
    ++stats_.registrations_failed;
    log_cause(errc::superseded, on.at.peer() +
                                    " has been superseded: another process has registered " +
                                    "as " + who.id.to_string() + " since");
    return drop(on, false, errc::superseded, {});
  }
  if (on.shake->resume().superseded && find(node_instance{who.id, who.incarnation}) == nullptr)
    return drop(on, false, errc::superseded, {});  // that is known, and nobody wants anything of it
  // Others may have registered since it was admitted.
  if (error bad = check_place(on, who); !bad) {
    ++stats_.registrations_failed;
    log_cause(bad.code(), "registration with " + on.at.peer() + " failed: " + bad.text());
    return drop(on, false, errc::denied, {});
  }
  on.instance = {who.id, who.incarnation};
  peer& of = find_or_make(on.instance);
  on.registered_at = on_.clock.now();
  on.answer = on.shake->resume();
  on.as = who.as;
  on.host = who.host;
  of.message_limit = static_cast<std::size_t>(who.message_limit);
  on.of = &of;
  on.stage = session_stage::registered;
  on.probed = false;
  if (std::find(of.sessions.begin(), of.sessions.end(), &on) == of.sessions.end())
    of.sessions.push_back(&on);
  of.forget.cancel();
  of.refused = errc::ok;
  if (on.is_direct && of.id != bus_id{})
    place(of, who);
  on.registration = ++stats_.registrations;
  on.at.confirm(on.instance);
  if (on.dialled != nullptr)
    on.dialled->told = errc::ok;
  if (is_remote(on.at.kind()))
    on.clock.set(moment_after(on_.clock.now(), options_.ping_interval()));
  else
    on.clock.cancel();
  if (of.instance != on.instance) {
    if (of.instance.incarnation != 0)
      away_.remember(of.instance, of.in, of.silent);
    if (!on.has_flow)
      prepare_flow(on, on.instance);  // another incarnation has registered meanwhile
    of.in = on.flow;
    of.in_from = nullptr;
    of.instance = on.instance;
    away_.supersede(of.instance);
  }
  // From here on the peer has it; what other handshakes remember of it, and have said, grows old.
  for (const auto& other : sessions_) {
    if (other->flow_of == on.instance)
      other->has_flow = false;
    if (other.get() != &on && other->told_position == on.instance)
      other->said_sole = false;
  }
  of.silent = false;
  on.has_flow = false;
  // What the other end no longer has ends here too.
  bool is_only = on.answer.sole && on.is_direct;
  for (session* other : std::vector<session*>{of.sessions}) {
    if (other == &on)
      continue;
    // What waits for this incarnation in shared memory is let be handled first.
    if (other->stage == session_stage::away && other->at.has_successor())
      continue;
    const bool gone = on.answer.sole && on.is_newer_than(*other);
    if (gone || other->stage == session_stage::dropped || other->instance != on.instance) {
      drop(*other, false, errc::superseded, {});
      continue;
    }
    is_only = false;
  }
  // It has lost the link that made it a parent or a child.
  if (is_only && who.as == relation::peer && of.as != relation::peer)
    displace(of);
  choose(of, on);
  if (on.by_us)
    both_registered(on);
}

// A link that the other end offers may be there before this one is registered at that end, and would
// end it.
void node_core::both_registered(session& on) {
  const peer_identity& who = on.shake->peer();
  try_offers(*on.of, who.addresses, who.host);
  on.shake.reset();
}

bool node_core::received_special(link& from, bytes_view message, bool redelivered) {
  close_way();
  session* const by = session_of(from);
  if (closed_ || by == nullptr || by->stage == session_stage::dropped) [[unlikely]]
    return true;
  // Most of these; their heads are read there.
  if (!message.empty() && message[0] == static_cast<std::byte>(message_kind::routed)) {
    relay(*by, message);
    return true;
  }
  message_head head;
  const head_fault fault = decode(message, head);
  if (fault == head_fault::none && head.kind == message_kind::data) [[likely]]
    return received_data(*by, head, message, redelivered);
  if (fault != head_fault::none) [[unlikely]] {
    violation(*by, {errc::protocol_error, std::string{explain(fault)}});
  } else if (head.kind == message_kind::broadcast) {
    count_handled(*by, true);
    take_broadcast(*by, message);
  } else {
    // The sender of a number waits for its acknowledgement, as it does for a message's.
    count_handled(*by, head.kind == message_kind::flow || message.size() > short_control);
    if (by->stage == session_stage::registering)
      advance(*by, message);
    else
      control(*by, head, message);
  }
  return true;
}

bool node_core::received_data(session& by, const message_head& head, bytes_view message,
                              bool redelivered) {
  if (by.stage == session_stage::registering || by.of == nullptr || by.of->in_from != &by)
      [[unlikely]] {
    if (by.stage == session_stage::registering)
      violation(by, {errc::protocol_error, "a message came before registration"});
    else if (by.of == nullptr || by.of->in_from == nullptr)
      violation(by, {errc::protocol_error, "a message came before its number"});
    else
      drop(by, false, errc::superseded, {});  // the flow goes on elsewhere
    return true;
  }
  if (message.size() - message_head_size > options_.message_limit()) [[unlikely]] {
    violation(by, {errc::protocol_error, "a message is longer than this node takes"});
    return true;
  }
  if (!tell_events_before_message(&by))
    return false;
  take_data(by, head, message, redelivered);
  return true;
}

void node_core::take_data(session& by, const message_head& head, bytes_view message,
                          bool redelivered) {
  peer& of = *by.of;
  if ((head.flags & flag_acknowledge) != 0)
    acknowledge_at_once(by);
  count_handled(by, true);
  switch (of.in.arrived()) {
    case incoming_flow::verdict::deliver:
      if (!deliver_any(by.instance, head, payload_of(message),
                       redelivered || (head.flags & flag_redelivered) != 0)) [[unlikely]]
        violation(by, {errc::protocol_error, is_client(of)
                                                 ? "a client sends something else than commands"
                                                 : "a command or reply is not as it should be"});
      return;
    case incoming_flow::verdict::duplicate:
      ++stats_.duplicates;
      return;
    case incoming_flow::verdict::violation:
      return violation(by, {errc::protocol_error, "a message came before its number"});
  }
}

void node_core::violation(session& by, error what) {
  ++stats_.violations;
  log_cause(what.code(), "the link to " + by.at.peer() + " is closed: " + what.text());
  drop(by, true, what.code(), what.text());
}

void node_core::drop_too_slow() {
  has_too_slow_ = false;
  for (const auto& one : sessions_) {
    if (!std::exchange(one->too_slow, false) || one->stage != session_stage::registered)
      continue;
    log("the link to " + one->instance.id.to_string() + " is broken off: its queue is full");
    drop(*one, true, errc::would_block, "too slow");
  }
}

void node_core::drop(session& which, bool say_bye, errc reason, std::string_view text) {
  const bool goodbye = say_bye && which.stage == session_stage::registered;
  const bool refused = which.stage == session_stage::registering && !which.by_us;
  if (goodbye) {
    if (which.keeps && which.handled != which.told)
      (void)acknowledge(which, on_.clock.now());
    say(which, bye_body{.reason = reason, .text = std::string{text}});
  }
  which.stage = session_stage::dropped;
  // What was said is to get there. What is read from a lane counts as handled, so nothing may be any more:
  // the other end may have registered already, and sent.
  if (which.keeps && (goodbye || refused || reason == errc::denied))
    which.at.close(goodbye_time);
  else
    which.at.abort();
}

void node_core::writable(link& at) {
  circuits_.writable();
  session* const of = session_of(at);
  if (closed_ || of == nullptr || of->of == nullptr || of->of->current != of)
    return;
  close_ways();
  peer& to = *of->of;
  to.blocked = false;
  drain(to);
}

void node_core::closed(link& at, const error& why) {
  session* const gone = session_of(at);
  if (closed_ || gone == nullptr)
    return;
  close_ways();
  peer* const of = gone->of;
  if (gone->stage == session_stage::registered || gone->stage == session_stage::away) {
    if (of == nullptr || !is_client(*of)) {  // clients go without a word
      ++stats_.links_lost;
      log_about(gone->instance.id, "the link to " + gone->instance.id.to_string() +
                                       " is lost: " + at_place(at.peer(), why));
    }
  }
  if (gone->stage == session_stage::registering && gone->failure == errc::ok)
    ++stats_.registrations_failed;
  if (of != nullptr)
    path_ended(*of, *gone);
  if (dial* const wish = gone->dialled; wish != nullptr) {
    if (of == nullptr && wish->is_to_sibling()) {
      const std::string reason =
          gone->failure != errc::ok ? std::string{explain(gone->failure)} : why.text();
      end_session(*gone);
      return end_sibling_dial(*wish->of, *wish, reason);
    }
    if (of == nullptr && wish->told != why.code() && gone->stage == session_stage::opening) {
      log("no connection to " + at_place(wish->where(), why));
      wish->told = why.code();
    }
    wish->at = nullptr;
    if (wish->is_relayed() && of == nullptr) {
      peer& whom = *wish->of;
      const errc reason = gone->failure != errc::ok ? gone->failure : why.code();
      dial_again(*wish);
      wish->denials = reason == errc::denied ? wish->denials + 1 : 0;
      const unsigned denials = wish->denials;
      end_session(*gone);
      return circuit_failed(whom, reason, denials);
    }
    // One that ends as soon as it has registered is a failure too.
    if (gone->registered_at.count() != 0 &&
        on_.clock.now() - gone->registered_at >= options_.retry_longest())
      wish->failures = 0;
    dial_again(*wish);
    if (peer* const whom = wish->of; whom != nullptr && whom->out.holds())
      seek(*whom);  // this way has failed now
  }
  end_session(*gone);
  if (of == nullptr)
    return;
  if (at.kind() != link_kind::relayed && !has_place(*of))
    displace(*of);
  if (of->sessions.empty())
    lost(*of);
}

void node_core::problem(const error& what) {
  log_cause(what.code(), what.text());
}

}  // namespace atbus::detail
