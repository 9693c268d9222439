// Simulates a fleet: a root, relays below it, leaves below those. All leaves talk while processes die, are
// replaced and come in crowds. Prints a line of JSON for each event: how long the tree took to heal, and
// what that cost.
//
// usage: simulate_fleet NODES RELAYS [SEED]
//
// The nodes are real, the network and the clock are not: the processor takes no time. So the times are
// those that the bus waits on purpose and that its messages travel (50 to 500 us a link). The heap is that of
// the nodes and of the simulated network.
//
// Exit code: 0 if after each event all nodes had their parent again, each message one outcome, and none came
// twice without a mark; else 1.
#include <malloc.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "testing/simulated_network.h"
#include "testing/simulated_node.h"

namespace {

using atbus::detail::simulated_network;
using atbus::detail::simulated_node;
using namespace std::chrono_literals;
using std::chrono::nanoseconds;

constexpr std::uint32_t talk = 1;
constexpr nanoseconds glance = 10ms;
constexpr nanoseconds patience = 5min;

// What one leaf has told another one. One event of a fleet of 10,000 has some hundred thousand of them.
enum class fate : std::uint8_t {
  under_way,
  delivered,
  redelivered,
  reported,
  unknown,
  refused,
  sender_died
};

enum class role : std::uint8_t { root, relay, leaf };

struct places {
  std::uint64_t all = 0;
  std::uint64_t relays = 0;

  [[nodiscard]] std::uint64_t count() const { return all; }
  [[nodiscard]] role role_of(std::uint64_t place) const {
    if (place == 0)
      return role::root;
    return place <= relays ? role::relay : role::leaf;
  }
  // Leaves are dealt to the relays in turn.
  [[nodiscard]] std::uint64_t relay_of(std::uint64_t leaf) const { return 1 + leaf % relays; }
  [[nodiscard]] std::uint64_t parent_of(std::uint64_t place) const {
    return role_of(place) == role::relay ? 0 : relay_of(place);
  }
  // A relay has the ids that share its upper 48 bits, the root those that share the upper 32.
  [[nodiscard]] atbus::bus_id id_of(std::uint64_t place) const {
    if (role_of(place) == role::root)
      return atbus::bus_id{root};
    if (role_of(place) == role::relay)
      return atbus::bus_id{root + (place << 16U)};
    return atbus::bus_id{root + (relay_of(place) << 16U) + 1 + place / relays};
  }
  [[nodiscard]] std::string children_of(std::uint64_t place) const {
    return id_of(place).to_string() + (role_of(place) == role::root ? "/32" : "/48");
  }
  static constexpr std::uint64_t root = std::uint64_t{1} << 32U;
};

std::string address_of(std::uint64_t place) {
  return "ipv4://10." + std::to_string(place >> 16U) + '.' + std::to_string(place >> 8U & 0xFFU) +
         '.' + std::to_string(place & 0xFFU) + ":7000";
}

// What nodes have done since they began.
struct costs {
  std::uint64_t dials = 0;
  std::uint64_t registrations = 0;
  std::uint64_t relayed = 0;

  void add(const atbus::node_stats& one) {
    dials += one.dials;
    registrations += one.registrations;
    relayed += one.relayed;
  }
  [[nodiscard]] costs since(const costs& before) const {
    return {dials - before.dials, registrations - before.registrations, relayed - before.relayed};
  }
};
using costs_of_roles = std::array<costs, 3>;

class fleet {
 public:
  fleet(std::uint64_t nodes, std::uint64_t relays, std::uint64_t seed)
      : at_{nodes, relays}, net_(seed), processes_(nodes) {}

  void start(std::uint64_t place);
  void kill(std::uint64_t place);
  void start_all() {
    for (std::uint64_t place = 0; place != at_.count(); ++place)
      start(place);
  }
  // Each leaf that runs sends to another one, once a second.
  void talk_for(nanoseconds time);
  // Each process is killed, and started again a second later, one after another, within that time.
  void restart_all_within(nanoseconds time);

