#include "node/core/sibling_links.h"

#include <algorithm>
#include <limits>

#include "node/route/sibling_addresses.h"

namespace atbus::detail {
namespace {

// A node dials no more siblings than this.
constexpr std::ptrdiff_t siblings_max = 256;

}  // namespace

sibling_links::sibling_links(node_context& node, event_queue& events, const access_control& access,
                             const route_table& routes, const reachability& reach,
                             sibling_search& search, peer_table& peers, link_output& output,
                             session_set& sessions, dialing& dials, peer_retention& retention)
    : node_(node),
      events_(events),
      access_(access),
      routes_(routes),
      reach_(reach),
      sibling_search_(search),
      peers_(peers),
      output_(output),
      sessions_(sessions),
      dialing_(dials),
      retention_(retention) {
  encode(where_body{.id = bus_id{std::numeric_limits<std::uint64_t>::max()}}, question_);
}

void sibling_links::ask_where(bus_id id, session& parent) noexcept {
  if (node_.leaving || !parent.of->range || !parent.of->range->contains(id))
    return;  // it has no such child
  const auto is_sibling = [](const route_table::entry& one) {
    return one.to->as == relation::sibling;
  };
  if (std::ranges::count_if(routes_.all(), is_sibling) >= siblings_max ||
      !sibling_search_.ask(id, node_.now()))
    return;
  encode(where_body{.id = id}, question_);
  (void)output_.send_control(parent, question_);
}

void sibling_links::answer_where(session& from, const where_body& asked) {
  if (from.of->as != relation::child || !from.is_direct)
    return;
  const peer* const to = routes_.next(asked.id, from.of);
  const session* const path = to != nullptr ? reach_.link_to(*to) : nullptr;
  if (path == nullptr || to->as != relation::child)
    return;
  if (!from.answers.take(node_.now()))
    return events_.log_cause(errc::would_block, from.at.peer() + " asks for siblings too often");
  if (!access_.lets_meet(*from.of, *to))
    return;
  const std::vector<std::string> told = addresses_to_tell(to->addresses, path->at.peer());
  if (!told.empty())
    output_.say(from,
                found_body{.asked = asked.id, .id = to->id, .addresses = told, .host = to->host});
}

void sibling_links::dial_sibling(session& from, const found_body& answer) {
  if (from.of != routes_.parent() || !from.is_direct || node_.leaving ||
      !sibling_search_.take_answer(answer.asked))
    return;
  if (answer.id == bus_id{} || answer.id == from.of->id || routes_.is_ours(answer.id) ||
      !from.of->range || !from.of->range->contains(answer.id)) {
    return sessions_.violation(from, {errc::protocol_error, "node " + answer.id.to_string() +
                                                                " can't be another child of it"});
  }
  peer& of = peers_.find_or_make(answer.id);
  // A node that is connected as a peer, or is to be, stays one.
  if (of.wanted || reach_.link_to(of) != nullptr)
    return;
  const bool same_host = answer.host == node_.on.host && answer.host != host_identity{};
  dialing_.dial_offered(of, answer.addresses, relation::sibling, [same_host](const address& to) {
    return is_worth_dialling(to, same_host);
  });
  if (std::ranges::none_of(of.dials, &dial::is_to_sibling))
    give_up_sibling(of, "it listens nowhere that is to be reached from here");
}

void sibling_links::end_sibling_dial(peer& whom, const dial& which, const std::string& why) {
  std::erase_if(whom.dials, [&](const dial& one) { return &one == &which; });
  if (std::ranges::none_of(whom.dials, &dial::is_to_sibling))
    give_up_sibling(whom, why);
}

void sibling_links::give_up_sibling(peer& whom, const std::string& why) {
  const bool has_link = whom.current != nullptr && whom.current->is_direct;
  const bool is_over = std::ranges::all_of(whom.dials, &dial::is_relayed);
  if (!has_link && is_over && sibling_search_.set_unreachable(whom.id)) {
    events_.log("there is no direct link to " + whom.id.to_string() +
                ", which has the same parent: " + why);
  }
  if (whom.dials.empty() && whom.sessions.empty())
    retention_.let_go(whom);
}

}  // namespace atbus::detail
