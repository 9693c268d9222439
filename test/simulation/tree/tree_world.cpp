#include "simulation/tree/tree_world.h"

#include <algorithm>
#include <ostream>
#include <utility>

#include "simulated_plan.h"
#include "testing/simulated_link.h"

namespace atbus::detail {

using namespace std::chrono_literals;

namespace {

constexpr std::size_t most_links = 16;  // that a message passes

}  // namespace

tree_world::tree_world(topology nodes, std::vector<node_options> options, std::uint64_t seed,
                       std::ostream* trace)
    : net(seed * 2 + 1),
      draw(seed),
      nodes_(std::move(nodes)),
      options_(std::move(options)),
      trace_(trace),
      places_(nodes_.size()),
      draw_slot_(~seed) {
  is_forgetful_ =
      std::ranges::any_of(options_, [](const node_options& one) { return one.sessions() < 4096; });
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    by_id_.emplace(nodes_[i].id.value(), i);
  is_deep_ =
      std::ranges::any_of(nodes_, [](const tree_node& one) { return 2 * one.depth > most_links; });
}

bool tree_world::is_too_far(std::size_t from, std::size_t to) const {
  return is_deep_ && fewest_links_between(nodes_, from, to) > most_links &&
         !named_.contains(std::minmax(from, to));
}

bool tree_world::may_be_too_far(std::size_t from, std::size_t to) const {
  return is_deep_ && links_between(nodes_, from, to) > most_links;
}

void tree_world::note(const std::string& text) {
  if (trace_ != nullptr)
    *trace_ << (net.now() - 1s) / 1us << " us  " << text << '\n';
}

std::string tree_world::name_of(bus_id id) const {
  const auto found = by_id_.find(id.value());
  return found != by_id_.end() ? std::to_string(found->second) : id.to_hex();
}

void tree_world::start_all() {
  for (std::size_t index = 0; index < size(); ++index)
    start(index);
}

void tree_world::start(std::size_t index) {
  place& at = places_[index];
  const tree_node& self = nodes_[index];
  host_identity host{};
  host[0] = static_cast<std::byte>(self.host);
  host[1] = static_cast<std::byte>(self.host >> 8U);
  host[2] = std::byte{1};
  ++at.incarnations;
  at.wanted.clear();
  at.doomed = false;
  at.owed.clear();
  node_options options = options_[index];
  if (index != 0)
    options.parent(self.dials);
  if (self.range)
    options.children(self.range->to_string());
  at.process = std::make_unique<simulated_node>(net, self.id, options, host);
  node_core& core = at.process->core();
  book.born(core.self(), {.deadline = options.message_deadline() != 0ns,
                          .drops = options.overflow() != overflow_policy::would_block,
                          .forgetful = is_forgetful_,
                          .routed = true,
                          .message_limit = limit_of(index)});
  note("node " + std::to_string(index) + " begins");
  if (const error& bad = core.fault(); !bad)
    book.fail("node " + std::to_string(index) + ": " + bad.text());
  set_handlers(index, core);
  // A name in shared memory is not always opened again: its messages go another way then.
  for (const std::string& one : self.addresses) {
    if (!one.starts_with("shm://") || at.incarnations == 1 || draw.one_in(2))
      (void)core.listen(one);
  }
  at.process->limits.messages = 1 + draw.below(64);
}

void tree_world::set_handlers(std::size_t index, node_core& core) {
  const node_instance self = core.self();
  const std::string name = "node " + std::to_string(index);
  node_handlers& on = core.handlers();
  on.on_message = [this, index, &core](const message& what) {
    look_at_slot(index, core);
    on_message(index, core, what);
  };
  const bool drops = options_[index].message_deadline() != 0ns ||
                     options_[index].overflow() != overflow_policy::would_block;
  on.on_undelivered = [this, index, self, name, drops, &core](const undelivered& what) {
    look_at_slot(index, core);
    book.reported(self, what);
    if (!by_id_.contains(what.destination().value())) {
      const bool is_possible =
          what.reason() == errc::no_route || (is_deep_ && what.reason() == errc::hop_limit);
      if (!is_possible && !drops)
        book.fail("a message from " + name + " to nobody ended with " +
                  std::string{atbus::name(what.reason())});
    } else if (faults_are_over_ && !drops &&
               !(is_forgetful_ && what.reason() == errc::superseded) &&
               !(what.reason() == errc::hop_limit &&
                 may_be_too_far(index, by_id_.at(what.destination().value())))) {
      book.fail("a message from " + name + " to " + name_of(what.destination()) +
                " did not arrive (" + std::string{atbus::name(what.reason())} +
                "), though nothing was wrong");
    }
    if (trace_ != nullptr) {
      note(name + " is told: " + std::to_string(what.number()) + " to " +
           name_of(what.destination()) + ' ' + std::string{atbus::name(what.outcome())} + " (" +
           std::string{atbus::name(what.reason())} + ")");
    }
  };
  on.on_writable = [this, index, &core](bus_id to) {
    look_at_slot(index, core);
    places_[index].owed.erase(to.value());
  };
  on.on_endpoint = [this, index, name, &core](const endpoint& of, endpoint_event event) {
    look_at_slot(index, core);
    note(name + ": " + name_of(of.id()) + " is " + std::string{atbus::name(event)});
    const bool is_lost =
        event == endpoint_event::disconnected || event == endpoint_event::superseded;
    if (is_calm_ && is_lost && index != 0 && of.id() == nodes_[nodes_[index].parent].id)
      book.fail(name + " has lost its parent, and nothing was wrong but unproven peers");
    place& at = places_[index];
    if (event != endpoint_event::superseded || !at.process || &at.process->core() != &core)
      return;
    at.doomed = true;  // only another incarnation is let in again
    core.close();
  };
  if (trace_ == nullptr && !keeps_slots_)
    return;
  on.on_log = [this, index, name, &core](std::string_view line) {
    look_at_slot(index, core);
    note(name + " logs: " + std::string{line});
  };
}

void tree_world::on_message(std::size_t index, node_core& core, const message& what) {
  book.delivered(core.self(), what);
  const auto source = by_id_.find(what.source().value());
  if (source == by_id_.end())
    return book.fail("a message comes from nobody");
  if (is_too_far(source->second, index))
    book.fail("a message of node " + std::to_string(source->second) + " has come to node " +
              std::to_string(index) + " over more than " + std::to_string(most_links) + " links");
  if (trace_ != nullptr) {
    note("node " + std::to_string(index) + " receives from " + std::to_string(source->second) +
         (what.redelivered() ? " again" : ""));
  }
  if (what.type() != 0 && !ledger::is_short(what.type()) && is_running(index) &&
      &places_[index].process->core() == &core)
    send_or_keep(index, source->second, 30 + draw.below(200), what.type() - 1);
}

status tree_world::send(std::size_t from, std::size_t to, std::uint64_t size,
                        std::uint32_t answers) {
  if (!is_running(from))
    return errc::closed;
  place& at = places_[from];
  // What is required waits for ever for who is too far.
  const auto policy = draw.one_in(8) && !may_be_too_far(from, to) ? delivery_policy::require
                                                                  : delivery_policy::report;
  const status sent = send_to(from, nodes_[to].id, size, answers, policy);
  if (sent) {
    at.partners.insert(to);
    places_[to].partners.insert(from);
  } else if (sent == errc::would_block) {
    at.owed.insert(nodes_[to].id.value());
  }
  return sent;
}

status tree_world::send_to(std::size_t from, bus_id whom, std::uint64_t size, std::uint32_t answers,
                           delivery_policy policy) {
  simulated_node& process = *places_[from].process;
  const node_instance self = process.core().self();
  const ledger_message made = book.next(self, whom, answers, size);
  const auto known = by_id_.find(whom.value());
  if (is_deep_ && (known == by_id_.end() || may_be_too_far(from, known->second)))
    book.may_be_too_far(self, whom);
  const status sent = process.user().send(whom, made.type, made.bytes, policy);
  if (!process.core().dispatching())
    process.wake();
  if (sent)
    book.accepted(self, whom, size, policy);
  if (sent && size > limit_of(from))
    book.fail("node " + std::to_string(from) + " accepts a message that is too long");
  if (sent == errc::message_too_large && size <= std::min(limit_of(from), book.limit_of(whom)))
    book.fail("node " + std::to_string(from) + " refuses " + std::to_string(size) +
              " bytes, which are not too many");
  return sent;
}

void tree_world::send_many(std::size_t from, std::size_t to, std::uint64_t count,
                           std::uint64_t most) {
  const auto next = [this](std::uint64_t limit) { return draw.below(limit); };
  for (; count != 0; --count)
    send_or_keep(from, to, test::draw_message_size(next, most, limit_of(from), limit_of(to)),
                 static_cast<std::uint32_t>(draw.below(4)));
}

void tree_world::send_or_keep(std::size_t from, std::size_t to, std::uint64_t size,
                              std::uint32_t answers) {
  if (!keeps_slots_ || !is_running(from) || !draw_slot_.one_in(4)) {
    (void)send(from, to, size, answers);
    return;
  }
  place& at = places_[from];
  atbus::node& by = at.process->user();
  const node_instance self = at.process->core().self();
  if (may_be_too_far(from, to))
    book.may_be_too_far(self, nodes_[to].id);
  if (at.slot.claim(by, nodes_[to].id, book.next(self, nodes_[to].id, answers, size)) ==
      errc::would_block)
    at.owed.insert(nodes_[to].id.value());
  if (at.process->core().dispatching()) {
    // If that one is connected, this is told at the end of the poll.
    (void)by.on_ready(
        nodes_[draw_slot_.one_in(2) ? to : nodes_[from].parent].id, 1s,
        [this, from, &core = at.process->core()](status) { look_at_slot(from, core); });
    return;
  }
  if (draw_slot_.one_in(2))
    by.flush();
  if (at.slot.is_kept() && !draw_slot_.one_in(4))
    commit_slot(from);
  at.process->wake();
}

void tree_world::look_at_slot(std::size_t index, const node_core& core) {
  place& at = places_[index];
  if (at.slot.is_kept() && is_running(index) && &at.process->core() == &core &&
      draw_slot_.one_in(2))
    commit_slot(index);
}

void tree_world::commit_slot(std::size_t index) {
  place& at = places_[index];
  const node_instance self = at.process->core().self();
  const bus_id whom = at.slot.destination();
  const std::size_t size = at.slot.size();
  std::string wrong;
  if (at.slot.commit(wrong)) {
    const std::size_t to = by_id_.at(whom.value());
    book.accepted(self, whom, size);
    at.partners.insert(to);
    places_[to].partners.insert(index);
  }
  if (!wrong.empty())
    book.fail("node " + std::to_string(index) + ": " + wrong);
}

void tree_world::broadcast(std::size_t from, const id_range& to, std::size_t size) {
  if (!is_running(from))
    return;
  simulated_node& process = *places_[from].process;
  const node_instance self = process.core().self();
  const ledger_message made = book.next_broadcast(self, size);
  const auto number = std::make_shared<std::uint64_t>(0);
  const auto call = [this, self, number](const std::vector<bus_id>& whom) {
    book.reached(self, *number, whom);
  };
  const status sent =
      draw.one_in(2) ? process.user().broadcast(to, made.type, made.bytes)
                     : process.user().broadcast(to, made.type, made.bytes, draw.time(2s), call);
  if (sent)
    *number = book.accepted_broadcast(self, to);
  if (!process.core().dispatching())
    process.wake();
}

// To all, to what is below it or beside it, to one node, or to nobody.
void tree_world::broadcast_many(std::size_t from, std::uint64_t count, std::uint64_t most) {
  const auto next = [this](std::uint64_t limit) { return draw.below(limit); };
  for (; count != 0; --count) {
    const tree_node& near = nodes_[draw.one_in(2) ? from : draw.below(size())];
    id_range to;
    if (near.range && draw.one_in(2))
      to = *near.range;
    else if (draw.one_in(4))
      to = id_range::single(near.id);
    else if (draw.one_in(8))
      to = id_range::single(near.id.value() ^ 1);
    broadcast(from, to, test::draw_message_size(next, most, limit_of(from), limit_of(from)));
  }
}

void tree_world::connect(std::size_t from, std::size_t to) {
  if (!is_running(from) || from == to)
    return;
  simulated_node& process = *places_[from].process;
  // On another host only the first one, TCP, leads there. Nobody may be at the third one, a name.
  const bool same_host = nodes_[from].host == nodes_[to].host;
  const std::size_t lasting = std::min<std::size_t>(nodes_[to].addresses.size(), 2);
  const std::string& where = nodes_[to].addresses[same_host ? draw.below(lasting) : 0];
  if (!process.core().connect(nodes_[to].id, where))
    return;
  book.wanted(process.core().self(), nodes_[to].id, true);
  places_[from].wanted.insert(to);
  named_.insert(std::minmax(from, to));
  places_[from].partners.insert(to);
  places_[to].partners.insert(from);
  process.wake();
}

void tree_world::check_wanted() {
  run_until(net.now() + 60s);
  for (std::size_t from = 0; from < size(); ++from) {
    std::set<std::size_t> left = places_[from].wanted;
    for (const endpoint& one : places_[from].process->core().endpoints()) {
      if (one.connected())
        left.erase(by_id_.at(one.id().value()));
    }
    for (const std::size_t to : left)
      book.fail("node " + std::to_string(from) + " is not connected to " + std::to_string(to) +
                ", which it has named");
  }
}

// What was accepted before is reported. A child, and who sends, comes back.
void tree_world::disconnect(std::size_t from, std::size_t to, std::uint64_t count) {
  if (!is_running(from))
    return;
  if (!nodes_[from].children.empty() && draw.one_in(2))
    to = nodes_[from].children[draw.below(nodes_[from].children.size())];
  if (to == from || (from != 0 && to == nodes_[from].parent))
    return;  // the option says that it has a parent
  send_many(from, to, count, 200);
  if (!is_running(from))
    return;
  places_[from].owed.erase(nodes_[to].id.value());
  simulated_node& process = *places_[from].process;
  book.wanted(process.core().self(), nodes_[to].id, false);
  places_[from].wanted.erase(to);
  (void)process.core().disconnect(nodes_[to].id);
  if (!process.core().dispatching())
    process.wake();
  send_many(from, to, count, 200);
}

// The longest time that a link stays whose other end gave a wrong token.
constexpr std::chrono::nanoseconds refusals_wait = 5s;

void tree_world::meet_unproven_peer(std::size_t index, std::size_t other, std::uint64_t calls,
                                    std::chrono::nanoseconds until) {
  if (!is_running(index))
    return;
  const tree_node& self = nodes_[index];
  if (draw.one_in(2))
    other = self.parent;
  else if (!self.children.empty() && draw.one_in(2))
    other = self.children[draw.below(self.children.size())];
  const node_instance name = is_running(other) ? places_[other].process->core().self()
                                               : node_instance{nodes_[other].id, 1};
  host_identity host{};
  host[0] = static_cast<std::byte>(self.host);
  host[1] = static_cast<std::byte>(self.host >> 8U);
  host[2] = std::byte{1};
  unproven_peers_.push_back({std::make_unique<unproven_peer>(net, host, name, self.id, draw.word()),
                             index, static_cast<std::size_t>(calls), until + refusals_wait});
  unproven_peer* const made = unproven_peers_.back().who.get();
  places_[index].unproven_links += calls;
  made->dial(self.addresses[draw.below(self.addresses.size())], calls);
  net.at(until, [this, made] {
    std::ranges::find(unproven_peers_, made, [](const caller& one) {
      return one.who.get();
    })->who = {};
  });
}

void tree_world::end_of(place& at) {
  if (!at.process)
    return;
  book.killed(at.process->core().self());
  note("node " + at.process->core().self().id.to_hex() + " ends");
  at.slot.drop();
  at.process.reset();
}

void tree_world::start_later(std::size_t index, std::chrono::nanoseconds after) {
  net.at(net.now() + after, [this, index] {
    if (!places_[index].process)
      start(index);
  });
}

void tree_world::kill(std::size_t index, std::chrono::nanoseconds back_after, bool unseen) {
  if (!is_running(index))
    return;
  if (unseen)
    places_[index].process->channels().fall_silent();
  end_of(places_[index]);
  start_later(index, back_after);
}

void tree_world::stop(std::size_t index, std::chrono::nanoseconds until) {
  if (is_running(index))
    places_[index].process->stop_until(until);
}

void tree_world::part_from_parent(std::size_t index, std::chrono::nanoseconds until) {
  if (index == 0)
    return;
  const bus_id one = nodes_[index].id;
  const bus_id other = nodes_[nodes_[index].parent].id;
  net.separate(one, other);
  net.at(until, [this, one, other] { net.join(one, other); });
}

void tree_world::bury_doomed() {
  for (std::size_t index = 0; index < size(); ++index) {
    place& at = places_[index];
    if (!at.doomed || !at.process || at.process->core().dispatching())
      continue;
    end_of(at);
    start_later(index, draw.time(1s));
  }
}

void tree_world::run_until(std::chrono::nanoseconds when) {
  while (net.now() < when && book.fault().empty()) {
    net.run_until(std::min(net.now() + 250ms, when));
    bury_doomed();
  }
}

bool tree_world::is_gone(const endpoint& of) const {
  const auto found = by_id_.find(of.id().value());
  return of.connected() && found != by_id_.end() &&
         places_[found->second].process->core().self().incarnation != of.incarnation();
}

// Both ends know: the child of a link that its parent has ended may not have seen that yet.
bool tree_world::knows_its_children(std::size_t index) const {
  std::set<std::uint64_t> known;
  for (const endpoint& one : places_[index].process->core().endpoints()) {
    if (one.connected())
      known.insert(one.id().value());
  }
  return std::ranges::all_of(nodes_[index].children, [&](std::size_t child) {
    return known.contains(nodes_[child].id.value());
  });
}

bool tree_world::is_connected() {
  if (net.has_unnoticed_cuts())
    return false;
  for (std::size_t index = 0; index < size(); ++index) {
    if (!is_running(index))
      return false;
    const bus_id parent = index == 0 ? bus_id{} : nodes_[nodes_[index].parent].id;
    if (places_[index].process->user().parent() != parent || !knows_its_children(index))
      return false;
  }
  return std::ranges::none_of(places_, [this](const place& at) {
    return std::ranges::any_of(at.process->core().endpoints(),
                               [this](const endpoint& one) { return is_gone(one); });
  });
}

bool tree_world::is_quiet() {
  return std::ranges::all_of(places_,
                             [](const place& at) {
                               return at.process && at.owed.empty() && at.process->core().settled();
                             }) &&
         book.all_settled() && is_connected();
}

std::chrono::nanoseconds tree_world::run_until_quiet(std::chrono::nanoseconds longest) {
  const std::chrono::nanoseconds began = net.now();
  while (book.fault().empty() && !is_quiet() && net.now() < began + longest)
    run_until(net.now() + 250ms);
  if (book.fault().empty() && !is_quiet()) {
    for (std::size_t index = 0; index < size(); ++index) {
      const std::string name = "node " + std::to_string(index);
      if (!is_running(index))
        book.fail(name + " does not run");
      else if (index != 0 && places_[index].process->user().parent() == bus_id{})
        book.fail(name + " does not find its parent");
      else if (!places_[index].owed.empty())
        book.fail(name + " waits for ever for room for node " +
                  name_of(bus_id{*places_[index].owed.begin()}));
      else if (std::ranges::any_of(places_[index].process->core().endpoints(),
                                   [this](const endpoint& one) { return is_gone(one); }))
        book.fail(name + " goes on talking to one that is gone");
    }
    book.check_settled();
    book.fail("not all of it is connected and settled");
  }
  return net.now() - began;
}

void tree_world::check_ways(std::size_t probes) {
  const auto probe = [&](std::size_t from, std::size_t to) {
    // It would break off links that are full, also those that others' messages take.
    if (options_[from].overflow() == overflow_policy::disconnect)
      return;
    const std::size_t length = std::min<std::size_t>({40, limit_of(from), limit_of(to)});
    if (const status sent = send(from, to, length, 0); !sent && sent != errc::would_block)
      book.fail("node " + std::to_string(from) + " can't send to " + std::to_string(to) + ": " +
                sent.text());
  };
  // In a deep tree few pairs are too far from each other.
  if (size() * (size() - 1) <= probes || is_deep_) {
    for (std::size_t from = 0; from < size(); ++from) {
      for (std::size_t to = 0; to < size(); ++to) {
        if (from != to)
          probe(from, to);
      }
    }
  } else {
    for (std::size_t i = 0; i < probes; ++i) {
      const std::size_t from = draw.below(size());
      probe(from, (from + 1 + draw.below(size() - 1)) % size());
    }
  }
  probes_took = run_until_quiet(30s);
}

void tree_world::check_nobody(std::size_t probes) {
  for (std::size_t i = 0; i < probes; ++i) {
    // Near to somebody, or far from all.
    const std::uint64_t id = nodes_[draw.below(size())].id.value() ^ std::uint64_t{1}
                                                                         << draw.below(64);
    const std::size_t from = draw.below(size());
    if (id == 0 || by_id_.contains(id))
      continue;
    const std::size_t length = std::min<std::size_t>(40, limit_of(from));
    if (const status sent = send_to(from, bus_id{id}, length, 0);
        !sent && sent != errc::no_route && sent != errc::would_block)
      book.fail("node " + std::to_string(from) + " can't send to nobody: " + sent.text());
  }
  (void)run_until_quiet(30s);
}

void tree_world::check_broadcasts(std::size_t probes) {
  for (; probes != 0; --probes) {
    const std::size_t from = draw.below(size());
    const node_instance self = places_[from].process->core().self();
    const tree_node& near = nodes_[draw.below(size())];
    const id_range to = near.range && draw.one_in(2) ? *near.range : id_range{};
    const std::size_t length = std::min<std::size_t>(1 + draw.below(2000), limit_of(from));
    const auto expects = [&](std::size_t index) {
      return index != from && to.contains(nodes_[index].id) && limit_of(index) >= length &&
             !may_be_too_far(from, index);
    };
    broadcast(from, to, length);
    run_until(net.now() + 3s);
    for (std::size_t index = 0; index < size(); ++index) {
      if (expects(index) && !book.was_reached(self, book.broadcasts_of(self), nodes_[index].id))
        book.fail("a broadcast of node " + std::to_string(from) + " to " + to.to_string() +
                  " has not come to node " + std::to_string(index));
    }
  }
}

std::uint64_t tree_world::polls() const {
  std::uint64_t all = 0;
  for (const place& at : places_)
    all += at.process->polls;
  return all;
}

// Nothing is to be done but for pings of links and circuits, each passed on by a few nodes.
void tree_world::check_idle() {
  constexpr std::chrono::nanoseconds time = 10s;
  std::uint64_t links = 0;
  for (const place& at : places_)
    links += at.process->core().endpoints().size();
  const std::uint64_t before = polls();
  run_until(net.now() + time);
  const std::uint64_t count = polls() - before;
  if (count > 40 * (time / 1s) * links)
    book.fail("idle nodes were polled " + std::to_string(count) + " times in 10 s");
}

// A node knows whom it has talked to, its children, its parent, and the parent's other children.
std::size_t tree_world::most_known(std::size_t index) const {
  return places_[index].partners.size() + nodes_[index].children.size() +
         nodes_[nodes_[index].parent].children.size() + 1;
}

void tree_world::check_memory() {
  for (std::size_t index = 0; index < size(); ++index) {
    const place& at = places_[index];
    if (!at.process)
      continue;
    const std::string name = "node " + std::to_string(index);
    if (at.process->core().stats().violations > at.unproven_links)
      book.fail(name + " has found breaches of the protocol");
    const std::size_t known = at.process->core().endpoints().size();
    if (known > most_known(index))
      book.fail(name + " knows " + std::to_string(known) + " nodes, but has talked to " +
                std::to_string(at.partners.size()));
    for (const auto& one : at.process->channels().links()) {
      if (one->queued() > 512 * 1024)
        book.fail(name + " keeps " + std::to_string(one->queued()) + " bytes in a link");
    }
  }
}

void tree_world::check_links(std::size_t to_each) {
  for (std::size_t index = 0; index < size(); ++index) {
    const std::size_t links = places_[index].process->channels().links().size();
    std::size_t allowed = to_each * most_known(index);
    for (const caller& one : unproven_peers_) {
      if (one.whom == index && net.now() < one.forgotten_at)
        allowed += one.links;
    }
    if (links > allowed)
      book.fail("node " + std::to_string(index) + " has " + std::to_string(links) + " links");
  }
}

void tree_world::check_leaving() {
  faults_are_over_ = false;
  for (place& at : places_) {
    if (!at.process)
      continue;
    book.leaves(at.process->core().self());
    at.process->core().leave();
    at.process->wake();
    run_until(net.now() + 1ms);
  }
  run_until(net.now() + 5s);
  for (std::size_t index = 0; index < size(); ++index) {
    if (places_[index].process && !places_[index].process->core().has_left())
      book.fail("node " + std::to_string(index) + " does not leave");
  }
  book.check_settled();
}

}  // namespace atbus::detail
