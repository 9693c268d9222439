#include "node/core/access_control.h"

#include <new>
#include <utility>

#include "core/text.h"
#include "node/access/access_file.h"

namespace atbus::detail {
namespace {

constexpr std::string_view old_rules_hold = "; until then the rules that were read before hold";

constexpr std::size_t decisions_kept = 256;
// Of a decision: whether two nodes may meet. All others have a class and a type.
constexpr std::uint64_t meeting = std::uint64_t{1} << 63U;

std::uint64_t mix(std::uint64_t a, std::uint64_t b, std::uint64_t c) noexcept {
  constexpr std::uint64_t spread = 0x9e3779b97f4a7c15;
  return ((a * spread + b) * spread + c) * spread;
}

constexpr std::uint64_t key_of(message_class what, std::uint32_t type) noexcept {
  return (std::uint64_t{1} + static_cast<std::uint64_t>(what)) << 32U | type;
}

std::string_view plural(message_class what) noexcept {
  switch (what) {
    case message_class::request:
      return "requests";
    case message_class::command:
      return "commands";
    case message_class::broadcast:
      return "broadcasts";
    case message_class::message:
      break;
  }
  return "messages";
}

std::string name_of(bus_id id) {
  return id == bus_id{} ? "a client" : "node " + id.to_string();
}

}  // namespace

error access_control::open(std::function<void()> changed) {
  if (node_.options.access_file().empty())
    return {};
  file_.emplace(node_.options.access_file());
  const result<std::optional<std::string>> text = file_->take();
  if (!text)
    return text.error();
  if (error bad = read(**text); !bad)
    return bad;
  changed_ = std::move(changed);
  is_changed_ = false;  // there is nothing yet that they could forbid
  clock_.replace([this] { look(); });
  clock_.set(node_.now() + file_look_interval);
  return {};
}

error access_control::read(std::string_view text) {
  result<access_rules> fresh = read_access_file(text, file_->path());
  if (!fresh)
    return fresh.error();
  if (rules_ == *fresh)
    return {};
  decisions_.assign(decisions_kept, {});
  rules_ = *std::move(fresh);
  is_changed_ = true;
  return {};
}

void access_control::look() {
  clock_.set(node_.now() + file_look_interval);
  const result<std::optional<std::string>> text = file_->take();
  if (!text || *text)
    use(text);
  if (!is_changed_)
    return;
  events_.log("the access rules of " + file_->path() + " hold from now on");
  changed_();
  is_changed_ = false;
}

void access_control::use(const result<std::optional<std::string>>& text) {
  try {
    const error bad = text ? read(**text) : text.error();
    const std::string problem = bad ? std::string{} : bad.text() + std::string{old_rules_hold};
    if (problem != problem_ && !bad)
      events_.log(problem);
    problem_ = problem;
  } catch (const std::bad_alloc&) {
    file_->take_again();
    throw;
  }
}

status access_control::refuse(bus_id to) noexcept {
  ++node_.stats.access_denied;
  return {errc::denied, to.value()};
}

template <class Decide>
bool access_control::decide(bus_id from, bus_id to, std::uint64_t what, Decide&& find) noexcept {
  decision& last = decisions_[mix(from.value(), to.value(), what) >> 56U];
  if (last.from != from || last.to != to || last.what != what)
    last = {from, to, what, bool{find()}};
  return last.allowed;
}

bool access_control::may_send(bus_id from, bus_id to, message_class what,
                              std::uint32_t type) noexcept {
  return !rules_ || rules_->send_any || decide(from, to, key_of(what, type), [&] {
    return rules_->may_send(from, to, what, type).has_value();
  });
}

template <class Describe>
void access_control::count_refused(bus_id from, message_class what, Describe&& describe) noexcept {
  ++node_.stats.access_denied;
  try {
    if (lines_.take(mix(from.value(), static_cast<std::uint64_t>(what), 0), node_.now()) != 0) {
      events_.log(name_of(from) + " " + describe() + ": no access rule allows it (more of its " +
                  std::string{plural(what)} + " is not told of for a minute)");
    }
  } catch (const std::bad_alloc&) {  // it is counted
  }
}

bool access_control::admits(bus_id from, message_class what, std::uint32_t type) noexcept {
  if (may_send(from, node_.self.id, what, type))
    return true;
  count_refused(from, what, [&] {
    return "sends " + std::string{plural(what)} + " of type " + std::to_string(type);
  });
  return false;
}

bool access_control::admits_command(bus_id from, std::string_view name) noexcept {
  if (!rules_ || rules_->may_command(from, node_.self.id, name))
    return true;
  count_refused(from, message_class::command,
                [&] { return "sends the command " + in_quotes(name); });
  return false;
}

bool access_control::lets_broadcast(bus_id from, const id_range& to, std::uint32_t type) noexcept {
  if (!rules_ || rules_->may_broadcast(from, to, type))
    return true;
  count_refused(from, message_class::broadcast, [&] {
    return "broadcasts type " + std::to_string(type) + " to " + to.to_string();
  });
  return false;
}

bool access_control::lets_pass(bus_id from, bus_id to) noexcept {
  if (!rules_ || rules_->send_any ||
      decide(from, to, meeting, [&] { return rules_->may_meet(from, to); }))
    return true;
  count_refused(from, message_class::message,
                [&] { return "sends to node " + to.to_string() + " by way of this one"; });
  return false;
}

bool access_control::lets_meet(const peer& one, const peer& other) const noexcept {
  const auto itself = [](const peer& of) { return id_range::single(of.id); };
  const auto below = [&](const peer& of) { return of.range.value_or(itself(of)); };
  return !rules_ || (rules_->may_meet(itself(one), itself(other)) &&
                     rules_->may_meet(itself(one), below(other)) &&
                     rules_->may_meet(below(one), itself(other)) &&
                     rules_->may_meet(below(one), below(other)));
}

error access_control::check_registration(const session& on, bus_id id,
                                         std::optional<id_range> below) const {
  if (!on.is_direct)
    below.reset();
  if (!rules_ || rules_->may_register(id, below, on.at.origin()))
    return {};
  return {errc::denied, name_of(id) + (below ? " with the ids " + below->to_string() : "") +
                            " may not register from " + on.at.peer() +
                            ": no access rule allows it"};
}

void access_control::mark(peer& of) const noexcept {
  of.checked_to = rules_ && !rules_->may_send_all(node_.self.id, of.id);
  of.checked_from = rules_ && !rules_->may_send_all(of.id, node_.self.id);
}

}  // namespace atbus::detail
