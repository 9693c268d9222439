/// @class atbus::directory
/// Maps bus ids to the addresses where nodes listen, for nodes that no connect() names: see
/// node_options::directory. The library has one that reads a file (doc/nodes.md); derive from this
/// class to use another source.
///
/// A node looks up only ids that it sends to or waits for. It dials the addresses it gets as if
/// connect() named them, for as long as the directory lists them. A directory never causes a node
/// to drop a link that is up.
///
/// Ownership: node and program share the directory (std::shared_ptr). Threads: the node calls all
/// functions in its own thread, from within its own functions. They must not block, throw, or use a
/// node. A lookup() that throws std::bad_alloc is taken for a lack of memory: send() and claim()
/// return out_of_memory. These two are noexcept, so any other exception of lookup() ends the
/// process (std::terminate).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "atbus/bus_id.hpp"
#include "atbus/detail/export.hpp"
#include "atbus/status.hpp"

namespace atbus {

class ATBUS_API directory {
 public:
  /// Identifies a watch, from watch() to unwatch().
  using watch_id = std::uint64_t;

  directory(const directory&) = delete;
  directory& operator=(const directory&) = delete;
  virtual ~directory() = default;

  /// The addresses where that node listens; all of them are tried. Empty: not known, or not yet. If
  /// a directory has to query another service, it starts the query here, returns, and calls the
  /// watchers from poll() when it has the answer.
  [[nodiscard]] virtual std::vector<std::string> lookup(bus_id id) = 0;

  /// Calls `changed`, from poll() only, for each node whose lookup() result has changed, until
  /// unwatch(). `changed` may call lookup() and no other function of the directory.
  virtual watch_id watch(std::function<void(bus_id)> changed) = 0;
  /// Ends a watch: its `changed` is not called any more.
  virtual void unwatch(watch_id which) = 0;

  /// A node announces all addresses where it listens, each time one is added. Return not_supported
  /// if the directory has no use for them; the node logs any other error.
  virtual error announce(bus_id id, const std::vector<std::string>& addresses) = 0;

  /// Called when a node starts, and then every 2 s: looks for changes. Returns no error, or what is
  /// wrong now as a sentence for operators; the node logs it once. After an error, lookup() goes on
  /// with the last known addresses.
  virtual error poll() = 0;

 protected:
  directory() = default;
};

}  // namespace atbus
