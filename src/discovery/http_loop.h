// POST requests by libcurl's multi interface, on one epoll instance and one timer. Nothing here blocks.
//
// What a request brings is handed over from drive() alone, never from within libcurl, so that its user may
// start and cancel requests there. Answers are limited; a longer one ends with `is_too_large`.
//
// One thread. In a forked child the descriptors are closed, and libcurl is not called any more.
#pragma once

#include <curl/curl.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "atbus/status.hpp"
#include "system/guarded_file.h"

namespace atbus::detail {

// How servers prove who they are, and this program does; empty: not given.
struct http_identity {
  std::string authority;
  std::string certificate;
  std::string key;
};

struct http_request {
  std::string url;
  std::string body;
  std::string token;                    // of the header Authorization; empty: none
  std::chrono::nanoseconds longest{0};  // 0: a stream, which may last
};

struct http_end {
  int status = 0;  // of HTTP; 0: there was no answer
  bool is_too_large = false;
  std::string body{};      // what was not handed over as a part
  std::string own_host{};  // this end of the connection
  std::string problem{};   // of libcurl, if there was no complete answer
};

class http_loop {
 public:
  using call = std::uint64_t;  // 0 is none
  static constexpr std::size_t answer_max = std::size_t{4} << 20U;

  [[nodiscard]] static result<std::unique_ptr<http_loop>> make(http_identity identity);
  http_loop(const http_loop&) = delete;
  http_loop& operator=(const http_loop&) = delete;
  ~http_loop();

  // `on_part` gets the bytes of a stream as they come; it may be null. `on_end` is called once. The
  // request leaves at the next send() or drive(). Throws std::bad_alloc.
  call start(http_request request, std::function<void(std::string_view)> on_part,
             std::function<void(http_end)> on_end);
  // Its functions are not called any more. 0 is ignored.
  void cancel(call which) noexcept;

  // Both throw std::bad_alloc; then what was started is to be cancelled, because it may never end.
  // Sends what was started, and hands nothing over.
  void send();
  // Takes what is there.
  void drive();
  // Readable when drive() has work, or when that moment has come.
  [[nodiscard]] int descriptor() const noexcept { return epoll_.get(); }
  void wake_at(std::chrono::nanoseconds moment) noexcept;

  [[nodiscard]] std::uint64_t started() const noexcept { return calls_so_far_; }

 private:
  struct exchange;
  struct free_easy {
    void operator()(CURL* of) const noexcept { curl_easy_cleanup(of); }
  };
  struct free_list {
    void operator()(curl_slist* of) const noexcept { curl_slist_free_all(of); }
  };

  explicit http_loop(http_identity identity);
  [[nodiscard]] error open();
  [[nodiscard]] bool is_in_child() const noexcept { return forks_so_far() != forks_before_; }

  void set_up(exchange& of);
  void act(curl_socket_t fd, int actions);
  void take_events();
  void take_ends();
  void hand_over();
  void arm() noexcept;

  static int on_timer(CURLM* multi, long timeout_ms, void* self) noexcept;
  static int on_socket(CURL* easy, curl_socket_t fd, int what, void* self, void* added) noexcept;
  static curl_socket_t on_open_socket(void* self, curlsocktype purpose,
                                      curl_sockaddr* address) noexcept;
  static int on_close_socket(void* self, curl_socket_t fd) noexcept;
  static std::size_t on_bytes(char* bytes, std::size_t size, std::size_t count, void* of) noexcept;

  const http_identity identity_;
  const std::uint64_t forks_before_ = forks_so_far();
  guarded_file epoll_;
  guarded_file timer_;
  CURLM* multi_ = nullptr;
  std::unordered_map<int, guarded_file> sockets_;
  std::map<call, std::unique_ptr<exchange>> calls_;
  std::vector<call> touched_;  // have something to hand over; has room for all
  call calls_so_far_ = 0;
  std::chrono::nanoseconds curl_due_ = std::chrono::nanoseconds::max();
  std::chrono::nanoseconds wanted_ = std::chrono::nanoseconds::max();
  std::chrono::nanoseconds armed_{0};  // 0: unknown
};

}  // namespace atbus::detail
