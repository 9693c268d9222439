#include "flow_world.h"

#include <algorithm>
#include <utility>

namespace atbus::test {

using detail::held_message;
using detail::incoming_flow;
using detail::node_instance;
using detail::outgoing_flow;

namespace {

constexpr node_instance sender_incarnation{.id = 1, .incarnation = 100};
constexpr std::size_t path_room = 4;

}  // namespace

flow_world::flow_world(std::uint64_t seed, flow_sights& sights) : random_(seed), sights_(sights) {
  policy_ = pick(2) == 0 ? restart_policy::report : restart_policy::redeliver;
  restart();
}

std::size_t flow_world::pick(std::size_t most) {
  return random_() % (most + 1);
}

void flow_world::check(bool holds, const char* what) {
  if (!holds && fault_.empty())
    fault_ = what;
}

void flow_world::run() {
  for (std::size_t steps = 20 + pick(60); steps > 0 && fault_.empty(); --steps) {
    step();
    check(model_.fault().empty(), model_.fault().c_str());
    compare();
  }
  if (fault_.empty())
    finish();
}

void flow_world::step() {
  switch (pick(40)) {
    case 0:
    case 1:
      return lose(current_);
    case 2:
      return lose(answered_);
    case 3:
      return let_go(lives_[pick(lives_.size() - 1)]);
    case 4:
      return meet_others();
    case 5:
      return pick(1) == 0 ? restart() : void();
    case 6:
      return expire();
    case 7:
      return pick(2) == 0 ? drop_oldest() : void();
    case 8:
      return pick(9) == 0 ? abandon() : void();
    case 9:
      return current_ == nullptr || pick(5) == 0 ? dial() : void();
    default:
      break;
  }
  switch (pick(6)) {
    case 0:
    case 1:
      return send();
    case 2:
      return pump();
    case 3:
      return write();
    case 4:
      return release();
    case 5:
      return answered_ != nullptr ? hear() : current_ == nullptr ? dial() : void();
    default:
      return handle(pick(lives_.size() - 1));
  }
}

void flow_world::send() {
  const std::uint64_t number = out_.accept();
  record& one = records_.emplace_back();
  check(number == model_.accept(), "numbers are counted from 1");
  one.bytes = pick(5);
  if (pick(7) == 0)
    one.deadline = now_ + std::chrono::nanoseconds(1 + pick(20));
  if (current_ != nullptr && !out_.holds() && put(number, false)) {
    out_.sent(number);
    return;
  }
  out_.hold({.number = number,
             .type = static_cast<std::uint32_t>(number),
             .deadline = one.deadline,
             .bytes = std::vector<std::byte>(one.bytes)});
}

// Announcements find room where messages do not.
bool flow_world::put(std::uint64_t number, bool marked) {
  if (!out_.follows(number)) {
    current_->items.push_back({.next = number, .before = out_.last_sent()});
    out_.announced(number);
  }
  if (current_->items.size() - current_->released >= path_room)
    return false;
  current_->items.push_back({.number = number, .marked = marked});
  model_.put(number, current_->number, marked);
  return true;
}

void flow_world::pump() {
  while (current_ != nullptr && out_.holds() && put(out_.front().number, out_.front().redelivered))
    out_.carried();
}

void flow_world::write() {
  if (current_ != nullptr)
    current_->written += pick(current_->items.size() - current_->written);
}

void flow_world::release() {
  if (current_ == nullptr)
    return;
  for (std::size_t count = pick(current_->handled - current_->released); count > 0; --count) {
    const item& one = current_->items[current_->released++];
    if (one.number != 0)
      model_.release(one.number);
  }
}

// As a node does it: numbers are counted backwards, and announcements say where they jump.
void flow_world::lose(path_pointer& which) {
  const path_pointer gone = std::exchange(which, nullptr);
  if (gone == nullptr)
    return;
  std::list<held_message> left;
  std::uint64_t number = out_.last_sent();
  for (std::size_t at = gone->items.size(); at-- > gone->released;) {
    const item& one = gone->items[at];
    if (one.number == 0) {
      number = one.before;
      continue;
    }
    check(one.number == number, "numbers can be counted backwards");
    record& known = of(one.number);
    const bool may_have_arrived = at < gone->written;
    model_.take_back(one.number, one.marked, may_have_arrived);
    known.deadline = {};  // the channel does not keep it
    left.push_front({.number = number,
                     .type = static_cast<std::uint32_t>(number),
                     .may_have_arrived = may_have_arrived,
                     .redelivered = one.marked,
                     .bytes = std::vector<std::byte>(known.bytes)});
    --number;
  }
  out_.path_lost(std::move(left));
  // The end of what was on its way is lost.
  gone->written = gone->handled + pick(gone->written - gone->handled);
  gone->lost = true;
}

void flow_world::dial() {
  lose(answered_);
  destination& there = lives_.back();
  if (there.from == nullptr)
    there.flow = there.sessions.take(sender_incarnation);
  check(there.flow.move_to_path(0), "a sender that says no turn may move");
  there.from = std::make_shared<path>();
  there.from->instance = lives_.size() - 1;
  there.from->number = ++paths_;
  there.from->answer = there.flow.position();
  answered_ = there.from;
}

void flow_world::hear() {
  if (current_ != nullptr)
    ++sights_.replaced;
  lose(current_);
  current_ = std::exchange(answered_, nullptr);
  const node_instance& there = lives_[current_->instance].instance;
  const auto held = [this] {
    return std::ranges::count(model_.messages(), delivery_model::place::held,
                              &delivery_model::message::at);
  };
  const auto before = held();
  model_.open(current_->number, there, current_->answer.session, policy_);
  sights_.delivered_by_answer += static_cast<std::uint64_t>(before - held());
  resuming_ = true;
  const bool possible =
      out_.resume(there, current_->answer, policy_, [&](const held_message& message, errc reason) {
        const errc expected = model_.is_same_incarnation() ? errc::superseded : errc::peer_closed;
        check(reason == expected, "the reason is what happened");
        check(!model_.is_remembered(), "who remembers leaves no doubt");
        settled(message, reason);
      });
  resuming_ = false;
  check(possible, "an honest position is possible");
  check(std::ranges::none_of(model_.messages(),
                             [](const delivery_model::message& one) {
                               return one.at == delivery_model::place::held && one.doubt;
                             }),
        "nothing held is in doubt when a path has opened");
}

void flow_world::settled(const held_message& message, errc reason) {
  check(message.type == message.number, "type and number belong together");
  const delivery_model::message& one = model_.of(message.number);
  const bool is_uncertain = one.doubt || one.marked;
  check(model_.is_held(message.number), "a message is reported while it is held");
  model_.tell(message.number, message.outcome());
  if (one.outcome == errc::not_delivered) {
    ++sights_.not_delivered;
    return;
  }
  check(is_uncertain, "only what is in doubt is unknown");
  if (!resuming_)
    ++sights_.unknown_given_up;
  else if (reason == errc::peer_closed)
    ++sights_.unknown_by_death;
  else
    ++sights_.unknown_by_forgetting;
}

outgoing_flow::sink flow_world::sink() {
  return [this](const held_message& message, errc reason) { settled(message, reason); };
}

void flow_world::expire() {
  now_ += std::chrono::nanoseconds(pick(10));
  out_.expire(now_, sink());
  for (std::uint64_t number = 1; number <= records_.size(); ++number) {
    const std::chrono::nanoseconds deadline = of(number).deadline;
    check(!model_.is_held(number) || deadline.count() == 0 || deadline > now_,
          "nothing is held beyond its deadline");
  }
}

void flow_world::drop_oldest() {
  if (!out_.holds())
    return;
  const auto oldest = std::ranges::find(model_.messages(), delivery_model::place::held,
                                        &delivery_model::message::at);
  out_.drop_oldest(errc::would_block, sink());
  check(oldest->at == delivery_model::place::settled, "the oldest goes first");
}

void flow_world::abandon() {
  lose(current_);
  out_.abandon(errc::closed, sink());
  check(!out_.holds(), "nothing is held of a flow that was abandoned");
}

void flow_world::handle(std::size_t instance) {
  destination& by = lives_[instance];
  if (by.from == nullptr || by.from->handled == by.from->written)
    return;
  const item& one = by.from->items[by.from->handled++];
  if (one.number != 0)
    return deliver(instance, one);
  if (by.flow.position().last + 1 < one.next)
    ++sights_.passed_over;
  check(by.flow.announce(one.next, 0), "announced numbers grow");
}

void flow_world::deliver(std::size_t instance, const item& one) {
  destination& by = lives_[instance];
  const incoming_flow::verdict verdict = by.flow.arrived();
  check(verdict != incoming_flow::verdict::violation, "a sender announces before it sends");
  check(verdict != incoming_flow::verdict::duplicate, "who said how far it is gets nothing twice");
  check(by.flow.position().last == one.number, "both ends count alike");
  const bool again =
      std::ranges::any_of(model_.of(one.number).handled, [&](const delivery_model::handling& how) {
        return how.by.incarnation < by.instance.incarnation;
      });
  check(!again || one.marked, "a later incarnation gets a message only with the mark");
  model_.handle(one.number, {by.instance, by.flow.position().session, one.marked});
  ++sights_.delivered;
  sights_.delivered_again += again ? 1 : 0;
  sights_.by_old_incarnation += instance + 1 < lives_.size() ? 1 : 0;
  sights_.after_loss += by.from->lost ? 1 : 0;
}

void flow_world::let_go(destination& by) {
  if (by.from == nullptr)
    return;
  by.from = nullptr;
  by.sessions.remember(sender_incarnation, by.flow);
}

// Another sender comes and goes; the table has room for one.
void flow_world::meet_others() {
  const node_instance other{.id = 2, .incarnation = 1};
  detail::session_table& sessions = lives_.back().sessions;
  detail::incoming_flow flow = sessions.take(other);
  (void)flow.announce(flow.position().last + 2, 0);
  sessions.remember(other, flow);
}

// The incarnation before may be dead, or only out of reach.
void flow_world::restart() {
  if (lives_.size() == most_incarnations)
    return;
  if (!lives_.empty() && pick(1) == 0)
    lives_.back().from = nullptr;
  lives_.emplace_back().instance = {.id = 2, .incarnation = lives_.size() + 1};
}

void flow_world::finish() {
  if (pick(3) == 0)
    abandon();
  dial();
  hear();
  do {
    pump();
    current_->written = current_->items.size();
    for (std::size_t instance = 0; instance < lives_.size(); ++instance) {
      while (lives_[instance].from != nullptr &&
             lives_[instance].from->handled != lives_[instance].from->written)
        handle(instance);
    }
    release();
    compare();
    check(model_.fault().empty(), model_.fault().c_str());
  } while (fault_.empty() && (out_.holds() || current_->released != current_->items.size()));
  for (const delivery_model::message& one : model_.messages()) {
    check(one.at == delivery_model::place::settled, "every message has an outcome");
    check(!one.handled.empty() || one.outcome != errc::ok, "nothing is lost without a word");
    check(one.handled.empty() || one.outcome != errc::not_delivered,
          "what was handled is not called not delivered");
  }
}

void flow_world::compare() {
  std::size_t messages = 0;
  std::size_t bytes = 0;
  std::optional<std::chrono::nanoseconds> earliest;
  for (std::uint64_t number = 1; number <= records_.size(); ++number) {
    if (!model_.is_held(number))
      continue;
    const record& one = of(number);
    ++messages;
    bytes += outgoing_flow::cost(one.bytes);
    if (one.deadline.count() != 0)
      earliest = std::min(earliest.value_or(one.deadline), one.deadline);
  }
  check(out_.held_messages() == messages, "what is held is what is neither sent nor settled");
  check(out_.held_bytes() == bytes, "held bytes are counted");
  check(out_.earliest_deadline() == earliest, "the earliest deadline is known");
}

}  // namespace atbus::test
