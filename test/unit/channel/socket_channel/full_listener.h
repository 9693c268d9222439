// A listener whose backlog is full.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <string_view>
#include <vector>

#include "plain_socket.h"
#include "socket_address.h"
#include "test.h"

namespace atbus {

// The kernel leaves who dials now without an answer.
class full_listener {
 public:
  explicit full_listener(std::string_view address) : at_(test::socket_address::parse(address)) {
    listening_ = test::plain_socket{::socket(at_.family(), SOCK_STREAM | SOCK_CLOEXEC, 0)};
    EXPECT_EQ(::bind(listening_.fd(), at_.get(), at_.size), 0);
    EXPECT_EQ(::listen(listening_.fd(), 0), 0);
    at_ = test::socket_address::bound(listening_.fd());
    for (int i = 0; i < 8; ++i) {
      dialled_.emplace_back(::socket(at_.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      (void)::connect(dialled_.back().fd(), at_.get(), at_.size);
    }
  }
  [[nodiscard]] std::string address() const { return at_.text(); }
  // Of a Unix socket: those that are in the backlog leave it.
  void accept_all() const {
    EXPECT_EQ(::fcntl(listening_.fd(), F_SETFL, O_NONBLOCK), 0);
    for (;;) {
      const test::plain_socket one{::accept(listening_.fd(), nullptr, nullptr)};
      if (!one.is_open())
        return;
    }
  }
  [[nodiscard]] test::plain_socket accept() const {
    pollfd interest{.fd = listening_.fd(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&interest, 1, 30'000), 1);
    return test::plain_socket{::accept4(listening_.fd(), nullptr, nullptr, SOCK_CLOEXEC)};
  }

 private:
  test::socket_address at_;
  test::plain_socket listening_;
  std::vector<test::plain_socket> dialled_;
};

}  // namespace atbus
