// Answers GET and HEAD requests, on a thread of its own.
//
// - At most `connections` at a time, `connections_per_address` of one address, each for one request.
// - A connection ends `connection_timeout` after it was accepted, whatever its client does.
// - A connection holds 32 KiB besides the answer. No request is kept after its answer.
// - A slow client delays no other one.
// - The thread gets no signals: those are for the program's own threads.
//
// A forked child must not destroy it: the child has neither the thread nor what the thread had locked.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "atbus/status.hpp"
#include "http/http_reply.h"
#include "http/listen_address.h"
#include "http/open_descriptor.h"

struct MHD_Connection;
struct MHD_Daemon;

namespace atbus::detail {

struct http_limits {
  unsigned connections = 64;
  unsigned connections_per_address = 32;
  std::chrono::nanoseconds connection_timeout = std::chrono::seconds{10};
};

class http_server {
 public:
  // The answer to a path. On the server's thread; the reply stays until the next call. May throw: the
  // client gets no answer.
  using handler = std::function<const http_reply&(std::string_view path)>;

  // Errors: system_error, out_of_memory.
  [[nodiscard]] static result<std::unique_ptr<http_server>> open(const listen_address& at,
                                                                 const http_limits& limits,
                                                                 handler answer);
  ~http_server();

  // With the port that was found.
  [[nodiscard]] const listen_address& address() const noexcept { return address_; }

 private:
  using time_point = std::chrono::steady_clock::time_point;
  struct open_connection {
    int fd;
    time_point until;
  };
  struct callbacks;

  http_server(const http_limits& limits, handler answer)
      : limits_(limits), answer_(std::move(answer)) {}

  error listen(const listen_address& at);
  error start();
  error start_thread();
  void run();
  // How long there is nothing to do unless a socket has news, in milliseconds; -1: no limit.
  [[nodiscard]] int longest_wait() const;
  void cut_late_ones();
  const http_reply& reply_to(MHD_Connection* connection, const char* path, std::string_view method);

  const http_limits limits_;
  const handler answer_;
  const http_reply not_allowed_ =
      http_reply{405, text_type, "only GET and HEAD are answered\n"}.with("Allow", "GET, HEAD");
  const http_reply foreign_name_{403, text_type,
                                 "this server is asked by its address, or as localhost\n"};
  listen_address address_;
  open_descriptor listener_;
  open_descriptor asked_to_end_;
  MHD_Daemon* daemon_ = nullptr;
  std::deque<open_connection> open_;  // the oldest first
  bool was_called_ = false;           // by the library for HTTP, in this turn
  bool has_room_again_ = false;       // a connection has ended since the last look at the listener
  std::thread thread_;
};

}  // namespace atbus::detail
