/// @file
/// `nats://` addresses: links that pass through a NATS server or cluster, for nodes that can't reach
/// each other directly. A library of its own: link atbus::nats.
///
/// ```cpp
/// auto carrier = atbus::nats_carrier({.credentials = "/etc/atbus/relay.creds"});
/// if (!carrier) return carrier.error().print();
/// atbus::node relay{0x10000, atbus::node_options{}.token(secret).carrier(*carrier)};
/// relay.listen("nats://nats.example:4222/fleet.east");     // the other one connects to it
/// ```
///
/// A link through NATS keeps what a link over TCP keeps: nothing is lost or repeated without a mark, it is
/// encrypted with the token or the certificates of the two nodes, and the NATS server can read nothing of
/// it. The subject belongs to one node. doc/design/nats.md has the details, doc/operations.md what
/// operators need.
///
/// Threads: for each server in use one thread of this library and those of libnats, which also do
/// everything that may block. They block all signals; libnats makes the process ignore SIGPIPE. exit() waits
/// until the threads have ended, mostly some milliseconds, 5 s at most. Fork: a forked child does not use it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "atbus/carrier.hpp"
#include "atbus/detail/export.hpp"
#include "atbus/status.hpp"

namespace atbus {

/// How to reach NATS servers, the same for all addresses. A plain value. Files are read when a server is
/// connected.
struct nats_options {
  /// A file with a user's JWT and seed, as `nsc` writes it (.creds). Empty: none.
  std::string credentials = {};
  /// A file of two lines: a user's name and the password. Empty: none.
  std::string user_file = {};
  /// The connection to the server is encrypted; the server's certificate must be signed by an authority
  /// that the system trusts, or the one below.
  bool tls = false;
  /// A PEM file with the authority of the server's certificate; implies `tls`. Empty: the system's.
  std::string authority = {};
  /// PEM files: a certificate to show to the server, and its key; imply `tls`. Empty: none.
  std::string certificate = {};
  /// The key of `certificate`.
  std::string key = {};
  /// Further servers of the same cluster, as "host:port", to be tried if the one in the address does not
  /// answer. A connected server tells the others by itself.
  std::vector<std::string> servers = {};
  /// Where answers come to: subjects that begin with this must be allowed for publishing and
  /// subscribing. Tokens of A-Z a-z 0-9 _ -, separated by dots; at most 100 bytes.
  std::string inbox_prefix = "_INBOX";
};

/// Makes a carrier. Never connects, never blocks. When the last owner lets go of it, what was sent
/// leaves for up to a second, on its own thread. Errors: invalid_argument (the text says which option).
[[nodiscard]] ATBUS_API result<std::shared_ptr<carrier>> nats_carrier(const nats_options& options);

}  // namespace atbus
