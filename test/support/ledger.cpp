#include "ledger.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

namespace atbus::detail {
namespace {

constexpr std::uint32_t short_flag = std::uint32_t{1} << 31U;

std::string text(const node_instance& who) {
  return who.id.to_string() + "/" + std::to_string(who.incarnation % 10000);
}

}  // namespace

void ledger::fail(std::string why) {
  if (fault_.empty())
    fault_ = std::move(why);
}

std::byte ledger::pattern(const stamp& of, std::size_t at) {
  return static_cast<std::byte>(of.number * 7 + of.from * 3 + at);
}

void ledger::born(const node_instance& who, const ledger_rules& rules) {
  const auto [limit, is_new] = limits_.emplace(who.id.value(), rules.message_limit);
  limit->second = std::min(limit->second, rules.message_limit);
  indexes_[{who.id.value(), who.incarnation}] = lives_.size();
  instance& born = lives_.emplace_back();
  born.who = who;
  born.rules = rules;
}

std::size_t ledger::index_of(const node_instance& who) const {
  return indexes_.at({who.id.value(), who.incarnation});
}

void ledger::killed(const node_instance& who) {
  lives_[index_of(who)].killed = true;
  seemed_dead(who.id);
}

void ledger::wanted(const node_instance& from, bus_id to, bool wants) {
  flow& in = lives_[index_of(from)].flows[to.value()];
  in.wanted = wants;
  in.was_ended = in.was_ended || !wants;
}

void ledger::may_be_too_far(const node_instance& from, bus_id to) {
  lives_[index_of(from)].flows[to.value()].may_be_too_far = true;
}

ledger_message ledger::make(const stamp& of, std::uint32_t type, std::size_t size) {
  ledger_message made{std::vector<std::byte>(size), type};
  std::size_t head = 0;
  if (size >= sizeof of) {
    head = sizeof of;
    std::memcpy(made.bytes.data(), &of, head);
  } else {
    made.type = short_flag | static_cast<std::uint32_t>(shorts_.size());
    shorts_.push_back(of);
  }
  for (std::size_t at = head; at < size; ++at)
    made.bytes[at] = pattern(of, at);
  return made;
}

ledger_message ledger::next(const node_instance& from, bus_id to, std::uint32_t type,
                            std::size_t size) {
  const std::size_t index = index_of(from);
  return make({index, to.value(), lives_[index].flows[to.value()].records.size() + 1}, type, size);
}

void ledger::accepted(const node_instance& from, bus_id to, std::size_t size,
                      delivery_policy policy) {
  flow& in = lives_[index_of(from)].flows[to.value()];
  record& made = in.records.emplace_back();
  made.size = size;
  made.required = policy == delivery_policy::require;
  in.open_bytes += size;
  ++accepted_count_;
}

ledger_message ledger::next_broadcast(const node_instance& from, std::size_t size) {
  const std::size_t index = index_of(from);
  return make({index, 0, lives_[index].broadcasts.size() + 1}, 0, size);
}

std::uint64_t ledger::accepted_broadcast(const node_instance& from, const id_range& to) {
  instance& sender = lives_[index_of(from)];
  sender.broadcasts.push_back({to, {}});
  ++broadcast_count_;
  return sender.broadcasts.size();
}

bool ledger::was_reached(const node_instance& from, std::uint64_t number, bus_id whom) const {
  return lives_[index_of(from)].broadcasts.at(number - 1).delivered.contains(whom.value());
}

void ledger::reached(const node_instance& from, std::uint64_t number,
                     const std::vector<bus_id>& whom) {
  for (const bus_id one : whom) {
    if (!was_reached(from, number, one))
      fail("broadcast " + std::to_string(number) + " of " + text(from) + " has not come to " +
           one.to_string() + ", which says that it has");
  }
}

std::size_t ledger::open_bytes(const node_instance& from, bus_id to) {
  return lives_[index_of(from)].flows[to.value()].open_bytes;
}

bool ledger::read(bytes_view bytes, std::uint32_t type, stamp& of) {
  std::size_t head = 0;
  if (is_short(type)) {
    const std::uint32_t index = type & ~short_flag;
    if (index >= shorts_.size()) {
      fail("a message of type " + std::to_string(type) + " is nobody's");
      return false;
    }
    of = shorts_[index];
  } else if (bytes.size() < sizeof of) {
    fail("a message of " + std::to_string(bytes.size()) + " bytes is nobody's");
    return false;
  } else {
    head = sizeof of;
    std::memcpy(&of, bytes.data(), head);
  }
  for (std::size_t at = head; at < bytes.size(); ++at) {
    if (bytes[at] != pattern(of, at)) {
      fail("the bytes of a message are not those that were sent");
      return false;
    }
  }
  return true;
}

std::optional<std::size_t> ledger::find_life(const node_instance& who) const {
  const auto index = indexes_.find({who.id.value(), who.incarnation});
  return index == indexes_.end() ? std::nullopt : std::optional{index->second};
}

std::optional<ledger::stamp> ledger::stamp_of(bytes_view bytes, std::uint32_t type) const {
  stamp of;
  if (!is_short(type) && bytes.size() >= sizeof of)
    std::memcpy(&of, bytes.data(), sizeof of);
  else if (const std::uint32_t index = type & ~short_flag; is_short(type) && index < shorts_.size())
    of = shorts_[index];
  if (of.from >= lives_.size())
    return {};
  const auto& flows = lives_[of.from].flows;
  const auto in = flows.find(of.to);
  if (of.number == 0 || in == flows.end() || of.number > in->second.records.size() + 1)
    return {};
  return of;
}

std::string ledger::number_of(const message& what) {
  stamp of;
  if (is_short(what.type()) || what.bytes().size() < sizeof of)
    return "a short one";
  std::memcpy(&of, what.bytes().data(), sizeof of);
  return std::to_string(of.number);
}

ledger::found ledger::find(const stamp& of) {
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

void ledger::delivered_broadcast(const node_instance& to, const message& what, const stamp& of) {
  if (of.from >= lives_.size() || of.number == 0 || of.number > lives_[of.from].broadcasts.size())
    return fail("broadcast " + std::to_string(of.number) + " was never sent");
  const instance& sender = lives_[of.from];
  const std::string name =
      "broadcast " + std::to_string(of.number) + " of " + text(sender.who) + " came to " + text(to);
  broadcast& sent = lives_[of.from].broadcasts.at(of.number - 1);
  if (what.source() != sender.who.id)
    fail(name + " as one of " + what.source().to_string());
  if (!sent.to.contains(to.id) || to.id == sender.who.id)
    fail(name + ", though it is for " + sent.to.to_string());
  if (!sent.delivered.insert(to.id.value()).second)
    fail(name + " again");
}

void ledger::delivered(const node_instance& to, const message& what) {
  stamp which;
  if (!read(what.bytes(), what.type(), which))
    return;
  if (which.to == 0)
    return delivered_broadcast(to, what, which);
  auto [of, in, name] = find(which);
  if (of == nullptr)
    return;
  ++delivered_count_;
  if (what.bytes().size() != of->size)
    fail(name + " came to " + text(to) + " with " + std::to_string(what.bytes().size()) +
         " bytes instead of " + std::to_string(of->size));
  const std::size_t reader = index_of(to);
  const auto number = static_cast<std::uint64_t>(of - in->records.data()) + 1;
  std::uint64_t& highest = in->highest[reader];
  if (number <= highest)
    fail(name + " came to " + text(to) + " again, or too late: after " + std::to_string(highest));
  highest = std::max(highest, number);
  if (of->reports != 0 && of->outcome == errc::not_delivered)
    fail(name + " came to " + text(to) + " after it was reported as not delivered");
  if (!of->is_settled()) {
    ++in->settled;
    in->open_bytes -= of->size;
  }
  of->cut_short = false;
  of->deliveries.push_back({reader, what.redelivered()});
  // Two lives may go on side by side for a while, each unseen by the other: whichever comes second to
  // a message finds it marked, or has it in its hands already when the sender turns to the other.
  const auto unmarked = std::count_if(of->deliveries.begin(), of->deliveries.end(),
                                      [](const delivery& one) { return !one.marked; });
  if (unmarked > 1)
    fail(name + " came to " + text(to) + " and to another incarnation, and neither was told");
  if (what.redelivered() && deaths_[to.id.value()] == 0)
    fail(name + " came to " + text(to) + " marked, and there was no earlier incarnation");
}

void ledger::cut_short(const message& what) {
  stamp which;
  if (!read(what.bytes(), what.type(), which) || which.to == 0)
    return;
  auto [of, in, name] = find(which);
  if (of == nullptr || of->deliveries.size() != 1 || of->reports != 0)
    return;
  of->cut_short = true;
  --in->settled;
  in->open_bytes += of->size;
}

std::size_t ledger::limit_of(bus_id whom) const {
  const auto limit = limits_.find(whom.value());
  return limit != limits_.end() ? limit->second : std::numeric_limits<std::size_t>::max();
}

// It may have had no memory for how far it had come.
bool ledger::has_forgotten_for_want_of_memory(bus_id whom) const {
  return std::any_of(lives_.begin(), lives_.end(),
                     [&](const instance& one) { return one.who.id == whom && one.was_short; });
}

bool ledger::may_report(const instance& sender, const flow& in, const record& of, bus_id to,
                        errc reason) const {
  const ledger_rules& rules = sender.rules;
  switch (reason) {
    case errc::peer_closed:
      return !in.wanted || sender.leaving || deaths_.contains(to.value());
    case errc::closed:
      return in.was_ended || sender.leaving;
    case errc::no_route:
      return rules.routed && !of.required;
    case errc::hop_limit:
      return in.may_be_too_far && !of.required;
    case errc::superseded:
      return rules.forgetful || deaths_.contains(sender.who.id.value()) ||
             has_forgotten_for_want_of_memory(to);
    case errc::timed_out:
      return rules.deadline || rules.routed;
    case errc::would_block:
      return rules.drops;
    case errc::message_too_large:
      return of.size > limit_of(to);
    default:
      return false;
  }
}

// What was dropped. The last one's number and type are told, but no bytes.
void ledger::reported_together(const node_instance& from, const undelivered& what) {
  instance& sender = lives_[index_of(from)];
  flow& in = sender.flows[what.destination().value()];
  const std::string name = std::to_string(what.count()) + " messages from " + text(from) + " to " +
                           what.destination().to_string() + " were reported together";
  reported_count_ += what.count();
  sender.reported += what.count();
  if (what.reason() == errc::out_of_memory && sender.was_short) {
    in.lost += what.count();
    return;
  }
  in.counted += what.count();
  in.settled += what.count();
  if (what.outcome() != errc::not_delivered && what.outcome() != errc::outcome_unknown)
    fail(name + ", with no outcome");
  if (what.reason() != errc::would_block || !sender.rules.drops || !what.bytes().empty())
    fail(name + " for no reason");
  if (in.settled > in.records.size())
    fail(name + ", but so many are not open");
}

void ledger::reported(const node_instance& from, const undelivered& what) {
  if (what.count() > 1 || what.reason() == errc::out_of_memory)
    return reported_together(from, what);
  stamp which;
  if (!read(what.bytes(), what.type(), which))
    return;
  auto [of, in, name] = find(which);
  if (of == nullptr)
    return;
  ++reported_count_;
  ++lives_[index_of(from)].reported;
  name += " was reported as " + std::string{atbus::name(what.outcome())} + " (" +
          std::string{atbus::name(what.reason())} + ")";
  if (of->reports++ != 0)
    fail(name + " again");
  if (what.outcome() != errc::not_delivered && what.outcome() != errc::outcome_unknown)
    fail(name + ", which is no outcome");
  if (what.outcome() == errc::not_delivered && !of->deliveries.empty())
    fail(name + " after it had come");
  if (which.from != index_of(from) || what.destination() != bus_id{which.to})
    fail(name + " to " + text(from) + ", for " + what.destination().to_string());
  if (!may_report(lives_[which.from], *in, *of, what.destination(), what.reason()))
    fail(name + " for no reason");
  of->outcome = what.outcome();
  if (of->reports == 1 && (of->deliveries.empty() || of->cut_short)) {
    ++in->settled;
    in->open_bytes -= of->size;
  }
}

bool ledger::all_settled() const {
  return std::all_of(lives_.begin(), lives_.end(), [](const instance& one) {
    std::uint64_t open = 0;
    for (const auto& [to, in] : one.flows)
      open += in.open() - std::min(in.open(), in.lost);
    return one.killed || open <= one.unreported();
  });
}

void ledger::check_settled() {
  for (const instance& from : lives_) {
    std::uint64_t unreported = from.unreported();
    for (const auto& [to, in] : from.flows) {
      std::size_t counted = in.counted + in.lost;
      bool open_before = false;
      for (std::size_t i = 0; i < in.records.size(); ++i) {
        const record& of = in.records[i];
        const bool open = !of.is_settled();
        const std::string name = "message " + std::to_string(i + 1) + " of " +
                                 std::to_string(in.records.size()) + " from " + text(from.who) +
                                 " to " + std::to_string(to);
        if (open && counted != 0)
          --counted;
        else if (open && unreported != 0)
          --unreported;
        else if (open && !from.killed)
          fail(name + " has no outcome");
        // Of a killed sender a prefix has arrived, but for what it was told to drop.
        if (open_before && !of.deliveries.empty() && !from.rules.drops && !from.rules.deadline &&
            !from.was_short)
          fail(name + " has arrived, though not one before it");
        open_before = open_before || (of.deliveries.empty() && of.reports == 0);
      }
    }
  }
}

}  // namespace atbus::detail
