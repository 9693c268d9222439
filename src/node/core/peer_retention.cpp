#include "node/core/peer_retention.h"

#include <algorithm>
#include <utility>

#include "core/first_exception.h"
#include "protocol/message_head.h"

namespace atbus::detail {

void peer_retention::made(peer& of) {
  of.forget.replace([this, &of] {
    first_exception thrown;
    thrown.keep([&] { events_.log(of.id.to_string() + " has not come back"); });
    thrown.keep([&] { give_up(of, errc::peer_closed); });
    thrown.rethrow();
  });
  of.expiry.replace([this, &of] {
    of.out.expire(node_.now(), [this, &of](held_message&& what, errc reason) {
      ++node_.stats.deadline_drops;
      events_.reporter(of.id)(std::move(what), reason);
    });
    if (const auto next = of.out.earliest_deadline())
      of.expiry.set(*next);
    output_.drain(of);  // there may be room for more
  });
}

void peer_retention::set_wanted(peer& of) {
  of.wanted = true;
  of.forget.cancel();
}

void peer_retention::lost(peer& of) {
  left(of);
  if (of.told_connected)
    events_.tell_endpoint(of.id, endpoint_event::disconnected);
  of.told_connected = false;
}

void peer_retention::left(peer& of) {
  // What was offered was of the incarnation that is lost, or not: its next one offers it again.
  std::erase_if(of.dials, [](const dial& one) { return one.offered && one.at == nullptr; });
  dialing_.dial_again(of.dials);
}

void peer_retention::let_go(peer& of) {
  if (is_wanted(of))
    return;
  const bool is_awaited = of.out.holds() || of.wants_topics;
  if (node_.leaving || node_.is_client(of) || !is_awaited) {
    abandon(of, errc::closed);
    return forget(of);
  }
  if (of.out.holds())
    seek(of);
  of.forget.set(node_.idle_deadline());
}

void peer_retention::abandon(peer& of, errc reason) {
  of.out.abandon(reason, events_.reporter(of.id));
}

void peer_retention::give_up(peer& of, errc reason) {
  of.out.abandon_if([](const held_message& one) noexcept { return !one.required; }, reason,
                    events_.reporter(of.id));
  if (!of.out.holds() && of.sessions.empty())
    return forget(of);
  // What is sent there later and is not required is not to wait for ever either.
  if (of.sessions.empty())
    of.forget.set(node_.idle_deadline());
}

void peer_retention::forget(peer& of) {
  if (of.wants_room) {           // to be told that there is no such peer
    of.forget.set(node_.now());  // again, if there is no memory for the event
    events_.tell_writable(of.id);
  }
  dialing_.end_dials(of.dials);
  if (node_.is_client(of))
    sessions_.away().lose(of.in);
  else if (of.instance.incarnation != 0)
    sessions_.away().remember(of.instance, of.in, of.silent);
  if (parent_.last == &of)
    parent_.last = nullptr;
  peers_.erase(of);
}

void peer_retention::seek(peer& of) {
  // A successor at the old address is better, and seldom takes longer to come.
  const auto is_left = [this](const session* one) {
    return one->stage == session_stage::away && !one->at.has_successor() &&
           node_.now() - one->left_at >= node_.options.retry_longest();
  };
  // Nothing else is to be tried, or it has failed. A child dials its parent.
  const bool is_needed =
      (of.sessions.empty() || of.as != relation::child) &&
      std::ranges::all_of(of.sessions, is_left) &&
      std::ranges::all_of(of.dials, [&](const dial& one) {
        return one.is_to_sibling() ||
               (!one.is_relayed() && (one.failures != 0 || (one.at != nullptr && is_left(one.at))));
      });
  if (!is_needed || !reach_.is_reachable(of.id) || node_.leaving)
    return;  // what is required waits until the child is there
  if (const error bad = dialing_.start_dial(of.dials, &of, std::nullopt, false); !bad)
    events_.log("no way to " + of.id.to_string() + ": " + bad.text());
}

void peer_retention::ways_changed() {
  circuits_.ways_changed();
  for (const auto& [id, of] : peers_.all()) {
    if (of->out.holds())
      seek(*of);
  }
}

// A circuit was not established. What waits for a peer that was never seen is reported, but for replies: that
// peer has asked, so it may be back soon. A peer that was seen is dialled again until it is forgotten.
void peer_retention::circuit_failed(peer& of, errc why, unsigned denials) {
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
  if (of.wanted || of.instance.incarnation != 0 || !of.sessions.empty())
    return;
  of.out.abandon_if(
      [](const held_message& one) noexcept {
        return !one.required && (one.flags & flag_reply) == 0;
      },
      why, events_.reporter(of.id));
  if (of.out.holds())
    return await_for_a_time(of);
  give_up(of, why);
}

bool peer_retention::is_only_awaited(const peer& of) const noexcept {
  return of.instance.incarnation == 0 && !is_wanted(of) && of.sessions.empty() && of.dials.empty();
}

void peer_retention::await_for_a_time(peer& of) {
  const bool was_met = of.instance.incarnation != 0 || !of.sessions.empty();
  if (!was_met && !is_wanted(of) && !of.forget.pending())
    of.forget.set(node_.idle_deadline());
}

void peer_retention::end_wanted(peer& of) {
  of.wanted = false;
  dialing_.end_dials(of.dials);
  if (parent_.last != &of)
    return;
  dialing_.end_dials(parent_.dials);
  parent_.last = nullptr;
}

}  // namespace atbus::detail