  // How long until each node that runs has its parent; none: not within five minutes.
  [[nodiscard]] std::optional<nanoseconds> heal();
  // Of all processes that there were, by role.
  [[nodiscard]] costs_of_roles all_costs();
  [[nodiscard]] std::uint64_t fate_count(fate which) const;
  [[nodiscard]] std::uint64_t repeated() const { return repeated_; }
  [[nodiscard]] std::uint64_t contradicted() const { return contradicted_; }
  [[nodiscard]] const places& at() const { return at_; }
  // Lets what is under way get its outcome, and begins a new account.
  void settle();
  void forget() {
    sent_.clear();
    repeated_ = contradicted_ = 0;
  }

 private:
  struct telling {
    std::uint64_t from;
    fate now;
  };

  [[nodiscard]] std::uint64_t partner_of(std::uint64_t from);
  void say(std::uint64_t from);
  void settle_one(atbus::bytes_view bytes, fate now);
  [[nodiscard]] bool is_running(std::uint64_t place) const { return processes_[place] != nullptr; }
  [[nodiscard]] bool is_healed();

  places at_;
  simulated_network net_;
  std::vector<std::unique_ptr<simulated_node>> processes_;  // null: none runs there
  costs_of_roles of_the_dead_;
  std::vector<telling> sent_;
  std::uint64_t repeated_ = 0;
  std::uint64_t contradicted_ = 0;
  std::uint64_t speaker_ = 1 + at_.relays;
};

// A number of a host, which is each process's own here: all links are TCP.
atbus::detail::host_identity host_of(std::uint64_t place) {
  atbus::detail::host_identity made{};
  std::memcpy(made.data(), &place, sizeof place);
  made.back() = std::byte{1};  // all zero would be no host
  return made;
}

void fleet::start(std::uint64_t place) {
  atbus::node_options options;
  options.allow_unauthenticated().send_buffer_size(256 * 1024).message_limit(4096);
  if (at_.role_of(place) != role::root)
    options.parent(address_of(at_.parent_of(place)));
  if (at_.role_of(place) != role::leaf)
    options.children(at_.children_of(place));
  processes_[place] =
      std::make_unique<simulated_node>(net_, at_.id_of(place), options, host_of(place));
  atbus::node& node = processes_[place]->user();
  if (const atbus::error bad = node.listen(address_of(place)); !bad)
    throw std::runtime_error(bad.text());
  node.on_message([this](const atbus::message& got) {
    settle_one(got.bytes(), got.redelivered() ? fate::redelivered : fate::delivered);
  });
  node.on_undelivered([this](const atbus::undelivered& back) {
    settle_one(back.bytes(),
               back.outcome() == atbus::errc::not_delivered ? fate::reported : fate::unknown);
  });
}

void fleet::settle_one(atbus::bytes_view bytes, fate now) {
  std::uint64_t number = 0;
  if (bytes.size() != sizeof number)
    return;
  std::memcpy(&number, bytes.data(), sizeof number);
  if (number >= sent_.size())
    return;
  telling& told = sent_[number];
  const bool was_delivered = told.now == fate::delivered || told.now == fate::redelivered;
  if (now == fate::delivered && was_delivered)
    ++repeated_;
  const bool is_delivered = now == fate::delivered || now == fate::redelivered;
  // What is reported as not delivered must not have come, and must not come later.
  if ((now == fate::reported && was_delivered) || (is_delivered && told.now == fate::reported))
    ++contradicted_;
  if (!is_delivered && told.now != fate::under_way)
    return;
  told.now = now;
}

void fleet::kill(std::uint64_t place) {
  if (!is_running(place))
    return;
  of_the_dead_[static_cast<std::size_t>(at_.role_of(place))].add(processes_[place]->user().stats());
  processes_[place].reset();
  for (telling& one : sent_) {
    if (one.from == place && one.now == fate::under_way)
      one.now = fate::sender_died;
  }
}

// One of eight, which stay the same.
std::uint64_t fleet::partner_of(std::uint64_t from) {
  const std::uint64_t leaves = at_.count() - 1 - at_.relays;
  std::mt19937_64 same{from * 8 + net_.draw(8)};
  const std::uint64_t own = from - 1 - at_.relays;
  return 1 + at_.relays + (own + 1 + same() % (leaves - 1)) % leaves;
}

void fleet::say(std::uint64_t from) {
  const std::uint64_t to = partner_of(from);
  const std::uint64_t number = sent_.size();
  std::string text(sizeof number, '\0');
  std::memcpy(text.data(), &number, sizeof number);
  sent_.push_back({from, fate::under_way});
  if (!processes_[from]->user().send(at_.id_of(to), talk, text))
    sent_.back().now = fate::refused;
  processes_[from]->wake();
}

void fleet::talk_for(nanoseconds time) {
  const auto leaves = static_cast<std::int64_t>(at_.count() - 1 - at_.relays);
  const nanoseconds pause = nanoseconds{1s} / leaves;
  const nanoseconds end = net_.now() + time;
  while (net_.now() < end) {
    if (is_running(speaker_))
      say(speaker_);
    speaker_ = speaker_ + 1 == at_.count() ? 1 + at_.relays : speaker_ + 1;
    net_.run_for(pause);
  }
}

void fleet::restart_all_within(nanoseconds time) {
  const nanoseconds pause = time / static_cast<std::int64_t>(at_.count());
  for (std::uint64_t place = 0; place != at_.count(); ++place) {
    net_.at(net_.now() + pause * static_cast<std::int64_t>(place), [this, place] {
      kill(place);
      net_.at(net_.now() + 1s, [this, place] { start(place); });
    });
  }
  talk_for(time + 1s);
}

bool fleet::is_healed() {
  for (std::uint64_t place = 1; place != at_.count(); ++place) {
    if (is_running(place) && processes_[place]->user().parent() == atbus::bus_id{})
      return false;
  }
  return true;
}

std::optional<nanoseconds> fleet::heal() {
  const nanoseconds begin = net_.now();
  while (!is_healed()) {
    if (net_.now() - begin > patience)
      return std::nullopt;
    net_.run_for(glance);
  }
  return net_.now() - begin;
}

void fleet::settle() {
  const nanoseconds latest = net_.now() + patience;
  while (fate_count(fate::under_way) != 0 && net_.now() < latest)
    net_.run_for(100 * glance);
}

costs_of_roles fleet::all_costs() {
  costs_of_roles all = of_the_dead_;
  for (std::uint64_t place = 0; place != at_.count(); ++place) {
    if (is_running(place))
      all[static_cast<std::size_t>(at_.role_of(place))].add(processes_[place]->user().stats());
  }
  return all;
}

std::uint64_t fleet::fate_count(fate which) const {
  std::uint64_t count = 0;
  for (const telling& one : sent_)
    count += one.now == which ? 1 : 0;
  return count;
}

std::size_t heap_bytes() {
  return mallinfo2().uordblks + mallinfo2().hblkhd;
}

// Whether the fleet came through.
bool report(fleet& of, std::string_view event, const std::function<void()>& what) {
  of.forget();
  const costs_of_roles before = of.all_costs();
  const auto clock = std::chrono::steady_clock::now();
  what();
  const std::optional<nanoseconds> healed = of.heal();
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

std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

}  // namespace

int main(int count, char** words) {
  const auto word = [&](int index) {
    return index < count ? number_of(words[index]) : std::nullopt;
  };
  const std::optional<std::uint64_t> nodes = word(1);
  const std::optional<std::uint64_t> relays = word(2);
  const std::uint64_t seed = word(3).value_or(1);
  if (!nodes || !relays || *relays == 0 || *relays > 1000 || *nodes < *relays + 3 ||
      *nodes > 100'000) {
    std::fputs(
        "usage: simulate_fleet NODES RELAYS [SEED]    1 to 1000 relays, up to 100,000 nodes\n",
        stderr);
    return 2;
  }
  return run(*nodes, *relays, seed) ? 0 : 1;
}
