#include "node/core/broadcasts.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "protocol/broadcast_head.h"

namespace atbus::detail {
namespace {

// Broadcasts whose answers are awaited at a time.
constexpr std::size_t awaited_max = 64;
// Answers to one of them that are counted.
constexpr std::size_t reached_max = 65536;

}  // namespace

status broadcasts::send(const id_range& to, std::uint32_t type, bytes_view payload,
                        std::chrono::nanoseconds timeout, reached_handler call) {
  if (!call)
    return errc::invalid_argument;
  if (awaited_.size() >= awaited_max)
    return errc::would_block;
  auto made = std::make_unique<wait>();
  made->call = std::move(call);
  made->clock =
      std::make_unique<timer>(node_.timers, [this, one = made.get()] { over(one->number); });
  awaited_.reserve(awaited_max);
  const status sent = start(to, type, payload, true);
  if (!sent)
    return sent;
  made->number = last_number_;
  made->clock->set(moment_after(node_.now(), timeout));
  awaited_.push_back(std::move(made));
  return {};
}

status broadcasts::start(const id_range& to, std::uint32_t type, bytes_view payload, bool answers) {
  outbox_.give_up_claim();
  if (node_.closed || node_.leaving)
    return errc::closed;
  if (node_.is_client())
    return errc::not_supported;
  if (!node_.fault)
    return node_.fault.code();
  if (payload.size() > node_.options.message_limit())
    return {errc::message_too_large, payload.size(), node_.options.message_limit()};
  if (!access_.lets_broadcast(node_.self.id, to, type))
    return errc::denied;
  // Random at first, so that the numbers of two incarnations differ. 0 is none.
  if (last_number_ == 0)
    last_number_ = node_.on.random.word();
  if (++last_number_ == 0)
    ++last_number_;
  const broadcast_head head{
      .type = type, .to = to, .source = node_.self.id, .number = last_number_, .answers = answers};
  scratch_.resize(broadcast_head_size + payload.size());
  encode(head, scratch_.data());
  if (!payload.empty())
    std::memcpy(scratch_.data() + broadcast_head_size, payload.data(), payload.size());
  const fan_out result = spread(head, scratch_, nullptr);
  if (result.links == 0)
    return errc::no_route;
  return result.sent != 0 ? status{} : result.refused;
}

// Down to each child that may have such ids, and up, unless all of them are below this node, what is
// from below it: the parent takes nothing else from this node. The source also sends to its peers in the
// range; a peer hands nothing on, because its neighbours take from it only what is from below it.
broadcasts::fan_out broadcasts::spread(const broadcast_head& head, bytes_view message,
                                       const peer* from) noexcept {
  fan_out result;
  for (const auto& [id, to] : routes_.all()) {
    session* const path = reach_.link_to(*to);
    if (to == from || path == nullptr)
      continue;
    const bool is_in = head.to.contains(to->id) || (to->range && to->range->overlaps(head.to));
    bool wanted = false;
    switch (to->as) {
      case relation::child:
        wanted = is_in;
        break;
      case relation::parent:
        wanted = (from == nullptr || from->as == relation::child) &&
                 !(routes_.own() && routes_.own()->contains(head.to));
        break;
      case relation::peer:
        wanted = from == nullptr && head.to.contains(to->id);
        break;
      case relation::sibling:
        break;  // reached by the parent
    }
    if (!wanted)
      continue;
    ++result.links;
    if (const status copied = copy_to(*path, head, message); copied)
      ++result.sent;
    else if (result.refused || copied == errc::would_block)
      result.refused = copied;
  }
  return result;
}

status broadcasts::copy_to(session& path, const broadcast_head& head, bytes_view message) noexcept {
  status why;
  std::byte* const at = output_.claim_in(path, message.size(), message_purpose::data, why);
  if (at == nullptr) {
    ++node_.stats.relay_drops;
    return why;
  }
  std::memcpy(at, message.data(), message.size());
  broadcast_head now = head;
  now.flags = output_.flags_after(path, message.size()) | (head.flags & flag_unproven);
  encode(now, at);
  path.at.commit(message.size());
  ++path.committed;
  return {};
}

void broadcasts::take(session& from, bytes_view message) {
  broadcast_head head;
  if (from.stage != session_stage::registered || !from.is_direct || !decode(message, head))
    return sessions_.violation(from, {errc::protocol_error, "a broadcast is not one"});
  if (!routes_.may_come_from(head.source, *from.of)) {
    return sessions_.violation(from, {errc::denied, "node " + from.of->id.to_string() +
                                                        " passes on a broadcast in the name of " +
                                                        head.source.to_string()});
  }
  if ((head.flags & flag_acknowledge) != 0)
    acknowledgements_.acknowledge_at_once(from);
  const bool is_unproven = (head.flags & flag_unproven) != 0 || reach_.is_unproven_link(from);
  head.flags = is_unproven ? flag_unproven : std::uint8_t{0};
  if (!access_.lets_broadcast(head.source, head.to, head.type))
    return;
  if (head.hops_left > 1 && from.of->as != relation::peer) {
    --head.hops_left;
    node_.stats.relayed += spread(head, message, from.of).sent;
  }
  if (!head.to.contains(node_.self.id))
    return;
  if (is_unproven && node_.tokens.empty() && !node_.options.allow_unauthenticated()) {
    ++node_.stats.broadcast_drops;
    return events_.log_cause(errc::denied,
                             "a broadcast of node " + head.source.to_string() +
                                 " is dropped: on its way was a link without a token");
  }
  if (!seen_.is_first(head.source, head.number)) {
    ++node_.stats.duplicates;
    return;
  }
  // The limit is this node's own. The nodes on the way may have higher ones.
  const bytes_view payload = message.subspan(broadcast_head_size);
  if (payload.size() > node_.options.message_limit()) {
    ++node_.stats.broadcast_drops;
    return events_.log_cause(errc::message_too_large,
                             "a broadcast of node " + head.source.to_string() +
                                 " is dropped: it has " + std::to_string(payload.size()) +
                                 " bytes, and message_limit is " +
                                 std::to_string(node_.options.message_limit()));
  }
  if (!events_.tell_before_message(&from))
    return;
  if (head.answers) {
    const routed_head answer{.step = circuit_step::reached,
                             .destination = head.source,
                             .source = node_.self.id,
                             .circuit = head.number,
                             .number = 1};
    (void)answers_.pass_on(answer, {});
  }
  inbox_.deliver({head.source, 0}, head.type, payload, false);
}

void broadcasts::reached(std::uint64_t number, bus_id whom) {
  for (const auto& one : awaited_) {
    if (one->number == number && one->reached.size() < reached_max)
      one->reached.insert(whom);
  }
}

void broadcasts::over(std::uint64_t number) {
  const auto at = std::find_if(awaited_.begin(), awaited_.end(),
                               [&](const auto& one) { return one->number == number; });
  (*at)->clock->set(node_.now());  // again, if there is no memory for the event and its copies
  std::vector<bus_id> reached((*at)->reached.begin(), (*at)->reached.end());
  events_.tell_call([call = (*at)->call, reached = std::move(reached)](status) { call(reached); },
                    {});
  awaited_.erase(at);
}

}  // namespace atbus::detail
