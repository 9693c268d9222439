#include "node/core/relay.h"

#include <new>

#include "atbus/detail/copy_payload.hpp"

namespace atbus::detail {
namespace {

// A failure of one circuit is told once in this time, that of what was sent again sooner: the origin
// would else wait for an answer in vain.
constexpr std::chrono::nanoseconds failure_interval = std::chrono::milliseconds{10};
constexpr std::chrono::nanoseconds failure_again_interval = std::chrono::milliseconds{1};
// The first of so many batches of a circuit makes a node look for a nearer way.
constexpr std::uint64_t question_interval = 16;

}  // namespace

status relay::send_on(const routed_head& head, bytes_view batch, const peer* from) noexcept {
  const peer* const next = routes_.next(head.destination, from);
  if (next == nullptr) {
    // A parent that is just dialled again will know.
    const bool later = reach_.awaits_parent() && !routes_.is_ours(head.destination);
    return {later ? errc::not_connected : errc::no_route, head.destination.value()};
  }
  session* const path = reach_.link_to(*next);
  if (path == nullptr)
    return {errc::not_connected, next->id.value()};
  const bool carries = head.step == circuit_step::carry;
  const std::size_t size = routed_head_size + batch.size();
  if (carries && !link_sharing::takes_batch(*path, size))
    return {errc::would_block, size};
  status why;
  std::byte* const at = output_.claim_in(
      *path, size, carries ? message_purpose::data : message_purpose::control, why);
  if (at == nullptr && carries && why == errc::would_block)
    sharing_.share(*path);
  if (at == nullptr)
    return why == errc::closed ? status{errc::not_connected, next->id.value()} : why;
  routed_head now = head;
  now.flags = output_.flags_after(*path, size) | (head.flags & flag_unproven);
  encode(now, at);
  if (!batch.empty())
    copy_payload(at + routed_head_size, batch.data(), batch.size());
  path->at.append(size);
  ++path->committed;
  if (carries && next == routes_.parent() && head.number % question_interval == 1) [[unlikely]]
    siblings_.ask_where(head.destination, *path);
  return {};
}

link_trust relay::trust_towards(bus_id destination) const noexcept {
  const peer* const next = routes_.next(destination, nullptr);
  const session* const path = next != nullptr ? reach_.link_to(*next) : nullptr;
  return path != nullptr ? path->at.trust() : link_trust::unproven;
}

std::string relay::way_to(bus_id destination) const {
  const peer* const next = routes_.next(destination, nullptr);
  return destination.to_string() +
         (next != nullptr ? " by way of " + next->id.to_string() : " without a way");
}

void relay::take(session& from, bytes_view message) {
  routed_head head;
  const bool is_whole = decode(message, head);
  acknowledgements_.count_handled(from, head.step == circuit_step::carry);
  if (from.stage != session_stage::registered || !from.is_direct || !is_whole)
    return sessions_.violation(from, {errc::protocol_error, "a relayed message is not one"});
  if (!routes_.may_come_from(head.source, *from.of)) {
    return sessions_.violation(
        from, {errc::denied, "node " + from.of->id.to_string() +
                                 " relays a message in the name of " + head.source.to_string()});
  }
  if ((head.flags & flag_acknowledge) != 0)
    acknowledgements_.acknowledge_at_once(from);
  const bool is_unproven = (head.flags & flag_unproven) != 0 || reach_.is_unproven_link(from);
  head.flags = is_unproven ? flag_unproven : std::uint8_t{0};
  if (head.destination == node_.self.id && head.step == circuit_step::reached)
    return broadcasts_.reached(head.circuit, head.source);
  if (head.destination == node_.self.id)
    return circuits_.arrived(head, message, is_unproven ? link_trust::unproven : from.at.trust());
  status sent = errc::hop_limit;
  if (!access_.lets_pass(head.source, head.destination)) {
    sent = errc::denied;
  } else if (head.hops_left > 1) {
    --head.hops_left;
    sent = send_on(head, carried_by(message), from.of);
  }
  if (head.step == circuit_step::traced) {  // a word about a message, and none itself
    if (sent)
      log_trace(from, head, carried_by(message));
    return;
  }
  const unsigned messages = head.step == circuit_step::carry ? head.messages : 1U;
  if (sent) {
    node_.stats.relayed += messages;
    return;
  }
  node_.stats.relay_drops += messages;
  if (head.step == circuit_step::carry)
    say_failed(from, head, sent.code());
}

void relay::tell_trace(bus_id to, const trace_context& trace) noexcept {
  const peer* const next = routes_.next(to, nullptr);
  if (next == nullptr || next->id == to)
    return;
  try {
    if (own_traces_.take(0, node_.now()) == 0)
      return;  // no relay would log it, and words take the room of acknowledgements
  } catch (const std::bad_alloc&) {
    return;
  }
  std::array<std::byte, trace_context::size> context{};
  trace.write(context.data());
  const routed_head head{.step = circuit_step::traced,
                         .destination = to,
                         .source = node_.self.id,
                         .circuit = 0,
                         .number = 1};
  (void)send_on(head, context, nullptr);  // lost: it is a line in logs
}

void relay::log_trace(const session& from, const routed_head& head, bytes_view context) noexcept {
  try {
    const std::chrono::nanoseconds now = node_.now();
    const unsigned left = trace_lines_of_sources_.take(head.source.value(), now);
    if (left == 0 || trace_lines_of_links_.take(from.of->id.value(), now) == 0)
      return;
    events_.log("trace " + trace_context::read(context.data()).to_string() + ": " +
                head.source.to_string() + " to " + way_to(head.destination) +
                (left == 1 ? " (more of its traces are left out for a minute)" : ""));
  } catch (const std::bad_alloc&) {  // no line, then
  }
}

// Says so in the destination's name, so that it comes through wherever the message did.
void relay::say_failed(session& to, const routed_head& head, errc why) {
  failure& last = failures_[head.circuit % failures_.size()];
  const std::chrono::nanoseconds now = node_.now();
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
  (void)output_.send_control(to, bytes);
}

}  // namespace atbus::detail
