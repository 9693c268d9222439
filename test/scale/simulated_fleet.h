// A fleet in a simulated network: a root, relays below it, leaves below those. All leaves talk while processes die, are
// replaced and come in crowds.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "atbus/node.hpp"
#include "simulated_registry.h"
#include "testing/simulated_network.h"
#include "testing/simulated_node.h"

namespace atbus::test {

using detail::simulated_node;

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
  [[nodiscard]] bus_id id_of(std::uint64_t place) const {
    if (role_of(place) == role::root)
      return bus_id{root};
    if (role_of(place) == role::relay)
      return bus_id{root + (place << 16U)};
    return bus_id{root + (relay_of(place) << 16U) + 1 + place / relays};
  }
  [[nodiscard]] std::string children_of(std::uint64_t place) const {
    return id_of(place).to_string() + (role_of(place) == role::root ? "/32" : "/48");
  }
  static constexpr std::uint64_t root = std::uint64_t{1} << 32U;
};

// What nodes have done since they began.
struct costs {
  std::uint64_t dials = 0;
  std::uint64_t registrations = 0;
  std::uint64_t relayed = 0;

  void add(const node_stats& one) {
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
      : at_{nodes, relays}, net_(seed), directories_(nodes), processes_(nodes) {}

  // All processes that start from now on have a directory.
  void use_registry() { registry_.emplace(net_); }
  [[nodiscard]] simulated_registry* registry() { return registry_ ? &*registry_ : nullptr; }
  void lose_registry() { registry_->lose(); }
  void return_registry() {
    registry_->return_again();
    mended_at_ = net_.now();
  }

  void start(std::uint64_t place);
  void kill(std::uint64_t place);
  void start_all() {
    for (std::uint64_t place = 0; place != at_.count(); ++place)
      start(place);
  }
  // Each leaf that runs sends to another one, once a second.
  void talk_for(std::chrono::nanoseconds time);
  // After that time it is killed, and started again a second later.
  void restart_after(std::chrono::nanoseconds time, std::uint64_t place);
  // The same, and from then on it is at another address.
  void move_after(std::chrono::nanoseconds time, std::uint64_t place);
  // So each process, one after another, within that time.
  void restart_all_within(std::chrono::nanoseconds time);

  // How long until each node that runs has its parent; none: not within five minutes.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> heal();
  // How long until all below the relay that has moved had it as their parent again, once it ran and the registry was
  // back.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> found_after() const {
    return found_at_ ? std::optional{*found_at_ - mended_at_} : std::nullopt;
  }
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
    if (registry_)
      registry_->forget_load();
  }

 private:
  struct telling {
    std::uint64_t from;
    fate now;
  };

  [[nodiscard]] std::uint64_t partner_of(std::uint64_t from);
  void say(std::uint64_t from);
  void settle_one(bytes_view bytes, fate now);
  void look_for_finders_of(std::uint64_t relay);
  [[nodiscard]] bool is_running(std::uint64_t place) const { return processes_[place] != nullptr; }
  [[nodiscard]] bool is_healed();

  places at_;
  simulated_network net_;
  std::optional<simulated_registry> registry_;
  std::vector<std::shared_ptr<registry_client>> directories_;  // null: without
  std::vector<std::unique_ptr<simulated_node>> processes_;     // null: none runs there
  std::optional<std::uint64_t> moved_;
  std::chrono::nanoseconds mended_at_{0};
  std::optional<std::chrono::nanoseconds> found_at_;
  costs_of_roles of_the_dead_;
  std::vector<telling> sent_;
  std::uint64_t repeated_ = 0;
  std::uint64_t contradicted_ = 0;
  std::uint64_t speaker_ = 1 + at_.relays;
};

}  // namespace atbus::test
