// Simulates a fleet: a root, relays below it, leaves below those. All leaves talk while processes die, are
// replaced and come in crowds. Prints a line of JSON for each event: how long the tree took to heal, and
// what that cost.
//
// usage: simulate_fleet [registry] NODES RELAYS [SEED]
//   registry   all nodes have a directory, and the events are those of its registry: while relays restart, one of
//              them at a new address, it is there, or lost for a minute
//
// The nodes are real, the network and the clock are not: the processor takes no time. So the times are
// those that the bus waits on purpose and that its messages travel (50 to 500 us a link). The heap is that of
// the nodes and of the simulated network.
//
// Exit code: 0 if after each event all nodes had their parent again, each message one outcome, and none came
// twice without a mark; else 1.
#include <malloc.h>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "simulated_fleet.h"

namespace {

using namespace atbus::test;
using request = simulated_registry::request;
using namespace std::chrono_literals;
using std::chrono::nanoseconds;

std::size_t heap_bytes() {
  return mallinfo2().uordblks + mallinfo2().hblkhd;
}

// Whether the fleet came through.
bool report(fleet& of, std::string_view event, const std::function<void()>& what) {
  of.forget();
  const costs_of_roles before = of.all_costs();
  const auto clock = std::chrono::steady_clock::now();
  what();
  std::optional<nanoseconds> healed = of.heal();
  if (of.registry() != nullptr)
    healed = healed ? of.found_after() : std::nullopt;
  of.talk_for(1s);
  of.settle();
  const costs_of_roles after = of.all_costs();
  const auto since = [&](role which) {
    const auto at = static_cast<std::size_t>(which);
    return after[at].since(before[at]);
  };
  const auto print = [](std::string_view name, auto value) {
    std::printf(", \"%.*s\": %s", static_cast<int>(name.size()), name.data(),
                std::to_string(value).c_str());
  };
  std::printf("{\"event\": \"%.*s\"", static_cast<int>(event.size()), event.data());
  print("nodes", of.at().count());
  print("relays", of.at().relays);
  print("healed_ms", healed ? *healed / 1ms : -1);
  print("delivered", of.fate_count(fate::delivered));
  print("redelivered", of.fate_count(fate::redelivered));
  print("reported", of.fate_count(fate::reported) + of.fate_count(fate::unknown));
  print("refused", of.fate_count(fate::refused));
  print("sender_died", of.fate_count(fate::sender_died));
  print("without_outcome", of.fate_count(fate::under_way));
  print("repeated_unmarked", of.repeated());
  print("contradicted", of.contradicted());
  print("root_registrations", since(role::root).registrations);
  print("root_relayed", since(role::root).relayed);
  print("relay_registrations", since(role::relay).registrations);
  print("relay_relayed", since(role::relay).relayed);
  print("dials", since(role::root).dials + since(role::relay).dials + since(role::leaf).dials);
  if (of.registry() != nullptr) {
    const simulated_registry::load& load = of.registry()->since_forgotten();
    print("registry_announcements", load.announcements());
    print("registry_looks", load.looks());
    print("registry_keep_alives", load.of(request::keep_alive));
    print("registry_of_leaves", load.answered_leaves);
    print("registry_peak", load.answered_peak);
    print("registry_unanswered", load.unanswered);
    print("registry_unanswered_peak", load.unanswered_peak);
  }
  print("heap_bytes", heap_bytes());
  print("seconds", std::chrono::duration<double>(std::chrono::steady_clock::now() - clock).count());
  std::puts("}");
  std::fflush(stdout);
  return healed && of.fate_count(fate::under_way) == 0 && of.repeated() == 0 &&
         of.contradicted() == 0;
}

bool run(std::uint64_t nodes, std::uint64_t relays, std::uint64_t seed) {
  fleet one{nodes, relays, seed};
  bool well = report(one, "start", [&] { one.start_all(); });
  well &= report(one, "relay_lost", [&] {
    one.kill(1);
    one.talk_for(10s);
    one.start(1);
  });
  well &= report(one, "half_of_the_relays_lost", [&] {
    for (std::uint64_t relay = 1; relay <= relays; relay += 2)
      one.kill(relay);
    one.talk_for(10s);
    for (std::uint64_t relay = 1; relay <= relays; relay += 2)
      one.start(relay);
  });
  well &= report(one, "root_lost", [&] {
    one.kill(0);
    one.talk_for(10s);
    one.start(0);
  });
  well &= report(one, "rolling_restart", [&] { one.restart_all_within(60s); });
  well &= report(one, "crowd", [&] {
    for (std::uint64_t leaf = 1 + relays; leaf != nodes; ++leaf)
      one.kill(leaf);
    one.talk_for(1s);
    for (std::uint64_t leaf = 1 + relays; leaf != nodes; ++leaf)
      one.start(leaf);
  });
  return well;
}

// For a minute relays restart, each fourth at its address, and the first at another one.
bool run_with_registry(std::uint64_t nodes, std::uint64_t relays, std::uint64_t seed,
                       bool is_lost) {
  constexpr nanoseconds lost_for = 60s;
  constexpr nanoseconds restarts_for = 50s;
  fleet one{nodes, relays, seed};
  one.use_registry();
  one.start_all();
  one.talk_for(20s);
  one.settle();
  return report(one, is_lost ? "registry_lost" : "registry_there", [&] {
    if (is_lost)
      one.lose_registry();
    one.move_after(10s, 1);
    for (std::uint64_t relay = 2; relay <= relays; relay += 4)
      one.restart_after(
          restarts_for * static_cast<std::int64_t>(relay) / static_cast<std::int64_t>(relays),
          relay);
    one.talk_for(lost_for);
    if (is_lost)
      one.return_registry();
    one.talk_for(20s);
  });
}

std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

}  // namespace

int main(int count, char** words) {
  const bool with_registry = count > 1 && words[1] == std::string_view{"registry"};
  const int first = with_registry ? 2 : 1;
  const auto word = [&](int index) {
    return index < count ? number_of(words[index]) : std::nullopt;
  };
  const std::optional<std::uint64_t> nodes = word(first);
  const std::optional<std::uint64_t> relays = word(first + 1);
  const std::uint64_t seed = word(first + 2).value_or(1);
  if (!nodes || !relays || *relays == 0 || *relays > 1000 || *nodes < *relays + 3 ||
      *nodes > 100'000) {
    std::fputs(
        "usage: simulate_fleet [registry] NODES RELAYS [SEED]    1 to 1000 relays, up to 100,000 "
        "nodes\n",
        stderr);
    return 2;
  }
  if (!with_registry)
    return run(*nodes, *relays, seed) ? 0 : 1;
  const bool well = run_with_registry(*nodes, *relays, seed, false);
  return run_with_registry(*nodes, *relays, seed, true) && well ? 0 : 1;
}
