// Many connections of peers that prove nothing, from a thread of their own, and what they cost this process.
#pragma once

#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "from_environment.h"
#include "plain_socket.h"

namespace atbus::test {

// ATBUS_HOSTILE_CONNECTIONS=10000 makes it a real crowd.
[[nodiscard]] inline std::size_t crowd_size() {
  return static_cast<std::size_t>(from_environment("ATBUS_HOSTILE_CONNECTIONS", 300));
}

// False: the system allows fewer. Who may raises its own limit.
[[nodiscard]] inline bool may_open_descriptors(std::size_t count) {
  rlimit limit{};
  (void)getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit raised{.rlim_cur = count, .rlim_max = count};
  if (limit.rlim_max < count && setrlimit(RLIMIT_NOFILE, &raised) == 0)
    return true;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur >= count;
}

// Memory of this process in use, in bytes.
[[nodiscard]] inline std::size_t resident_bytes() {
  std::size_t kilobytes = 0;
  if (std::FILE* const from = std::fopen("/proc/self/status", "r"); from != nullptr) {
    char line[256];
    while (std::fgets(line, sizeof line, from) != nullptr) {
      if (std::sscanf(line, "VmRSS: %zu kB", &kilobytes) == 1)
        break;
    }
    std::fclose(from);
  }
  return kilobytes * 1024;
}

// What each of them does. Each function may be empty.
struct stranger_habits {
  std::string opening = {};    // said at once
  std::string by_bytes = {};   // said one byte at a time
  bool reflects = false;       // sends back what it hears
  bool sends_files = false;    // descriptors, through a Unix socket
  SSL_CTX* session = nullptr;  // begins a TLS session as a client
};

class stranger_crowd {
 public:
  // From 127.0.0.3, or through a Unix socket.
  stranger_crowd(std::string address, std::size_t count, stranger_habits habits)
      : address_(std::move(address)), habits_(std::move(habits)), thread_([this, count] {
          come(count);
          while (!leaves_) {
            go_on();
            // No wait for an event: the pace of those that say one byte at a time.
            std::this_thread::sleep_for(std::chrono::milliseconds{1});
          }
        }) {}
  ~stranger_crowd() {
    leaves_ = true;
    thread_.join();
  }
  stranger_crowd(const stranger_crowd&) = delete;
  stranger_crowd& operator=(const stranger_crowd&) = delete;

  [[nodiscard]] bool all_came() const noexcept { return all_came_; }

 private:
  void come(std::size_t count) {
    for (std::size_t i = 0; i != count && !leaves_; ++i) {
      members_.push_back({dial(), 0});
      begin(members_.back().socket);
      go_on();
    }
    all_came_ = true;
  }
  // Again until there is room in the listener's backlog.
  [[nodiscard]] plain_socket dial() const {
    const socket_address to = socket_address::parse(address_);
    for (;;) {
      plain_socket made{::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0)};
      if (to.family() == AF_INET) {
        const socket_address from = socket_address::parse("ipv4://127.0.0.3:0");
        (void)::bind(made.fd(), from.get(), from.size);
      }
      const timeval longest{.tv_sec = 0, .tv_usec = 200'000};
      (void)::setsockopt(made.fd(), SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof longest);
      (void)::setsockopt(made.fd(), SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
      if (::connect(made.fd(), to.get(), to.size) == 0 || leaves_)
        return made;
    }
  }
  void begin(const plain_socket& by) const {
    if (habits_.session != nullptr) {
      SSL* const session = SSL_new(habits_.session);
      SSL_set_fd(session, by.fd());
      (void)SSL_connect(session);
      SSL_free(session);
    }
    if (habits_.sends_files)
      send_files(by.fd());
    (void)::send(by.fd(), habits_.opening.data(), habits_.opening.size(),
                 MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  static void send_files(int fd) {
    for (int i = 0; i != 10; ++i) {
      char byte = 0;
      iovec bytes{&byte, 1};
      alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
      msghdr message{};
      message.msg_iov = &bytes;
      message.msg_iovlen = 1;
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      cmsghdr* const head = CMSG_FIRSTHDR(&message);
      head->cmsg_level = SOL_SOCKET;
      head->cmsg_type = SCM_RIGHTS;
      head->cmsg_len = CMSG_LEN(2 * sizeof(int));
      const int both[2] = {fd, fd};
      std::memcpy(CMSG_DATA(head), both, sizeof both);
      (void)::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  }
  // One of them at a time, in turns.
  void go_on() {
    if (members_.empty())
      return;
    next_ = (next_ + 1) % members_.size();
    member& of = members_[next_];
    if (of.said < habits_.by_bytes.size())
      (void)::send(of.socket.fd(), habits_.by_bytes.data() + of.said++, 1,
                   MSG_NOSIGNAL | MSG_DONTWAIT);
    if (habits_.reflects) {
      char heard[4096];
      const ssize_t n = ::recv(of.socket.fd(), heard, sizeof heard, MSG_DONTWAIT);
      if (n > 0)
        (void)::send(of.socket.fd(), heard, static_cast<std::size_t>(n),
                     MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  }

  struct member {
    plain_socket socket;
    std::size_t said;
  };
  const std::string address_;
  const stranger_habits habits_;
  std::vector<member> members_;
  std::size_t next_ = 0;
  std::atomic<bool> all_came_{false};
  std::atomic<bool> leaves_{false};
  std::thread thread_;
};

}  // namespace atbus::test
