// Sockets for tests without the library: blocking, with a deadline.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "shared_memory.h"
#include "socket_address.h"

namespace atbus::test {

class plain_socket {
 public:
  plain_socket() = default;
  explicit plain_socket(int fd) noexcept : fd_(fd) {}
  plain_socket(plain_socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  plain_socket& operator=(plain_socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(ended_, other.ended_);
    return *this;
  }
  ~plain_socket() { close(); }

  // `from`: the address that the other end is to see, such as "ipv4://127.0.0.2:0"; empty: any. Throws
  // std::system_error with the reason of a refusal.
  static plain_socket connect(std::string_view address, std::string_view from = {}) {
    const socket_address to = socket_address::parse(address);
    plain_socket made{::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (!from.empty()) {
      const socket_address own = socket_address::parse(from);
      if (::bind(made.fd_, own.get(), own.size) != 0)
        throw std::system_error(errno, std::generic_category(), "bind to " + std::string{from});
    }
    if (made.fd_ < 0 || ::connect(made.fd_, to.get(), to.size) != 0)
      throw std::system_error(errno, std::generic_category(), "connect to " + std::string{address});
    return made;
  }

  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] bool is_open() const noexcept { return fd_ >= 0; }

  // False: the other end has gone, or took nothing for too long.
  bool send(std::string_view bytes, std::chrono::nanoseconds longest = patience) const {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n >= 0) {
        bytes.remove_prefix(static_cast<std::size_t>(n));
      } else if (errno != EAGAIN || !ready(POLLOUT, longest)) {
        return false;
      }
    }
    return true;
  }

  // What one read gives; empty at the end of the stream, and when nothing came in time.
  [[nodiscard]] std::string receive_some(std::size_t most = 65536,
                                         std::chrono::nanoseconds longest = patience) {
    std::string bytes(most, '\0');
    ssize_t n = 0;
    do {
      if (!ready(POLLIN, longest)) {
        ended_ = "silence";
        return {};
      }
      n = ::recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    } while (n < 0 && errno == EAGAIN);
    if (n == 0)
      ended_ = "end of file";
    if (n < 0)
      ended_ = errno == ECONNRESET ? "reset" : std::generic_category().message(errno);
    bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    return bytes;
  }
  // Exactly so many bytes, or fewer if the stream has ended or nothing came in time.
  [[nodiscard]] std::string receive(std::size_t size) {
    std::string bytes;
    while (bytes.size() < size) {
      const std::string more = receive_some(size - bytes.size());
      if (more.empty())
        break;
      bytes += more;
    }
    return bytes;
  }
  // All up to the end of the stream; ended() then says how it did.
  [[nodiscard]] std::string receive_all() {
    std::string bytes;
    for (std::string more = receive_some(); !more.empty(); more = receive_some())
      bytes += more;
    return bytes;
  }
  // "end of file", "reset", "silence": why the last receive gave less than asked for.
  [[nodiscard]] const std::string& ended() const noexcept { return ended_; }

  void finish() const { (void)::shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ >= 0)
      (void)::close(std::exchange(fd_, -1));
  }

 private:
  [[nodiscard]] bool ready(short events, std::chrono::nanoseconds longest) const {
    pollfd interest{.fd = fd_, .events = events, .revents = 0};
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(longest).count();
    return ::poll(&interest, 1, static_cast<int>(ms)) == 1;
  }

  int fd_ = -1;
  std::string ended_;
};

class plain_listener {
 public:
  // Port 0: a free one, which address() says. A socket file is the caller's to remove.
  explicit plain_listener(std::string_view address) {
    const socket_address at = socket_address::parse(address);
    listening_ = plain_socket{::socket(at.family(), SOCK_STREAM | SOCK_CLOEXEC, 0)};
    const int on = 1;
    (void)::setsockopt(listening_.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(listening_.fd(), at.get(), at.size) != 0 || ::listen(listening_.fd(), 64) != 0)
      throw std::system_error(errno, std::generic_category(), "listen at " + std::string{address});
    address_ = socket_address::bound(listening_.fd()).text();
  }

  [[nodiscard]] const std::string& address() const noexcept { return address_; }

  // Not open if nobody came.
  [[nodiscard]] plain_socket accept(std::chrono::nanoseconds longest = patience) const {
    pollfd interest{.fd = listening_.fd(), .events = POLLIN, .revents = 0};
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(longest).count();
    if (::poll(&interest, 1, static_cast<int>(ms)) != 1)
      return {};
    return plain_socket{::accept4(listening_.fd(), nullptr, nullptr, SOCK_CLOEXEC)};
  }
  void close() { listening_.close(); }

 private:
  plain_socket listening_;
  std::string address_;
};

}  // namespace atbus::test
