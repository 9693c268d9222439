#include "node/core/dialing.h"

#include <algorithm>
#include <new>
#include <utility>

#include "core/error_text.h"

namespace atbus::detail {
namespace {

// Better addresses that one peer may offer; more are not tried.
constexpr std::size_t offers_max = 8;

}  // namespace

std::string dialing::at_place(const std::string& where, const error& why) {
  const std::string text = why.text();
  return text.starts_with(where) ? text : where + ": " + text;
}

error dialing::start_dial(std::list<dial>& among, peer* of, std::optional<address> to,
                          bool offered) {
  dial& fresh = among.emplace_back(of, node_.timers, std::move(to), offered);
  fresh.again.replace([this, &fresh] {
    const error bad = error_of(errc::out_of_memory, [&] { return dial_now(fresh); });
    if (bad)
      return;
    dial_again(fresh);  // first, because the line may find no memory
    if (std::exchange(fresh.told, bad.code()) != bad.code())
      events_.log("no connection to " + at_place(fresh.where(), bad));
  });
  try {
    error bad = dial_now(fresh);
    if (!bad)
      among.pop_back();
    return bad;
  } catch (const std::bad_alloc&) {
    among.pop_back();
    throw;
  }
}

error dialing::dial_now(dial& which) {
  ++node_.stats.dials;
  if (!which.is_relayed()) {  // others may have named the address
    if (error denied = node_.options.lets_through(*which.to); !denied)
      return denied;
  }
  result<link*> began =
      which.is_relayed() ? circuits_.open(which.of->id) : node_.on.channels.connect(*which.to);
  if (!began)
    return began.error();
  session& on = sessions_.make(**began);
  on.by_us = true;
  on.dialled = &which;
  which.at = &on;
  on.clock.set(node_.idle_deadline());
  return {};
}

void dialing::dial_again(dial& which) {
  const peer* const of = which.of != nullptr ? which.of : routes_.parent();
  const session* const now = of != nullptr ? of->current : nullptr;
  if (now != nullptr && now->stage != session_stage::away && (which.is_relayed() || now->is_direct))
    return;  // there is another way; when that is lost, this one's turn comes again
  const unsigned doubled = std::min(which.failures++, 20U);
  std::chrono::nanoseconds wait = node_.options.retry_first();
  for (unsigned i = 0; i < doubled && wait < node_.options.retry_longest(); ++i)
    wait = moment_after(wait, wait);
  wait = std::min(wait, node_.options.retry_longest());
  const auto half = static_cast<std::uint64_t>(wait.count()) / 2;
  const auto drawn = static_cast<std::int64_t>(half + node_.on.random.word() % (half + 1));
  which.again.set(moment_after(node_.now(), std::chrono::nanoseconds{drawn}));
}

void dialing::dial_again(std::list<dial>& idle) {
  for (dial& one : idle) {
    if (one.at == nullptr && !one.again.pending())
      dial_again(one);
  }
}

void dialing::end_dials(std::list<dial>& all) {
  for (dial& one : all) {
    if (one.at == nullptr)
      continue;
    one.at->dialled = nullptr;
    if (one.at->of == nullptr)
      sessions_.drop(*one.at, false, errc::ok, {});
  }
  all.clear();
}

void dialing::dial_offered(peer& of, const std::vector<std::string>& addresses, relation as,
                           const std::function<bool(const address&)>& is_useful) {
  for (const std::string& text : addresses) {
    const result<address> to = address::parse(text);
    // Who offers a NATS server would choose which one is shown this program's user or certificate.
    if (!to || to->kind() == address_kind::nats || !is_useful(*to))
      continue;
    const auto known = [&](const dial& one) { return one.to == to.value(); };
    if (&of == parent_.last && std::ranges::any_of(parent_.dials, known))
      continue;
    const auto offered = [](const dial& one) { return one.offered; };
    if (std::any_of(of.dials.begin(), of.dials.end(), known) ||
        std::count_if(of.dials.begin(), of.dials.end(), offered) >=
            static_cast<std::ptrdiff_t>(offers_max))
      continue;
    if (error bad = start_dial(of.dials, &of, *to, true); bad)
      of.dials.back().as = as;
    else if (as != relation::sibling)
      events_.log_about(
          of.id, text + ", which " + of.id.to_string() + " offers, can't be used: " + bad.text());
  }
}

void dialing::try_offers(peer& of, const std::vector<std::string>& addresses,
                         const host_identity& host) {
  if (host != node_.on.host || host == host_identity{} || of.current == nullptr ||
      of.id == bus_id{})
    return;
  const relation as = of.as == relation::sibling ? of.as : relation::peer;
  dial_offered(of, addresses, as,
               [&of](const address& to) { return kind_of(to.kind()) < of.current->at.kind(); });
}

}  // namespace atbus::detail
