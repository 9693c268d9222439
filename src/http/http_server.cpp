#include "http/http_server.h"

#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace atbus::detail {
namespace {

constexpr std::size_t connection_memory = 32 * 1024;
constexpr int backlog = 128;

// While it lives, this thread and those that it starts get no signals.
class signal_pause {
 public:
  signal_pause() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~signal_pause() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  signal_pause(const signal_pause&) = delete;
  signal_pause& operator=(const signal_pause&) = delete;

 private:
  sigset_t before_;
};

error refused(const std::string& what, const listen_address& at) {
  return {errc::system_error, "can't " + what + " http://" + at.to_string(), errno};
}

int in_milliseconds(std::chrono::nanoseconds time) {
  return static_cast<int>(std::clamp(std::chrono::ceil<std::chrono::milliseconds>(time).count(),
                                     std::int64_t{0}, std::int64_t{3'600'000}));
}

// Turns in a row in which something was to be done and nothing was, and how long the thread rests then.
constexpr int turns_in_vain_max = 16;
constexpr int pause_ms = 50;

}  // namespace

// What the library for HTTP calls, all on the server's thread.
struct http_server::callbacks {
  static MHD_Result answer(void* self, MHD_Connection* connection, const char* path,
                           const char* method, const char* /*version*/, const char* /*upload*/,
                           std::size_t* /*upload_size*/, void** /*request*/) {
    auto& server = *static_cast<http_server*>(self);
    server.was_called_ = true;
    try {
      const http_reply& reply = server.reply_to(connection, path, method);
      return MHD_queue_response(connection, reply.code(), reply.get());
    } catch (...) {
      return MHD_NO;  // closes the connection
    }
  }

  static void note(void* self, MHD_Connection* connection, void** /*context*/,
                   MHD_ConnectionNotificationCode what) {
    auto& server = *static_cast<http_server*>(self);
    server.was_called_ = true;
    const auto* const info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    const int fd = info->connect_fd;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
      server.has_room_again_ = true;
      std::erase_if(server.open_, [fd](const open_connection& one) { return one.fd == fd; });
      return;
    }
    const auto until = std::chrono::steady_clock::now() + server.limits_.connection_timeout;
    try {
      server.open_.push_back({fd, until});
    } catch (...) {
      shutdown(fd, SHUT_RDWR);
    }
  }
};

result<std::unique_ptr<http_server>> http_server::open(const listen_address& at,
                                                       const http_limits& limits, handler answer) {
  std::unique_ptr<http_server> made{
      new http_server{limits, std::move(answer)}};  // the constructor is private
  if (error bad = made->listen(at); !bad)
    return bad;
  if (error bad = made->start(); !bad)
    return bad;
  return made;
}

error http_server::listen(const listen_address& at) {
  listener_ =
      open_descriptor{socket(at.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  const int on = 1;
  // A server that is started again does not wait for the old one's connections.
  if (!listener_ || setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      bind(listener_.get(), reinterpret_cast<const sockaddr*>(&at.storage), at.length) != 0 ||
      ::listen(listener_.get(), backlog) != 0)
    return refused("listen at", at);
  address_.length = sizeof address_.storage;
  if (getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address_.storage),
                  &address_.length) != 0)
    return refused("see the port of", at);
  return {};
}

error http_server::start() {
  asked_to_end_ = open_descriptor{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (!asked_to_end_)
    return refused("prepare", address_);
  daemon_ = MHD_start_daemon(MHD_USE_EPOLL, 0, nullptr, nullptr, &callbacks::answer, this,
                             MHD_OPTION_LISTEN_SOCKET, listener_.get(), MHD_OPTION_CONNECTION_LIMIT,
                             limits_.connections, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
                             limits_.connections_per_address, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                             connection_memory, MHD_OPTION_NOTIFY_CONNECTION, &callbacks::note,
                             this, MHD_OPTION_END);
  if (daemon_ == nullptr)
    return error{
        errc::out_of_memory,
        "there is no memory or no descriptor for a server at http://" + address_.to_string()};
  (void)listener_.release();  // the daemon closes it
  return start_thread();
}

error http_server::start_thread() {
  const signal_pause no_signals;
  try {
    thread_ = std::thread{[this] { run(); }};
  } catch (const std::system_error& failed) {
    return {errc::system_error, "can't start a thread", failed.code().value()};
  }
  pthread_setname_np(thread_.native_handle(), "atbus-http");
  return {};
}

http_server::~http_server() {
  if (thread_.joinable()) {
    eventfd_write(asked_to_end_.get(), 1);
    thread_.join();
  }
  if (daemon_ != nullptr)
    MHD_stop_daemon(daemon_);
}

void http_server::run() {
  const auto* const info = MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_EPOLL_FD);
  pollfd watched[] = {{.fd = info->epoll_fd, .events = POLLIN, .revents = 0},
                      {.fd = asked_to_end_.get(), .events = POLLIN, .revents = 0}};
  // Without descriptors a connection that waits wakes the daemon, which can't accept it, again and again.
  for (int in_vain = 0; watched[1].revents == 0;) {
    if (in_vain == turns_in_vain_max)
      (void)poll(&watched[1], 1, pause_ms);
    else
      (void)poll(watched, std::size(watched), longest_wait());
    cut_late_ones();
    was_called_ = has_room_again_ = false;
    MHD_run(daemon_);
    in_vain = was_called_ || !open_.empty() ? 0 : std::min(in_vain + 1, turns_in_vain_max);
  }
}

int http_server::longest_wait() const {
  // A daemon that had no room left looks at its listener again at the next run only.
  if (has_room_again_)
    return 0;
  MHD_UNSIGNED_LONG_LONG milliseconds = 0;
  int wait = -1;
  if (MHD_get_timeout(daemon_, &milliseconds) == MHD_YES)
    wait = in_milliseconds(std::chrono::milliseconds{milliseconds});
  if (open_.empty())
    return wait;
  const int first = in_milliseconds(open_.front().until - std::chrono::steady_clock::now());
  return wait < 0 ? first : std::min(wait, first);
}

void http_server::cut_late_ones() {
  const auto now = std::chrono::steady_clock::now();
  while (!open_.empty() && open_.front().until <= now) {
    shutdown(open_.front().fd, SHUT_RDWR);
    open_.pop_front();
  }
}

const http_reply& http_server::reply_to(MHD_Connection* connection, const char* path,
                                        std::string_view method) {
  if (method != MHD_HTTP_METHOD_GET && method != MHD_HTTP_METHOD_HEAD)
    return not_allowed_;
  const char* const host =
      MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
  if (address_.is_loopback() && host != nullptr && !names_this_host(host))
    return foreign_name_;
  return answer_(path);
}

}  // namespace atbus::detail
