#include "simulation/topics/topic_world.h"

#include <algorithm>
#include <utility>

#include "dice.h"

namespace atbus::detail {
namespace {

constexpr std::chrono::nanoseconds topic_faults_take = std::chrono::seconds{20};
// Longer than interest of a node without a link is kept.
constexpr std::chrono::nanoseconds topic_recovery_takes = std::chrono::seconds{60};

constexpr const char* token_in_use = "the token in use";
constexpr const char* token_beside = "another token beside it";

std::string name_of_message(bus_id from, const std::string& topic, std::uint64_t number) {
  return topic + " " + std::to_string(number) + " of " + from.to_string();
}

}  // namespace

topic_world::topic_world(std::uint64_t seed, topic_counts& counts) : counts_(counts), sim_(seed) {
  test::dice draw{~seed};
  is_tree_ = draw.one_in(2);
  nodes_ = make_small_topology(draw, is_tree_, "topics");
  if (!is_tree_ || !draw.one_in(2))
    return;
  two_ways_ = {draw.below(nodes_.size()), draw.below(nodes_.size())};
  if (nodes_[two_ways_.first].parent == two_ways_.second ||
      nodes_[two_ways_.second].parent == two_ways_.first)
    two_ways_ = {};
}

std::string topic_world::run() {
  for (const tree_node& one : nodes_)
    start(one);
  testing::disturbances faults;
  faults.clock_steps = 0;
  faults.restarts = static_cast<unsigned>(sim_.draw(5));
  faults.stops = 2;
  sim_.run_for(std::chrono::seconds{3});
  note_standing();
  sim_.disturb(topic_faults_take, faults);
  for (int step = 0; step != 400 && fault_.empty(); ++step) {
    sim_.run_for(std::chrono::milliseconds{sim_.draw(100)});
    act();
  }
  sim_.run_for(topic_recovery_takes);
  check_standing();
  for (const char* name : {"a", "b"})
    check_whole(name);
  check_last();
  return fault_;
}

void topic_world::start(const tree_node& which) {
  testing::process_options options;
  options.host = 1 + which.host;
  options.node.ping_interval(std::chrono::seconds{2}).token(token_in_use).token(token_beside);
  if (sim_.draw(3) == 0)
    options.node.message_limit(2048).send_buffer_size(4096);
  if (which.range)
    options.node.children(which.range->to_string());
  if (!which.dials.empty() && &which != nodes_.data())
    options.node.parent(which.dials);
  sim_.start(
      which.id, [this, self = which](node& n) { begin(n, self); }, options);
}

void topic_world::begin(node& n, const tree_node& self) {
  process& made = processes_[self.id];
  made = {.starts = made.starts + 1};
  made.here = &n;
  for (const std::string& one : self.addresses)
    (void)n.listen(one);
  for (const tree_node& other : nodes_) {
    if (!is_tree_ && other.id != self.id)
      (void)n.connect(other.id, other.addresses.front());
  }
  if (has_two_ways() && self.id == nodes_[two_ways_.first].id) {
    const tree_node& other = nodes_[two_ways_.second];
    (void)n.connect(other.id, other.addresses.front());
  }
  for (const char* name : {"a", "b"}) {
    made.topics[name] =
        std::make_unique<topic>(n, name, topic_options{.waits_for_slow = sim_.draw(3) == 0});
    if (sim_.draw(2) == 0)
      subscribe(made, name);
  }
}

void topic_world::act() {
  const bus_id id = draw_id();
  if (!sim_.is_running(id))
    return;
  process& by = processes_[id];
  std::string name = draw_name();
  const std::uint64_t what = sim_.draw(24);
  if (what < 4 && by.stands)
    name = "a";
  switch (what) {
    case 0:
    case 1:
      return subscribe(by, name);
    case 2:
    case 3:
      by.subscriptions.erase(name);
      (void)by.here->unsubscribe(name);
      return;
    case 4:
      return end_links(by);
    default:
      if (name == "b" && sim_.now() < begins_[id])
        name = "a";
      for (std::uint64_t left = 1 + sim_.draw(20); left != 0; --left)
        publish(by, name);
  }
}

void topic_world::note_standing() {
  for (auto& [id, one] : processes_) {
    one.stands = one.subscriptions.contains("b");
    // So that streams begin while links and processes fail.
    begins_[id] = sim_.now() + std::chrono::milliseconds{sim_.draw(20000)};
  }
}

// Those whose token is taken away register again with the other one.
void topic_world::end_links(process& by) {
  if (!by.here->set_tokens({token_beside}) || !by.here->set_tokens({token_in_use, token_beside}))
    fail("its token can't be replaced");
}

void topic_world::check_standing() {
  if (is_tree_)
    return;  // a relay does not keep what comes while a neighbour has lost its place
  for (auto& [id, here] : processes_) {
    if (!here.stands)
      continue;
    for (auto& [from, by] : processes_) {
      const std::uint64_t published = published_[{publisher{from, by.here->incarnation()}, "b"}];
      const std::uint64_t all = here.subscriptions["b"].of[from].all;
      counts_.standing += by.starts == 1 ? published : 0;
      if (by.starts == 1 && all != published)
        fail("of " + std::to_string(published) + " on b of " + from.to_string() + ", " +
             id.to_string() + " has or misses " + std::to_string(all));
    }
  }
}

void topic_world::publish(process& by, const std::string& name) {
  const publisher self{by.here->id(), by.here->incarnation()};
  std::uint64_t& last = published_[{self, name}];
  const std::string text = std::to_string(self.second) + " " + std::to_string(last + 1) +
                           std::string(sim_.draw(300), '.');
  const publication sent = by.topics[name]->publish(3, text);
  if (sent)
    ++last;
  else if (sent.how() == errc::would_block)
    ++counts_.blocked;
  else
    fail("publish says " + std::string{explain(sent.how().code())});
}

void topic_world::subscribe(process& by, const std::string& name) {
  constexpr std::array policies{overflow_policy::would_block, overflow_policy::drop_newest,
                                overflow_policy::drop_oldest};
  subscription_options how;
  how.slow = policies[sim_.draw(3)];
  how.waiting = static_cast<std::uint32_t>(1 + sim_.draw(sim_.draw(2) == 0 ? 4 : 100));
  const bus_id id = by.here->id();
  const std::uint64_t incarnation = by.here->incarnation();
  how.on_missed = [this, id, name](bus_id from, std::uint64_t messages) {
    missed(id, name, from, messages);
  };
  if (!by.here->subscribe(
          name, [this, id, incarnation](const topic_message& m) { take(id, incarnation, m); }, how))
    fail("subscribe failed");
  (void)by.subscriptions[name];  // goes on with what it had
}

void topic_world::missed(bus_id to, const std::string& name, bus_id from, std::uint64_t messages) {
  counts_.missed += messages;
  process& here = processes_[to];
  if (const auto known = here.subscriptions.find(name); known != here.subscriptions.end()) {
    progress& of = known->second.of[from];
    of.missed += messages;
    of.all += messages;
  } else {
    fail("something was missed that was not subscribed to");
  }
}

void topic_world::take(bus_id to, std::uint64_t incarnation, const topic_message& m) {
  ++counts_.messages;
  counts_.redelivered += m.redelivered() ? 1 : 0;
  const std::string text{m.text()};
  const std::uint64_t from = std::stoull(text);
  const std::uint64_t number = std::stoull(text.substr(text.find(' ') + 1));
  const std::string name{m.topic()};
  const std::string what = name_of_message(m.publisher(), name, number) + " to " + to.to_string();
  if (number != m.number() || m.type() != 3)
    fail(what + " has become another one");
  const publisher by{m.publisher(), from};
  if (number > published_[{by, name}] + 1)
    fail(what + " was never published");
  auto& handled = handled_[{to, by, name, number}];
  // By two ways, one may come to a subscription that has been ended and made again. A relay that has started again
  // may bring one, marked, to such a subscription.
  if (!handled.insert(incarnation).second && !m.redelivered() && !has_two_ways())
    fail(what + " came twice");
  if (handled.size() > 1 && !m.redelivered() && !has_two_ways())
    fail(what + " came to two processes without a mark");
  process& here = processes_[to];
  const auto known = here.subscriptions.find(name);
  if (known == here.subscriptions.end())
    return fail(what + " was not subscribed to");
  progress& of = known->second.of[m.publisher()];
  std::uint64_t& last = of.last[from];
  ++of.all;
  if (number <= last)
    fail(what + " came behind " + std::to_string(last));
  // By two ways, what one of them owes is told when it says so, which may be late.
  const bool is_first_life = processes_[m.publisher()].starts == 1 && !has_two_ways();
  const std::uint64_t behind = number - last - 1;
  // A mark of a publisher's earlier process may come late.
  if (of.incarnation == from && (is_first_life ? behind != of.missed : behind > of.missed))
    fail(what + " came after " + std::to_string(last) + ", and " + std::to_string(of.missed) +
         " are missed");
  if (is_first_life && of.missed >= number)
    fail(what + " is the first, and " + std::to_string(of.missed) + " are missed");
  last = number;
  of.incarnation = from;
  of.missed = 0;
}

void topic_world::check_whole(const std::string& name) {
  for (auto& [id, here] : processes_) {
    const auto known = here.subscriptions.find(name);
    if (known == here.subscriptions.end())
      continue;
    for (auto& [from, of] : known->second.of) {
      const publisher by{from, processes_[from].here->incarnation()};
      const std::uint64_t published = published_[{by, name}];
      const std::uint64_t told = of.last[by.second] + of.missed;
      if (of.incarnation == by.second &&
          (processes_[from].starts == 1 && !has_two_ways() ? told != published : told < published))
        fail("of " + std::to_string(published) + " on " + name + " of " + from.to_string() + ", " +
             id.to_string() + " has " + std::to_string(of.last[by.second]) + " and misses " +
             std::to_string(of.missed));
    }
  }
}

void topic_world::check_last() {
  const std::uint64_t missed_before = counts_.missed;
  for (auto& [id, by] : processes_) {
    for (const char* name : {"a", "b"})
      publish(by, name);
  }
  sim_.run_for(std::chrono::seconds{10});
  for (auto& [id, here] : processes_) {
    for (auto& [name, known] : here.subscriptions) {
      for (auto& [from, by] : processes_) {
        const std::uint64_t incarnation = by.here->incarnation();
        const std::uint64_t published = published_[{publisher{from, incarnation}, name}];
        if (known.of[from].last[incarnation] != published)
          fail("the last message, " + name_of_message(from, name, published) +
               ", has not come to " + id.to_string());
      }
    }
  }
  if (counts_.missed != missed_before)
    fail("something was missed in peace");
}

void topic_world::fail(std::string what) {
  if (fault_.empty())
    fault_ = std::move(what);
}

}  // namespace atbus::detail
