#include "ledger.h"

#include <algorithm>

#include "atbus/core/status.hpp"

namespace atbus::test {
namespace {

constexpr auto not_delivered = static_cast<std::uint32_t>(errc::not_delivered);
constexpr auto unknown = static_cast<std::uint32_t>(errc::outcome_unknown);

std::string describe(const message_stamp& of) {
  return "message " + std::to_string(of.number) + " of life " + std::to_string(of.sender);
}

bool is_open(const ledger_memory::message_record& of) {
  return of.handled_by.load() == 0 && of.outcome.load() == 0;
}

}  // namespace

std::uint32_t ledger::born(std::uint32_t role) {
  const std::uint32_t life = memory_->born.fetch_add(1) + 1;
  if (life >= most_lives)
    std::abort();  // the rounds are too long
  memory_->lives[life].role.store(role + 1);
  return life;
}

bool ledger::may_send(std::uint32_t life) const {
  return memory_->lives[life].accepted.load() < most_messages;
}

std::uint32_t ledger::attempt(std::uint32_t life) {
  life_record& own = memory_->lives[life];
  const std::uint32_t number = own.accepted.load() + 1;
  own.attempted.store(number);
  return number;
}

void ledger::accepted(std::uint32_t life) {
  life_record& own = memory_->lives[life];
  own.accepted.store(own.attempted.load());
}

ledger::message_record* ledger::find(bytes_view bytes, message_stamp& of) {
  if (!read_message(bytes, of) || of.sender == 0 || of.sender >= most_lives) {
    violation("a message of " + std::to_string(bytes.size()) + " bytes is nobody's");
    return nullptr;
  }
  life_record& from = memory_->lives[of.sender];
  if (of.number == 0 || of.number > from.attempted.load()) {
    violation(describe(of) + " was never sent");
    return nullptr;
  }
  return &from.messages[of.number - 1];
}

bool ledger::has_predecessor(std::uint32_t life) const {
  const std::uint32_t role = memory_->lives[life].role.load();
  return std::any_of(memory_->lives.begin(), memory_->lives.begin() + life,
                     [&](const life_record& other) { return other.role.load() == role; });
}

void ledger::delivered(std::uint32_t reader, const message& what) {
  message_stamp of;
  message_record* const record = find(what.bytes(), of);
  if (record == nullptr)
    return;
  const std::uint32_t before = record->handled_by.exchange(reader);
  const auto complain = [&](const std::string& why) {
    violation(describe(of) + " came to life " + std::to_string(reader) + why);
  };
  if (memory_->lives[of.sender].role.load() == memory_->lives[reader].role.load())
    complain(", which is of the node that sent it");
  std::uint32_t& highest = highest_[std::uint64_t{reader} << 32 | of.sender];
  if (of.number <= highest)
    complain(" after message " + std::to_string(highest));
  highest = static_cast<std::uint32_t>(of.number);
  if (record->outcome.load() == not_delivered)
    complain(" after it was reported as not delivered");
  if (before != 0) {
    memory_->again.fetch_add(1);
    if (!what.redelivered())
      complain(" without a mark, after life " + std::to_string(before) + " had handled it");
  }
  if (what.redelivered()) {
    memory_->marked.fetch_add(1);
    if (!has_predecessor(reader))
      complain(" marked, and it is the first life");
  }
}

bool ledger::may_report(std::uint32_t life, errc reason, bool in_shutdown) const {
  switch (reason) {
    case errc::peer_closed:
      return rules_.reports_restarts || !rules_.wishes[memory_->lives[life].role.load() - 1];
    case errc::closed:
      return in_shutdown;
    case errc::timed_out:
      return rules_.deadline;
    case errc::would_block:
      return rules_.drops;
    default:
      return false;
  }
}

void ledger::reported(std::uint32_t life, const undelivered& what, bool in_shutdown) {
  message_stamp of;
  message_record* const record = find(what.bytes(), of);
  if (record == nullptr)
    return;
  const auto outcome = static_cast<std::uint32_t>(what.outcome());
  const std::uint32_t before = record->outcome.exchange(outcome);
  const auto complain = [&](const std::string& why) {
    violation(describe(of) + " was reported as " + std::string{name(what.outcome())} + " (" +
              std::string{name(what.reason())} + ")" + why);
  };
  if (of.sender != life)
    complain(" to life " + std::to_string(life));
  if (before != 0)
    complain(" after it was reported as " + std::string{name(static_cast<errc>(before))});
  if (outcome != not_delivered && outcome != unknown)
    complain(", which is no outcome");
  if (outcome == not_delivered && record->handled_by.load() != 0)
    complain(" after it was delivered");
  if (!may_report(life, what.reason(), in_shutdown))
    complain(" for no reason");
}

std::string ledger::story(std::uint32_t life) const {
  const life_record& of = memory_->lives[life];
  const auto same = [](const message_record& left, const message_record& right) {
    return left.handled_by.load() == right.handled_by.load() &&
           left.outcome.load() == right.outcome.load();
  };
  std::string text = "\nlife " + std::to_string(life) + " of node " +
                     std::to_string(of.role.load()) + (of.killed.load() != 0 ? ", killed:" : ":");
  const std::uint32_t all = of.attempted.load();
  for (std::uint32_t from = 0, to = 0; from != all; from = to) {
    const message_record& first = of.messages[from];
    while (to != all && same(of.messages[to], first))
      ++to;
    text += "\n  " + std::to_string(from + 1) + " to " + std::to_string(to) + ": ";
    if (first.handled_by.load() != 0)
      text += "handled by " + std::to_string(first.handled_by.load()) + " ";
    if (first.outcome.load() != 0)
      text += name(static_cast<errc>(first.outcome.load()));
  }
  return text;
}

void ledger::killed(std::uint32_t role) {
  for (std::uint32_t life = 1; life <= memory_->born.load(); ++life) {
    life_record& of = memory_->lives[life];
    if (of.role.load() == role + 1 && of.ended.load() == 0)
      of.killed.store(1);
  }
}

bool ledger::settled(std::uint32_t life) const {
  const life_record& of = memory_->lives[life];
  return of.killed.load() != 0 ||
         std::none_of(of.messages.begin(), of.messages.begin() + of.accepted.load(), is_open);
}

bool ledger::wait_settled() {
  return memory_->progress.wait_until([this](std::uint32_t) {
    for (std::uint32_t life = 1; life <= memory_->born.load(); ++life) {
      if (!settled(life))
        return false;
    }
    return true;
  });
}

std::string ledger::account_life(std::uint32_t life) const {
  const life_record& of = memory_->lives[life];
  const bool was_killed = of.killed.load() != 0;
  const bool leaves_gaps = rules_.drops || rules_.deadline || rules_.reports_restarts;
  bool open_before = false;
  for (std::uint32_t number = 1; number <= of.attempted.load(); ++number) {
    const message_record& one = of.messages[number - 1];
    const bool open = is_open(one);
    const std::string what = describe({.sender = life, .length = 0, .number = number, .check = 0});
    if (open && !was_killed && number <= of.accepted.load())
      return what + " has no outcome" + story(life);
    // Of a killed sender a prefix has arrived.
    if (open_before && one.handled_by.load() != 0 && !leaves_gaps)
      return what + " has arrived, though not one before it" + story(life);
    open_before = open_before || open;
  }
  return {};
}

std::string ledger::account() const {
  if (std::string what = memory_->violations.text(); !what.empty())
    return what;
  for (std::uint32_t life = 1; life <= memory_->born.load(); ++life) {
    if (std::string what = account_life(life); !what.empty())
      return what;
  }
  return {};
}

ledger_figures ledger::figures() const {
  ledger_figures all;
  all.lives = memory_->born.load();
  all.marked = memory_->marked.load();
  all.again = memory_->again.load();
  for (const life_record& life : memory_->lives) {
    all.accepted += life.accepted.load();
    for (std::uint32_t i = 0; i != life.attempted.load(); ++i) {
      all.delivered += life.messages[i].handled_by.load() != 0 ? 1 : 0;
      all.not_delivered += life.messages[i].outcome.load() == not_delivered ? 1 : 0;
      all.unknown += life.messages[i].outcome.load() == unknown ? 1 : 0;
    }
  }
  return all;
}

ledger_figures& ledger_figures::operator+=(const ledger_figures& other) {
  lives += other.lives;
  accepted += other.accepted;
  delivered += other.delivered;
  marked += other.marked;
  again += other.again;
  not_delivered += other.not_delivered;
  unknown += other.unknown;
  return *this;
}

std::string ledger_figures::text() const {
  return std::to_string(lives) + " lives, " + std::to_string(accepted) + " messages accepted, " +
         std::to_string(delivered) + " delivered, " + std::to_string(marked) + " marked (" +
         std::to_string(again) + " had been handled), " + std::to_string(not_delivered) +
         " not delivered, " + std::to_string(unknown) + " unknown";
}

}  // namespace atbus::test
