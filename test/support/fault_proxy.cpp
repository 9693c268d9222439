#include "fault_proxy.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "fault_proxy_engine.h"

namespace atbus::test {
namespace {

constexpr std::size_t connections_max = 2048;

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

void prepare(int fd) {
  const int on = 1;  // Unix sockets answer with an error
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

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

auto fault_proxy::engine::bound() -> descriptor {
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

auto fault_proxy::engine::turn(const std::vector<pollfd>& events) -> wake_up {
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
