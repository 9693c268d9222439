// Asks DNS servers without blocking, by c-ares. Answers come in drive() alone, which its owner calls when the
// descriptor is readable.
//
// One thread. A forked child may only destroy it.
#pragma once

#include <ares.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "atbus/status.hpp"
#include "discovery/dns_answer.h"
#include "discovery/dns_question.h"
#include "system/kernel.h"

namespace atbus::detail {

class dns_resolver {
 public:
  // An answer without records says that the name has none. An error says why there is no answer.
  using take_answer = std::function<void(const dns_question&, result<dns_answer>)>;

  // `servers` as c-ares reads them, separated by commas; empty: those of the system. `timeout`: of the first of
  // three attempts.
  dns_resolver(std::string servers, std::chrono::milliseconds timeout, take_answer take);
  dns_resolver(const dns_resolver&) = delete;
  dns_resolver& operator=(const dns_resolver&) = delete;
  ~dns_resolver();

  // Before anything else. Errors: invalid_argument (of `servers`), out_of_memory, system_error.
  [[nodiscard]] error open();
  // The same for as long as this lives.
  [[nodiscard]] int descriptor() const noexcept { return epoll_.get(); }

  // The answer comes with a later drive().
  void ask(const dns_question& question);
  [[nodiscard]] std::size_t under_way() const noexcept { return under_way_; }
  // Takes what the servers have sent.
  void drive();
  // The descriptor becomes readable at that moment, or earlier.
  void wake_at(std::chrono::nanoseconds moment);
  [[nodiscard]] bool is_in_child() const noexcept { return getpid() != process_; }
  // Reads the system's list of servers again, if nothing is under way.
  void begin_anew();

 private:
  struct pending;

  static void on_socket(void* self, ares_socket_t socket, int readable, int writable);
  static void on_answer(void* question, int status, int timeouts, unsigned char* bytes, int length);

  [[nodiscard]] error make_channel();
  void close_channel();
  void watch(ares_socket_t socket, bool readable, bool writable) noexcept;
  void answer(const dns_question& question, int status, bytes_view bytes);

  const std::string servers_;
  const std::chrono::milliseconds timeout_;
  const take_answer take_;
  const pid_t process_ = getpid();
  file epoll_;
  file timer_;
  ares_channel channel_ = nullptr;
  std::vector<ares_socket_t> watched_;
  std::size_t under_way_ = 0;
  bool closing_ = false;
};

}  // namespace atbus::detail
