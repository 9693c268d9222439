// A TCP port of the loopback address that stays free while nothing listens there.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

#include "socket_address.h"

namespace atbus::test {

// Bound, not listening: whoever reuses addresses, as the library does, can listen there, and the
// kernel gives it to nobody else.
class reserved_port {
 public:
  explicit reserved_port(std::string_view loopback) {
    const socket_address wanted = socket_address::parse(loopback);
    fd_ = socket(wanted.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    if (fd_ < 0 || setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd_, wanted.get(), wanted.size) != 0)
      throw std::system_error(errno, std::generic_category(), "no port");
    address_ = socket_address::bound(fd_).text();
  }
  reserved_port(const reserved_port&) = delete;
  reserved_port& operator=(const reserved_port&) = delete;
  ~reserved_port() { close(fd_); }

  [[nodiscard]] const std::string& address() const noexcept { return address_; }

 private:
  int fd_ = -1;
  std::string address_;
};

}  // namespace atbus::test
