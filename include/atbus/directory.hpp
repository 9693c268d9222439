// Where nodes listen, for nodes that send to ids which nobody connect()ed to: node_options::directory.
// There is one that reads a file (doc/nodes.md); derive from this to ask another service.
//
// A node asks only of ids that it sends or waits for. What it is told it dials as with connect(), for
// as long as the directory names it; a link that is up is never dropped for the directory's sake.
//
// All functions are called from the thread of the node, from within its verbs. None may block, throw,
// or use a node.
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
  using watch_id = std::uint64_t;

  directory(const directory&) = delete;
  directory& operator=(const directory&) = delete;
  virtual ~directory() = default;

  // Where that node listens; all of them are tried. Empty: not known, or not yet. A directory that has
  // to ask elsewhere does so after this, and calls the watchers when it knows.
  [[nodiscard]] virtual std::vector<std::string> lookup(bus_id id) = 0;

  // `changed` is called, from poll() alone, for each node of which lookup() says something else than
  // before, until unwatch(). It may call lookup() and nothing else of this.
  virtual watch_id watch(std::function<void(bus_id)> changed) = 0;
  virtual void unwatch(watch_id which) = 0;

  // A node says where it listens, all of it each time. Errors: not_supported (nobody needs to be
  // told), anything else is logged.
  virtual error announce(bus_id id, const std::vector<std::string>& addresses) = 0;

  // Called at a node's start, and then every two seconds: looks for changes. What is wrong now, as a
  // sentence for people, who are told once; lookup() goes on with what was known before.
  virtual error poll() = 0;

 protected:
  directory() = default;
};

}  // namespace atbus
