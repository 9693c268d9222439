// Messages to all nodes of a range: one copy for each link, handed on from node to node.
#include <algorithm>
#include <cstring>
#include <utility>

#include "node/node_core.h"
#include "protocol/broadcast_head.h"

namespace atbus::detail {
namespace {

// Broadcasts whose answers are awaited at a time.
constexpr std::size_t awaited_max = 64;
// Answers to one of them that are counted.
constexpr std::size_t reached_max = 65536;

}  // namespace

status node_core::broadcast(const id_range& to, std::uint32_t type, bytes_view payload) {
  return start_broadcast(to, type, payload, 0);
}

status node_core::broadcast(const id_range& to, std::uint32_t type, bytes_view payload,
                            std::chrono::nanoseconds timeout, reached_handler call) {
  if (awaited_.size() >= awaited_max)
    return errc::would_block;
  std::uint64_t number = 0;
  while (number == 0)
    number = on_.random.word();
  if (const status sent = start_broadcast(to, type, payload, number); !sent)
    return sent;
  auto wait = std::make_unique<broadcast_wait>();
  wait->number = number;
  wait->call = std::move(call);
  wait->clock = std::make_unique<timer>(timers_, [this, number] { broadcast_over(number); });
  wait->clock->set(on_.clock.now() + timeout);
  awaited_.push_back(std::move(wait));
  return {};
}

// `number` 0: nobody answers.
status node_core::start_broadcast(const id_range& to, std::uint32_t type, bytes_view payload,
                                  std::uint64_t number) {
  give_up_claim();
  if (closed_ || leaving_)
    return errc::closed;
  if (is_visitor())
    return errc::not_supported;
  if (!fault_)
    return fault_.code();
  if (payload.size() > options_.message_limit())
    return {errc::message_too_large, payload.size(), options_.message_limit()};
  const broadcast_head head{.type = type,
                            .to = to,
                            .source = self_.id,
                            .number = number != 0 ? number : 1,
                            .answers = number != 0};
  scratch_.resize(broadcast_head_size + payload.size());
  encode(head, scratch_.data());
  if (!payload.empty())
    std::memcpy(scratch_.data() + broadcast_head_size, payload.data(), payload.size());
  const fan_out result = spread(head, scratch_, nullptr);
  if (result.links == 0)
    return errc::no_route;
  return result.sent != 0 ? status{} : status{errc::would_block, payload.size()};
}

// Down to whoever may have such ids below, and up unless all of them are below this node.
node_core::fan_out node_core::spread(const broadcast_head& head, bytes_view message,
                                     const peer* from) noexcept {
  fan_out result;
  for (const auto& [id, to] : routes_.all()) {
    session* const path = link_to(*to);
    if (to == from || path == nullptr)
      continue;
    const bool is_in = head.to.contains(to->id) || (to->range && to->range->overlaps(head.to));
    bool wanted = false;
    switch (to->as) {
      case relation::child:
        wanted = is_in;
        break;
      case relation::parent:
        wanted = !(routes_.own() && routes_.own()->contains(head.to));
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
    result.sent += static_cast<unsigned>(copy_to(*path, head, message));
  }
  return result;
}

bool node_core::copy_to(session& path, const broadcast_head& head, bytes_view message) noexcept {
  status why;
  std::byte* const at = claim_in(path, message.size(), message_purpose::data, why);
  if (at == nullptr) {
    ++stats_.relay_drops;
    return false;
  }
  std::memcpy(at, message.data(), message.size());
  broadcast_head now = head;
  now.flags = flags_after(path, message.size());
  encode(now, at);
  path.at.commit(message.size());
  ++path.committed;
  return true;
}

void node_core::take_broadcast(session& from, bytes_view message) {
  broadcast_head head;
  if (from.stage != session_stage::registered || !from.is_direct || !decode(message, head) ||
      message.size() - broadcast_head_size > options_.message_limit())
    return violation(from, {errc::protocol_error, "a broadcast is not one"});
  if (!routes_.may_come_from(head.source, *from.of)) {
    return violation(from, {errc::denied, "node " + from.of->id.to_string() +
                                              " passes on a broadcast in the name of " +
                                              head.source.to_string()});
  }
  if ((head.flags & flag_acknowledge) != 0)
    acknowledge_at_once(from);
  if (head.hops_left > 1) {
    --head.hops_left;
    stats_.relayed += spread(head, message, from.of).sent;
  }
  if (!head.to.contains(self_.id))
    return;
  if (head.answers) {
    const routed_head answer{.step = circuit_step::reached,
                             .destination = head.source,
                             .source = self_.id,
                             .circuit = head.number,
                             .number = 1};
    (void)send_on(answer, {}, nullptr);
  }
  if (!news_.empty() && (!tell_news() || from.stage == session_stage::dropped))
    return;
  deliver({head.source, 0}, head.type, message.subspan(broadcast_head_size), false);
}

void node_core::broadcast_reached(std::uint64_t number, bus_id whom) {
  for (const auto& wait : awaited_) {
    if (wait->number == number && wait->reached.size() < reached_max &&
        std::find(wait->reached.begin(), wait->reached.end(), whom) == wait->reached.end())
      wait->reached.push_back(whom);
  }
}

void node_core::broadcast_over(std::uint64_t number) {
  const auto at = std::find_if(awaited_.begin(), awaited_.end(),
                               [&](const auto& one) { return one->number == number; });
  tell({.kind = news::what::ready,
        .call = [call = std::move((*at)->call), reached = std::move((*at)->reached)](status) {
          call(reached);
        }});
  awaited_.erase(at);
}

}  // namespace atbus::detail
