/// @file
/// What a node says of itself: its counters, and each node that it knows. A program asks its own node
/// (node::report); operators read the reports of all nodes of a host, dead ones too, from files:
///
/// ```cpp
/// auto all = atbus::list_node_reports();
/// if (!all) return all.error().print(), 1;
/// for (const auto& one : *all)
///   std::cout << one.report.id.to_string() << (one.alive ? " runs\n" : " has ended\n");
/// ```
///
/// A node writes its report to a file of its own (node_options::report_directory) a few times a second
/// while something changes, and every five seconds otherwise. The file goes when the node ends. It
/// stays when its process is killed; the next incarnation keeps the newest such file and removes
/// older ones. Which process is alive is decided by the kernel's locks.
///
/// Reading disturbs no node. Each value of a file is taken for hostile: sizes and a checksum are
/// checked, texts are printable. Files of other users are left out; files that others can write are
/// refused.
///
/// Ownership: reports are plain values. Threads: any, except for those of node::report.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "atbus/bus_id.hpp"
#include "atbus/detail/export.hpp"
#include "atbus/node_stats.hpp"
#include "atbus/status.hpp"

namespace atbus {

/// How many times were how long, in classes of factor two. A plain value.
struct time_histogram {
  /// Number of classes. The last one takes everything above 2^38 ns, which is 4.6 minutes.
  static constexpr std::size_t classes = 40;
  /// counts[0]: below 1 ns; counts[i]: from 2^(i-1) ns to below 2^i ns.
  std::array<std::uint64_t, classes> counts{};

  /// Counts a time, `times` times. Negative ones count as 0.
  ATBUS_API void add(std::chrono::nanoseconds time, std::uint64_t times = 1) noexcept;
  /// Number of times that were counted.
  [[nodiscard]] ATBUS_API std::uint64_t total() const noexcept;
  /// The upper end of the class that the time at `share` (0 to 1) of all times, in order, falls into;
  /// 0 without times.
  [[nodiscard]] ATBUS_API std::chrono::nanoseconds quantile(double share) const noexcept;
};

/// What carries the messages to another node.
enum class peer_channel : std::uint8_t {
  none,           ///< There is no link.
  memory,         ///< `mem://`
  lanes,          ///< Shared memory that a Unix socket has handed over.
  shared_memory,  ///< `shm://`
  unix_socket,    ///< A Unix socket.
  tcp,            ///< A TCP socket.
  relayed,        ///< Other nodes pass them on.
  nats,           ///< A NATS server.
};
/// The name of a channel as written above.
[[nodiscard]] ATBUS_API std::string_view name(peer_channel channel) noexcept;

/// What another node is to the one that reports.
enum class peer_relation : std::uint8_t {
  peer,     ///< One that it connected to, or that connected to it.
  child,    ///< A node below it.
  parent,   ///< The node above it.
  sibling,  ///< Another child of its parent.
  client,   ///< A client, without a bus id.
};
/// The name of a relation as written above.
[[nodiscard]] ATBUS_API std::string_view name(peer_relation relation) noexcept;

/// Another node, as the one that reports sees it. Counters begin when it became known.
struct peer_report {
  bus_id id;                                     ///< 0: a client.
  std::uint64_t incarnation = 0;                 ///< Of its process; 0 before the first connection.
  peer_relation relation = peer_relation::peer;  ///< What it is to this node.
  peer_channel channel = peer_channel::none;     ///< What carries the messages there now.
  bool away = false;  ///< Its process has ended; messages wait in shared memory for its successor.
  bool encrypted = false;  ///< The link is encrypted.
  bool wanted = false;     ///< connect() or the directory names it: it is dialled until it answers.
  std::string address;     ///< Of the link, for people; cut to 127 bytes.

