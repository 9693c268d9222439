#include "delivery_model.h"

#include <algorithm>
#include <utility>

namespace atbus::test {

void delivery_model::check(bool holds, std::uint64_t number, const char* what) {
  if (!holds && fault_.empty())
    fault_ = "message " + std::to_string(number) + ": " + what;
}

std::uint64_t delivery_model::accept() {
  messages_.emplace_back();
  held_.insert(messages_.size());
  return messages_.size();
}

void delivery_model::refuse() {
  const message& last = messages_.back();
  check(last.at == place::held && last.handled.empty() && last.sent_to.empty(), messages_.size(),
        "what was refused was not taken");
  held_.erase(messages_.size());
  messages_.pop_back();
}

void delivery_model::settle(std::uint64_t number, errc outcome) {
  message& one = messages_[number - 1];
  held_.erase(number);
  in_path_.erase(number);
  one.at = place::settled;
  one.outcome = outcome;
}

void delivery_model::open(std::uint64_t path, const detail::node_instance& there,
                          std::uint64_t session, restart_policy policy) {
  for (const std::uint64_t number : in_path_)
    check(left_behind_.contains(of(number).path), number,
          "a flow moves to another path once the one before has settled all that it took");
  is_same_incarnation_ = there == there_;
  is_remembered_ = is_same_incarnation_ && session == session_;
  path_ = path;
  last_put_ = 0;
  there_ = there;
  session_ = session;
  for (const std::uint64_t number : std::vector<std::uint64_t>(held_.begin(), held_.end())) {
    message& one = messages_[number - 1];
    const bool has_it = std::ranges::any_of(one.handled, [&](const handling& how) {
      return how.by == there && (how.session == session || how.session == 0);
    });
    if (is_remembered_ && has_it) {
      settle(number, errc::ok);
      one.is_known_handled = true;
    } else if (is_remembered_) {
      one.doubt = one.is_inherited = false;
    } else if (one.doubt && !is_same_incarnation_ && policy == restart_policy::redeliver &&
               !one.is_inherited) {
      one.doubt = false;
      one.marked = true;
    }
  }
}

void delivery_model::put(std::uint64_t number, std::uint64_t path, bool marked, bool is_inherited) {
  message& one = messages_[number - 1];
  check(one.at == place::held, number, "only what is held goes into a path");
  check(path == path_, number, "messages go into the path that was opened last");
  check(!one.is_passed_over && number > last_put_, number, "no message goes after a later one");
  check(!one.doubt, number, "no message goes out while it is in doubt");
  check(one.marked == marked, number, "a message has the mark if it was in doubt, and only then");
  while (!held_.empty() && *held_.begin() < number) {
    messages_[*held_.begin() - 1].is_passed_over = true;
    held_.erase(held_.begin());
  }
  held_.erase(number);
  in_path_.insert(number);
  last_put_ = number;
  one.at = place::in_path;
  one.path = path;
  one.is_inherited = is_inherited;
  one.sent_to.push_back(there_);
}

void delivery_model::release(std::uint64_t number) {
  check(of(number).at == place::in_path, number, "what is released was in the path");
  check(!of(number).handled.empty(), number, "what is released was handled");
  settle(number, errc::ok);
}

void delivery_model::take_back(std::uint64_t number, bool marked, bool may_have_arrived,
                               bool is_inherited) {
  message& one = messages_[number - 1];
  check(one.at == place::in_path, number, "what comes back was in the path");
  check(one.marked == marked, number, "a message comes back with the mark that it had");
  in_path_.erase(number);
  one.at = place::held;
  one.doubt = may_have_arrived;
  one.is_inherited = may_have_arrived && is_inherited;
  one.was_uncertain = one.was_uncertain || may_have_arrived || marked;
  // Later ones are on their way already.
  one.is_passed_over = one.path != path_ && last_put_ > number;
  if (!one.is_passed_over)
    held_.insert(number);
}

void delivery_model::tell(std::uint64_t number, errc outcome) {
  message& one = messages_[number - 1];
  const bool was_given_up =
      std::exchange(one.is_known_handled, false) && outcome == errc::outcome_unknown;
  check(one.at == place::held || was_given_up, number,
        "a message is reported once, and only while it is held");
  if (outcome == errc::not_delivered) {
    check(!one.doubt && !one.marked, number, "what is in doubt is not called not delivered");
    check(one.handled.empty(), number, "what was handled is not called not delivered");
  } else {
    check(outcome == errc::outcome_unknown, number, "there are three outcomes");
    check(one.was_uncertain, number, "only what is in doubt is unknown");
  }
  settle(number, outcome);
}

void delivery_model::handle(std::uint64_t number, const handling& how) {
  message& one = messages_[number - 1];
  check(one.outcome != errc::not_delivered, number, "what is not delivered never arrives");
  check(one.is_inherited || std::ranges::find(one.sent_to, how.by) != one.sent_to.end(), number,
        "who handles a message was sent it, or found it in memory");
  std::uint64_t& highest = highest_[{how.by.id, how.by.incarnation}];
  check(number > highest, number, "an incarnation gets messages in order and once");
  highest = number;
  one.handled.push_back(how);
  check(std::ranges::count(one.handled, false, &handling::marked) <= 1, number,
        "a second incarnation gets a message only with the mark");
}

}  // namespace atbus::test
