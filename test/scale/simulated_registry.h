// A registry of a simulated network, such as etcd, and the directories of the processes that use it.
//
// A directory asks as etcd_directory does (doc/design/etcd.md): it lists the records and watches them, and checks
// that nothing was missed; it grants itself a lease, puts its record on it and keeps it alive. Requests take no
// time. Times are drawn as there, from the network's seed. Nodes hear of a change when they look, which is every 2 s.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "atbus/directory.hpp"
#include "node/directory/record_table.h"
#include "testing/simulated_network.h"

namespace atbus::test {

using detail::record_table;
using detail::simulated_network;

class registry_client;

class simulated_registry {
 public:
  using time = std::chrono::nanoseconds;
  static constexpr time lease_time = std::chrono::seconds{15};

  enum class request : std::uint8_t { list, watch, check, grant, put, withdraw, keep_alive };
  static constexpr std::size_t request_kinds = 7;

  // What has reached it, and what was tried while it was away.
  struct load {
    std::array<std::uint64_t, request_kinds> answered{};
    std::uint64_t answered_leaves = 0;  // of these, those of directories that announce nothing
    std::uint64_t unanswered = 0;
    std::uint64_t answered_peak = 0;  // within a second
    std::uint64_t unanswered_peak = 0;

    [[nodiscard]] std::uint64_t of(request kind) const {
      return answered[static_cast<std::size_t>(kind)];
    }
    [[nodiscard]] std::uint64_t announcements() const {
      return of(request::grant) + of(request::put) + of(request::withdraw);
    }
    [[nodiscard]] std::uint64_t looks() const {
      return of(request::list) + of(request::watch) + of(request::check);
    }
  };

  explicit simulated_registry(simulated_network& net) : net_(net) {}

  // For one process. The registry outlives it.
  [[nodiscard]] std::shared_ptr<registry_client> make_client();
  // Until it returns it refuses all requests, and all watches end. It is cut off, but runs: leases end meanwhile.
  void lose();
  void return_again();
  [[nodiscard]] const load& since_forgotten() const { return load_; }
  void forget_load() { load_ = {}; }

 private:
  friend class registry_client;

  struct change {
    bus_id id;
    std::optional<directory_record> record;  // none: it is gone
  };
  struct entry {
    std::uint64_t lease = 0;
    time ends{0};
  };

  // False: it is away.
  [[nodiscard]] bool ask(request what, bool announces);
  void put(const directory_record& record, std::uint64_t lease);
  void remove(bus_id id, std::uint64_t lease);
  // False: there is no such lease any more.
  [[nodiscard]] bool keep_alive(bus_id id, std::uint64_t lease);
  void end_leases();
  // All that has ever changed: the number of those that a client has seen is its revision.
  [[nodiscard]] const std::vector<change>& changes() {
    end_leases();
    return changes_;
  }

  simulated_network& net_;
  bool is_away_ = false;
  std::vector<std::weak_ptr<registry_client>> clients_;
  std::vector<change> changes_;
  std::map<bus_id, entry> entries_;
  time next_end_{time::max()};  // no lease ends before
  std::uint64_t leases_ = 0;
  load load_;
  time second_{0};  // that these are of
  std::uint64_t answered_in_second_ = 0;
  std::uint64_t unanswered_in_second_ = 0;
};

class registry_client final : public directory,
                              public std::enable_shared_from_this<registry_client> {
 public:
  explicit registry_client(simulated_registry& registry) : registry_(registry) {}

  // Its process is killed: it asks nothing any more, and withdraws nothing.
  void kill() { is_killed_ = true; }

  [[nodiscard]] std::vector<std::string> lookup(bus_id id) override {
    const directory_record* const known = records_.find(id);
    return known != nullptr ? known->addresses : std::vector<std::string>{};
  }
  watch_id watch(std::function<void(bus_id)> changed) override {
    return records_.watch(std::move(changed));
  }
  void unwatch(watch_id which) override { records_.unwatch(which); }
  error announce(const directory_record& record) override;
  error withdraw(bus_id id) override;
  error poll() override;

 private:
  friend class simulated_registry;
  using request = simulated_registry::request;
  using time = simulated_registry::time;

  void begin();
  // At that time, unless it is asked to sooner.
  void plan(time when);
  void work();
  // These are false if the registry is away.
  [[nodiscard]] bool read(time now);
  [[nodiscard]] bool write(time now);
  [[nodiscard]] bool ask(request what) { return registry_.ask(what, announced_.has_value()); }
  void fail(time now);
  [[nodiscard]] time up_to(time most);
  // From half of it up to all of it.
  [[nodiscard]] time about(time most) { return most / 2 + up_to(most / 2); }

  simulated_registry& registry_;
  record_table records_;
  std::size_t seen_ = 0;  // of the changes
  bool is_listed_ = false;
  bool is_watching_ = false;
  time check_at_{0};
  std::optional<directory_record> announced_;
  bool is_owed_ = false;
  std::uint64_t lease_ = 0;  // 0: none
  time keep_at_{0};
  time ready_at_{0};
  std::size_t failures_ = 0;
  time planned_{time::max()};
  bool is_killed_ = false;
};

}  // namespace atbus::test
