// Messages that pass through this node, and those of its own circuits on their way to the next one.
#include <algorithm>
#include <cstring>

#include "atbus/detail/copy_payload.hpp"
#include "node/core/node_core.h"

namespace atbus::detail {
namespace {

// A failure of one circuit is told once in this time, that of what was sent again sooner: the origin
// would else wait for an answer in vain.
constexpr std::chrono::nanoseconds failure_interval = std::chrono::milliseconds{10};
constexpr std::chrono::nanoseconds failure_again_interval = std::chrono::milliseconds{1};
// The first of so many batches of a circuit makes a node look for a nearer way.
constexpr std::uint64_t question_interval = 16;

}  // namespace

bool node_core::is_reachable(bus_id id) const noexcept {
  return id != bus_id{} &&
         (routes_.next(id, nullptr) != nullptr || (awaits_parent() && !routes_.is_ours(id)));
}

bool node_core::may_become_reachable(bus_id id) const noexcept {
  return is_reachable(id) || (id != bus_id{} && routes_.own() && routes_.own()->contains(id));
}

void node_core::seek(peer& of) {
  // Nothing else is to be tried, or it has failed.
  const bool is_needed =
      of.sessions.empty() && std::all_of(of.dials.begin(), of.dials.end(), [](const dial& one) {
        return one.is_to_sibling() || (!one.is_relayed() && one.failures != 0);
      });
  if (!is_needed || !is_reachable(of.id) || leaving_)
    return;  // what is required waits until the child is there
  if (const error bad = start_dial(of.dials, &of, std::nullopt, false); !bad)
    log("no way to " + of.id.to_string() + ": " + bad.text());
}

void node_core::ways_changed() {
  circuits_.ways_changed();
  for (const auto& [id, of] : peers_) {
    if (of->out.holds())
      seek(*of);
  }
}

// A circuit has not come to be. Who was never seen and can't be reached now is nobody: what waits for
// it is reported. Who was is dialled again until it is forgotten.
void node_core::circuit_failed(peer& of, errc why, unsigned denials) {
  // A restart of the other end in the middle of a handshake looks like that, once or twice.
  constexpr unsigned denials_max = 3;
  switch (why) {
    case errc::no_route:
    case errc::hop_limit:
    case errc::message_too_large:
    case errc::not_found:
    case errc::version_mismatch:
    case errc::timed_out:
      break;
    case errc::denied:
      if (denials < denials_max)
        return;
      break;
    default:
      return await_for_a_time(of);
  }
  if (of.wished || of.instance.incarnation != 0 || !of.sessions.empty())
    return;
  give_up(of, why);
}

session* node_core::link_to(const peer& next) const noexcept {
  const auto is_good = [&next](const session* one) {
    return one->stage == session_stage::registered && gives_place(*one, next);
  };
  if (next.current != nullptr && is_good(next.current)) [[likely]]
    return next.current;
  // Its own messages may still go over other nodes.
  session* best = nullptr;
  for (session* const one : next.sessions) {
    if (is_good(one) && (best == nullptr || better(*one, *best)))
      best = one;
  }
  return best;
}

status node_core::send_on(const routed_head& head, bytes_view batch, const peer* from) noexcept {
  const peer* const next = routes_.next(head.destination, from);
  if (next == nullptr) {
    // A parent that is just dialled again will know.
    const bool later = awaits_parent() && !routes_.is_ours(head.destination);
    return {later ? errc::not_connected : errc::no_route, head.destination.value()};
  }
  session* const path = link_to(*next);
  if (path == nullptr)
    return {errc::not_connected, next->id.value()};
  const bool carries = head.step == circuit_step::carry;
  const std::size_t size = routed_head_size + batch.size();
  path->carried = path->carried || carries;
  if (carries && path->shared && path->wants_share) [[unlikely]] {
    if (path->carried_bytes >= path->carried_most)
      return {errc::would_block, size};
    path->carried_bytes += size;
  }
  status why;
  std::byte* const at =
      claim_in(*path, size, carries ? message_purpose::data : message_purpose::control, why);
  if (at == nullptr && carries && why == errc::would_block)
    share(*path);
  if (at == nullptr)
    return why == errc::closed ? status{errc::not_connected, next->id.value()} : why;
  routed_head now = head;
  now.flags = flags_after(*path, size) | (head.flags & flag_unproven);
  encode(now, at);
  if (!batch.empty())
    copy_payload(at + routed_head_size, batch.data(), batch.size());
  path->at.append(size);
  ++path->committed;
  if (carries && next == routes_.parent() && head.number % question_interval == 1) [[unlikely]]
    ask_where(head.destination, *path);
  return {};
}

std::uint8_t node_core::flags_after(session& path, std::size_t size) const noexcept {
  path.unasked_bytes += size;
  if (path.unasked_bytes < ask_after())
    return 0;
  path.unasked_bytes = 0;
  return path.keeps ? flag_acknowledge : std::uint8_t{0};
}

status node_core::pass_on(const routed_head& head, bytes_view batch) noexcept {
  return send_on(head, batch, nullptr);
}

link_trust node_core::trust_towards(bus_id destination) const noexcept {
  const peer* const next = routes_.next(destination, nullptr);
  const session* const path = next != nullptr ? link_to(*next) : nullptr;
  return path != nullptr ? path->at.trust() : link_trust::unproven;
}

std::string node_core::way_to(bus_id destination) const {
  const peer* const next = routes_.next(destination, nullptr);
  return destination.to_string() +
         (next != nullptr ? " by way of " + next->id.to_string() : " without a way");
}

bool node_core::is_unproven_link(const session& from) const noexcept {
  return tokens_.empty() && from.at.trust() == link_trust::unproven;
}

void node_core::relay(session& from, bytes_view message) {
  routed_head head;
  const bool is_whole = decode(message, head);
  count_handled(from, head.step == circuit_step::carry);
  if (from.stage != session_stage::registered || !from.is_direct || !is_whole)
    return violation(from, {errc::protocol_error, "a relayed message is not one"});
  if (!routes_.may_come_from(head.source, *from.of)) {
    return violation(
        from, {errc::denied, "node " + from.of->id.to_string() +
                                 " relays a message in the name of " + head.source.to_string()});
  }
  if ((head.flags & flag_acknowledge) != 0)
    acknowledge_at_once(from);
  const bool is_unproven = (head.flags & flag_unproven) != 0 || is_unproven_link(from);
  head.flags = is_unproven ? flag_unproven : std::uint8_t{0};
  if (head.destination == self_.id && head.step == circuit_step::reached)
    return broadcast_reached(head.circuit, head.source);
  if (head.destination == self_.id)
    return circuits_.arrived(head, message, is_unproven ? link_trust::unproven : from.at.trust());
  status sent = errc::hop_limit;
  if (head.hops_left > 1) {
    --head.hops_left;
    sent = send_on(head, carried_by(message), from.of);
  }
  const unsigned messages = head.step == circuit_step::carry ? head.messages : 1U;
  if (sent) {
    stats_.relayed += messages;
    return;
  }
  stats_.relay_drops += messages;
  if (head.step == circuit_step::carry)
    say_failed(from, head, sent.code());
}

// Says so in the destination's name, so that it comes through wherever the message did.
void node_core::say_failed(session& to, const routed_head& head, errc why) {
  failure& last = failures_[head.circuit % failures_.size()];
  const std::chrono::nanoseconds now = on_.clock.now();
  const bool is_again = head.number <= last.number;
  if (last.circuit == head.circuit && last.why == why &&
      now - last.told_at < (is_again ? failure_again_interval : failure_interval))
    return;
  last = {head.circuit, head.number, why, now};
  const routed_head answer{.step = circuit_step::failed,
                           .reason = why,
                           .destination = head.source,
                           .source = head.destination,
                           .circuit = head.circuit,
                           .number = head.number};
  std::array<std::byte, routed_head_size> bytes{};
  encode(answer, bytes.data());
  (void)send_control(to, bytes);
}

}  // namespace atbus::detail
