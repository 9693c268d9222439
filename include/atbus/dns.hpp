/// @file
/// A directory (atbus/directory.hpp) of the nodes that DNS knows: hosts by name, and services by their SRV
/// records, as those of a headless service in Kubernetes. Part of the library atbus::discovery.
///
/// ```cpp
/// auto relays = atbus::dns_directory::open({.services = {
///     {.name = "_atbus._tcp.relay.fleet.svc.cluster.local", .first_id = 0x10000}}});
/// if (!relays) return relays.error().print();
/// atbus::node node{7, atbus::node_options{}.directory(*relays)};
/// node.send(0x10002, hello);     // relay-2 of the StatefulSet "relay"
/// ```
///
/// Each name is asked again when its records' time is over, from within the node's poll() or wait(), without
/// blocking. What a server does not answer stays as it was; doc/design/dns.md says when that happens.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "atbus/bus_id.hpp"
#include "atbus/detail/export.hpp"
#include "atbus/directory.hpp"
#include "atbus/status.hpp"

namespace atbus {

/// One node that listens at a port of a host: A and AAAA records say where that is.
struct dns_host {
  /// The node.
  bus_id id{};
  /// The host's whole name: no search list is applied.
  std::string name = {};
  /// Where the node listens.
  std::uint16_t port = 0;
  /// The names of services that it offers.
  std::vector<std::string> services = {};
};

/// The nodes that the SRV records of a name list: each has a target, a host's name, and a port. A target's
/// id is `first_id` plus the number at the end of the target's first label: with 0x10000, relay-2.fleet.example
/// is node 0x10002. So Kubernetes names the pods of a StatefulSet.
struct dns_service {
  /// The whole name, such as "_atbus._tcp.relay.fleet.svc.cluster.local".
  std::string name = {};
  /// The id of a target that ends in 0. Without it only TXT records give ids.
  std::optional<bus_id> first_id = {};
  /// Also asks for the TXT records of each target. Each string in them is "id=ID", "service=NAME" (any
  /// number of them), or a label "name=text".
  bool texts = false;
  /// The names of services that each of them offers.
  std::vector<std::string> services = {};
};

/// What to ask, and whom. A plain value.
struct dns_options {
  /// Hosts.
  std::vector<dns_host> hosts = {};
  /// Services.
  std::vector<dns_service> services = {};
  /// Servers as "10.0.0.1:53" or "[fd00::1]:53". Empty: those of /etc/resolv.conf.
  std::vector<std::string> servers = {};
  /// How long a server has for an answer before the next attempt, of which there are three. 1 ms to 1 min.
  std::chrono::milliseconds timeout{2000};
  /// A name is asked again at its records' time, but not before this has passed: 1 ms or more.
  std::chrono::milliseconds at_least{1000};
  /// A name is asked again at its records' time, but not later than this.
  std::chrono::milliseconds at_most{60'000};
};

/// The most targets of one dns_service; the others are left out, which poll() reports.
inline constexpr std::size_t dns_targets_max = 1024;

/// What a DNS directory has seen and done. All but the first two count from its start.
struct dns_stats {
  std::uint64_t records = 0;    ///< Known now.
  std::uint64_t left_out = 0;   ///< Targets that can be no nodes, now: without an id, or too many.
  std::uint64_t questions = 0;  ///< Names asked for.
  std::uint64_t answers =
      0;  ///< Those that a server has answered, also with "there is no such name".
  std::uint64_t failures = 0;  ///< Those without an answer, or with one that can't be read.
};

/// @class atbus::dns_directory
/// The directory itself. It takes no announcements. Several nodes of one thread may share it.
///
/// Threads: one. Fork: a forked child only looks up what is known.
class ATBUS_API dns_directory : public directory {
 public:
  /// Makes a directory. Asks nothing before a node polls it. Errors: invalid_argument (the text says which
  /// option), out_of_memory, system_error.
  [[nodiscard]] static result<std::shared_ptr<dns_directory>> open(const dns_options& options);

  /// What it has seen and done.
  [[nodiscard]] virtual dns_stats stats() const = 0;
};

}  // namespace atbus
