// Runs a scenario: the nodes' processes, what they do in handlers, the faults, and the checks.
#include <ostream>
#include <set>

#include "ledger.h"
#include "repeating_peer.h"
#include "simulation/node/scenario.h"
#include "testing/simulated_link.h"
#include "testing/simulated_network.h"
#include "testing/simulated_node.h"
#include "unproven_peer.h"

namespace atbus::detail {

namespace {

constexpr std::chrono::nanoseconds longest_recovery = 120s;
// Bytes, of each link.
constexpr std::size_t link_queue = 64 * 1024;
constexpr std::size_t control_reserve = 16 * 1024;
// Bytes, of what a link or a node adds to a message.
constexpr std::size_t most_overhead = 256;
constexpr bus_id first_repeating_peer{1000};

// Of sizes that may be as large as a size can be.
std::size_t sum(std::size_t left, std::size_t right) {
  return left + std::min(right, test::largest_size - left);
}

class world {
 public:
  world(const scenario& all, std::ostream* trace)
      : plan_(all), trace_(trace), net_(all.seed * 2 + 1), random_(all.seed) {
    places_.resize(all.nodes);
    usual_.queue_size = link_queue;
    if (all.crowded) {
      usual_.delay_max = 300ms;
      usual_.kernel_holds = 1000;
      usual_.queue_size = 5000;
    }
    net_.conditions = usual_;
  }

  test::run_result run();

 private:
  // Where a node of some id runs: one process after another.
  struct place {
    std::unique_ptr<simulated_node> process;
    std::uint64_t incarnations = 0;
    bool doomed = false;  // its handler has ended it
    std::size_t message_limit = 0;
    std::uint64_t unproven_links = 0;  // links of theirs to any of its lives
    std::vector<bool> dials;
    std::set<std::uint64_t> owed;  // to whom on_writable is owed
    // Bytes that were accepted for each since there was a link.
    std::map<std::uint64_t, std::size_t> waiting;
    std::vector<std::string> more_addresses;
    bool opens_name = true;  // this process
  };

  [[nodiscard]] static bus_id id_of(std::size_t index) { return bus_id{index + 1}; }
  [[nodiscard]] static std::string address_of(std::size_t index, way to);
  void note(const std::string& text);
  void start(std::size_t index);
  void set_handlers(std::size_t index, node_core& core);
  void on_message(std::size_t index, node_core& core, const message& what);
  void send(std::size_t from, std::size_t to, std::uint64_t size, std::uint32_t hops);
  void send_many(const scenario_event& how);
  void part(const scenario_event& how);
  void broadcast(std::size_t from, const id_range& to, std::size_t size);
  void broadcast_many(const scenario_event& how);
  [[nodiscard]] std::size_t draw_size(std::size_t from, std::size_t to, std::size_t most);
  void meet_unproven_peer(const scenario_event& how);
  void meet_repeating_peer(const scenario_event& how);
  void on_repeated(const node_core& core, const message& what);
  void check_violations();
  void check_broadcasts();
  void ask(std::size_t from, std::size_t to, std::uint64_t size);
  void on_command(node_core& core, std::chrono::nanoseconds born, command& asked);
  void check_waiting(std::size_t from, std::size_t to, std::size_t size);
  void check_memory();
  [[nodiscard]] bool is_connected(std::size_t from, std::size_t to);
  [[nodiscard]] bool has_link(std::size_t from, std::size_t to);
  void listen(std::size_t index, const std::string& address);
  void connect(std::size_t from, std::size_t to, way by);
  void disconnect(std::size_t from, std::size_t to, std::chrono::nanoseconds back_after);
  void end(std::size_t index);
  void end_of(std::unique_ptr<simulated_node>& process);
  void restart(const scenario_event& how);
  void happen(const scenario_event& one);
  void bury_doomed();
  [[nodiscard]] bool is_quiet();
  void check_idle();
  void finish();
  std::uint64_t draw(std::uint64_t limit) { return random_() % limit; }

