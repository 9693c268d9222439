// What is checked while a run goes on, and at its end.
#include "simulation/node/node_world.h"

namespace atbus::detail {
namespace {

// Of sizes that may be as large as a size can be.
std::size_t sum(std::size_t left, std::size_t right) {
  return left + std::min(right, test::largest_size - left);
}

}  // namespace

// Nothing leaves a queue without a link, but for what is dropped and reported.
void node_world::check_waiting(std::size_t from, std::size_t to, std::size_t size) {
  place& at = places_[from];
  const node_options& options = plan_.options[from];
  std::size_t& waiting = at.waiting[id_of(to).value()];
  const bool reports =
      options.overflow() != overflow_policy::would_block || options.message_deadline() != 0ns;
  // A successor finds some of it in memory.
  const std::size_t open = book_.open_bytes(at.process->core().self(), id_of(to));
  waiting = reports || has_link(from, to) ? 0 : std::min(waiting + size, open);
  if (book_.has_been_short(at.process->core().self()))
    waiting = 0;  // what it reports may not be heard
  if (waiting > sum(options.send_buffer_size(), size))
    book_.fail("node " + id_of(from).to_string() + " lets " + std::to_string(waiting) +
               " bytes wait for " + id_of(to).to_string());
}

// For each peer: what one link queues, and what the node keeps itself; what one link leaves comes back.
void node_world::check_memory() {
  if (plan_.hopeless)
    return;  // pings that nobody answers may fill a queue that has no bound
  for (std::size_t from = 0; from < places_.size(); ++from) {
    if (!places_[from].process || places_[from].doomed)
      continue;
    simulated_node& process = *places_[from].process;
    const std::string name = "node " + id_of(from).to_string();
    std::size_t queued = 0;
    const auto& links = process.channels().links();
    for (const auto& one : links)
      queued += one->queued();
    if (queued >
        (plan_.nodes - 1 + repeating_peers_.size()) * (link_queue + test::largest_message) +
            links.size() * (control_reserve + most_overhead))
      book_.fail(name + " queues " + std::to_string(queued) + " bytes in its links");
    // What is dropped waits for its report until the next poll.
    const overflow_policy overflow = plan_.options[from].overflow();
    if (overflow == overflow_policy::drop_newest || overflow == overflow_policy::drop_oldest ||
        book_.has_been_short(process.core().self()))
      continue;
    const std::size_t most =
        sum(link_queue + 2 * test::largest_message, plan_.options[from].send_buffer_size());
    for (std::size_t to = 0; to < places_.size(); ++to) {
      if (const std::size_t open = book_.open_bytes(process.core().self(), id_of(to)); open > most)
        book_.fail(name + " keeps " + std::to_string(open) + " bytes for " + id_of(to).to_string());
    }
  }
}

// Only an unproven peer breaks the protocol, and once for each link.
void node_world::check_violations() {
  const auto check = [this](simulated_node& of) {
    const node_instance self = of.core().self();
    const std::uint64_t found = of.core().stats().violations;
    if (found > places_[self.id.value() - 1].unproven_links)
      book_.fail("node " + self.id.to_string() + " has found " + std::to_string(found) +
                 " breaches of the protocol");
  };
  for (const place& at : places_) {
    if (at.process && !at.doomed)
      check(*at.process);
  }
  for (const auto& one : outliving_)
    check(*one);
}

// With nothing wrong a broadcast reaches all to whom there is a link.
void node_world::check_broadcasts() {
  for (std::size_t from = 0; from < places_.size(); ++from) {
    const node_instance self = places_[from].process->core().self();
    std::size_t size = places_[from].message_limit;
    std::vector<std::size_t> linked;
    for (std::size_t to = 0; to < places_.size(); ++to) {
      if (to == from || !is_connected(from, to))
        continue;
      linked.push_back(to);
      size = std::min(size, places_[to].message_limit);
    }
    const std::uint64_t before = book_.broadcast_count();
    broadcast(from, id_range{}, std::min<std::size_t>(size, 1000));
    if ((book_.broadcast_count() != before) == linked.empty())
      return book_.fail("node " + self.id.to_string() +
                        " refuses to broadcast, or does without a link");
    net_.run_for(3s);
    for (const std::size_t to : linked) {
      if (!book_.was_reached(self, book_.broadcasts_of(self), id_of(to)))
        book_.fail("a broadcast of node " + self.id.to_string() + " has not come to node " +
                   id_of(to).to_string());
    }
  }
}

bool node_world::is_connected(std::size_t from, std::size_t to) {
  const auto all = places_[from].process->core().endpoints();
  return std::any_of(all.begin(), all.end(),
                     [&](const endpoint& one) { return one.id() == id_of(to) && one.connected(); });
}

// Also one that waits for the next process.
bool node_world::has_link(std::size_t from, std::size_t to) {
  const auto all = places_[from].process->core().endpoints();
  return std::any_of(all.begin(), all.end(), [&](const endpoint& one) {
    return one.id() == id_of(to) && !one.address().empty();
  });
}

// What nodes have counted for want of memory to report it.
void node_world::count_unreported() {
  const auto count = [this](simulated_node& of) {
    const node_stats stats = of.core().stats();
    book_.counted(of.core().self(), stats.not_delivered + stats.outcome_unknown);
  };
  for (const place& at : places_) {
    if (at.process && at.process->user().is_open())
      count(*at.process);
  }
}

bool node_world::is_quiet() {
  count_unreported();
  if (net_.has_unnoticed_cuts())
    return false;
  for (std::size_t from = 0; from < places_.size(); ++from) {
    if (!places_[from].process || places_[from].doomed)
      return false;
    node_core& core = places_[from].process->core();
    for (std::size_t to = 0; to < places_.size(); ++to) {
      if (places_[from].dials[to] && !is_connected(from, to))
        return false;
    }
    if (!core.settled() || !places_[from].owed.empty())
      return false;
  }
  return book_.all_settled();
}

// Nothing is to be done but for a ping now and then.
void node_world::check_idle() {
  std::uint64_t before = 0;
  for (const place& at : places_)
    before += at.process->polls;
  constexpr std::chrono::nanoseconds time = 10s;
  net_.run_for(time);
  std::uint64_t after = 0;
  for (const place& at : places_)
    after += at.process->polls;
  // For each link a second: a ping, a pong, their acknowledgements, both ways.
  if (after - before > 20 * (time / 1s) * plan_.nodes)
    book_.fail("idle nodes were polled " + std::to_string(after - before) + " times in 10 s");
}

void node_world::finish() {
  faults_are_over_ = true;
  for (place& at : places_)
    at.short_polls = 0;
  net_.conditions = {.queue_size = link_queue};
  const auto looked = [this] {
    bury_doomed();
    return !book_.fault().empty() || is_quiet();
  };
  // Often enough: each look costs more than what happens in between.
  const std::chrono::nanoseconds began = net_.now();
  const std::chrono::nanoseconds end = began + longest_recovery;
  while (!plan_.hopeless && !looked() && net_.now() < end)
    net_.run_for(250ms);
  recovery_ = net_.now() - began;
  if (!plan_.hopeless && !is_quiet()) {
    book_.check_settled();
    for (const place& at : places_) {
      if (at.process && !at.owed.empty())
        book_.fail("a node waits for room for ever");
    }
    book_.fail("not all of it is connected and settled");
  }
  if (book_.fault().empty() && !plan_.hopeless)
    check_idle();
  if (book_.fault().empty() && !plan_.hopeless)
    check_broadcasts();
  check_violations();
  for (place& at : places_) {
    if (!at.process)
      continue;
    book_.leaves(at.process->core().self());
    at.process->core().leave();
    at.process->wake();
    net_.run_for(100ms);
  }
  net_.run_for(5s);
  bury_doomed();
  count_unreported();
  for (const place& at : places_) {
    if (at.process && !at.process->core().has_left())
      book_.fail("node " + at.process->core().self().id.to_string() + " does not leave");
  }
  book_.check_settled();
}

}  // namespace atbus::detail
