// A server that answers requests of etcd's gateway as a test likes. Its thread serves all connections.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "plain_socket.h"
#include "reserved_port.h"
#include "socket_address.h"

namespace atbus::test {

class fake_etcd {
 public:
  // What is sent back, as it is. Empty: nothing ever. Called in the thread of the server.
  using answer = std::function<std::string(std::string_view path, const std::string& body)>;

  explicit fake_etcd(answer says) : says_(std::move(says)) {
    const socket_address at = socket_address::parse(port_.address());
    listener_ = ::socket(at.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int on = 1;
    EXPECT_EQ(::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    EXPECT_EQ(::bind(listener_, at.get(), at.size), 0);
    EXPECT_EQ(::listen(listener_, 64), 0);
    thread_ = std::thread{[this] { serve(); }};
  }
  fake_etcd(const fake_etcd&) = delete;
  fake_etcd& operator=(const fake_etcd&) = delete;
  ~fake_etcd() {
    ends_ = true;
    thread_.join();
    ::close(listener_);
  }

  [[nodiscard]] std::string url() const {
    return "http://127.0.0.1" + port_.address().substr(port_.address().rfind(':'));
  }

  static std::string ok(std::string_view body) {
    return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
           std::string{body};
  }
  // The beginning of a stream, with what it says first.
  static std::string stream(std::string_view first) {
    return "HTTP/1.1 200 OK\r\n\r\n" + std::string{first};
  }
  // The connection ends after that.
  static std::string last(std::string_view text) { return '!' + std::string{text}; }
  // It is sent behind the answer to the next request of another connection.
  static std::string later(std::string_view text) { return '~' + std::string{text}; }

 private:
  struct visitor {
    plain_socket socket;
    std::string heard;
    std::string owed{};
  };

  void serve() {
    while (!ends_) {
      std::vector<pollfd> ready{{.fd = listener_, .events = POLLIN, .revents = 0}};
      for (const visitor& one : visitors_)
        ready.push_back({.fd = one.socket.fd(), .events = POLLIN, .revents = 0});
      (void)::poll(ready.data(), ready.size(), 10);
      auto at = visitors_.begin();
      for (std::size_t i = 1; i != ready.size(); ++i) {
        const auto one = at++;
        if (ready[i].revents != 0 && !hear(*one))
          visitors_.erase(one);
      }
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd >= 0)
        visitors_.push_back({plain_socket{fd}, {}});
    }
  }
  bool hear(visitor& from) {
    std::string bytes(65536, '\0');
    const ssize_t got = ::recv(from.socket.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got <= 0)
      return false;
    from.heard.append(bytes, 0, static_cast<std::size_t>(got));
    const std::size_t head = from.heard.find("\r\n\r\n");
    constexpr std::string_view length = "Content-Length: ";
    const std::size_t at = from.heard.find(length);
    if (head == std::string::npos || at == std::string::npos)
      return true;
    const std::size_t size = std::stoul(from.heard.substr(at + length.size()));
    if (from.heard.size() < head + 4 + size)
      return true;
    const std::size_t path = from.heard.find(' ') + 1;
    const std::string said =
        says_(std::string_view{from.heard}.substr(path, from.heard.find(' ', path) - path),
              from.heard.substr(head + 4, size));
    from.heard.clear();
    if (said.starts_with('~')) {
      from.owed = said.substr(1);
      return true;
    }
    if (said.starts_with('!')) {
      (void)from.socket.send(std::string_view{said}.substr(1));
      return false;
    }
    const bool sent = from.socket.send(said);
    for (visitor& other : visitors_)
      (void)other.socket.send(std::exchange(other.owed, {}));
    return sent;
  }

  const answer says_;
  const reserved_port port_{"ipv4://127.0.0.1:0"};
  int listener_ = -1;
  std::list<visitor> visitors_;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

}  // namespace atbus::test