  const scenario& plan_;
  std::ostream* trace_;
  simulated_network net_;
  network_conditions usual_;
  std::mt19937_64 random_;
  ledger book_;
  std::vector<place> places_;
  std::vector<std::unique_ptr<simulated_node>> outliving_;
  std::vector<std::unique_ptr<unproven_peer>> unproven_peers_;
  std::vector<std::unique_ptr<repeating_peer>> repeating_peers_;
  std::uint64_t repeating_peers_met_ = 0;
  // The number of the last message that each process has had of each of them.
  std::map<std::array<std::uint64_t, 3>, std::uint32_t> had_of_repeating_peers_;
  bool faults_are_over_ = false;
  std::vector<command> unanswered_;
  std::vector<std::chrono::nanoseconds> deadlines_;  // of commands
  std::uint64_t calls_ = 0;                          // of broadcasts
  std::uint64_t calls_ended_ = 0;
  std::uint64_t commands_ = 0;
  std::uint64_t commands_ended_ = 0;
  std::chrono::nanoseconds recovery_{0};
};

void world::note(const std::string& text) {
  if (trace_ != nullptr)
    *trace_ << (net_.now() - 1s) / 1us << " us  " << text << '\n';
}

std::string world::address_of(std::size_t index, way to) {
  const std::string number = std::to_string(index + 1);
  constexpr std::array<const char*, 4> kinds{"ipv4://10.0.0.", "unix:///node", "shm://node",
                                             "mem://node"};
  return kinds[static_cast<std::size_t>(to)] + number + (to == way::tcp ? ":7000" : "");
}

void world::start(std::size_t index) {
  if (plan_.hopeless && faults_are_over_)
    return;
  place& at = places_[index];
  host_identity host{};
  host[0] = static_cast<std::byte>(plan_.one_host ? 1 : index + 1);
  ++at.incarnations;
  at.doomed = false;
  at.owed.clear();
  at.waiting.clear();
  at.dials = plan_.dials[index];
  at.opens_name = !plan_.nameless || at.incarnations == 1 || draw(2) == 0;
  bool forgetful = false;
  for (const node_options& one : plan_.options)
    forgetful = forgetful || one.sessions() < 16;
  node_options options = plan_.options[index];
  const auto& limits = plan_.message_limits[index];
  at.message_limit = limits[at.incarnations % limits.size()];
  options.message_limit(at.message_limit);
  at.process = std::make_unique<simulated_node>(net_, id_of(index), options, host);
  node_core& core = at.process->core();
  book_.born(core.self(), {.deadline = options.message_deadline() != 0ns,
                           .drops = options.overflow() != overflow_policy::would_block,
                           .forgetful = forgetful,
                           .message_limit = at.message_limit});
  note("node " + core.self().id.to_string() + " begins");
  set_handlers(index, core);
  for (const way one : plan_.ways)
    listen(index, address_of(index, one));
  for (const std::string& one : at.more_addresses)
    listen(index, one);
  at.process->limits.messages = 1 + draw(64);
  for (std::size_t other = 0; other < plan_.nodes; ++other) {
    if (!plan_.dials[index][other])
      continue;
    for (const way one : plan_.ways)
      connect(index, other, one);
  }
}

void world::set_handlers(std::size_t index, node_core& core) {
  const node_instance self = core.self();
  node_handlers& on = core.handlers();
  on.on_message = [this, index, &core](const message& what) { on_message(index, core, what); };
  on.on_command = [this, &core, born = net_.now()](command& asked) {
    on_command(core, born, asked);
  };
  on.on_undelivered = [this, index, self](const undelivered& what) {
    book_.reported(self, what);
    if (what.reason() == errc::peer_closed)  // nothing waits any more: it was given up
      places_[index].waiting.erase(what.destination().value());
    if (trace_ != nullptr) {
      note(self.id.to_string() + " is told: " + std::to_string(what.number()) + " to " +
           what.destination().to_string() + " " + std::string{name(what.outcome())} + " (" +
           std::string{name(what.reason())} + ")");
    }
  };
  on.on_writable = [this, index, self](bus_id to) {
    places_[index].owed.erase(to.value());
    note(self.id.to_string() + " may write to " + to.to_string());
  };
  on.on_endpoint = [this, index, self, &core](const endpoint& of, endpoint_event event) {
    if (event == endpoint_event::connected)
      places_[index].waiting.erase(of.id().value());
    note(self.id.to_string() + ": " + of.id().to_string() + " is " + std::string{name(event)});
    const bool is_lost = event == endpoint_event::disconnected || event == endpoint_event::away ||
                         event == endpoint_event::superseded;
    if (plan_.calm && !faults_are_over_ && is_lost)
      book_.fail("node " + self.id.to_string() + " is told that " + of.id().to_string() + " is " +
                 std::string{name(event)} + ", and nothing was wrong but unproven peers");
    place& at = places_[index];
    if (event != endpoint_event::superseded || !at.process || &at.process->core() != &core)
      return;
    at.doomed = true;  // only another incarnation is let in again
    core.close();
  };
  if (trace_ == nullptr)
    return;
  on.on_log = [this, self](std::string_view line) {
    note(self.id.to_string() + " logs: " + std::string{line});
  };
}

void world::on_message(std::size_t index, node_core& core, const message& what) {
  if (what.source() >= first_repeating_peer)
    return on_repeated(core, what);
  book_.delivered(core.self(), what);
  const auto source = static_cast<std::size_t>(what.source().value() - 1);
  if (trace_ != nullptr)
    note(core.self().id.to_string() + " receives " + ledger::number_of(what) + " of " +
         what.source().to_string() + (what.redelivered() ? " again" : ""));
  place& at = places_[index];
  if (!at.process || &at.process->core() != &core || source >= plan_.nodes)
    return;  // an old incarnation goes on
  if (what.type() != 0 && !ledger::is_short(what.type()) && draw(3) == 0)
    send(index, source, 30 + draw(200), what.type() - 1);
  if (faults_are_over_ || plan_.calm)
    return;
  if (draw(400) == 0)
    disconnect(index, source, std::chrono::nanoseconds{draw(2'000'000'000)});
  if (draw(800) == 0) {
    note(core.self().id.to_string() + " ends in its handler");
    at.doomed = true;
    core.close();
  }
}

void world::send(std::size_t from, std::size_t to, std::uint64_t size, std::uint32_t hops) {
  place& at = places_[from];
  if (!at.process || at.doomed)
    return;
  const node_instance self = at.process->core().self();
  const ledger_message made = book_.next(self, id_of(to), hops, size);
  const auto policy = draw(8) == 0 ? delivery_policy::require : delivery_policy::report;
  const status sent = at.process->user().send(id_of(to), made.type, made.bytes, policy);
  if (!at.process->core().dispatching())
    at.process->wake();
  if (sent) {
    book_.accepted(self, id_of(to), size, policy);
    check_waiting(from, to, size);
    if (size > at.message_limit)
      book_.fail("node " + self.id.to_string() + " accepts a message that is too long");
  } else if (sent == errc::would_block) {
    at.owed.insert(id_of(to).value());
  } else if (sent == errc::message_too_large) {
    if (size <= std::min(at.message_limit, book_.limit_of(id_of(to))))
      book_.fail("node " + self.id.to_string() + " refuses " + std::to_string(size) +
                 " bytes, which are not too many");
  } else if (sent != errc::no_route && sent != errc::not_connected &&
             !(sent == errc::closed && faults_are_over_)) {
    book_.fail("node " + self.id.to_string() + " can't send: " + sent.text());
  }
}

std::size_t world::draw_size(std::size_t from, std::size_t to, std::size_t most) {
  return test::draw_message_size([this](std::uint64_t limit) { return draw(limit); }, most,
                                 places_[from].message_limit, places_[to].message_limit);
}

void world::send_many(const scenario_event& how) {
  for (std::uint64_t i = 0; i < how.count; ++i) {
    if (draw(8) == 0)
      ask(how.who, how.whom, draw(how.size));
    else
      send(how.who, how.whom, draw_size(how.who, how.whom, how.size),
           static_cast<std::uint32_t>(draw(4)));
  }
}

// What was accepted before is reported; what is sent afterwards waits, if anything, for another link.
void world::part(const scenario_event& how) {
  send_many(how);
  disconnect(how.who, how.whom, how.time);
  send_many(how);
}

void world::broadcast(std::size_t from, const id_range& to, std::size_t size) {
  place& at = places_[from];
  if (!at.process || at.doomed)
    return;
  const node_instance self = at.process->core().self();
  const ledger_message made = book_.next_broadcast(self, size);
  status sent;
  if (draw(2) == 0) {
    sent = at.process->user().broadcast(to, made.type, made.bytes);
  } else {
    const auto number = std::make_shared<std::uint64_t>(0);
    const auto timeout = std::chrono::nanoseconds{draw(3) == 0 ? 0 : draw(2'000'000'000)};
    sent = at.process->user().broadcast(to, made.type, made.bytes, timeout,
                                        [this, self, number](const std::vector<bus_id>& whom) {
                                          ++calls_ended_;
                                          book_.reached(self, *number, whom);
                                        });
    if (sent) {
      ++calls_;
      *number = book_.accepted_broadcast(self, to);
    }
    if (!at.process->core().dispatching())
      at.process->wake();
    return;
  }
  if (sent)
    (void)book_.accepted_broadcast(self, to);
  if (!at.process->core().dispatching())
    at.process->wake();
}

void world::broadcast_many(const scenario_event& how) {
  for (std::uint64_t i = 0; i < how.count; ++i) {
    const std::uint64_t bits = draw(4);  // ids are 1 to 3
    const bus_id prefix{id_of(draw(plan_.nodes)).value() >> bits << bits};
    broadcast(how.who, *id_range::make(prefix, 64 - static_cast<unsigned>(bits)),
              draw_size(how.who, how.whom, how.size));
  }
}

void world::ask(std::size_t from, std::size_t to, std::uint64_t size) {
  place& at = places_[from];
  if (!at.process || at.doomed)
    return;
  constexpr auto for_ever = std::chrono::nanoseconds::max();
  std::chrono::nanoseconds timeout{draw(10'000'000'000)};
  if (draw(16) == 0)
    timeout = draw(2) == 0 ? 0ns : for_ever;
  const std::string number = std::to_string(deadlines_.size());
  deadlines_.push_back(moment_after(net_.now(), timeout));
  const auto ended = [this, to, times = std::make_shared<int>(0)](status how,
                                                                  const command_reply& reply) {
    ++commands_ended_;
    if (++*times != 1)
      book_.fail("a command to node " + id_of(to).to_string() + " ended twice");
    if (how && reply.text() != id_of(to).to_string())
      book_.fail("node " + id_of(to).to_string() + " was asked, " + std::string{reply.text()} +
                 " has answered");
  };
  if (at.process->user().command(id_of(to), {"who", number, std::string(size, 'x')}, timeout,
                                 ended))
    ++commands_;
  if (!at.process->core().dispatching())
    at.process->wake();
}

// Answers at once, later, or never.
void world::on_command(node_core& core, std::chrono::nanoseconds born, command& asked) {
  if (asked.name() != "who" || asked.arguments().size() != 2)
    return book_.fail("a command has become another one");
  if (born > deadlines_.at(std::stoull(asked.arguments()[0])))
    book_.fail("node " + core.self().id.to_string() +
               " carries out a command whose time was over before it began");
  if (draw(3) == 0)
    unanswered_.push_back(asked.detach());
  else
    asked.reply(core.self().id.to_string());
  if (unanswered_.size() < 2 || draw(2) == 0)
    return;
  {
    command late = std::move(unanswered_[draw(unanswered_.size())]);
    std::erase_if(unanswered_, [](const command& one) { return one.name().empty(); });
    if (draw(2) == 0)
      late.fail("no");
  }
  // Its node may be another one, and has something to send now.
  const auto wake = [](simulated_node& of) {
    if (of.user().is_open() && !of.core().dispatching())
      of.wake();
  };
  for (const place& at : places_) {
    if (at.process)
      wake(*at.process);
  }
  for (const auto& one : outliving_)
    wake(*one);
}

// Nothing leaves a queue without a link, but for what is dropped and reported.
void world::check_waiting(std::size_t from, std::size_t to, std::size_t size) {
  place& at = places_[from];
  const node_options& options = plan_.options[from];
  std::size_t& waiting = at.waiting[id_of(to).value()];
  const bool reports =
      options.overflow() != overflow_policy::would_block || options.message_deadline() != 0ns;
  waiting = reports || has_link(from, to) ? 0 : waiting + size;
  if (waiting > sum(options.send_buffer_size(), size))
    book_.fail("node " + id_of(from).to_string() + " lets " + std::to_string(waiting) +
               " bytes wait for " + id_of(to).to_string());
}

// For each peer: what one link queues, and what the node keeps itself; what one link leaves comes back.
void world::check_memory() {
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
    if (overflow == overflow_policy::drop_newest || overflow == overflow_policy::drop_oldest)
      continue;
    const std::size_t most =
        sum(link_queue + 2 * test::largest_message, plan_.options[from].send_buffer_size());
    for (std::size_t to = 0; to < places_.size(); ++to) {
      if (const std::size_t open = book_.open_bytes(process.core().self(), id_of(to)); open > most)
        book_.fail(name + " keeps " + std::to_string(open) + " bytes for " + id_of(to).to_string());
    }
  }
}

// An old incarnation may hold the address for a while.
void world::listen(std::size_t index, const std::string& address) {
  place& at = places_[index];
  if (!at.process || at.doomed || (!at.opens_name && address.starts_with("shm://")))
    return;
  const auto made = at.process->core().listen(address);
  at.process->wake();
  if (made || !(made.error() == errc::receiver_exists) || faults_are_over_)
    return;
  net_.at(net_.now() + 500ms, [this, index, address, instance = at.incarnations] {
    if (places_[index].incarnations == instance)
      listen(index, address);
  });
}

void world::connect(std::size_t from, std::size_t to, way by) {
  place& at = places_[from];
  if (!at.process || at.doomed)
    return;
  at.dials[to] = true;
  book_.wanted(at.process->core().self(), id_of(to), true);
  if (error bad = at.process->core().connect(id_of(to), address_of(to, by)); !bad)
    book_.fail("connect: " + bad.text());
  if (!at.process->core().dispatching())
    at.process->wake();
}

void world::disconnect(std::size_t from, std::size_t to, std::chrono::nanoseconds back_after) {
  place& at = places_[from];
  if (!at.process || at.doomed)
    return;
  note("node " + std::to_string(from + 1) + " disconnects " + std::to_string(to + 1));
  const bool dialled = at.dials[to];
  at.dials[to] = false;
  at.owed.erase(id_of(to).value());
  at.waiting.erase(id_of(to).value());
  book_.wanted(at.process->core().self(), id_of(to), false);
  (void)at.process->core().disconnect(id_of(to));
  if (!at.process->core().dispatching())
    at.process->wake();
  const std::uint64_t instance = at.incarnations;
  if (dialled) {
    net_.at(std::min(net_.now() + back_after, 1s + plan_.faults_end), [this, from, to, instance] {
      if (places_[from].incarnations == instance)
        connect(from, to, plan_.ways.front());
    });
  }
}

void world::end_of(std::unique_ptr<simulated_node>& process) {
  if (!process)
    return;
  book_.killed(process->core().self());
  note("node " + process->core().self().id.to_string() + " ends");
  process.reset();
}

void world::bury_doomed() {
  for (std::size_t index = 0; index < places_.size(); ++index) {
    if (places_[index].doomed && places_[index].process &&
        !places_[index].process->core().dispatching()) {
      end_of(places_[index].process);
      net_.at(net_.now() + std::chrono::nanoseconds{draw(1'000'000'000)}, [this, index] {
        if (!places_[index].process)
          start(index);
      });
    }
  }
}

void world::restart(const scenario_event& how) {
  place& at = places_[how.who];
  if (!at.process || at.doomed)
    return;
  if (how.what != happening::kill)
    at.process->channels().fall_silent();
  if (how.what == happening::outlive) {
    book_.seemed_dead(id_of(how.who));
    outliving_.push_back(std::move(at.process));
    const simulated_node* const old = outliving_.back().get();
    net_.at(std::min(net_.now() + 10 * how.time, 1s + plan_.faults_end), [this, old] {
      const auto found = std::find_if(outliving_.begin(), outliving_.end(),
                                      [&](const auto& one) { return one.get() == old; });
      end_of(*found);
      outliving_.erase(found);
    });
  } else {
    end_of(at.process);
  }
  const std::size_t index = how.who;
  net_.at(std::min(net_.now() + how.time, 1s + plan_.faults_end), [this, index] {
    if (!places_[index].process)
      start(index);
  });
}

void world::happen(const scenario_event& one) {
  if (trace_ != nullptr && one.what != happening::send)
    note(std::string{"-- "} + name(one.what) + " " + std::to_string(one.who + 1));
  place& at = places_[one.who];
  const std::chrono::nanoseconds until = std::min(net_.now() + one.time, 1s + plan_.faults_end);
  const auto restore = [&](auto network_conditions::*field) {
    net_.at(until, [this, field] { net_.conditions.*field = usual_.*field; });
  };
  switch (one.what) {
    case happening::send:
      send_many(one);
      return check_memory();
    case happening::cut:
      if (const std::size_t links = net_.links(); links != 0)
        net_.cut(one.count % links, static_cast<seen_by>(one.size % 3));
      return;
    case happening::slow:
      net_.conditions.delay_max = one.size * 1ms;
      return restore(&network_conditions::delay_max);
    case happening::refuse:
      net_.conditions.refuses = true;
      return restore(&network_conditions::refuses);
    case happening::swallow:
      net_.conditions.swallows = true;
      return restore(&network_conditions::swallows);
    case happening::narrow:
      net_.conditions.queue_size = 5000;
      net_.conditions.kernel_holds = one.count * 200;
      restore(&network_conditions::queue_size);
      return restore(&network_conditions::kernel_holds);
    case happening::stop:
      if (at.process)
        at.process->stop_until(until);
      return;
    case happening::kill:
    case happening::lose:
    case happening::outlive:
      return restart(one);
    case happening::disconnect:
      return disconnect(one.who, one.whom, one.time);
    case happening::listen:
      if (at.process && !at.doomed && plan_.one_host) {
        at.more_addresses.push_back(address_of(one.who, static_cast<way>(1 + one.count % 3)));
        listen(one.who, at.more_addresses.back());
      }
      return;
    case happening::connect:
      return connect(one.who, one.whom,
                     plan_.one_host ? static_cast<way>(one.count % 4) : way::tcp);
    case happening::broadcast:
      return broadcast_many(one);
    case happening::part:
      return part(one);
    case happening::call:
    case happening::answer:
      return meet_unproven_peer(one);
    case happening::repeat:
      return meet_repeating_peer(one);
    case happening::kinds:
      return;
  }
}

// It speaks in the name of a node that may be connected, in its incarnation that goes on.
void world::meet_unproven_peer(const scenario_event& how) {
  place& at = places_[how.who];
  const place& other = places_[how.whom];
  if (!at.process || at.doomed)
    return;
  const node_instance name =
      other.process ? other.process->core().self() : node_instance{id_of(how.whom), 1};
  host_identity host{};
  host[0] = static_cast<std::byte>(plan_.one_host ? 1 : 100);
  auto made =
      std::make_unique<unproven_peer>(net_, host, name, id_of(how.who), plan_.seed + how.count);
  const unproven_peer* const it = made.get();
  if (how.what == happening::call) {
    at.unproven_links += how.count;
    made->dial(address_of(how.who, plan_.ways[how.size % plan_.ways.size()]), how.count);
  } else if (at.dials[how.whom]) {
    // Each time it is dialled is one more.
    at.unproven_links = std::numeric_limits<std::uint64_t>::max() / 2;
    const std::string where = "ipv4://10.8.0." + std::to_string(1 + how.count) + ":7000";
    made->listen(where);
    (void)at.process->core().connect(id_of(how.whom), where);
    if (!at.process->core().dispatching())
      at.process->wake();
  }
  unproven_peers_.push_back(std::move(made));
  net_.at(std::min(net_.now() + how.time, 1s + plan_.faults_end), [this, it] {
    std::erase_if(unproven_peers_, [&](const auto& one) { return one.get() == it; });
  });
}

// Not where only lanes lead: these know what was handled.
void world::meet_repeating_peer(const scenario_event& how) {
  if (plan_.ways.front() > way::unix_socket)
    return;
  host_identity host{};
  host[0] = static_cast<std::byte>(plan_.one_host ? 1 : 100);
  token_list tokens;
  if (plan_.tokens)
    tokens.push_back(*token::make(as_bytes(test::shared_token)));
  const bus_id id{first_repeating_peer.value() + repeating_peers_met_++};
  auto made = std::make_unique<repeating_peer>(net_, host, id, std::move(tokens), how.count);
  made->dial(address_of(how.who, plan_.ways.front()));
  repeating_peers_.push_back(std::move(made));
  net_.at(std::min(net_.now() + how.time, 1s + plan_.faults_end), [this, id] {
    std::erase_if(repeating_peers_, [&](const auto& one) { return one->id() == id; });
  });
}

// No process gets one twice, or after a later one.
void world::on_repeated(const node_core& core, const message& what) {
  const node_instance& self = core.self();
  std::uint32_t& last =
      had_of_repeating_peers_[{what.source().value(), self.id.value(), self.incarnation}];
  note(self.id.to_string() + " receives " + std::to_string(what.type()) + " of " +
       what.source().to_string() + ", which repeats");
  if (what.type() <= last)
    book_.fail("message " + std::to_string(what.type()) + " of a peer that repeats came to node " +
               self.id.to_string() + " after message " + std::to_string(last));
  last = std::max(last, what.type());
}

// Only an unproven peer breaks the protocol, and once for each link.
void world::check_violations() {
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
void world::check_broadcasts() {
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

bool world::is_connected(std::size_t from, std::size_t to) {
  const auto all = places_[from].process->core().endpoints();
  return std::any_of(all.begin(), all.end(),
                     [&](const endpoint& one) { return one.id() == id_of(to) && one.connected(); });
}

// Also one that waits for the next process.
bool world::has_link(std::size_t from, std::size_t to) {
  const auto all = places_[from].process->core().endpoints();
  return std::any_of(all.begin(), all.end(), [&](const endpoint& one) {
    return one.id() == id_of(to) && !one.address().empty();
  });
}

bool world::is_quiet() {
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
void world::check_idle() {
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

void world::finish() {
  faults_are_over_ = true;
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
  for (const place& at : places_) {
    if (at.process && !at.process->core().has_left())
      book_.fail("node " + at.process->core().self().id.to_string() + " does not leave");
  }
  book_.check_settled();
}

test::run_result world::run() {
  for (std::size_t index = 0; index < plan_.nodes; ++index)
    start(index);
  for (const scenario_event& one : plan_.events)
    net_.at(1s + one.when, [this, one] { happen(one); });
  while (net_.now() < 1s + plan_.faults_end && book_.fault().empty()) {
    net_.run_until(std::min(net_.now() + 250ms, 1s + plan_.faults_end));
    bury_doomed();
    check_memory();
    check_violations();
  }
  if (book_.fault().empty())
    finish();
  unproven_peers_.clear();
  repeating_peers_.clear();
  places_.clear();
  outliving_.clear();
  if (calls_ended_ > calls_)
    book_.fail("a broadcast has ended twice");
  if (commands_ended_ != commands_)
    book_.fail("of " + std::to_string(commands_) + " commands " + std::to_string(commands_ended_) +
               " have ended");
  return {.fault = book_.fault(),
          .messages = book_.accepted_count(),
          .node_time = (net_.now() - 1s) * static_cast<std::int64_t>(plan_.nodes),
          .recovery = recovery_};
}

}  // namespace

test::run_result run(const scenario& all, std::ostream* trace) {
  return world{all, trace}.run();
}

}  // namespace atbus::detail
