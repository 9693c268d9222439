#include "ledger.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace atbus::detail {
namespace {

// At the start of each message; what follows is a pattern.
struct stamp {
  std::uint64_t from = 0;  // life, in the order of birth
  std::uint64_t to = 0;
  std::uint64_t number = 0;
};

std::byte pattern(const stamp& of, std::size_t at) {
  return static_cast<std::byte>(of.number * 7 + of.from * 3 + at);
}

std::string text(const node_life& who) {
  return who.id.to_string() + "/" + std::to_string(who.incarnation % 10000);
}

}  // namespace

void ledger::fail(std::string why) {
  if (fault_.empty())
    fault_ = std::move(why);
}

void ledger::born(const node_life& who, const ledger_rules& rules) {
  indexes_[{who.id.value(), who.incarnation}] = lives_.size();
  life& born = lives_.emplace_back();
  born.who = who;
  born.rules = rules;
}

std::size_t ledger::index_of(const node_life& who) const {
  return indexes_.at({who.id.value(), who.incarnation});
}

void ledger::killed(const node_life& who) {
  lives_[index_of(who)].killed = true;
  seemed_dead(who.id);
}

void ledger::wished(const node_life& from, bus_id to, bool wish) {
  flow& in = lives_[index_of(from)].flows[to.value()];
  in.wished = wish;
  in.was_ended = in.was_ended || !wish;
}

std::vector<std::byte> ledger::next(const node_life& from, bus_id to, std::size_t size) {
  const std::size_t index = index_of(from);
  const stamp of{index, to.value(), lives_[index].flows[to.value()].records.size() + 1};
  std::vector<std::byte> bytes(std::max(size, sizeof of));
  std::memcpy(bytes.data(), &of, sizeof of);
  for (std::size_t at = sizeof of; at < bytes.size(); ++at)
    bytes[at] = pattern(of, at);
  return bytes;
}

void ledger::accepted(const node_life& from, bus_id to, std::size_t size) {
  flow& in = lives_[index_of(from)].flows[to.value()];
  in.records.emplace_back();
  in.open_bytes += size;
  ++accepted_count_;
}

std::size_t ledger::open_bytes(const node_life& from, bus_id to) {
  return lives_[index_of(from)].flows[to.value()].open_bytes;
}

ledger::found ledger::find(bytes_view bytes) {
  stamp of;
  if (bytes.size() < sizeof of) {
    fail("a message of " + std::to_string(bytes.size()) + " bytes is nobody's");
    return {};
  }
  std::memcpy(&of, bytes.data(), sizeof of);
  for (std::size_t at = sizeof of; at < bytes.size(); ++at) {
    if (bytes[at] != pattern(of, at)) {
      fail("the bytes of a message are not those that were sent");
      return {};
    }
  }
  if (of.from >= lives_.size() || of.number == 0 ||
      of.number > lives_[of.from].flows[of.to].records.size()) {
    fail("message " + std::to_string(of.number) + " to " + std::to_string(of.to) +
         " was never accepted");
    return {};
  }
  flow& in = lives_[of.from].flows[of.to];
  return {&in.records[of.number - 1], &in,
          "message " + std::to_string(of.number) + " from " + text(lives_[of.from].who) + " to " +
              std::to_string(of.to)};
}

void ledger::delivered(const node_life& to, const message& what) {
  auto [of, in, name] = find(what.bytes());
  if (of == nullptr)
    return;
  ++delivered_count_;
  const std::size_t reader = index_of(to);
  const auto number = static_cast<std::uint64_t>(of - in->records.data()) + 1;
  std::uint64_t& highest = in->highest[reader];
  if (number <= highest)
    fail(name + " came to " + text(to) + " again, or too late: after " + std::to_string(highest));
  highest = std::max(highest, number);
  if (of->reports != 0 && of->outcome == errc::not_delivered)
    fail(name + " came to " + text(to) + " after it was reported as not delivered");
  if (of->deliveries.empty() && of->reports == 0) {
    ++in->settled;
    in->open_bytes -= what.bytes().size();
  }
  of->deliveries.push_back({reader, what.redelivered()});
  // Two lives may go on side by side for a while, each unseen by the other: whichever comes second to
  // a message finds it marked, or has it in its hands already when the sender turns to the other.
  const auto unmarked = std::count_if(of->deliveries.begin(), of->deliveries.end(),
                                      [](const delivery& one) { return !one.marked; });
  if (unmarked > 1)
    fail(name + " came to " + text(to) + " and to another life, and neither was told");
  if (what.redelivered() && deaths_[to.id.value()] == 0)
    fail(name + " came to " + text(to) + " marked, and there was no earlier life");
}

bool ledger::may_report(const node_life& from, const flow& in, bus_id to, errc reason) const {
  const life& sender = lives_[index_of(from)];
  const ledger_rules& rules = sender.rules;
  switch (reason) {
    case errc::peer_closed:
      return !in.wished || sender.leaving || deaths_.contains(to.value());
    case errc::closed:
      return in.was_ended || sender.leaving;
    case errc::no_route:
      return rules.routed;
    case errc::superseded:
      return rules.forgetful || deaths_.contains(from.id.value());
    case errc::timed_out:
      return rules.deadline || rules.routed;
    case errc::would_block:
      return rules.drops;
    default:
      return false;
  }
}

void ledger::reported(const node_life& from, const undelivered& what) {
  auto [of, in, name] = find(what.bytes());
  if (of == nullptr)
    return;
  ++reported_count_;
  name += " was reported as " + std::string{atbus::name(what.outcome())} + " (" +
          std::string{atbus::name(what.reason())} + ")";
  if (of->reports++ != 0)
    fail(name + " again");
  if (what.outcome() != errc::not_delivered && what.outcome() != errc::outcome_unknown)
    fail(name + ", which is no outcome");
  if (what.outcome() == errc::not_delivered && !of->deliveries.empty())
    fail(name + " after it had come");
  if (!may_report(from, *in, what.destination(), what.reason()))
    fail(name + " for no reason");
  of->outcome = what.outcome();
  if (of->deliveries.empty() && of->reports == 1) {
    ++in->settled;
    in->open_bytes -= what.bytes().size();
  }
}

bool ledger::all_settled() const {
  return std::all_of(lives_.begin(), lives_.end(), [](const life& one) {
    return one.killed || std::all_of(one.flows.begin(), one.flows.end(), [](const auto& to) {
             return to.second.settled == to.second.records.size();
           });
  });
}

void ledger::check_settled() {
  for (const life& from : lives_) {
    for (const auto& [to, in] : from.flows) {
      bool open_before = false;
      for (std::size_t i = 0; i < in.records.size(); ++i) {
        const record& of = in.records[i];
        const bool open = of.deliveries.empty() && of.reports == 0;
        const std::string name = "message " + std::to_string(i + 1) + " of " +
                                 std::to_string(in.records.size()) + " from " + text(from.who) +
                                 " to " + std::to_string(to);
        if (open && !from.killed)
          fail(name + " has no outcome");
        // Of a killed sender a prefix has arrived, but for what it was told to drop.
        if (open_before && !of.deliveries.empty() && !from.rules.drops && !from.rules.deadline)
          fail(name + " has arrived, though not one before it");
        open_before = open_before || open;
      }
    }
  }
}

}  // namespace atbus::detail
