// Children of one parent that speak to each other, or whose own children do: the parent tells them
// where the other one listens, and they are linked. What it does not tell, or can't be reached, goes on
// by way of the parent.
#include <algorithm>

#include "node/core/node_core.h"
#include "node/route/sibling_addresses.h"

namespace atbus::detail {
namespace {

// A node dials no more siblings than this.
constexpr std::ptrdiff_t siblings_max = 256;

}  // namespace

// Called from where messages are sent: allocates nothing.
void node_core::ask_where(bus_id id, session& parent) noexcept {
  if (leaving_ || !parent.of->range || !parent.of->range->contains(id))
    return;  // it has no such child
  const auto is_sibling = [](const route_table::entry& one) {
    return one.to->as == relation::sibling;
  };
  if (std::ranges::count_if(routes_.all(), is_sibling) >= siblings_max ||
      !sibling_search_.ask(id, on_.clock.now()))
    return;
  encode(where_body{.id = id}, question_);
  (void)send_control(parent, question_);
}

void node_core::answer_where(session& from, const where_body& asked) {
  if (from.of->as != relation::child || !from.is_direct)
    return;
  const peer* const to = routes_.next(asked.id, from.of);
  const session* const path = to != nullptr ? link_to(*to) : nullptr;
  if (path == nullptr || to->as != relation::child)
    return;
  if (!from.answers.take(on_.clock.now()))
    return log_cause(errc::would_block, from.at.peer() + " asks for siblings too often");
  const std::vector<std::string> told = addresses_to_tell(to->addresses, path->at.peer());
  if (!told.empty())
    say(from, found_body{.asked = asked.id, .id = to->id, .addresses = told, .host = to->host});
}

void node_core::dial_sibling(session& from, const found_body& answer) {
  if (from.of != routes_.parent() || !from.is_direct || leaving_ ||
      !sibling_search_.take_answer(answer.asked))
    return;
  if (answer.id == bus_id{} || answer.id == from.of->id || routes_.is_ours(answer.id) ||
      !from.of->range || !from.of->range->contains(answer.id)) {
    return violation(from, {errc::protocol_error,
                            "node " + answer.id.to_string() + " can't be another child of it"});
  }
  peer& of = find_or_make(answer.id);
  // Who is connected as a peer, or is to be, stays one.
  if (of.wished || link_to(of) != nullptr)
    return;
  const bool same_host = answer.host == on_.host && answer.host != host_identity{};
  dial_offered(of, answer.addresses, relation::sibling,
               [same_host](const address& to) { return is_worth_dialling(to, same_host); });
  if (std::ranges::none_of(of.dials, &dial::is_to_sibling))
    give_up_sibling(of, "it listens nowhere that is to be reached from here");
}

// It is dialled again when the parent is asked for it again.
void node_core::end_sibling_dial(peer& whom, const dial& wish, const std::string& why) {
  std::erase_if(whom.dials, [&](const dial& one) { return &one == &wish; });
  if (std::ranges::none_of(whom.dials, &dial::is_to_sibling))
    give_up_sibling(whom, why);
}

void node_core::give_up_sibling(peer& whom, const std::string& why) {
  const bool has_link = whom.current != nullptr && whom.current->is_direct;
  const bool is_over = std::ranges::all_of(whom.dials, &dial::is_relayed);
  if (!has_link && is_over && sibling_search_.set_unreachable(whom.id)) {
    log("there is no direct link to " + whom.id.to_string() +
        ", which has the same parent: " + why);
  }
  if (whom.dials.empty() && whom.sessions.empty())
    let_go(whom);
}

}  // namespace atbus::detail
