#include "node/core/liveness.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/first_exception.h"
#include "node/core/sibling_links.h"

namespace atbus::detail {
namespace {

// How long the old link of an id may take to answer before a newcomer with that id is let in.
constexpr std::chrono::nanoseconds probe_time = std::chrono::seconds{2};
// A way over other nodes that carried nothing for so long is ended by the node that opened it.
constexpr std::chrono::nanoseconds circuit_idle_time = std::chrono::minutes{5};
// So many pings in a row can be spared.
constexpr unsigned pings_spared_max = 3;

}  // namespace

void liveness::timer_due(session& of) {
  first_exception thrown;  // of log lines: the session is dropped without them too
  switch (of.stage) {
    case session_stage::opening:
    case session_stage::registering:
      if (!of.refusal.empty()) {
        (void)output_.send_control(of, of.refusal);
        return sessions_.drop(of, false, errc::denied, {});
      }
      ++node_.stats.registrations_failed;
      if (!sibling_links::dials_sibling(of)) {
        thrown.keep([&] {
          events_.log_cause(errc::timed_out, of.at.peer() + " did not register in time");
        });
      }
      of.failure = errc::timed_out;
      sessions_.drop(of, false, errc::timed_out, {});
      return thrown.rethrow();
    case session_stage::registered:
      break;
    case session_stage::away:
    case session_stage::dropped:
      return;
  }
  // Of a message that takes long to come only bytes are there.
  const bool heard =
      of.handled != of.handled_at_ping || of.at.bytes_read() != of.bytes_read_at_ping;
  // Over other nodes each ping is many messages: a peer that was heard is pinged for the round trip only.
  const bool asks = of.is_direct || !heard || of.probed || of.ping_number == 0 ||
                    of.pings_spared == pings_spared_max;
  if (heard) {
    of.unanswered = 0;
    of.probed = false;
  } else if (of.ping_number != 0 && of.pings_spared == 0 &&
             (++of.unanswered >= node_.options.fault_tolerance() || of.probed)) {
    thrown.keep([&] { events_.log(of.at.peer() + " does not answer any more"); });
    of.of->silent = of.probed;
    sessions_.drop(of, false, errc::timed_out, {});
    return thrown.rethrow();
  }
  if (!of.is_direct && of.by_us && is_idle(of))
    return sessions_.drop(of, true, errc::ok, "nothing has come over other nodes for long");
  of.clock.set(moment_after(node_.now(), node_.options.ping_interval()));
  begin_to_listen(of);
  ++of.pings_spared;
  if (asks)
    ping(of);
}

void liveness::begin_to_listen(session& of) noexcept {
  of.handled_at_ping = of.handled;
  of.bytes_read_at_ping = of.at.bytes_read();
}

void liveness::ping(session& of) {
  of.pings_spared = 0;
  ++of.ping_number;
  of.ping_sent = node_.now();
  (void)output_.say(of, ping_body{.number = of.ping_number});
}

// However often the newcomer tries meanwhile: the old one has all of that time, from its own ping on.
void liveness::probe(session& of) {
  if (std::exchange(of.probed, true))
    return;
  begin_to_listen(of);
  ping(of);
  of.clock.set(node_.now() + probe_time);
}

// Whether a circuit is not worth its memory: it is opened again when it is needed.
bool liveness::is_idle(session& over_nodes) const {
  const peer& of = *over_nodes.of;
  const std::uint64_t data = of.out.accepted() + of.in.position().last;
  const std::chrono::nanoseconds now = node_.now();
  if (std::exchange(over_nodes.data_at_ping, data) != data)
    over_nodes.active_at = now;
  return now - std::max(over_nodes.active_at, over_nodes.registered_at) >= circuit_idle_time &&
         !of.wanted && !of.out.holds() && over_nodes.settled();
}

void liveness::answered(const session& from, std::uint64_t number) {
  if (number != from.ping_number || from.of == nullptr)
    return;
  const std::chrono::nanoseconds took = node_.now() - from.ping_sent;
  from.of->counts.round_trips.add(took);
  std::chrono::nanoseconds& smoothed = from.of->round_trip;
  // RFC 6298, section 2: an eighth of the new one.
  smoothed = smoothed.count() == 0 ? took : smoothed + (took - smoothed) / 8;
}

}  // namespace atbus::detail
