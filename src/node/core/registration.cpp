#include "node/core/registration.h"

#include <algorithm>
#include <new>
#include <utility>

namespace atbus::detail {
namespace {

// Of a handshake that was dialled, from when another one with the same incarnation depends on its end: what
// answers there has proven nothing.
constexpr std::chrono::nanoseconds contested_time = std::chrono::seconds{2};
// Of one peer, at a time; two nodes have a use for one of them.
constexpr std::size_t links_max = 64;

}  // namespace

introduction registration::introduce(relation as) {
  introduction own;
  own.capabilities = capability_topics | capability_blobs;
  own.id = node_.self.id;
  own.incarnation = node_.self.incarnation;
  node_.on.random.fill(own.nonce);
  own.addresses = addresses_;
  own.host = node_.on.host;
  // The same for each link, so that what was accepted for one can go over another.
  own.message_limit = std::min<std::uint64_t>(node_.options.message_limit(),
                                              payload_in_routed(node_.on.channels.message_limit()));
  own.as = as;
  if (const auto& range = routes_.own()) {
    own.range_first = range->first();
    own.range_length = static_cast<std::uint8_t>(range->length());
  }
  return own;
}

// A step for which there is no memory is half done: the link ends, and the two register anew.
template <class Step>
void registration::take_or_drop(session& on, Step&& step) {
  try {
    step();
  } catch (const std::bad_alloc&) {
    sessions_.drop(on, false, errc::out_of_memory, {});
    throw;
  }
}

void registration::begin_handshake(session& on) {
  take_or_drop(on, [&] { begin(on); });
}

void registration::advance(session& on, bytes_view message) {
  take_or_drop(on, [&] { take(on, message); });
}

void registration::begin(session& on) {
  on.stage = session_stage::registering;
  on.began_after = node_.stats.registrations;
  on.keeps = on.at.keeps();
  on.addresses_told = addresses_.size();
  on.offers.reset();
  on.clock.set(node_.idle_deadline());
  std::optional<byte_buffer> binding = on.at.binding();
  if (!binding) {
    return sessions_.drop(on, false, errc::system_error,
                          "no key of the encrypted link can be computed for the registration");
  }
  on.encrypted = !binding->empty();
  const auto admission_of = [this, &on](const peer_identity& who) { return admit(on, who); };
  if (!on.by_us) {
    on.shake = std::make_unique<handshake_acceptor>(introduce(relation::peer), node_.tokens,
                                                    admission_of, std::move(*binding));
    return;
  }
  // A link that returns stays its peer's, also if that is the parent, whose id was never named.
  const peer* const whom = on.of == nullptr && on.dialled != nullptr ? on.dialled->of : on.of;
  auto role = std::make_unique<handshake_initiator>(
      introduce(opposite(tree_.dialled_as(on))), whom != nullptr ? whom->id : bus_id{},
      node_.tokens, admission_of, std::move(*binding));
  handshake_initiator& starting = *role;
  on.shake = std::move(role);
  output_.send_control(on, starting.start().send);
}

// The access rules are asked where a node connects first. So over others it is who it is there.
error registration::check_name(const session& on, bus_id id) {
  const bus_id is = on.is_direct ? id : on.at.origin().node;
  if (is == id)
    return {};
  ++node_.stats.violations;
  return {errc::denied,
          "node " + is.to_string() + " can't register over other nodes as node " + id.to_string()};
}

result<resume_point> registration::admit(session& on, const peer_identity& who) {
  const node_instance instance{who.id, who.incarnation};
  if (who.id == bus_id{} && (node_.is_client() || on.by_us || !on.is_direct))
    return error{errc::denied, "a node without a bus id can't be visited, nor visit over others"};
  if (who.id == node_.self.id)
    return error{errc::denied, "bus id " + who.id.to_string() + " is taken: it is this node's"};
  if (error bad = check_name(on, who.id); !bad)
    return bad;
  peer* const known = peers_.find(instance);
  if (who.id == bus_id{} && known == nullptr && peers_.clients().size() >= node_.options.clients())
    return error{errc::denied,
                 std::to_string(peers_.clients().size()) + " clients are here already"};
  // One that is the only one of the other end's takes their place, and is not one more.
  if (known != nullptr && known->sessions.size() >= links_max && !on.shake->resume().sole)
    return error{errc::denied, who.id.to_string() + " has " + std::to_string(links_max) +
                                   " links to this node already"};
  if (reach_.is_unproven_link(on) && !node_.options.allow_unauthenticated()) {
    return error{errc::denied, "without a token nodes meet on one host and as one user only"};
  }
  if (error bad = tree_.check_place(on, who); !bad)
    return bad;
  if (error bad = access_.check_registration(on, who.id, who.range); !bad)
    return bad;
  if (const incoming_flow* const past = sessions_.away().superseded(instance)) {
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
        if (on.shake->resume().sole && on.is_newer_than(*other)) {
          other->stage = session_stage::dropped;
          other->gives_way = true;
        }
        answer.sole = answer.sole && other->stage == session_stage::dropped;
        continue;
      }
      if (is_remote(other->at.kind())) {
        if (!on.by_us)
          liveness_.probe(*other);  // only a node that dialled has proven itself
        return error{errc::receiver_exists, "bus id " + who.id.to_string() +
                                                " is taken, or was until a moment ago: try again"};
      }
      return error{errc::receiver_exists,
                   "bus id " + who.id.to_string() + " is taken by a living process"};
    }
  }
  // A node that has two answers must not take the older one for the last word.
  for (const auto& other : sessions_.all()) {
    if (other.get() != &on && other->stage == session_stage::registering &&
        other->told_position == instance) {
      answer.sole = false;
      if (other->by_us)
        other->clock.set(std::min(other->clock.due(), node_.now() + contested_time));
    }
  }
  on.said_sole = answer.sole;
  if (known == nullptr || known->instance != instance)
    sessions_.prepare_flow(on, instance);
  const flow_position& position = on.has_flow ? on.flow.position() : known->in.position();
  answer.session = position.session;
  answer.last = position.last;
  return answer;
}

