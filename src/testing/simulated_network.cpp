#include "testing/simulated_network.h"

#include <algorithm>
#include <utility>

#include "testing/simulated_inbox.h"
#include "testing/simulated_link.h"

namespace atbus::detail {

using namespace std::chrono_literals;

simulated_network::simulated_network(std::uint64_t seed) : clock_(1s), random_(seed) {}
simulated_network::~simulated_network() = default;

std::chrono::nanoseconds simulated_network::draw_delay() {
  // The program may have set one of the two alone.
  std::chrono::nanoseconds longest = std::max(conditions.delay_min, conditions.delay_max);
  if (!faults.delays.empty())
    longest = std::max(longest, moment_after(conditions.delay_min, *faults.delays.rbegin()));
  const auto span = static_cast<std::uint64_t>((longest - conditions.delay_min).count());
  return conditions.delay_min + std::chrono::nanoseconds{draw(span + 1)};
}

simulated_action& simulated_network::push(std::chrono::nanoseconds when, bool is_timer) {
  if (free_actions_.empty()) {
    free_actions_.push_back(static_cast<std::uint32_t>(actions_.size()));
    actions_.emplace_back();
  }
  const std::uint32_t free = free_actions_.back();
  free_actions_.pop_back();
  events_.push_back({std::max(when, now()), order_++, free, is_timer});
  std::push_heap(events_.begin(), events_.end());
  return actions_[free];
}

bool simulated_network::step(std::chrono::nanoseconds until) {
  if (before_step)
    before_step();
  if (events_.empty() || events_.front().when > until)
    return false;
  std::pop_heap(events_.begin(), events_.end());
  // A handler may throw.
  struct frame {
    simulated_network& net;
    const event next;
    ~frame() {
      --net.depth_;
      net.actions_[next.what].clear();
      net.free_actions_.push_back(next.what);
    }
  } const now_due{*this, events_.back()};
  ++depth_;
  const event& next = now_due.next;
  events_.pop_back();
  clock_.advance(next.when - now());
  if (!next.is_timer)
    --under_way_;
  actions_[next.what].run();
  return true;
}

void simulated_network::run_until(std::chrono::nanoseconds when) {
  while (step(when)) {
  }
  if (when > now())
    clock_.advance(when - now());
}

bool simulated_network::run_until(const std::function<bool()>& holds,
                                  std::chrono::nanoseconds longest) {
  const std::chrono::nanoseconds end = moment_after(now(), longest);
  while (!holds()) {
    if (!step(end)) {
      run_until(end);
      return false;
    }
  }
  return true;
}

void simulated_network::remember(const std::shared_ptr<simulated_wire>& wire) {
  if (wires_.size() >= 2 * wires_at_clearing_) {
    std::erase_if(wires_, [](const auto& one) { return one.expired(); });
    wires_at_clearing_ = std::max<std::size_t>(wires_.size(), 16);
  }
  wires_.push_back(wire);
}

std::vector<std::shared_ptr<simulated_wire>> simulated_network::whole() const {
  std::vector<std::shared_ptr<simulated_wire>> all;
  for (const auto& weak : wires_) {
    auto one = weak.lock();
    if (one && one->keeps() && one->ends[0] != nullptr && one->ends[1] != nullptr && !one->cut)
      all.push_back(std::move(one));
  }
  return all;
}

std::size_t simulated_network::links() const {
  return whole().size();
}

bool simulated_network::has_unnoticed_cuts() const {
  return std::any_of(wires_.begin(), wires_.end(), [](const auto& weak) {
    const auto one = weak.lock();
    return one && one->cut && (one->ends[0] != nullptr || one->ends[1] != nullptr);
  });
}

link_kind simulated_network::kind_of(std::size_t nth) const {
  return whole().at(nth)->kind;
}

void simulated_network::cut(std::size_t nth, seen_by who) {
  cut(*whole().at(nth), who);
}

std::vector<std::shared_ptr<simulated_wire>> simulated_network::between(id_pair nodes) const {
  std::vector<std::shared_ptr<simulated_wire>> all = whole();
  std::erase_if(all, [&](const auto& wire) {
    return pair_of(wire->ends[0]->owner_.self_, wire->ends[1]->owner_.self_) != nodes;
  });
  return all;
}

void simulated_network::cut(bus_id one, bus_id other, seen_by who) {
  for (const auto& wire : between(pair_of(one, other)))
    cut(*wire, who);
}

void simulated_network::separate(bus_id one, bus_id other) {
  separated_.insert(pair_of(one, other));
  for (const auto& wire : between(pair_of(one, other))) {
    if (wire->kind == link_kind::tcp)
      cut(*wire, seen_by::none);
  }
}

void simulated_network::cut(simulated_wire& wire, seen_by who) {
  const std::size_t first = draw(2);
  wire.lose_some(*this, 0);
  wire.lose_some(*this, 1);
  wire.cut = true;
  const bool all_see = who == seen_by::both || wire.kind != link_kind::tcp;
  if (who == seen_by::none && !all_see)
    return;
  wire.tell_end(*this, first, draw_delay(), errc::peer_closed);
  if (all_see)
    wire.tell_end(*this, 1 - first, draw_delay(), errc::peer_closed);
}

simulated_transport::simulated_transport(simulated_network& net, const simulated_process& of,
                                         std::function<void()> wake)
    : net_(net), process_(of), wake_(std::move(wake)) {}

simulated_transport::~simulated_transport() {
  close();
}

void simulated_transport::start(const node_instance& self, link_events& events) {
  self_ = self.id;
  instance_ = self;
  events_.emplace(events);
}

simulated_network::place simulated_transport::place_of(const address& at) const {
  const bool is_tcp = kind_of(at.kind()) == link_kind::tcp;
  return {at.to_string(), is_tcp ? host_identity{} : process_.host};
}

result<std::string> simulated_transport::listen(const address& at) {
  const foreign_code here;
  if (closed_)
    return error{errc::closed};
  address where = at;
  const bool has_port = at.kind() == address_kind::ipv4 || at.kind() == address_kind::ipv6;
  if (has_port && at.port() == 0)
    where = at.with_port(static_cast<std::uint16_t>(1 + ++net_.ports_ % 65535));
  if (net_.listeners_.contains(place_of(where)))
    return error{errc::receiver_exists, where.to_string() + ": another process receives there"};
  if (kind_of(at.kind()) == link_kind::shared_memory) {
    simulated_inbox& inbox = inbox_at(place_of(where));
    inbox.open(*this);
    inboxes_.push_back(&inbox);
    wake_();
  }
  net_.listeners_[place_of(where)] = this;
  return where.to_string();
}

simulated_inbox& simulated_transport::inbox_at(const simulated_network::place& where) {
  std::unique_ptr<simulated_inbox>& made = net_.inboxes_[where];
  if (!made)
    made = std::make_unique<simulated_inbox>();
  return *made;
}

result<link*> simulated_transport::connect(const address& to) {
  const foreign_code here;
  if (closed_)
    return error{errc::closed};
  auto wire = std::make_shared<simulated_wire>();
  wire->kind = kind_of(to.kind());
  wire->to = to.to_string();
  if (wire->kind == link_kind::shared_memory && !inboxes_.empty())
    wire->inboxes[0] = inboxes_.front();
  net_.remember(wire);
  simulated_link& dialled = add(wire, 0);
  const std::chrono::nanoseconds there = net_.now() + net_.draw_delay();
  if (net_.conditions.swallows) {
    wire->tell_end(net_, 0, net_.conditions.connect_timeout, errc::timed_out);
    return &dialled;
  }
  const bool refused = net_.refuses();
  net_.at(there, [&net = net_, wire, refused, place = place_of(to), self = self_] {
    if (wire->ends[0] == nullptr)
      return;
    const auto found = net.listeners_.find(place);
    if (refused || found == net.listeners_.end())
      return wire->tell_end(net, 0, net.draw_delay(), errc::not_found);
    const auto both = simulated_network::pair_of(self, found->second->self_);
    if (wire->kind == link_kind::tcp && net.separated_.contains(both))
      return wire->tell_end(net, 0, net.conditions.connect_timeout, errc::timed_out);
    if (wire->kind == link_kind::shared_memory)
      wire->inboxes[1] = &found->second->inbox_at(place);
    simulated_link& accepted = found->second->add(wire, 1);
    accepted.open_due_ = true;
    found->second->look_at(accepted);
    const std::chrono::nanoseconds back = net.now() + net.draw_delay();
    wire->ways[1].last_arrival = back;
    net.at(back, [wire] {
      if (wire->ends[0] == nullptr || wire->cut)
        return;
      wire->ends[0]->open_due_ = true;
      wire->ends[0]->owner_.look_at(*wire->ends[0]);
    });
  });
  return &dialled;
}

simulated_link& simulated_transport::add(std::shared_ptr<simulated_wire> wire, std::size_t end) {
  wire->who[end] = instance_;
  if (wire->number == 0)
    wire->number = ++net_.links_added_;
  links_.push_back(std::make_unique<simulated_link>(*this, std::move(wire), end));
  return *links_.back();
}

void simulated_transport::look_at(simulated_link& due) {
  if (!std::exchange(due.is_listed_, true))
    due_.push_back(&due);
  wake_();
}

void simulated_transport::flush_later(simulated_link& written) {
  if (!std::exchange(written.is_to_flush_, true))
    to_flush_.push_back(&written);
}

void simulated_transport::erase(simulated_link* gone) {
  const auto at = std::find_if(links_.begin(), links_.end(),
                               [&](const auto& one) { return one.get() == gone; });
  std::erase(due_, gone);
  std::erase(to_flush_, gone);
  links_.erase(at);
}

void simulated_transport::fall_silent() noexcept {
  for (const auto& one : links_) {
    if (one->kind() == link_kind::tcp)
      one->wire_->cut = true;
  }
}

void simulated_transport::close() noexcept {
  const foreign_code here;
  if (std::exchange(closed_, true))
    return;
  std::erase_if(net_.listeners_, [&](const auto& one) { return one.second == this; });
  for (simulated_inbox* const one : inboxes_)
    one->close();
  for (const auto& one : links_) {
    one->wire_->process_gone[one->end_] = true;
    simulated_inbox* const inbox = one->wire_->inboxes[one->end_];
    if (inbox != nullptr && one->wire_->ends[one->end_] == one.get())
      inbox->keep(one->wire_, one->end_);
    one->leave_wire();
    one->ended_ = true;
  }
  // A handler may have called: what it looks at stays until poll returns.
  if (polling_)
    ended_ = std::move(links_);
  links_.clear();
  due_.clear();
  to_flush_.clear();
}

std::size_t simulated_transport::poll(const poll_limits& limits) {
  const foreign_code here;
  if (polling_)
    return 0;
  struct frame {
    simulated_transport& of;
    std::size_t told = 0;  // of those of this turn
    ~frame() {
      of.polling_ = false;
      of.ended_.clear();
      if (!of.closed_)  // a handler has thrown
        of.due_.insert(of.due_.end(), of.turn_.begin() + static_cast<std::ptrdiff_t>(told),
                       of.turn_.end());
      of.turn_.clear();
    }
  } now{*this};
  polling_ = true;
  poll_ends_ = false;
  flush();
  std::size_t count = 0;
  const auto left = [&] {
    return poll_ends_ ? 0 : limits.messages - std::min(count, limits.messages);
  };
  const auto inherit = [&] {
    for (std::size_t i = 0; i < inboxes_.size() && !closed_; ++i)
      count += inboxes_[i]->tell(*events_, left());
  };
  const bool inherits_first = !inboxes_.empty() && net_.draw(2) == 0;
  if (inherits_first)
    inherit();
  turn_.swap(due_);
  if (turn_.size() > 1)
    std::rotate(turn_.begin(), turn_.begin() + static_cast<std::ptrdiff_t>(net_.draw(turn_.size())),
                turn_.end());
  for (; now.told != turn_.size(); ++now.told) {
    simulated_link* const one = turn_[now.told];
    count += one->tell(*events_, left());
    if (closed_)
      return count;
    one->is_listed_ = false;
    if (one->over_)
      erase(one);
    else if (one->is_due())
      look_at(*one);
  }
  if (!inherits_first)
    inherit();
  return count;
}

void simulated_transport::flush() noexcept {
  const foreign_code here;
  flushing_.swap(to_flush_);
  for (simulated_link* one : flushing_) {
    one->is_to_flush_ = false;
    one->flush();
  }
  flushing_.clear();
}

bool simulated_transport::prepare_sleep() {
  const auto is_due = [](const auto* one) { return one->is_due(); };
  return std::none_of(due_.begin(), due_.end(), is_due) &&
         std::none_of(inboxes_.begin(), inboxes_.end(), is_due);
}

}  // namespace atbus::detail
