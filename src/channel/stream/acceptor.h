// A listening socket in an epoll instance. It accepts connections, and rests when it can't.
//
// Guarantee: while it rests, and after its end, it causes no wake-up, however many connections wait in the
// kernel's backlog.
//
// One thread. Its owner blocks forks (fork_pause) while it accepts.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "atbus/status.hpp"
#include "system/kernel.h"
#include "system/socket.h"

namespace atbus::detail {

// Most connections accepted before existing ones get their turn.
inline constexpr int accepts_per_look = 64;

class acceptor {
 public:
  // `epoll` outlives it. epoll reports `tag` when a connection waits.
  acceptor(listening_socket socket, int epoll, void* tag) noexcept
      : socket_(std::move(socket)), epoll_(epoll), tag_(tag) {}
  acceptor(const acceptor&) = delete;
  acceptor& operator=(const acceptor&) = delete;
  ~acceptor() { close(); }

  [[nodiscard]] const std::string& address() const noexcept { return socket_.bound_to(); }
  [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }

  // False: the kernel refuses.
  bool watch() noexcept;
  // Stops accepting until then; 0: until go_on is called.
  void rest(std::chrono::nanoseconds until) noexcept;
  // Watches again if its rest is over. If the kernel refuses, it rests longer.
  void go_on(std::chrono::nanoseconds time) noexcept;
  [[nodiscard]] bool watching() const noexcept { return watching_; }
  [[nodiscard]] std::chrono::nanoseconds rests_until() const noexcept { return until_; }

  // The next waiting connection; no file if none waits. If the kernel can't accept, it rests for a while, and
  // `why` has the reason.
  [[nodiscard]] file next(error& why) noexcept;

  // A connection that was accepted can't be used: rests for a while, and returns what to report.
  [[nodiscard]] error refused(int code) noexcept;

  void close() noexcept;
  // For a forked child: the epoll entry belongs to the parent.
  void abandon() noexcept {
    watching_ = false;
    socket_.abandon();
  }

 private:
  [[nodiscard]] error carrier_says(const std::string& text, int code) noexcept;

  listening_socket socket_;
  int epoll_;
  void* tag_;
  bool watching_ = false;
  std::chrono::nanoseconds until_{0};
};

}  // namespace atbus::detail