// An address that sends wrong tokens again and again waits longer each time.
std::chrono::nanoseconds registration::delay_of_refusal(const session& on) {
  if (on.by_us || !on.shake->lacks_proof())
    return {};
  const std::string from = on.at.peer();
  const bool has_port = is_network(on.at.kind());
  const std::chrono::nanoseconds delay =
      refusal_delay_.of_next(has_port ? from.substr(0, from.rfind(':')) : from, node_.now());
  return std::min(delay,
                  node_.options.first_idle_timeout() / 2);  // later the other end has given up
}

void registration::take(session& on, bytes_view message) {
  if (!on.refusal.empty())
    return;
  const handshake_step step = on.shake->receive(message);
  const std::chrono::nanoseconds delay = delay_of_refusal(on);
  if (delay.count() != 0)
    on.refusal.assign(step.send.begin(), step.send.end());
  else if (!step.send.empty() && !output_.send_control(on, step.send))
    return sessions_.drop(on, false, errc::would_block, "no room for the handshake");
  switch (step.state) {
    case handshake_state::going_on:
      return;
    case handshake_state::done:
      return registered(on);
    case handshake_state::failed:
      return failed(on, delay);
  }
}

void registration::failed(session& on, std::chrono::nanoseconds delay) {
  ++node_.stats.registrations_failed;
  const error why = on.shake->problem();
  on.failure = why.code();
  if (sibling_links::dials_sibling(on))
    return sessions_.drop(on, false, errc::denied, {});
  std::string text = "registration with " + on.at.peer() + " failed: " + why.text();
  const bool first =
      on.dialled != nullptr && std::exchange(on.dialled->told, why.code()) != why.code();
  if (on.dialled == nullptr)
    events_.log_cause(why.code(), std::move(text));
  else if (first)
    events_.log(std::move(text));
  const bus_id id = node_.known_as(on.shake->peer().id);
  if (peer* const of = peers_.find(id); of == nullptr && first && id != bus_id{})
    events_.tell_endpoint(id, endpoint_event::refused);
  else if (of != nullptr && (on.by_us || of->sessions.empty()))
    tell_refused(on, *of, why.code());
  if (delay.count() == 0)
    return sessions_.drop(on, false, errc::denied, {});
  on.at.pause();
  on.clock.set(node_.now() + delay);
}

// For each reason in turn; once for all reasons that any process can bring about in the peer's name.
void registration::tell_refused(const session& on, peer& of, errc why) {
  const bool is_anyone = !on.by_us && (!on.shake->has_proof() || reach_.is_unproven_link(on));
  if (is_anyone ? of.refused != errc::ok : of.refused == why)
    return;
  events_.tell_endpoint(of.id, endpoint_event::refused);
  of.refused = why;
}

