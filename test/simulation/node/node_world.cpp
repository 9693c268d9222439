// What happens to the nodes of a run, and what their handlers do.
#include "simulation/node/node_world.h"

namespace atbus::detail {

void node_world::note(const std::string& text) {
  if (trace_ != nullptr)
    *trace_ << (net_.now() - 1s) / 1us << " us  " << text << '\n';
}

std::string node_world::address_of(std::size_t index, way to) {
  const std::string number = std::to_string(index + 1);
  constexpr std::array<const char*, 4> kinds{"ipv4://10.0.0.", "unix:///node", "shm://node",
                                             "mem://node"};
  return kinds[static_cast<std::size_t>(to)] + number + (to == way::tcp ? ":7000" : "");
}

void node_world::start(std::size_t index) {
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
  steps_.born(*at.process, options.restart());
  note("node " + core.self().id.to_string() + " begins");
  set_handlers(index, core);
  if (plan_.starved)
    at.process->instead_of_poll = [this, index](simulated_node& of) {
      poll_short_of_memory(index, of);
    };
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

// Its program goes on after a poll that has thrown.
void node_world::poll_short_of_memory(std::size_t index, simulated_node& of) {
  place& at = places_[index];
  if (at.short_polls == 0) {
    of.user().poll(of.limits);
    return;
  }
  --at.short_polls;
  const node_instance self = of.core().self();
  const std::uint64_t good = draw(std::uint64_t{1} << draw(7));
  const std::uint64_t bad = 1 + draw(at.misses);
  bool thrown = false;
  book_.was_short(self);  // reports may be lost from here on
  try {
    const test::allocation_failure some{good, bad, &foreign_code::runs()};
    of.user().poll(of.limits);
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  if (test::allocation_failure::happened())
    note(self.id.to_string() + " misses allocations behind " + std::to_string(good) +
         (thrown ? ", and throws" : ""));
  if (of.user().is_open())
    of.wake();
}

void node_world::set_handlers(std::size_t index, node_core& core) {
  const node_instance self = core.self();
  node_handlers& on = core.handlers();
  on.on_message = [this, index, &core](const message& what) {
    const foreign_code here;
    look_at_slot(index, core);
    on_message(index, core, what);
  };
  on.on_command = [this, &core, born = net_.now()](command& asked) {
    const foreign_code here;
    on_command(core, born, asked);
  };
  on.on_undelivered = [this, index, self, &core](const undelivered& what) {
    const foreign_code here;
    look_at_slot(index, core);
    book_.reported(self, what);
    if (!plan_.starved)
      steps_.told(self, what);
    if (what.reason() == errc::peer_closed)  // nothing waits any more: it was given up
      places_[index].waiting.erase(what.destination().value());
    if (trace_ != nullptr) {
      note(self.id.to_string() + " is told: " + std::to_string(what.number()) + " to " +
           what.destination().to_string() + " " + std::string{name(what.outcome())} + " (" +
           std::string{name(what.reason())} + ")");
    }
  };
  on.on_writable = [this, index, self, &core](bus_id to) {
    const foreign_code here;
    look_at_slot(index, core);
    places_[index].owed.erase(to.value());
    note(self.id.to_string() + " may write to " + to.to_string());
  };
  on.on_endpoint = [this, index, self, &core](const endpoint& of, endpoint_event event) {
    const foreign_code here;
    look_at_slot(index, core);
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
  if (trace_ == nullptr && !plan_.keeps_slots)
    return;
  on.on_log = [this, index, self, &core](std::string_view line) {
    const foreign_code here;
    look_at_slot(index, core);
    note(self.id.to_string() + " logs: " + std::string{line});
  };
}

void node_world::on_message(std::size_t index, node_core& core, const message& what) {
  if (what.source() >= first_repeating_peer)
    return on_repeated(core, what);
  book_.delivered(core.self(), what);
  if (!plan_.starved)
    steps_.handled(core.self(), what);
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
    const std::uint64_t how = draw(4);
    if (how == 0)
      (void)core.disconnect(what.source());
    else if (how != 1)
      send(index, source, 30, 0);
    if (how != 3)
      core.flush();
    if (!plan_.one_host)  // how much a lane counts as handled then is drawn
      book_.cut_short(what);
    at.doomed = true;
    core.close();
  }
}

void node_world::send(std::size_t from, std::size_t to, std::uint64_t size, std::uint32_t hops) {
  place& at = places_[from];
  if (!at.process || at.doomed)
    return;
  if (plan_.keeps_slots && !faults_are_over_ && slot_random_() % 4 == 0)
    return keep_slot(from, to, size, hops);
  const node_instance self = at.process->core().self();
  const ledger_message made = book_.next(self, id_of(to), hops, size);
  const auto policy = draw(8) == 0 ? delivery_policy::require : delivery_policy::report;
  steps_.offers(self, id_of(to));
  const status sent = at.process->user().send(id_of(to), made.type, made.bytes, policy);
  if (!sent)
    steps_.refused(self, id_of(to));
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

void node_world::keep_slot(std::size_t from, std::size_t to, std::uint64_t size,
                           std::uint32_t hops) {
  place& at = places_[from];
  node& by = at.process->user();
  const node_instance self = at.process->core().self();
  if (at.slot.claim(by, id_of(to), book_.next(self, id_of(to), hops, size)) == errc::would_block)
    at.owed.insert(id_of(to).value());
  if (at.process->core().dispatching()) {
    // If that one is connected, this is told at the end of the poll.
    (void)by.on_ready(id_of(to), 1s, [this, from, &core = at.process->core()](status) {
      const foreign_code here;
      look_at_slot(from, core);
    });
    return;
  }
  if (slot_random_() % 2 == 0)
    by.flush();
  if (at.slot.is_kept() && slot_random_() % 4 != 0)
    commit_slot(from);
  at.process->wake();
}

void node_world::look_at_slot(std::size_t index, const node_core& core) {
  place& at = places_[index];
  if (!at.slot.is_kept() || !at.process || &at.process->core() != &core || at.doomed)
    return;
  if (slot_random_() % 2 == 0)
    commit_slot(index);
}

void node_world::commit_slot(std::size_t index) {
  place& at = places_[index];
  const node_instance self = at.process->core().self();
  const bus_id to = at.slot.destination();
  const std::size_t size = at.slot.size();
  std::string wrong;
  steps_.offers(self, to);
  if (at.slot.commit(wrong)) {
    book_.accepted(self, to, size);
    check_waiting(index, static_cast<std::size_t>(to.value() - 1), size);
  } else {
    steps_.refused(self, to);
  }
  if (!wrong.empty())
    book_.fail("node " + self.id.to_string() + ": " + wrong);
}

std::size_t node_world::draw_size(std::size_t from, std::size_t to, std::size_t most) {
  return test::draw_message_size([this](std::uint64_t limit) { return draw(limit); }, most,
                                 places_[from].message_limit, places_[to].message_limit);
}

void node_world::send_many(const scenario_event& how) {
  for (std::uint64_t i = 0; i < how.count; ++i) {
    if (draw(8) == 0 && plan_.asks)
      ask(how.who, how.whom, draw(how.size));
    else
      send(how.who, how.whom, draw_size(how.who, how.whom, how.size),
           static_cast<std::uint32_t>(draw(4)));
  }
}

// What was accepted before is reported; what is sent afterwards waits, if anything, for another link.
void node_world::part(const scenario_event& how) {
  send_many(how);
  disconnect(how.who, how.whom, how.time);
  send_many(how);
}

void node_world::broadcast(std::size_t from, const id_range& to, std::size_t size) {
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
                                          const foreign_code here;
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

void node_world::broadcast_many(const scenario_event& how) {
  for (std::uint64_t i = 0; i < how.count; ++i) {
    const std::uint64_t bits = draw(4);  // ids are 1 to 3
    const bus_id prefix{id_of(draw(plan_.nodes)).value() >> bits << bits};
    broadcast(how.who, *id_range::make(prefix, 64 - static_cast<unsigned>(bits)),
              draw_size(how.who, how.whom, how.size));
  }
}

void node_world::ask(std::size_t from, std::size_t to, std::uint64_t size) {
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
    const foreign_code here;
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
void node_world::on_command(node_core& core, std::chrono::nanoseconds born, command& asked) {
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

// An old incarnation may hold the address for a while.
void node_world::listen(std::size_t index, const std::string& address) {
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

void node_world::connect(std::size_t from, std::size_t to, way by) {
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

void node_world::disconnect(std::size_t from, std::size_t to, std::chrono::nanoseconds back_after) {
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

void node_world::end_of(std::unique_ptr<simulated_node>& process) {
  if (!process)
    return;
  book_.killed(process->core().self());
  note("node " + process->core().self().id.to_string() + " ends");
  process.reset();
}

void node_world::bury_doomed() {
  for (std::size_t index = 0; index < places_.size(); ++index) {
    if (places_[index].doomed && places_[index].process &&
        !places_[index].process->core().dispatching()) {
      places_[index].slot.drop();
      end_of(places_[index].process);
      net_.at(net_.now() + std::chrono::nanoseconds{draw(1'000'000'000)}, [this, index] {
        if (!places_[index].process)
          start(index);
      });
    }
  }
}

void node_world::restart(const scenario_event& how) {
  place& at = places_[how.who];
  if (!at.process || at.doomed)
    return;
  at.slot.drop();
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

void node_world::later(std::chrono::nanoseconds after, std::function<void()> what) {
  net_.at(net_.now() + after, [this, act = std::move(what)] {
    if (net_.now() < 1s + plan_.faults_end)
      act();
  });
}

// The first link's announcement is slow, if that is what `who` says at the moment when all is. By then a second
// link carries messages.
void node_world::overtake(const scenario_event& how) {
  const auto travel_in = [this](std::chrono::nanoseconds time) {
    net_.conditions.delay_min = net_.conditions.delay_max = time;
  };
  const auto dial_again = [this, how] { disconnect(how.who, how.whom, 0s); };
  constexpr std::chrono::nanoseconds quick = 100us;
  const std::chrono::nanoseconds slow_at = 1500ms + std::chrono::nanoseconds{draw(1'000'000)};
  const std::chrono::nanoseconds slow_until = slow_at + std::chrono::nanoseconds{draw(500'000)};
  const std::chrono::nanoseconds slow = 1500ms + std::chrono::nanoseconds{draw(1'500'000'000)};
  travel_in(quick);
  connect(how.who, how.whom, plan_.ways.front());
  dial_again();
  later(slow_at, [travel_in, slow] { travel_in(slow); });
  later(slow_until, [travel_in, dial_again, quick] {
    travel_in(quick);
    dial_again();
  });
  for (std::chrono::nanoseconds after = slow_until; after < slow_until + 4s; after += 200ms)
    later(after, [this, how] { send(how.who, how.whom, how.size, 0); });
  net_.at(std::min(net_.now() + slow_until + 4s, 1s + plan_.faults_end), [this] {
    net_.conditions.delay_min = usual_.delay_min;
    net_.conditions.delay_max = usual_.delay_max;
  });
}

// Messages wait for it, some of which an earlier process had.
void node_world::stumble(const scenario_event& how) {
  scenario_event sends = how;
  std::swap(sends.who, sends.whom);
  sends.count *= 4;
  scenario_event ends = how;
  ends.what = happening::kill;
  ends.time = 1ms;
  std::chrono::nanoseconds after = 0s;
  for (std::uint64_t i = 0; i <= how.count; ++i) {
    later(after, [this, sends] { send_many(sends); });
    after += std::chrono::nanoseconds{draw(static_cast<std::uint64_t>(how.time.count()) + 1)};
    later(after, [this, ends] { restart(ends); });
    after += ends.time;
  }
}

void node_world::happen(const scenario_event& one) {
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
    case happening::overtake:
      return overtake(one);
    case happening::stumble:
      return stumble(one);
    case happening::starve:
      at.short_polls = one.count;
      at.misses = one.size;
      if (at.process && !at.doomed)
        at.process->wake();
      return;
    case happening::kinds:
      return;
  }
}

// It speaks in the name of a node that may be connected, in its incarnation that goes on.
void node_world::meet_unproven_peer(const scenario_event& how) {
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
void node_world::meet_repeating_peer(const scenario_event& how) {
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
void node_world::on_repeated(const node_core& core, const message& what) {
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

}  // namespace atbus::detail
