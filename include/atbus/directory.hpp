/// @class atbus::directory
/// Maps bus ids to records: where nodes listen and what they offer, for nodes that no connect()
/// names. See node_options::directory. The library has one that reads a file (doc/nodes.md); derive
/// from this class to use another source.
///
/// A node looks up only ids that it sends to or waits for, and the parent that it has lost. It
/// dials the addresses it gets as if connect(), or node_options::parent, named them, for as long as
/// the directory lists them. A directory never causes a node to drop a link that is up. A directory that loses its source keeps what it knows, and says how
/// old that is.
///
/// Ownership: node and program share the directory (std::shared_ptr). Threads: the node calls all
/// functions in its own thread, from within its own functions; the nodes of one thread may share a
/// directory. They must not block, throw, or use a node. A lookup() that throws std::bad_alloc is
/// taken for a lack of memory: send() and claim() return out_of_memory. These two are noexcept, so
/// any other exception of lookup() ends the process (std::terminate).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "atbus/bus_id.hpp"
#include "atbus/detail/export.hpp"
#include "atbus/status.hpp"

namespace atbus {

/// Where a node stands in a tree (doc/nodes.md, "A tree of nodes").
enum class tree_place : std::uint8_t {
  none,   ///< In no tree.
  leaf,   ///< It has a parent and no nodes below it, and is reached through its parent.
  relay,  ///< It has a parent, and nodes below it.
  root,   ///< It has no parent, and nodes below it.
};

/// What a directory knows of one node.
struct directory_record {
  /// The node's id.
  bus_id id{};
  /// Where the node listens. All of them are tried.
  std::vector<std::string> addresses{};
  /// The names of the services that it offers.
  std::vector<std::string> services{};
  /// Whatever else the node says of itself, for programs.
  std::map<std::string, std::string> labels{};
  /// Where in a tree the node stands.
  tree_place place = tree_place::none;
  /// Changes when the directory learns another record of this id. Announced records have none.
  std::uint64_t version = 0;
  /// How long ago the source has last confirmed this record. Announced records have none.
  std::chrono::nanoseconds age{0};
};

class ATBUS_API directory {
 public:
  /// Identifies a watch, from watch() to unwatch(). 0 is no watch: unwatch() never gets it.
  using watch_id = std::uint64_t;

  directory(const directory&) = delete;
  directory& operator=(const directory&) = delete;
  virtual ~directory() = default;

  /// The addresses where that node listens; all of them are tried. Empty: not known, or not yet. If
  /// a directory has to query another service, it starts the query here, returns, and calls the
  /// watchers from poll() when it has the answer.
  [[nodiscard]] virtual std::vector<std::string> lookup(bus_id id) = 0;
  /// All that is known of that node; nothing if it is not known, or not yet. By default a record of
  /// the addresses of lookup().
  [[nodiscard]] virtual std::optional<directory_record> find(bus_id id);
  /// The nodes that offer that service, in the order of their ids. By default none.
  [[nodiscard]] virtual std::vector<bus_id> members(std::string_view service);

  /// Calls `changed`, from poll() only, for each node whose record has changed, until unwatch().
  /// `changed` may call lookup(), find() and members(), and no other function of the directory.
  virtual watch_id watch(std::function<void(bus_id)> changed) = 0;
  /// The same for the members of a service: `changed` is called when one comes or goes, or changes
  /// its record. By default it is never called, and the watch is 0.
  virtual watch_id watch_members(std::string service, std::function<void()> changed);
  /// Ends a watch of either kind: its `changed` is not called any more.
  virtual void unwatch(watch_id which) = 0;

  /// A node announces itself each time something of its record changes, such as an address that is
  /// added. The record replaces what this program announced before for that id. Return
  /// not_supported if the directory has no use for it; the node logs any other error.
  virtual error announce(const directory_record& record) = 0;
  /// Takes back what this program announced for that id: the node ends. By default not_supported.
  virtual error withdraw(bus_id id);

  /// A descriptor that is readable when poll() has work, such as an epoll instance: a node then
  /// knows of a change within milliseconds. The same for as long as the directory lives; it stays
  /// the directory's own. -1 (the default): there is none, and a change waits for the next poll().
  [[nodiscard]] virtual int descriptor() const noexcept;
  /// Called when a node starts, then every 2 s, and when the descriptor is readable: looks for
  /// changes. Returns no error, or what is wrong now as a sentence for operators; the node logs it
  /// once. After an error, lookup() goes on with the last known addresses.
  virtual error poll() = 0;

 protected:
  directory() = default;
};

}  // namespace atbus
