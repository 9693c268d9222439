#include "atbus/bench/bare_socket.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace atbus::bench {
namespace {

// How long a sleeping side takes to see that the other is dead: the parent holds both ends too, so
// the connection stays when a worker ends.
constexpr timeval patience{0, 100'000};

bool came_to_nothing(int error) noexcept {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

[[noreturn]] void fail(const char* call) {
  throw std::runtime_error(std::string{call} + ": " + std::strerror(errno));
}

}  // namespace

bare_socket::bare_socket(worker& self)
    : self_{self}, other_{1 - self.index()}, descriptor_{self.work().sockets[self.index()]} {
  close(self.work().sockets[other_]);
  if (setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
      setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0) {
    fail("setsockopt");
  }
}

bare_socket::~bare_socket() {
  close(descriptor_);
}

std::size_t bare_socket::read(std::byte* to, std::size_t size, std::int64_t spin_ns) {
  if (spin_ns <= 0) {
    return sleep_for_bytes(to, size);
  }
  std::int64_t end = 0;
  for (;;) {
    const ssize_t got = recv(descriptor_, to, size, MSG_DONTWAIT);
    if (got >= 0) {
      return static_cast<std::size_t>(got);
    }
    if (!came_to_nothing(errno)) {
      fail("recv");
    }
    const std::int64_t now = now_ns();
    if (end == 0) {
      end = now + spin_ns;
    } else if (now >= end) {
      return sleep_for_bytes(to, size);
    }
    if (self_.shares_core()) {
      sched_yield();
    }
  }
}

std::size_t bare_socket::sleep_for_bytes(std::byte* to, std::size_t size) {
  bool gone = false;
  for (;;) {
    const ssize_t got = recv(descriptor_, to, size, 0);
    if (got >= 0) {
      return static_cast<std::size_t>(got);
    }
    if (!came_to_nothing(errno)) {
      fail("recv");
    }
    // Its last bytes may have come between the two calls; so once more.
    if (gone) {
      return 0;
    }
    gone = self_.over(other_);
  }
}

bool bare_socket::write(const std::byte* from, std::size_t size) {
  while (size != 0) {
    const ssize_t put = send(descriptor_, from, size, MSG_NOSIGNAL);
    if (put >= 0) {
      from += put;
      size -= static_cast<std::size_t>(put);
    } else if (!came_to_nothing(errno)) {
      fail("send");
    } else if (self_.over(other_)) {
      return false;
    }
  }
  return true;
}

void bare_socket::close_writing() noexcept {
  shutdown(descriptor_, SHUT_WR);
}

}  // namespace atbus::bench
