#include "fault_proxy.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <exception>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "socket_address.h"

namespace atbus::test {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::size_t held_max = 256 * 1024;  // bytes of one direction of one connection
constexpr std::size_t chunk_max = 64 * 1024;
constexpr std::size_t connections_max = 2048;
constexpr int sends_per_turn = 64;
// The kernel offers no event for "all was acknowledged", and none for "descriptors are free again".
constexpr std::chrono::milliseconds look_again{1};

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

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

bool try_later(int code) {
  return code == EAGAIN || code == EWOULDBLOCK || code == EINTR;
}

void prepare(int fd) {
  const int on = 1;  // Unix sockets answer with an error
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void close_with_reset(descriptor& socket) {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  (void)setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  socket = descriptor{};
}

// Whether the other end's kernel has all that was sent.
bool all_arrived(int fd) {
  int family = 0;
  socklen_t size = sizeof family;
  int waiting = 0;
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) != 0 || family == AF_UNIX)
    return true;
  return ioctl(fd, SIOCOUTQ, &waiting) != 0 || waiting == 0;
}

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

}  // namespace

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

fault_proxy::engine::engine(std::string_view target, std::string_view listen_at)
    : target_(socket_address::parse(target)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      scratch_(chunk_max) {
  static std::atomic<unsigned> names{0};
  std::string at{listen_at};
  if (at.empty() && target_.family() == AF_UNIX) {
    at = "unix://@fault-proxy-" + std::to_string(getpid()) + "-" + std::to_string(++names);
  } else if (at.empty()) {
    at = target_.family() == AF_INET ? "ipv4://127.0.0.1:0" : "ipv6://::1:0";
  }
  own_ = socket_address::parse(at);
  if (wake_.get() < 0)
    fail("eventfd");
  listen();
  address_ = own_.text();
  // Signals are the test's, not this thread's.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread{[this] { run(); }};
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

fault_proxy::engine::~engine() {
  command([this] { stopping_ = true; });
  thread_.join();
  if (const std::string path = own_.path(); !path.empty())
    (void)unlink(path.c_str());
}

descriptor fault_proxy::engine::bound() {
  descriptor made{socket(own_.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  const int on = 1;
  (void)setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(made.get(), own_.get(), own_.size) != 0)
    fail("bind of the proxy");
  own_ = socket_address::bound(made.get());
  return made;
}

void fault_proxy::engine::listen() {
  if (listener_.get() < 0) {
    if (const std::string path = own_.path(); !path.empty())
      (void)unlink(path.c_str());
    listener_ = bound();
    if (own_.family() != AF_UNIX) {
      // A port the kernel has chosen is lost when the socket stops listening; one that was asked for
      // is kept. So ask for the chosen one, while it is still ours.
      const descriptor chosen = std::exchange(listener_, bound());
    }
  }
  if (::listen(listener_.get(), 1024) != 0)
    fail("listen of the proxy");
  listening_ = true;
}

void fault_proxy::engine::stop_listening() {
  if (!listening_)
    return;
  // A TCP listener that was shut down keeps its port and listens again when told to.
  if (own_.family() == AF_UNIX) {
    listener_ = descriptor{};
  } else {
    (void)shutdown(listener_.get(), SHUT_RD);
  }
  listening_ = false;
}

void fault_proxy::engine::run() {
  std::vector<pollfd> interests;
  wake_up next;
  for (;;) {
    {
      const std::scoped_lock lock{mutex_};
      if (stopping_)
        return;
      gather(interests);
    }
    timespec timeout{};
    if (next.at != clock::time_point::max()) {
      const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(
                            std::max(next.at - clock::now(), clock::duration{0}))
                            .count();
      timeout = {.tv_sec = static_cast<time_t>(left / 1'000'000'000),
                 .tv_nsec = static_cast<long>(left % 1'000'000'000)};
    }
    (void)ppoll(interests.data(), interests.size(),
                next.at == clock::time_point::max() ? nullptr : &timeout, nullptr);
    const std::scoped_lock lock{mutex_};
    next = turn(interests);
    obey();
  }
}

void fault_proxy::engine::obey() {
  if (!change_)
    return;
  try {
    change_();
  } catch (...) {
    thrown_ = std::current_exception();
  }
  change_ = nullptr;
  changed_.notify_all();
  // Its effects are the next turn's.
  wake();
}

// Two entries at the front, then two for each connection.
void fault_proxy::engine::gather(std::vector<pollfd>& interests) {
  const auto want = [&interests](int fd, int events) {
    // Without interest, poll would still answer with errors and hang-ups, again and again.
    interests.push_back(
        {.fd = events == 0 ? -1 : fd, .events = static_cast<short>(events), .revents = 0});
  };
  interests.clear();
  want(wake_.get(), POLLIN);
  const bool accepting = listening_ && connections_.size() < connections_max;
  want(listener_.get(), accepting && clock::now() >= accept_again_ ? POLLIN : 0);
  for (const connection& c : connections_) {
    for (std::size_t side = 0; side < 2; ++side) {
      const lane& from = c.lanes[side];
      const lane& to = c.lanes[1 - side];
      int events = 0;
      if (c.now == connection::phase::connecting) {
        events = side == 1 ? POLLOUT : 0;
      } else if (from.source == lane::ending::none && from.held < held_max) {
        events = POLLIN;
      }
      if (c.now == connection::phase::open && to.wants_write)
        events |= POLLOUT;
      want(c.sockets[side].get(), events);
    }
  }
}

wake_up fault_proxy::engine::turn(const std::vector<pollfd>& events) {
  wake_up next;
  if (accept_again_ > clock::now())
    next.no_later_than(accept_again_);
  std::uint64_t ignored = 0;
  (void)!read(wake_.get(), &ignored, sizeof ignored);
  // Connections are only ever appended, and removed at the end of a turn.
  std::size_t at = 2;
  for (connection& c : connections_) {
    if (at + 1 >= events.size())
      break;
    const std::array<short, 2> seen{events[at].revents, events[at + 1].revents};
    at += 2;
    if (c.now == connection::phase::connecting)
      settle_dial(c, seen[1]);
    for (std::size_t way = 0; way < 2 && c.now == connection::phase::open; ++way) {
      if ((seen[way] & (POLLIN | POLLHUP | POLLERR)) != 0)
        read_into(c, way);
      if ((seen[1 - way] & (POLLOUT | POLLHUP | POLLERR)) != 0)
        c.lanes[way].wants_write = false;
    }
    for (std::size_t way = 0; way < 2 && c.now == connection::phase::open; ++way)
      pass_on(c, way, next);
    if (c.now == connection::phase::draining)
      drain(c);
  }
  connections_.remove_if([](const connection& c) { return c.now == connection::phase::closed; });
  if (listening_ && (events[1].revents & POLLIN) != 0)
    accept_all(next);
  report();
  return next;
}

void fault_proxy::engine::accept_all(wake_up& next) {
  while (connections_.size() < connections_max) {
    descriptor client{accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (client.get() < 0) {
      if (!try_later(errno)) {
        // Out of descriptors, or a client that has gone.
        accept_again_ = clock::now() + look_again;
        next.no_later_than(accept_again_);
      }
      return;
    }
    prepare(client.get());
    ++counts_.accepted;
    connection& c = connections_.emplace_back();
    c.sockets[0] = std::move(client);
    dial(c);
  }
}

void fault_proxy::engine::dial(connection& c) {
  c.sockets[1] =
      descriptor{socket(target_.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  prepare(c.sockets[1].get());
  if (connect(c.sockets[1].get(), target_.get(), target_.size) == 0) {
    c.now = connection::phase::open;
  } else if (errno != EINPROGRESS) {
    ++counts_.unreachable;
    end(c, true);
  }
}

void fault_proxy::engine::settle_dial(connection& c, short events) {
  if (events == 0)
    return;
  int code = 0;
  socklen_t size = sizeof code;
  (void)getsockopt(c.sockets[1].get(), SOL_SOCKET, SO_ERROR, &code, &size);
  if (code == 0) {
    c.now = connection::phase::open;
  } else {
    ++counts_.unreachable;
    end(c, true);
  }
}

void fault_proxy::engine::read_into(connection& c, std::size_t way) {
  lane& l = c.lanes[way];
  if (l.source != lane::ending::none || l.held >= held_max)
    return;
  const ssize_t n = recv(c.sockets[way].get(), scratch_.data(),
                         std::min(scratch_.size(), held_max - l.held), MSG_DONTWAIT);
  if (n < 0) {
    if (!try_later(errno))
      l.source = lane::ending::broken;
    return;
  }
  if (n == 0) {
    l.source = lane::ending::end_of_file;
    return;
  }
  const auto size = static_cast<std::size_t>(n);
  total(way).arrived += size;
  if (plans_[way].discard || l.target_lost) {
    total(way).dropped += size;
    return;
  }
  l.held += size;
  l.chunks.push_back({.bytes = {scratch_.begin(), scratch_.begin() + n}, .arrived = clock::now()});
}

std::uint64_t fault_proxy::engine::sendable(const fault_plan& plan, const lane& l) {
  std::uint64_t most = plan.piece == 0 ? chunk_max : plan.piece;
  for (const auto& position : {plan.stall_at, plan.cut_at, plan.reset_at}) {
    if (position)
      most = std::min(most, *position > l.passed ? *position - l.passed : 0);
  }
  return most;
}

// True when the plan has ended the connection, or is about to.
bool fault_proxy::engine::act_at_position(connection& c, std::size_t way, wake_up& next) {
  const fault_plan& plan = plans_[way];
  const lane& l = c.lanes[way];
  if (plan.cut_at && l.passed >= *plan.cut_at) {
    end(c, false);
    return true;
  }
  if (!plan.reset_at || l.passed < *plan.reset_at)
    return false;
  // A reset overtakes what is still under way; what lies before it is to arrive.
  if (all_arrived(c.sockets[1 - way].get())) {
    end(c, true);
  } else {
    next.no_later_than(clock::now() + look_again);
  }
  return true;
}

void fault_proxy::engine::pass_on(connection& c, std::size_t way, wake_up& next) {
  const fault_plan& plan = plans_[way];
  lane& l = c.lanes[way];
  const int target = c.sockets[1 - way].get();
  std::array<std::byte, chunk_max> copy;
  for (int sends = 0;; ++sends) {
    if (act_at_position(c, way, next))
      return;
    if (l.wants_write || l.chunks.empty() || l.target_lost)
      break;
    const auto now = clock::now();
    const auto due = std::max(l.chunks.front().arrived + plan.delay, l.last_send + plan.pause);
    if (due > now || sends == sends_per_turn) {
      next.no_later_than(due);
      break;
    }
    chunk& first = l.chunks.front();
    const std::size_t size = std::min({static_cast<std::size_t>(sendable(plan, l)),
                                       first.bytes.size() - first.begin, copy.size()});
    if (size == 0)
      break;
    std::copy_n(first.bytes.begin() + static_cast<std::ptrdiff_t>(first.begin), size, copy.begin());
    if (plan.corrupt_at && *plan.corrupt_at >= l.passed && *plan.corrupt_at < l.passed + size)
      copy[*plan.corrupt_at - l.passed] ^= std::byte{1} << (plan.corrupt_bit % 8);
    const ssize_t n = send(target, copy.data(), size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
      if (try_later(errno)) {
        l.wants_write = true;
      } else {
        total(way).dropped += l.held;
        l.target_lost = true;
        l.chunks.clear();
        l.held = 0;
      }
      break;
    }
    const auto sent = static_cast<std::size_t>(n);
    l.last_send = now;
    l.passed += sent;
    total(way).passed += sent;
    ++total(way).sends;
    l.held -= sent;
    first.begin += sent;
    if (first.begin == first.bytes.size())
      l.chunks.pop_front();
  }
  finish_lane(c, way);
}

// Passes on how the source ended, once nothing before it is left.
void fault_proxy::engine::finish_lane(connection& c, std::size_t way) {
  lane& l = c.lanes[way];
  if (l.source == lane::ending::none || !l.chunks.empty() || plans_[way].discard)
    return;
  if (l.source == lane::ending::broken) {
    end(c, true);
    return;
  }
  if (!l.shut) {
    (void)shutdown(c.sockets[1 - way].get(), SHUT_WR);
    l.shut = true;
  }
  if (c.lanes[0].finished() && c.lanes[1].finished())
    end(c, false);
}

// Behind a cut: closing a socket with unread bytes would be a reset, so read them, until the ends
// have closed.
void fault_proxy::engine::drain(connection& c) {
  bool ended = true;
  for (std::size_t way = 0; way < 2; ++way) {
    lane& l = c.lanes[way];
    for (int reads = 0; reads < sends_per_turn && l.source == lane::ending::none; ++reads) {
      const ssize_t n = recv(c.sockets[way].get(), scratch_.data(), scratch_.size(), MSG_DONTWAIT);
      if (n > 0) {
        total(way).arrived += static_cast<std::size_t>(n);
        total(way).dropped += static_cast<std::size_t>(n);
      } else if (n == 0) {
        l.source = lane::ending::end_of_file;
      } else if (!try_later(errno)) {
        l.source = lane::ending::broken;
      } else {
        break;
      }
    }
    ended = ended && l.source != lane::ending::none;
  }
  if (ended)
    c.now = connection::phase::closed;
}

void fault_proxy::engine::end(connection& c, bool with_reset) {
  if (c.now == connection::phase::closed)
    return;
  drop_held(c);
  if (with_reset) {
    for (descriptor& socket : c.sockets)
      close_with_reset(socket);
    c.now = connection::phase::closed;
    return;
  }
  for (const descriptor& socket : c.sockets)
    (void)shutdown(socket.get(), SHUT_WR);
  c.now = connection::phase::draining;
}

void fault_proxy::engine::drop_held(connection& c) {
  for (std::size_t way = 0; way < 2; ++way) {
    lane& l = c.lanes[way];
    total(way).dropped += l.held;
    l.held = 0;
    l.chunks.clear();
  }
}

// Tells those who wait.
void fault_proxy::engine::report() {
  counts_.open = static_cast<std::uint64_t>(
      std::count_if(connections_.begin(), connections_.end(), [](const connection& c) {
        return c.now == connection::phase::connecting || c.now == connection::phase::open;
      }));
  if (counts_ == reported_)
    return;
  reported_ = counts_;
  changed_.notify_all();
}

fault_proxy::fault_proxy(std::string_view target, std::string_view listen_at)
    : engine_(std::make_unique<engine>(target, listen_at)) {}

fault_proxy::~fault_proxy() = default;

const std::string& fault_proxy::address() const noexcept {
  return engine_->address();
}

void fault_proxy::set(direction way, const fault_plan& plan) {
  engine_->set(way == direction::to_server ? 0 : 1, plan);
}

void fault_proxy::set(const fault_plan& plan) {
  engine_->set(0, plan);
  engine_->set(1, plan);
}

void fault_proxy::cut() {
  engine_->end_all(false);
}

void fault_proxy::reset() {
  engine_->end_all(true);
}

void fault_proxy::refuse() {
  engine_->refuse();
}

void fault_proxy::accept() {
  engine_->accept();
}

proxy_counts fault_proxy::counts() const {
  return engine_->counts();
}

bool fault_proxy::wait(const std::function<bool(const proxy_counts&)>& done,
                       std::chrono::nanoseconds longest) const {
  return engine_->wait(done, longest);
}

}  // namespace atbus::test
