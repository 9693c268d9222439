// The thread of a fault_proxy, and what it knows of each connection.
//
// fault_proxy.cpp has the thread, its listener and its turns; fault_proxy_passing.cpp what becomes of
// the bytes.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "fault_proxy.h"
#include "socket_address.h"

namespace atbus::test {

class fault_proxy::engine {
 public:
  engine(std::string_view target, std::string_view listen_at);
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;
  ~engine();

  const std::string& address() const noexcept { return address_; }
  void set(std::size_t way, const fault_plan& plan) {
    command([&] { plans_[way] = plan; });
  }
  void end_all(bool with_reset) {
    command([&] {
      for (connection& c : connections_)
        end(c, with_reset);
      report();
    });
  }
  void refuse() {
    command([this] { stop_listening(); });
  }
  void accept() {
    command([this] {
      if (!listening_)
        listen();
    });
  }
  proxy_counts counts() const {
    const std::scoped_lock lock{mutex_};
    return counts_;
  }
  bool wait(const std::function<bool(const proxy_counts&)>& done,
            std::chrono::nanoseconds longest) const {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, longest, [&] { return done(counts_); });
  }

 private:
  using clock = std::chrono::steady_clock;

  // What a connection may hold on its way, and do in one turn of the thread.
  static constexpr std::size_t held_max = 256 * 1024;  // bytes of one direction of one connection
  static constexpr std::size_t chunk_max = 64 * 1024;
  static constexpr int sends_per_turn = 64;
  // The kernel offers no event for "all was acknowledged", and none for "descriptors are free again".
  static constexpr std::chrono::milliseconds look_again{1};

  class descriptor {
   public:
    explicit descriptor(int fd = -1) noexcept : fd_(fd) {}
    descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    descriptor& operator=(descriptor&& other) noexcept {
      descriptor{std::move(other)}.swap(*this);
      return *this;
    }
    void swap(descriptor& other) noexcept { std::swap(fd_, other.fd_); }
    ~descriptor() {
      if (fd_ >= 0)
        close(fd_);
    }
    [[nodiscard]] int get() const noexcept { return fd_; }

   private:
    int fd_;
  };

  struct chunk {
    std::vector<std::byte> bytes;
    std::size_t begin = 0;  // what lies before it has left
    clock::time_point arrived;
  };

  // One direction of one connection.
  struct lane {
    enum class ending { none, end_of_file, broken };

    std::deque<chunk> chunks;
    std::size_t held = 0;
    std::uint64_t passed = 0;
    clock::time_point last_send = clock::time_point::min();
    ending source = ending::none;  // how reading ended
    bool target_lost = false;      // nothing more can be written
    bool shut = false;             // the end of file was passed on
    bool wants_write = false;

    [[nodiscard]] bool finished() const { return shut || target_lost; }
  };

  struct connection {
    enum class phase { connecting, open, draining, closed };

    std::array<descriptor, 2> sockets;  // the client's, the server's
    std::array<lane, 2> lanes;          // to the server, to the client
    phase now = phase::connecting;
  };

  // When there is something to do without an event.
  struct wake_up {
    clock::time_point at = clock::time_point::max();
    void no_later_than(clock::time_point other) { at = std::min(at, other); }
  };

  static bool try_later(int code) { return code == EAGAIN || code == EWOULDBLOCK || code == EINTR; }

  // The thread does it, between two turns: while it sleeps it holds on to the sockets it watches, so
  // that closing one would not take effect. What it throws is thrown here.
  void command(std::function<void()> change) {
    std::unique_lock lock{mutex_};
    change_ = std::move(change);
    wake();
    changed_.wait(lock, [this] { return !change_; });
    if (const std::exception_ptr thrown = std::exchange(thrown_, nullptr))
      std::rethrow_exception(thrown);
  }
  void obey();
  void wake() const {
    const std::uint64_t one = 1;
    (void)!write(wake_.get(), &one, sizeof one);
  }

  descriptor bound();
  void listen();
  void stop_listening();
  void run();
  void gather(std::vector<pollfd>& interests);
  wake_up turn(const std::vector<pollfd>& events);
  void accept_all(wake_up& next);
  void dial(connection& c);
  void settle_dial(connection& c, short events);
  void read_into(connection& c, std::size_t way);
  void pass_on(connection& c, std::size_t way, wake_up& next);
  bool act_at_position(connection& c, std::size_t way, wake_up& next);
  static std::uint64_t sendable(const fault_plan& plan, const lane& l);
  void finish_lane(connection& c, std::size_t way);
  void drain(connection& c);
  void end(connection& c, bool with_reset);
  void drop_held(connection& c);
  void report();

  proxy_counts::one_way& total(std::size_t way) {
    return way == 0 ? counts_.to_server : counts_.to_client;
  }

  socket_address target_;
  socket_address own_;
  std::string address_;
  descriptor wake_;

  // Guards everything below. The thread holds it except while it sleeps.
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  descriptor listener_;
  bool listening_ = false;
  clock::time_point accept_again_{};  // not before
  bool stopping_ = false;
  std::function<void()> change_;  // to do next
  std::exception_ptr thrown_;     // by it
  std::array<fault_plan, 2> plans_;
  std::list<connection> connections_;
  proxy_counts counts_;
  proxy_counts reported_;
  std::vector<std::byte> scratch_;

  std::thread thread_;
};

}  // namespace atbus::test
