// A listening socket in an epoll instance: accepts newcomers, and rests when it has to.
//
// Guarantee: while it rests, and from its end on, it wakes nobody, however many wait in the kernel's
// backlog.
//
// One thread. Its owner keeps forks away (fork_pause) while it accepts.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "atbus/status.hpp"
#include "system/kernel.h"
#include "system/socket.h"

namespace atbus::detail {

// So many newcomers are taken before those that are there have their turn.
inline constexpr int accepts_per_look = 64;

class acceptor {
 public:
  // `epoll` outlives it. `tag` is what epoll says when somebody waits.
  acceptor(listening_socket socket, int epoll, void* tag) noexcept
      : socket_(std::move(socket)), epoll_(epoll), tag_(tag) {}
  acceptor(const acceptor&) = delete;
  acceptor& operator=(const acceptor&) = delete;
  ~acceptor() { close(); }

  [[nodiscard]] const std::string& address() const noexcept { return socket_.bound_to(); }
  [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }

  // False: the kernel refuses.
  bool watch() noexcept;
  // Until then; 0: until its owner has it go on.
  void rest(std::chrono::nanoseconds until) noexcept;
  // Watches again if its rest is over. If the kernel refuses it rests for a while longer.
  void go_on(std::chrono::nanoseconds time) noexcept;
  [[nodiscard]] bool watching() const noexcept { return watching_; }
  [[nodiscard]] std::chrono::nanoseconds rests_until() const noexcept { return until_; }

  // The next one who waits; no file: nobody does. If the kernel can't hand over anybody it rests for
  // a while, and `refused` says why.
  [[nodiscard]] file next(error& refused) noexcept;

  void close() noexcept;
  // In a forked child: what epoll watches is the parent's.
  void abandon() noexcept {
    watching_ = false;
    socket_.abandon();
  }

 private:
  listening_socket socket_;
  int epoll_;
  void* tag_;
  bool watching_ = false;
  std::chrono::nanoseconds until_{0};
};

}  // namespace atbus::detail
