// Waits until a program that a test has started listens.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "atbus/clock.hpp"
#include "shared_memory.h"
#include "socket_address.h"
#include "test.h"

namespace atbus::test {

// False: it does not within `patience`.
[[nodiscard]] inline bool begins_to_listen(const std::string& address) {
  const socket_address to = socket_address::parse(address);
  for (const auto deadline = now() + patience; now() < deadline;) {
    const int fd = ::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool answers = ::connect(fd, to.get(), to.size) == 0;
    ::close(fd);
    if (answers)
      return true;
    std::this_thread::sleep_for(10ms);  // another program's start has no event to wait for
  }
  return false;
}

}  // namespace atbus::test
