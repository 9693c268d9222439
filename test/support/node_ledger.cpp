#include "node_ledger.h"

#include <algorithm>
#include <cstdlib>
#include <unordered_set>
#include <utility>

#include "atbus/status.hpp"

namespace atbus::test {
namespace {

constexpr auto not_delivered = static_cast<std::uint32_t>(errc::not_delivered);
constexpr auto unknown = static_cast<std::uint32_t>(errc::outcome_unknown);

bool is_open(const ledger_memory::message_record& of) {
  return of.handled_by.load() == 0 && of.outcome.load() == 0;
}

}  // namespace

std::uint32_t node_ledger::born(std::uint32_t role) {
  const std::uint32_t instance = memory_->born.fetch_add(1) + 1;
  if (instance >= most_incarnations)
    std::abort();  // the rounds are too long
  memory_->lives[instance].role.store(role + 1);
  return instance;
}

std::uint32_t node_ledger::attempt(std::uint32_t instance, std::uint32_t to) {
  const std::uint32_t number = memory_->written.fetch_add(1) + 1;
  message_record& fresh = memory_->messages.at(number);
  fresh.to.store(to);
  fresh.sender.store(instance);
  fresh.stage.store(message_stage::attempted);
  return number;
}

void node_ledger::sent(std::uint32_t number, bool accepted) {
  memory_->messages[number].stage.store(accepted ? message_stage::accepted
                                                 : message_stage::refused);
  if (!accepted)
    tell_progress();
}

std::string node_ledger::describe(std::uint64_t number) const {
  const message_record& of = memory_->messages[number];
  const std::uint32_t sender = of.sender.load();
  return "message " + std::to_string(number) + " of incarnation " + std::to_string(sender) +
         " (node " + std::to_string(role_of(sender)) + ") to node " + std::to_string(of.to.load()) +
         (of.stage.load() == message_stage::attempted ? ", within send," : "");
}

node_ledger::message_record* node_ledger::find(bytes_view bytes, std::uint64_t& number) {
  message_stamp stamp;
  if (!read_message(bytes, stamp) || stamp.number == 0 || stamp.number > memory_->written.load()) {
    violation("a message of " + std::to_string(bytes.size()) + " bytes is nobody's");
    return nullptr;
  }
  number = stamp.number;
  message_record& record = memory_->messages[number];
  if (record.sender.load() != stamp.sender || record.stage.load() == message_stage::refused) {
    violation(describe(number) + " was never sent");
    return nullptr;
  }
  return &record;
}

bool node_ledger::has_predecessor(std::uint32_t instance) const {
  const std::uint32_t role = memory_->lives[instance].role.load();
  return std::any_of(memory_->lives.begin(), memory_->lives.begin() + instance,
                     [&](const lifecycle_record& other) { return other.role.load() == role; });
}

void node_ledger::delivered(std::uint32_t reader, const message& what) {
  std::uint64_t number = 0;
  message_record* const record = find(what.bytes(), number);
  if (record == nullptr)
    return;
  const std::uint32_t before = record->handled_by.exchange(reader);
  const std::uint32_t role = role_of(reader);
  const std::uint32_t sender = record->sender.load();
  const auto complain = [&](const std::string& why) {
    violation(describe(number) + " came to incarnation " + std::to_string(reader) + why);
  };
  if (record->to.load() != role || what.destination() != rules_.ids[role])
    complain(", which is of another node");
  if (what.source() != rules_.ids[role_of(sender)])
    complain(" as one of " + what.source().to_string());
  std::uint64_t& highest = highest_[std::uint64_t{reader} << 32 | sender];
  if (number <= highest)
    complain(" after message " + std::to_string(highest));
  highest = number;
  if (record->outcome.load() == not_delivered)
    complain(" after it was reported as not delivered");
  if (before != 0) {
    memory_->again.fetch_add(1);
    if (!what.redelivered())
      complain(" without a mark, after incarnation " + std::to_string(before) + " had handled it");
  }
  if (what.redelivered()) {
    memory_->marked.fetch_add(1);
    if (!has_predecessor(reader))
      complain(" marked, and it is the first incarnation");
  }
  memory_->handled[role].add();
}

bool node_ledger::may_report(std::uint32_t instance, const undelivered& what,
                             bool in_shutdown) const {
  if (what.reason() == errc::closed)
    return in_shutdown;
  const std::set<errc>& reasons =
      what.type() == required_message ? rules_.required_reasons : rules_.reasons[role_of(instance)];
  return reasons.contains(what.reason());
}

void node_ledger::reported(std::uint32_t instance, const undelivered& what, bool in_shutdown) {
  std::uint64_t number = 0;
  message_record* const record = find(what.bytes(), number);
  if (record == nullptr)
    return;
  const auto outcome = static_cast<std::uint32_t>(what.outcome());
  const std::uint32_t before = record->outcome.exchange(outcome);
  const auto complain = [&](const std::string& why) {
    violation(describe(number) + " was reported as " + std::string{name(what.outcome())} + " (" +
              std::string{name(what.reason())} + ")" + why);
  };
  if (record->sender.load() != instance || what.destination() != rules_.ids[record->to.load()])
    complain(" to incarnation " + std::to_string(instance) + ", for " +
             what.destination().to_string());
  if (before != 0)
    complain(" after it was reported as " + std::string{name(static_cast<errc>(before))});
  if (outcome != not_delivered && outcome != unknown)
    complain(", which is no outcome");
  if (outcome == not_delivered && record->handled_by.load() != 0)
    complain(" after it was delivered");
  if (!may_report(instance, what, in_shutdown))
    complain(" for no reason");
}

std::string node_ledger::story(const message_record& of) const {
  const std::uint32_t sender = of.sender.load();
  std::string text = "\nincarnation " + std::to_string(sender) + " of node " +
                     std::to_string(role_of(sender)) + (was_killed(of) ? ", killed:" : ":");
  std::string last;
  for (std::uint32_t number = 1; number <= memory_->written.load(); ++number) {
    const message_record& one = memory_->messages[number];
    if (one.sender.load() != sender || one.to.load() != of.to.load() ||
        one.stage.load() == message_stage::refused)
      continue;
    std::string what = " handled by " + std::to_string(one.handled_by.load());
    if (one.outcome.load() != 0)
      what += ", " + std::string{name(static_cast<errc>(one.outcome.load()))};
    if (std::exchange(last, what) != what)
      text += "\n  from " + std::to_string(number) + what;
  }
  return text;
}

void node_ledger::killed(std::uint32_t role) {
  for (std::uint32_t instance = 1; instance <= memory_->born.load(); ++instance) {
    lifecycle_record& of = memory_->lives[instance];
    if (of.role.load() == role + 1 && of.ended.load() == 0)
      of.killed.store(1);
  }
}

bool node_ledger::wait_settled() {
  const auto settled = [this](std::uint32_t number) {
    const message_record& of = memory_->messages[number];
    const message_stage stage = of.stage.load();
    return stage == message_stage::none || stage == message_stage::refused ||
           (stage == message_stage::accepted && !is_open(of)) || was_killed(of);
  };
  return memory_->progress.wait_until(
      [&](std::uint32_t) {
        while (settled_ != memory_->written.load() && settled(settled_ + 1))
          ++settled_;
        return settled_ == memory_->written.load();
      },
      2 * patience);
}

std::string node_ledger::account() const {
  if (std::string what = memory_->violations.text(); !what.empty())
    return what;
  std::unordered_set<std::uint64_t> open_before;  // senders and destinations
  for (std::uint32_t number = 1; number <= memory_->written.load(); ++number) {
    const message_record& of = memory_->messages[number];
    if (of.stage.load() == message_stage::none || of.stage.load() == message_stage::refused)
      continue;
    if (is_open(of) && !was_killed(of))
      return describe(number) + " has no outcome" + story(of);
    // Of a killed sender a prefix has arrived.
    const std::uint64_t flow = std::uint64_t{of.sender.load()} << 32 | of.to.load();
    if (is_open(of))
      open_before.insert(flow);
    else if (of.handled_by.load() != 0 && !rules_.leaves_gaps && open_before.contains(flow))
      return describe(number) + " has arrived, though not one before it" + story(of);
  }
  return {};
}

ledger_figures node_ledger::figures() const {
  ledger_figures all;
  all.incarnations = memory_->born.load();
  all.marked = memory_->marked.load();
  all.again = memory_->again.load();
  for (std::uint32_t number = 1; number <= memory_->written.load(); ++number) {
    const message_record& of = memory_->messages[number];
    if (of.stage.load() == message_stage::none || of.stage.load() == message_stage::refused ||
        (of.stage.load() == message_stage::attempted && is_open(of)))
      continue;
    ++all.accepted;
    if (of.handled_by.load() != 0)
      ++all.delivered;
    else if (of.outcome.load() == not_delivered)
      ++all.not_delivered;
    else if (of.outcome.load() == unknown)
      ++all.unknown;
    else
      ++all.open;
  }
  return all;
}

ledger_figures& ledger_figures::operator+=(const ledger_figures& other) {
  incarnations += other.incarnations;
  accepted += other.accepted;
  delivered += other.delivered;
  not_delivered += other.not_delivered;
  unknown += other.unknown;
  open += other.open;
  marked += other.marked;
  again += other.again;
  return *this;
}

std::string ledger_figures::text() const {
  return std::to_string(incarnations) + " incarnations, " + std::to_string(accepted) +
         " messages accepted = " + std::to_string(delivered) + " delivered + " +
         std::to_string(not_delivered) + " not delivered + " + std::to_string(unknown) +
         " unknown + " + std::to_string(open) + " open at killed nodes; " + std::to_string(marked) +
         " marked (" + std::to_string(again) + " had been handled)";
}

}  // namespace atbus::test
