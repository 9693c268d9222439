// Sockets of stream channels: addresses, listening, dialling, options.
//
// All sockets are non-blocking and close-on-exec. The caller blocks forks (fork_pause) until a guarded object
// holds them.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>

#include "atbus/address.hpp"
#include "atbus/status.hpp"
#include "core/link_origin.h"
#include "system/kernel.h"

namespace atbus::detail {

// The address of a socket in the kernel's form.
struct socket_address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  [[nodiscard]] const sockaddr* get() const noexcept {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
  [[nodiscard]] int family() const noexcept { return storage.ss_family; }
};

// Accepts ipv4, ipv6 and unix addresses; a dns address has to be looked up first.
[[nodiscard]] socket_address to_socket_address(const address& of) noexcept;

// "ipv6://[::1]:4711", "unix:///run/x.sock"; for a Unix socket that was never bound "unix://".
[[nodiscard]] std::string describe_peer(int fd);

// Whether the other end of a connected Unix socket belongs to a process of the same user, as the kernel noted
// when it connected or listened. False for TCP.
[[nodiscard]] bool is_of_our_user(int fd) noexcept;
// Where a connected socket leads to, as the kernel says.
[[nodiscard]] link_origin remote_origin(int fd) noexcept;
// Allows or refuses descriptors through this Unix socket (SO_PASSRIGHTS, Linux 6.16; older kernels allow
// them). Accepted sockets inherit the setting. Descriptors of other users are refused, because closing the
// last copy may block, such as for a TCP socket that lingers.
void let_descriptors_through(int fd, bool allowed) noexcept;

struct stream_options {
  int send_buffer = 0;     // the kernel's buffer in bytes; 0: the kernel's default
  int receive_buffer = 0;  // likewise
  bool keepalive = true;   // TCP only
};
// Sets TCP_NODELAY, keepalive and buffers, and makes urgent bytes part of the stream. Options that the kernel refuses keep their values.
void set_stream_options(int fd, const stream_options& wanted) noexcept;
// The size that the kernel granted, in bytes of payload as it counts them; 0: unknown.
[[nodiscard]] std::uint64_t granted_buffer(int fd, int option) noexcept;

// A listening socket and its name, which it removes when it ends.
class listening_socket {
 public:
  listening_socket() = default;
  listening_socket(listening_socket&&) = default;
  listening_socket& operator=(listening_socket&& other) noexcept {
    if (this != &other) {
      close();
      fd_ = std::move(other.fd_);
      bound_to_ = std::move(other.bound_to_);
      path_ = std::move(other.path_);
      device_ = other.device_;
      inode_ = other.inode_;
      is_carried_ = other.is_carried_;
    }
    return *this;
  }
  listening_socket(const listening_socket&) = delete;
  listening_socket& operator=(const listening_socket&) = delete;
  ~listening_socket() { close(); }

  // Binds and listens. `where.port()` 0 takes a free port. Replaces a Unix socket that a dead process left,
  // but not one with a living listener. Errors: receiver_exists (another process listens there),
  // invalid_argument (the address is not of this host), denied, not_found (no such directory), no_space,
  // not_supported (the file system can't give a socket its name), system_error.
  [[nodiscard]] static result<listening_socket> open(const address& where, int backlog,
                                                     const stream_options& options);
  // One whose connections a carrier hands over through this socket (atbus/carrier.hpp).
  [[nodiscard]] static listening_socket carried(file socket, std::string address) noexcept;

  // The same socket again, which does not take its name away. With it as long as either is open.
  [[nodiscard]] result<listening_socket> duplicate() const;

  // The next connection. Without one errno says why not: EAGAIN if none waits, EPIPE if the carrier has ended,
  // EPROTO if it has said something instead, which `said` gets.
  [[nodiscard]] file accept(std::string& said) noexcept;
  [[nodiscard]] bool is_carried() const noexcept { return is_carried_; }

  [[nodiscard]] int get() const noexcept { return fd_.get(); }
  // With the port that was bound.
  [[nodiscard]] const std::string& bound_to() const noexcept { return bound_to_; }

  // Stops listening, and takes the name of a Unix socket away if it is still ours.
  void close() noexcept;
  // In a forked child: the name is the parent's.
  void abandon() noexcept { fd_.reset(); }

 private:
  [[nodiscard]] error bind_path(const address& where, int backlog);

  file fd_;
  std::string bound_to_;
  std::string path_;  // of a Unix socket in the file system
  dev_t device_ = 0;  // of that path
  ino_t inode_ = 0;
  bool is_carried_ = false;
};

// A socket on its way to a listener.
struct dialled_socket {
  file fd;
  bool connected = false;  // else it will be when it becomes writable, or dial_result says why not
};
// Errors: not_found (nothing listens there), would_block (a Unix listener's backlog is full), denied,
// system_error.
[[nodiscard]] result<dialled_socket> dial_socket(const socket_address& to, const std::string& text,
                                                 const stream_options& options) noexcept;
// Whether it is writable: dial_result tells what became of it.
[[nodiscard]] bool is_answered(int fd) noexcept;
// What became of it; to be asked once it is writable.
[[nodiscard]] error dial_result(int fd, const std::string& text) noexcept;

}  // namespace atbus::detail
