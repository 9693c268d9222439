#include "node/core/access_control.h"

#include <new>
#include <utility>

#include "core/text.h"
#include "node/access/access_file.h"

namespace atbus::detail {
namespace {

constexpr std::string_view old_rules_hold = "; until then the rules that were read before hold";

std::uint64_t cause_of(std::uint64_t a, std::uint64_t b, std::uint64_t c) noexcept {
  constexpr std::uint64_t spread = 0x9e3779b97f4a7c15;
  return ((a * spread + b) * spread + c) * spread;
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
  is_changed_ = false;  // nobody is here yet
  clock_.replace([this] { look(); });
  clock_.set(node_.now() + file_look_interval);
  return {};
}

error access_control::read(std::string_view text) {
  result<access_rules> fresh = read_access_file(text, file_->path());
  if (!fresh)
    return fresh.error();
  rules_ = *std::move(fresh);
  meetings_ = {};
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
    if (bad)
      events_.log("the access rules of " + file_->path() + " hold from now on");
  } catch (const std::bad_alloc&) {
    file_->take_again();
    throw;
  }
}

status access_control::refuse(bus_id to) noexcept {
  ++node_.stats.access_denied;
  return {errc::denied, to.value()};
}

template <class Describe>
void access_control::count_refused(std::uint64_t cause, Describe&& describe) noexcept {
  ++node_.stats.access_denied;
  try {
    if (lines_.take(cause, node_.now()) != 0)
      events_.log(describe() + ": no access rule allows it (not said again for a minute)");
  } catch (const std::bad_alloc&) {  // it is counted
  }
}

bool access_control::admits(bus_id from, message_class what, std::uint32_t type) noexcept {
  if (!rules_ || rules_->may_send(from, node_.self.id, what, type))
    return true;
  count_refused(cause_of(from.value(), static_cast<std::uint64_t>(what), type), [&] {
    return name_of(from) + " sends " + std::string{plural(what)} + " of type " +
           std::to_string(type);
  });
  return false;
}

bool access_control::admits_command(bus_id from, std::string_view name) noexcept {
  if (!rules_ || rules_->may_command(from, node_.self.id, name))
    return true;
  count_refused(cause_of(from.value(), static_cast<std::uint64_t>(message_class::command),
                         std::hash<std::string_view>{}(name)),
                [&] { return name_of(from) + " sends the command " + in_quotes(name); });
  return false;
}

bool access_control::lets_broadcast(bus_id from, const id_range& to, std::uint32_t type) noexcept {
  if (!rules_ || rules_->may_broadcast(from, to, type))
    return true;
  count_refused(
      cause_of(from.value(), static_cast<std::uint64_t>(message_class::broadcast), type), [&] {
        return name_of(from) + " broadcasts type " + std::to_string(type) + " to " + to.to_string();
      });
  return false;
}

bool access_control::lets_pass(bus_id from, bus_id to) noexcept {
  if (!rules_ || rules_->send_any)
    return true;
  meeting& last = meetings_[cause_of(from.value(), to.value(), 0) >> 56U];
  if (last.one != from || last.other != to)
    last = {from, to, rules_->may_meet(from, to)};
  if (last.allowed)
    return true;
  count_refused(cause_of(from.value(), to.value(), 1), [&] {
    return name_of(from) + " sends to node " + to.to_string() + " by way of this one";
  });
  return false;
}

error access_control::check_registration(const link& at, bus_id id,
                                         const std::optional<id_range>& below) const {
  if (!rules_ || rules_->may_register(id, below, at.origin()))
    return {};
  return {errc::denied, name_of(id) + (below ? " with the ids " + below->to_string() : "") +
                            " may not register from " + at.peer() + ": no access rule allows it"};
}

void access_control::mark(peer& of) const noexcept {
  of.checked_to = rules_ && !rules_->may_send_all(node_.self.id, of.id);
  of.checked_from = rules_ && !rules_->may_send_all(of.id, node_.self.id);
}

}  // namespace atbus::detail
