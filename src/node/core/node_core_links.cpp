// What a node does when a link tells of something.
#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "core/first_exception.h"
#include "core/text.h"
#include "node/core/node_core.h"
#include "protocol/blob_body.h"

namespace atbus::detail {
namespace {

// Bytes. Longer control messages are acknowledged as data is: some of them fill the sender's queue.
constexpr std::size_t short_control = 512;

// Whether the access rules have to admit it here. Requests and commands are answered where they are handled.
bool is_checked(bus_id source, const message_head& head) noexcept {
  return (head.flags & exchange_flags) == 0 && source != bus_id{};
}

}  // namespace

void node_core::opened(link& at, bool accepted) {
  if (node_.closed)
    return;
  outbox_.give_up_claim();
  session* on = session_of(at);
  if (on == nullptr)
    on = &sessions_.make(at);
  else if (&on->at != &at)
    on = &sessions_.move(*on, at);
  if (node_.leaving)
    return sessions_.drop(*on, false, errc::closed, {});
  on->by_us = !accepted;
  registration_.begin_handshake(*on);
}

bool node_core::received_other(link& from, bytes_view message, bool redelivered) {
  receive_.close();
  session* const by = session_of(from);
  std::uint32_t type = 0;
  if (node_.closed || by == nullptr || by->stage != session_stage::registered ||
      by->of->in_from != by || !by->of->in.is_next_new() || by->of->checked_from ||
      by->instance.id == bus_id{} || !events_.empty() ||
      message.size() - message_head_size > node_.options.message_limit() ||
      !is_plain_data(message.data(), type)) [[unlikely]]
    return received_special(from, message, redelivered);
  acknowledgements_.count_handled(*by, true);
  by->of->in.arrived_new(1);
  ++by->of->counts.received;
  by->of->counts.received_bytes += message.size() - message_head_size;
  acknowledgements_.set_in_hand(by);
  receive_.open(*by, events_.handlers().on_message);
  inbox_.deliver(by->instance, type, payload_of(message), redelivered);
  return true;
}

bool node_core::received_special(link& from, bytes_view message, bool redelivered) {
  outbox_.give_up_claim();
  acknowledgements_.set_in_hand(nullptr);
  session* const by = session_of(from);
  if (node_.closed || by == nullptr || by->stage == session_stage::dropped) [[unlikely]]
    return true;
  // The most frequent kind; relay reads the head.
  if (!message.empty() && message[0] == static_cast<std::byte>(message_kind::routed)) {
    relay_.take(*by, message);
    return true;
  }
  message_head head;
  const head_fault fault = decode(message, head);
  if (fault == head_fault::none && head.kind == message_kind::data) [[likely]]
    return received_data(*by, head, message, redelivered);
  if (fault != head_fault::none) [[unlikely]] {
    sessions_.violation(*by, {errc::protocol_error, std::string{explain(fault)}});
  } else if (head.kind == message_kind::broadcast) {
    acknowledgements_.count_handled(*by, true);
    acknowledgements_.set_in_hand(by);
    broadcasts_.take(*by, message);
  } else {
    // The sender of a number waits for its acknowledgement, as it does for a message's.
    acknowledgements_.count_handled(
        *by, head.kind == message_kind::flow || message.size() > short_control);
    if (by->stage == session_stage::registering) {
      registration_.advance(*by, message);
      if (by->stage == session_stage::registered)
        topics_.interest().link_changed(*by->of);
    } else {
      control(*by, head, message);
    }
  }
  return true;
}

bool node_core::received_data(session& by, const message_head& head, bytes_view message,
                              bool redelivered) {
  if (by.stage == session_stage::registering || by.of == nullptr || by.of->in_from != &by)
      [[unlikely]] {
    if (by.stage == session_stage::registering)
      sessions_.violation(by, {errc::protocol_error, "a message came before registration"});
    else if (by.of == nullptr || by.of->in_from == nullptr)
      sessions_.violation(by, {errc::protocol_error, "a message came before its number"});
    else
      sessions_.drop(by, false, errc::superseded, {});  // the flow goes on elsewhere
    return true;
  }
  if (message.size() - message_head_size > node_.options.message_limit()) [[unlikely]] {
    sessions_.violation(by, {errc::protocol_error, "a message is longer than this node takes"});
    return true;
  }
  if (!events_.tell_before_message(&by))
    return false;
  return take_data(by, head, message, redelivered);
}

bool node_core::take_data(session& by, const message_head& head, bytes_view message,
                          bool redelivered) {
  peer& of = *by.of;
  if ((head.flags & flag_acknowledge) != 0)
    acknowledgements_.acknowledge_at_once(by);
  const bool is_marked = redelivered || (head.flags & flag_redelivered) != 0;
  if (is_checked(by.instance.id, head) && of.in.is_next_new() &&
      !access_.would_admit(by.instance.id, message_class::message, head.type)) [[unlikely]]
    return refusals_.turn_away(by, head.type, is_marked);
  acknowledgements_.count_handled(by, true);
  switch (of.in.arrived()) {
    case incoming_flow::verdict::deliver:
      ++of.counts.received;
      of.counts.received_bytes += message.size() - message_head_size;
      acknowledgements_.set_in_hand(&by);
      if ((head.flags & flag_topic) != 0 && topics_.take(by, head, payload_of(message), is_marked))
        return true;
      if ((head.flags & flag_topic) != 0 ||
          !inbox_.deliver_any(by.instance, head, payload_of(message), is_marked, is_here(by.host)))
          [[unlikely]] {
        acknowledgements_.set_in_hand(nullptr);
        sessions_.violation(
            by, {errc::protocol_error,
                 node_.is_client(of) ? "a client sends something else than commands and requests"
                                     : "a command, a request, an answer or a copy of a topic is "
                                       "not as it should be"});
      }
      return true;
    case incoming_flow::verdict::duplicate:
      ++node_.stats.duplicates;
      return true;
    case incoming_flow::verdict::violation:
      sessions_.violation(by, {errc::protocol_error, "a message came before its number"});
  }
  return true;
}

void node_core::turned_away(session& from, const turned_away_body& body) {
  peer& of = *from.of;
  const bool goes_on = events_.tell_before_message(&from);
  if (node_.closed || (from.keeps && !goes_on))
    return;  // the link has the message still, and its end settles it; a lane has it no more
  output_.close_path();
  if (body.number <= of.out.last_sent() && !of.reported.has(body.number)) {
    held_message what;
    what.number = body.number;
    what.type = static_cast<std::uint32_t>(body.type);
    what.redelivered = body.redelivered;
    events_.report(of.id, std::move(what), errc::denied);
    of.reported.add(body.number);
  }
  if (from.keeps)
    acknowledged(from, body.handled);
}

bool node_core::may_go(bus_id to, const held_message& what) noexcept {
  const unsigned kind = what.flags & exchange_flags;
  if (kind == flag_command)
    return commands_.may_go(to, what);
  if (kind == flag_topic)
    return topics_.copies().may_go(to, what);
  if (kind == flags_blob && !is_blob_begin(what.bytes))
    return true;  // the receiver has to hear of its end
  return (kind != 0 && kind != flag_request && kind != flags_blob) ||
         bool{access_.check_sent(to, class_of(kind), what.type)};
}

// What the rules forbid from now on ends: links, and what waits to be sent.
void node_core::apply_access() {
  receive_.close();
  outbox_.give_up_claim();
  first_exception thrown;
  for (const auto& [id, one] : peers_.all()) {
    peer& of = *one;
    access_.mark(of);
    const auto is_forbidden = [&](const held_message& what) noexcept {
      return !may_go(of.id, what);
    };
    thrown.keep([&] { of.out.abandon_if(is_forbidden, errc::denied, events_.reporter(of.id)); });
    thrown.keep([&] { output_.drain(of); });  // there may be room now
  }
  for (const auto& of : peers_.clients())
    access_.mark(*of);
  for (const auto& one : session_list_)
    thrown.keep([&] { end_if_forbidden(*one); });
  thrown.rethrow();
}

void node_core::end_if_forbidden(session& one) {
  if (one.stage != session_stage::registered)
    return;
  const error bad = access_.check_registration(one, one.instance.id, one.of->range);
  if (bad)
    return;
  sessions_.drop(one, true, errc::denied, bad.text());
  events_.log(bad.text());
}

// One for which there is no memory is half done: the link ends, and the two register anew.
void node_core::control(session& from, const message_head& head, bytes_view message) {
  try {
    take_control(from, head, message);
  } catch (const std::bad_alloc&) {
    sessions_.drop(from, false, errc::out_of_memory, {});
    throw;
  }
}

void node_core::take_control(session& from, const message_head& head, bytes_view message) {
  const auto read = [&](auto& body) {
    error bad = decode(message, body);
    if (!bad)
      sessions_.violation(from, std::move(bad));
    return from.stage != session_stage::dropped;
  };
  switch (head.kind) {
    case message_kind::where:
      if (where_body body; read(body))
        siblings_.answer_where(from, body);
      return;
    case message_kind::found:
      if (found_body body; read(body))
        siblings_.dial_sibling(from, body);
      return;
    case message_kind::acknowledge:
      if (acknowledge_body body; read(body))
        acknowledged(from, body.handled);
      return;
    case message_kind::ping:
      if (ping_body body; read(body))
        output_.say(from, pong_body{.number = body.number});
      return;
    case message_kind::pong:
      if (pong_body body; read(body))
        liveness_.answered(from, body.number);
      return;
    case message_kind::flow:
      if (flow_body body; read(body))
        announced(from, body);
      return;
    case message_kind::cancel:
      if (cancel_body body; read(body))
        requests_.cancelled(from.instance, body.number);
      return;
    case message_kind::in_hand:
      if (in_hand_body body; read(body))
        requests_.asked_about(from.instance, body.number);
      return;
    case message_kind::turned_away:
      if (turned_away_body body; read(body) && from.of != nullptr)
        turned_away(from, body);
      return;
    case message_kind::interest:
      if (interest_body body; read(body) && from.of != nullptr)
        topics_.take_interest(from, body);
      return;
    case message_kind::bye:
      if (bye_body body; read(body)) {
        if (from.of != nullptr && body.reason == errc::closed)
          topics_.interest().left(from);
        if (from.of == nullptr || !node_.is_client(*from.of))
          events_.log_about(from.instance.id, from.at.peer() + " leaves: " + in_quotes(body.text));
        sessions_.drop(from, false, body.reason, {});
      }
      return;
    case message_kind::addresses:
      if (addresses_body body; read(body)) {
        from.of->addresses = body.addresses;
        dialing_.try_offers(*from.of, body.addresses, from.host);
      }
      return;
    default:
      if (is_ignorable(head.kind))
        return;
      sessions_.violation(from, {errc::protocol_error, "a message of the handshake came after it"});
  }
}

// The other end says which number its next message on that link has.
void node_core::announced(session& from, const flow_body& body) {
  peer& of = *from.of;
  if (of.in_from != &from) {
    // It was slower than what its sender has said on a later link.
    if (!of.in.move_to_path(body.turn))
      return sessions_.drop(from, false, errc::superseded, {});
    of.in_from = &from;
  }
  if (!of.in.announce(body.next, body.turn)) {
    return sessions_.violation(
        from, {errc::protocol_error, "a flow goes back to number " + std::to_string(body.next)});
  }
  tell_untold(from);
  if (from.offers && from.stage == session_stage::registered)
    registration_.both_registered(from);
}

// Words that messages on that link, or on one before it, were refused.
void node_core::tell_untold(session& to) {
  if (to.stage == session_stage::registered && to.of->in_from == &to && to.of->in.owes_words())
    refusals_.tell(to);
}

void node_core::acknowledged(session& by, std::uint64_t handled) {
  if (handled > by.committed || handled < by.released || !by.keeps) {
    return sessions_.violation(
        by, {errc::protocol_error, "it acknowledges message " + std::to_string(handled) + " of " +
                                       std::to_string(by.committed)});
  }
  by.at.release(handled - by.released);
  by.released = handled;
  tell_untold(by);  // a socket tells of room only when there is much of it
  if (by.of->current == &by)
    output_.drain(*by.of);
}

void node_core::writable(link& at) {
  circuits_.writable();
  session* const of = session_of(at);
  if (node_.closed || of == nullptr || of->of == nullptr)
    return;
  const bool has_untold = of->of->in_from == of && of->of->in.owes_words();
  if (of->of->current != of && !has_untold)
    return;
  outbox_.give_up_claim();
  if (has_untold)
    refusals_.tell(*of);
  if (of->of->current != of)
    return;
  peer& to = *of->of;
  to.blocked = false;
  output_.drain(to);
}

// The link is gone when this returns, with memory or without: each step is taken, whatever became of the one
// before.
void node_core::closed(link& at, const error& why) {
  session* const gone = session_of(at);
  if (node_.closed || gone == nullptr)
    return;
  outbox_.give_up_claim();
  first_exception thrown;
  peer* const of = gone->of;
  if (gone->stage == session_stage::registered || gone->stage == session_stage::away)
    thrown.keep([&] { count_lost(*gone, why); });
  if (gone->stage == session_stage::registering && gone->failure == errc::ok)
    ++node_.stats.registrations_failed;
  if (of != nullptr)
    thrown.keep([&] { choice_.path_ended(*of, *gone); });
  // The words that it gives back have a link already, which may be writable all the time.
  if (of != nullptr && of->in_from != nullptr)
    thrown.keep([&] { tell_untold(*of->in_from); });
  if (of != nullptr)
    thrown.keep([&] { topics_.link_ended(*of, *gone); });
  bool is_told = of == nullptr;
  if (dial* const which = gone->dialled; which != nullptr) {
    which->at = nullptr;
    thrown.keep([&] { is_told = dial_ended(*which, *gone, why) || is_told; });
  }
  const bool is_relayed = at.kind() == link_kind::relayed;
  thrown.keep([&] { registration_.ended(*gone); });
  sessions_.end(*gone);
  if (!is_told)
    thrown.keep([&] { lost_link(*of, is_relayed); });
  thrown.rethrow();
}

void node_core::count_lost(const session& gone, const error& why) {
  if (gone.of != nullptr) {
    ++gone.of->counts.links_lost;
    gone.of->counts.last_loss = why.code();
    gone.of->counts.last_loss_at = std::chrono::system_clock::now();
  }
  if (gone.of != nullptr && node_.is_client(*gone.of))
    return;  // clients go without a word
  ++node_.stats.links_lost;
  events_.log_about(gone.instance.id, "the link to " + gone.instance.id.to_string() +
                                          " is lost: " + dialing::at_place(gone.at.peer(), why));
}

// The peer had registered on it.
void node_core::lost_link(peer& of, bool was_relayed) {
  first_exception thrown;
  if (!was_relayed && !reachability::has_place(of))
    thrown.keep([&] { tree_.displace(of); });
  thrown.keep([&] { topics_.interest().link_changed(of); });  // another link may be the one now
  if (!of.sessions.empty()) {
    if (!reachability::is_there(of))
      dial_successor(of);
    return thrown.rethrow();
  }
  blobs_.lost(of);
  thrown.keep([&] { retention_.lost(of); });
  thrown.keep([&] { directory_.lost(of); });
  thrown.keep([&] { retention_.let_go(of); });
  thrown.rethrow();
}

// The link that a dial has led to has ended, or the dial has failed. True: nothing more is to be done.
bool node_core::dial_ended(dial& which, session& gone, const error& why) {
  const bool registered = gone.of != nullptr;
  first_exception thrown;
  if (!registered && which.is_to_sibling()) {
    std::string reason;
    thrown.keep([&] {
      reason = gone.failure != errc::ok ? std::string{explain(gone.failure)} : why.text();
    });
    siblings_.end_sibling_dial(*which.of, which, reason);
    thrown.rethrow();
    return true;
  }
  if (!registered && which.told != why.code() && gone.stage == session_stage::opening) {
    thrown.keep([&] { events_.log("no connection to " + dialing::at_place(which.where(), why)); });
    which.told = why.code();
  }
  // One that ends as soon as it has registered is a failure too.
  if (gone.registered_at.count() != 0 &&
      node_.now() - gone.registered_at >= node_.options.retry_longest())
    which.failures = 0;
  dialing_.dial_again(which);
  if (which.is_relayed() && !registered) {
    const errc reason = gone.failure != errc::ok ? gone.failure : why.code();
    which.denials = reason == errc::denied ? which.denials + 1 : 0;
    retention_.circuit_failed(*which.of, reason, which.denials);
    return true;
  }
  if (peer* const whom = which.of; whom != nullptr && whom->out.holds())
    retention_.seek(*whom);  // this way has failed now
  thrown.rethrow();
  return false;
}

void node_core::left(link& at) {
  session* const of = session_of(at);
  if (node_.closed || of == nullptr || of->of == nullptr)
    return;
  outbox_.give_up_claim();
  if (node_.is_client(*of->of))
    return sessions_.drop(*of, false, errc::peer_closed, {});  // its successor could be any process
  // First what takes no memory: another way is looked for even if there is none for the rest.
  of->stage = session_stage::away;
  of->left_at = node_.now();
  of->clock.set(moment_after(of->left_at, node_.options.retry_longest()));
  of->shared = of->wants_share = false;  // no batches go there, and no shares are handed out
  peer& whom = *of->of;
  whom.told_connected = false;
  first_exception thrown;
  thrown.keep([&] { blobs_.left(whom); });
  thrown.keep([&] { events_.tell_endpoint(whom.id, endpoint_event::away); });
  if (!reachability::has_place(whom))
    thrown.keep([&] { tree_.displace(whom); });
  thrown.keep([&] { dial_successor(whom); });
  thrown.keep([&] { topics_.link_ended(whom, *of); });
  thrown.keep([&] { topics_.interest().link_changed(whom); });
  thrown.rethrow();
}

void node_core::dial_successor(peer& of) {
  if (of.as == relation::parent)
    dialing_.dial_again(parent_.dials);
  retention_.left(of);
  directory_.lost(of);
}

// The successor may not open the inbox where messages wait for it. Once it has registered elsewhere they
// are taken back from there and go to it, or are reported: registration::end_others, link_choice.
void node_core::seek_successor(session& away) {
  away.clock.set(moment_after(node_.now(), node_.options.retry_longest()));
  outbox_.give_up_claim();
  if (away.of->out.holds() || !away.settled())
    retention_.seek(*away.of);
}

// What is sent from here on waits until its new incarnation has registered.
void node_core::recalling(link& at) {
  session* const of = session_of(at);
  if (node_.closed || of == nullptr || of->of == nullptr || of->of->current != of)
    return;
  outbox_.give_up_claim();
  of->of->current = nullptr;
  of->of->left_behind = of;
}

void node_core::returned(link& at) {
  session* const of = session_of(at);
  if (node_.closed || of == nullptr || of->stage == session_stage::dropped)
    return;
  outbox_.give_up_claim();
  of->by_us = true;
  if (of->of != nullptr && of->of->current == of)
    of->of->current = nullptr;  // nothing of the user's goes there before it has registered
  registration_.begin_handshake(*of);
  if (of->of == nullptr || of->of->left_behind != of)
    return;
  of->of->left_behind = nullptr;
  if (of->of->next != nullptr && of->of->next->stage == session_stage::registered)
    choice_.use(*of->of, *of->of->next, true);
}

bool node_core::inherited(const node_instance& source, bytes_view message, bool redelivered,
                          bool awaited) {
  outbox_.give_up_claim();
  message_head head;
  if (node_.closed || decode(message, head) != head_fault::none || head.kind != message_kind::data)
    return true;  // control messages of an earlier incarnation mean nothing to this one
  // Later ones can have come only if the sender is gone, or has given these up. Also if its old lane seems
  // to have a sender: a process has one lane in a segment, so another one has taken it over.
  const peer* const of = peers_.find(source);
  const bool has_other_lane = of != nullptr && of->instance == source && of->in_from != nullptr &&
                              of->in_from->at.kind() == link_kind::shared_memory;
  if ((!awaited || has_other_lane) && sessions_.has_heard_of(source)) {
    events_.log_cause(errc::superseded,
                      "messages of " + source.id.to_string() +
                          " to an earlier incarnation of this node are left out: later ones " +
                          "have come before them");
    return true;
  }
  if (commands_.has_expired(head, payload_of(message))) {
    events_.log_cause(
        errc::timed_out,
        "a command of " + source.id.to_string() +
            " to an earlier incarnation of this node is not carried out: " + "its time is over");
    return true;
  }
  if (is_checked(source.id, head) && !access_.admits(source.id, message_class::message, head.type))
    return !awaited;  // its sender, if there is one, sends it again over a link, where it is told why
  if (!events_.tell_before_message(nullptr))
    return false;
  if ((head.flags & flag_topic) != 0) {
    (void)topics_.take_inherited(source, peers_.find(source), head, payload_of(message),
                                 redelivered || (head.flags & flag_redelivered) != 0);
    return true;
  }
  (void)inbox_.deliver_any(source, head, payload_of(message),
                           redelivered || (head.flags & flag_redelivered) != 0, true);
  return true;
}

}  // namespace atbus::detail
