/// @file
/// How a program gives its nodes one more way to other nodes: a carrier takes the bytes of a link to the
/// other end by a way that libatbus does not know. atbus/nats.hpp has one.
///
/// libatbus gets one end of a connected socket pair for each link, and uses it as it uses a TCP
/// connection: with its own opening, encryption, limits for strangers and acknowledgements. The carrier
/// has the other end. So a carrier only has to keep the bytes of a link in order, and to end the link
/// when it can't.
#pragma once

#include <memory>

#include "atbus/address.hpp"
#include "atbus/detail/export.hpp"
#include "atbus/status.hpp"

namespace atbus {

/// What a carrier knows of a link that it was asked to make.
class ATBUS_API carried_link {
 public:
  carried_link() = default;
  carried_link(const carried_link&) = delete;
  carried_link& operator=(const carried_link&) = delete;
  virtual ~carried_link();

  /// Why the carrier has ended the link; ok if it has not. Any thread; never blocks.
  [[nodiscard]] virtual error why() const = 0;
};

/// A socket pair's end, for libatbus, which closes it: non-blocking and close-on-exec.
struct carried_socket {
  /// A Unix socket of type SOCK_STREAM. Bytes may be written at once.
  int descriptor = -1;
  /// Not null.
  std::shared_ptr<const carried_link> link;
};

/// Ownership: shared by the program and the nodes that use it. Threads: a node calls it on its own
/// thread; nodes of several threads may share one. Its functions never block and call no code of the
/// program.
class ATBUS_API carrier {
 public:
  carrier() = default;
  carrier(const carrier&) = delete;
  carrier& operator=(const carrier&) = delete;
  virtual ~carrier();

  /// Begins to listen. Returns the end of a socket pair of type SOCK_SEQPACKET, non-blocking and
  /// close-on-exec, which libatbus closes when it no longer listens. Each packet from the carrier is
  /// either one byte with the socket of a new link (SCM_RIGHTS), or a text about a problem, for
  /// people. Errors: receiver_exists (the program listens there already), system_error.
  [[nodiscard]] virtual result<int> listen(const address& at) = 0;
  /// Begins a link. The outcome shows later: the link ends, or the other end answers. Errors:
  /// system_error.
  [[nodiscard]] virtual result<carried_socket> connect(const address& to) = 0;
};

}  // namespace atbus