  std::uint64_t sent = 0;            ///< Messages accepted for it.
  std::uint64_t sent_bytes = 0;      ///< Payload bytes of these.
  std::uint64_t received = 0;        ///< Messages of its that were handled.
  std::uint64_t received_bytes = 0;  ///< Payload bytes of these.
  std::uint64_t would_block = 0;     ///< Sends refused for lack of room.
  std::uint64_t undelivered = 0;  ///< Messages with the outcome not_delivered or outcome_unknown.
  std::uint64_t queued_messages = 0;  ///< Messages that this node holds for it, now.
  std::uint64_t queued_bytes = 0;  ///< Bytes of these, and those in the link that are not handled.
  std::uint64_t queued_bytes_most = 0;  ///< The most of them that a report has seen.
  std::uint64_t links = 0;       ///< Links that were registered: reconnects are all but the first.
  std::uint64_t links_lost = 0;  ///< Of these, lost.
  errc last_loss = errc::ok;     ///< Why the last one was; ok: none was.
  std::uint64_t last_loss_at = 0;          ///< When: nanoseconds since 1970; 0: none was.
  std::chrono::nanoseconds round_trip{0};  ///< Smoothed, of pings; 0 where none are needed.
  time_histogram round_trips;              ///< Of all pings.
};

/// What a node says of itself.
struct node_report {
  bus_id id;                      ///< Its bus id.
  std::uint64_t incarnation = 0;  ///< Of its process.
  bus_id parent;                  ///< The connected parent; 0: none.
  std::uint32_t pid = 0;          ///< In its own pid namespace, for display only.
  std::string program;            ///< The name of its process, for display only.
  std::string version;            ///< The version of atbus that it runs.
  std::uint64_t started_at = 0;   ///< When the node was made: nanoseconds since 1970.
  std::uint64_t updated_at = 0;   ///< When this report was made.
  std::vector<std::string>
      addresses;  ///< Where it listens. Those that don't fit into 1 KiB are left out.
  std::uint64_t message_limit = 0;  ///< The longest message in payload bytes.
  node_stats stats;                 ///< Its counters.
  /// How long messages took, from the channel to the return of the handler: the mean of a poll, in one
  /// of 16 polls that had messages.
  time_histogram handling;
  std::uint64_t peers_in_all = 0;  ///< Nodes that it knows. Files have the first 4,096.
  std::vector<peer_report> peers;  ///< These, by id.
};

/// A file with the report of a node.
struct node_report_file {
  std::string path;    ///< Of the file, printable.
  bool alive = false;  ///< Its process is alive.
  error problem;       ///< Why it can't be read; then `report` is empty.
  node_report report;  ///< The last one that was written.
};

/// The reports of the nodes of this user on this host, in that directory; by id. Errors: the directory
/// can't be read.
[[nodiscard]] ATBUS_API result<std::vector<node_report_file>> list_node_reports(
    const std::string& directory = "/dev/shm");

/// The report of one incarnation of a node of this user, in that directory. It may be unreadable: see
/// `problem`. Errors: not_found: there is none, such as after the end of the node.
[[nodiscard]] ATBUS_API result<node_report_file> find_node_report(
    bus_id id, std::uint64_t incarnation, const std::string& directory = "/dev/shm");

/// A counter of node_stats and its name.
struct node_counter {
  std::string_view name;  ///< As in node_stats; those of strangers as `strangers.silent`.
  std::uint64_t node_stats::*field;             ///< Null for those of strangers.
  std::uint64_t stranger_stats::*of_strangers;  ///< Null for all others.

  /// Its value.
  [[nodiscard]] std::uint64_t in(const node_stats& stats) const noexcept {
    return field != nullptr ? stats.*field : stats.strangers.*of_strangers;
  }
  /// Sets its value.
  void set(node_stats& stats, std::uint64_t value) const noexcept {
    (field != nullptr ? stats.*field : stats.strangers.*of_strangers) = value;
  }
};
/// All counters of node_stats, in an order that never changes: new ones come last.
[[nodiscard]] ATBUS_API const std::vector<node_counter>& node_counters();

}  // namespace atbus
