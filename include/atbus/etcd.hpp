/// @file
/// Discovery by etcd: nodes register themselves in etcd and find each other there. A library of its own: link
/// atbus::discovery.
///
/// ```cpp
/// auto registry = atbus::etcd_directory::open({.endpoints = {"http://10.0.0.2:2379"}});
/// if (!registry) return registry.error().print();
/// atbus::node relay{0x10000, atbus::node_options{}.token(secret).directory(*registry)};
/// relay.listen("ipv4://10.0.0.7:7000");     // other nodes with this directory now reach 0x10000
/// ```
///
/// etcd is asked over its HTTP/JSON gateway (etcd 3.4 or newer). Losing etcd, for however long, drops no link:
/// what was known stays in use, and directory_record::age says how old it is. doc/fleet.md has more for
/// users and operators, doc/design/etcd.md the details.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "atbus/detail/export.hpp"
#include "atbus/directory.hpp"
#include "atbus/status.hpp"

namespace atbus {

/// Which records a program puts into a registry.
enum class announcing : std::uint8_t {
  /// Those of roots, of relays, of nodes in no tree, and of leaves that offer services. Other leaves are
  /// reached through their parents.
  automatic,
  always,  ///< Those of all nodes.
  never,   ///< None: announce() returns not_supported.
};

/// How to reach etcd, and what to put there. A plain value.
struct etcd_options {
  /// The servers of one cluster, as "http://host:port" or "https://host:port"; at least one, at most 16. One
  /// is in use at a time.
  std::vector<std::string> endpoints = {};
  /// What the keys begin with. Not empty, at most 256 printable characters.
  std::string prefix = "/atbus/";
  /// How long a record stays after its program was killed: 2 s to 1 h, in whole seconds.
  std::chrono::seconds lease_time{15};
  /// The first request is sent after a random part of this time, so that many programs that start together do
  /// not all ask at once. At most 1 min.
  std::chrono::milliseconds start_jitter{50};
  /// A user of etcd, and the password. Empty: none.
  std::string user = {};
  /// The password of `user`.
  std::string password = {};
  /// A PEM file with the authority of the servers' certificates (https). Empty: the system's.
  std::string authority = {};
  /// PEM files: a certificate to show to the servers, and its key. Empty: none.
  std::string certificate = {};
  /// The key of `certificate`.
  std::string key = {};
  /// What others dial in place of 0.0.0.0 and [::] where a node of this program listens: an address or a name of this
  /// machine. Empty: the address from which it reaches etcd.
  std::string host = {};
  /// Whose records this program puts there.
  announcing announce = announcing::automatic;
  /// The most records that are kept in memory, 1 to 1,048,576; at most 64 MiB of them in any case.
  std::size_t max_records = 65536;
};

/// What an etcd directory has seen and done. All but the first two count from its start.
struct etcd_stats {
  std::uint64_t records = 0;          ///< Known now.
  std::uint64_t keys_left_out = 0;    ///< Keys below the prefix that are no usable records now.
  std::uint64_t unknown_keys = 0;     ///< Keys that are no ids.
  std::uint64_t malformed = 0;        ///< Values that are no record.
  std::uint64_t other_versions = 0;   ///< Records in another version of the format.
  std::uint64_t too_large = 0;        ///< Values, answers and lines beyond the limits.
  std::uint64_t beyond_limit = 0;     ///< Records for which there was no room (max_records).
  std::uint64_t wrong_addresses = 0;  ///< Addresses that were left out of records.
  std::uint64_t requests = 0;         ///< Requests sent to etcd, of all kinds.
  std::uint64_t failures = 0;        ///< Times that a server refused, broke off, or did not answer.
  std::uint64_t lists = 0;           ///< Complete reads of all keys.
  std::uint64_t watches = 0;         ///< Streams of changes begun.
  std::uint64_t compactions = 0;     ///< Streams that could not go on where they were.
  std::uint64_t checks = 0;          ///< Checks that have confirmed the records.
  std::uint64_t leases = 0;          ///< Leases granted.
  std::uint64_t leases_lost = 0;     ///< Leases that were over before their program.
  std::uint64_t puts = 0;            ///< Records that etcd has taken.
  std::uint64_t refused_writes = 0;  ///< Writes that etcd has refused (no space, no permission).
};

/// @class atbus::etcd_directory
/// The directory itself. announce() and withdraw() return at once and take effect while the directory is polled;
/// a node does that. Several nodes of one thread may share a directory, and then share its lease.
///
/// Threads: one; libcurl starts a thread while it looks up the name of a server. Fork: a forked child
/// only looks up what is known. End: the destructor waits for up to 500 ms while a working etcd removes the
/// records of this program.
class ATBUS_API etcd_directory : public directory {
 public:
  /// Makes a directory. Never connects, never blocks. Errors: invalid_argument (the text says which option),
  /// system_error.
  [[nodiscard]] static result<std::shared_ptr<etcd_directory>> open(const etcd_options& options);

  /// What it has seen and done.
  [[nodiscard]] virtual etcd_stats stats() const = 0;
};

}  // namespace atbus