void registration::registered(session& on) {
  const peer_identity& who = on.shake->peer();
  if (on.superseded) {
    ++node_.stats.registrations_failed;
    events_.log_cause(errc::superseded,
                      on.at.peer() + " has been superseded: another process has registered " +
                          "as " + who.id.to_string() + " since");
    return sessions_.drop(on, false, errc::superseded, {});
  }
  if (on.shake->resume().superseded &&
      peers_.find(node_instance{who.id, who.incarnation}) == nullptr)
    return sessions_.drop(on, false, errc::superseded,
                          {});  // the peer is known here, and nothing waits for it
  // Others may have registered since it was admitted; the rules and the certificates may have changed.
  error bad = tree_.check_place(on, who);
  if (bad)
    bad = access_.check_registration(on, who.id, who.range);
  if (bad && !on.at.is_trusted())
    bad = error{errc::denied, "its certificate is not accepted any more"};
  if (!bad) {
    ++node_.stats.registrations_failed;
    events_.log_cause(bad.code(), "registration with " + on.at.peer() + " failed: " + bad.text());
    return sessions_.drop(on, false, errc::denied, {});
  }
  on.instance = {who.id, who.incarnation};
  peer& of = peers_.find_or_make(on.instance);
  of.sessions.reserve(of.sessions.size() + 1);  // from here on each of them is listed
  on.registered_at = node_.now();
  on.answer = on.shake->resume();
  on.as = who.as;
  on.host = who.host;
  on.proven_by = on.shake->proven_by();
  on.knows_topics = (who.capabilities & capability_topics) != 0;
  on.knows_blobs = (who.capabilities & capability_blobs) != 0;
  of.message_limit = static_cast<std::size_t>(who.message_limit);
  on.of = &of;
  on.stage = session_stage::registered;
  on.probed = false;
  if (std::find(of.sessions.begin(), of.sessions.end(), &on) == of.sessions.end())
    of.sessions.push_back(&on);
  of.forget.cancel();
  of.refused = errc::ok;
  if (on.is_direct && of.id != bus_id{})
    tree_.place(of, who);
  on.registration = ++node_.stats.registrations;
  ++of.counts.links;
  on.at.confirm(on.instance);
  // The handshake names only those where this node listened when it began.
  if (on.addresses_told != addresses_.size())
    on.owes_addresses = owes_addresses_ = true;
  if (on.dialled != nullptr)
    on.dialled->told = errc::ok;
  if (is_remote(on.at.kind()))
    on.clock.set(moment_after(node_.now(), node_.options.ping_interval()));
  else
    on.clock.cancel();
  if (is_network(on.at.kind()) && !on.encrypted && node_.has_keys()) {
    events_.log_about(
        of.id, "the link to " + of.id.to_string() + " (" + on.at.peer() +
                   ") is not encrypted: both ends allow that, and the address says tls=false");
  }
  take_over_flow(on, of);
  const bool is_only = end_others(on, of);
  // It has lost the link that made it a parent or a child.
  if (is_only && who.as == relation::peer && of.as != relation::peer)
    tree_.displace(of);
  on.offers = who.addresses;
  on.shake.reset();
  choice_.choose(of, on);
  if (on.by_us)
    both_registered(on);
}

void registration::take_over_flow(session& on, peer& of) {
  if (of.instance != on.instance) {
    if (of.instance.incarnation != 0)
      sessions_.away().remember(of.instance, of.in, of.silent);
    if (!on.has_flow)
      sessions_.prepare_flow(on, on.instance);  // another incarnation has registered meanwhile
    of.in = on.flow;
    of.in_from = nullptr;
    of.instance = on.instance;
    sessions_.away().supersede(of.instance);
  }
  // From here on the peer has it; what other handshakes remember of it, and have said, grows old.
  for (const auto& other : sessions_.all()) {
    if (other->flow_of == on.instance)
      other->has_flow = false;
    if (other.get() != &on && other->told_position == on.instance)
      other->said_sole = false;
  }
  of.silent = false;
  on.has_flow = false;
}

void registration::ended(const session& gone) {
  const peer* const known = gone.of == nullptr ? peers_.find(gone.told_position) : nullptr;
  if (known == nullptr)
    return;
  for (session* other : known->sessions) {  // a drop is told later
    if (std::exchange(other->gives_way, false))
      sessions_.drop(*other, false, errc::superseded, {});
  }
}

bool registration::end_others(session& on, peer& of) {
  bool is_only = on.answer.sole && on.is_direct;
  for (session* other : std::vector<session*>{of.sessions}) {
    if (other == &on)
      continue;
    // What waits for this incarnation in shared memory is let be handled first.
    if (other->stage == session_stage::away && other->at.has_successor())
      continue;
    const bool gone = on.answer.sole && on.is_newer_than(*other);
    if (gone || other->stage == session_stage::dropped || other->instance != on.instance) {
      sessions_.drop(*other, false, errc::superseded, {});
      continue;
    }
    is_only = false;
  }
  return is_only;
}

void registration::both_registered(session& on) {
  if (const auto offers = std::exchange(on.offers, std::nullopt))
    dialing_.try_offers(*on.of, *offers, on.host);
}

void registration::add_address(const std::string& made) {
  addresses_.push_back(made);
  for (const auto& one : sessions_.all())
    one->owes_addresses = one->stage == session_stage::registered;
  say_addresses();
}

void registration::say_owed_addresses() {
  if (owes_addresses_)
    say_addresses();
}

void registration::say_addresses() {
  owes_addresses_ = true;  // until all of them have been said without a lack of memory
  bool owes = false;
  for (const auto& one : sessions_.all()) {
    if (!one->owes_addresses)
      continue;
    one->owes_addresses =
        one->stage == session_stage::registered &&
        output_.say(*one, addresses_body{.addresses = addresses_}) == errc::would_block;
    owes = owes || one->owes_addresses;
  }
  owes_addresses_ = owes;
}

}  // namespace atbus::detail
