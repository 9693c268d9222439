/// @file
/// The state of a node over HTTP, for monitoring: Prometheus metrics at `/metrics`, `/healthz` and
/// `/readyz`, all nodes of the host as JSON at `/status.json`, and a page for people at `/`. A library
/// of its own: link atbus::http.
///
/// ```cpp
/// atbus::node node{7};
/// auto status = atbus::status_server::open(node);     // http://127.0.0.1:9464/
/// if (!status) status.error().print();                // the node works without
/// node.run();
/// ```
///
/// A server runs one thread, which open() starts. That thread reads the reports that nodes
/// write into files (atbus/node_report.hpp); it never touches a node, so no request can slow one
/// down, except by the CPU time that is bounded below. It blocks all signals.
///
/// Costs: reports are read and put into words at most four times a second for each path, and
/// for at most a twentieth of the time each; requests in between get the same answer. Each
/// connection is for one request, holds at most 32 KiB besides its answer, and is closed after
/// connection_timeout, however slow its client is.
///
/// Trust: whoever reaches the address can read what `atbus show` prints, without password or
/// encryption. Nothing can be changed. The default is loopback; there, requests that name another
/// host than an address or localhost are refused, so that no web page can read the answers by
/// pointing a name of its own at this address (DNS rebinding).
///
/// Ownership: the server does not keep the node. Once the node is closed, the answer says so.
/// Threads: one at a time. Fork: in a forked child the server does nothing; the parent's is not
/// affected.
///
/// doc/design/status_server.md describes the answers, doc/operations.md is for operators.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "atbus/bus_id.hpp"
#include "atbus/detail/export.hpp"
#include "atbus/status.hpp"

namespace atbus {

class node;

namespace detail {
class status_service;
}  // namespace detail

/// Options of a status_server. A plain value.
struct status_server_options {
  /// Where it listens: an IPv4 or IPv6 address and a port, such as "127.0.0.1:9464" or
  /// "[::1]:9464". Port 0: any that is free.
  std::string listen = "127.0.0.1:9464";
  /// The directory of the reports, as node_options::report_directory of the nodes.
  std::string report_directory = "/dev/shm";
  /// `/readyz` asks for a connected parent.
  bool needs_parent = false;
  /// How many peers one answer describes at most, the first ones by id. 1 to 4,096.
  std::size_t peers = 1024;
  /// How many connections it has at most; more wait in the kernel. 1 to 512.
  unsigned connections = 64;
  /// How many of them may come from one address; more are closed at once. 1 or more.
  unsigned connections_per_address = 32;
  /// How long a connection may last. 1 ms to 1 hour.
  std::chrono::nanoseconds connection_timeout = std::chrono::seconds{10};

  /// Whether the values are possible. Errors: invalid_argument, invalid_address (text: which).
  [[nodiscard]] ATBUS_API error check() const;
};

/// Answers HTTP requests about a node until it is destroyed. See atbus/status_server.hpp.
class ATBUS_API status_server {
 public:
  /// Listens, and starts the thread. Errors: as of check(); not_found: the node makes no reports in
  /// that directory; system_error: the system refuses the address, such as one in use;
  /// out_of_memory.
  static result<status_server> open(const node& of, const status_server_options& options = {});
  /// The same for the node with that id and incarnation, of this process or another one.
  static result<status_server> open(bus_id id, std::uint64_t incarnation,
                                    const status_server_options& options = {});

  /// Takes the server over.
  status_server(status_server&& from) noexcept;
  /// Ends this server, and takes the other one over.
  status_server& operator=(status_server&& from) noexcept;
  /// Ends the thread and all connections.
  ~status_server();

  /// Where it listens, such as "127.0.0.1:9464"; with the port that was found for port 0.
  [[nodiscard]] const std::string& address() const noexcept;
  /// The port of it.
  [[nodiscard]] std::uint16_t port() const noexcept;

 private:
  explicit status_server(std::unique_ptr<detail::status_service> service) noexcept;

  std::unique_ptr<detail::status_service> service_;
};

}  // namespace atbus
