// Newer c-ares would have callers parse answers by its own types, which Debian's does not have.
#define CARES_NO_DEPRECATED

#include "discovery/dns_resolver.h"

#include <arpa/nameser.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <new>
#include <utility>

#include "atbus/clock.hpp"

namespace atbus::detail {
namespace {

constexpr int attempts = 3;
// What a UDP answer may hold before the server has to be asked by TCP (DNS flag day 2020).
constexpr int udp_payload = 1232;

error ares_error(errc code, const char* what, int status) {
  // Which of the two it says first depends on the moment.
  const bool is_silent = status == ARES_ETIMEOUT || status == ARES_ECONNREFUSED;
  return {status == ARES_ENOMEM ? errc::out_of_memory : code,
          std::string{what} + ": " +
              (is_silent ? "the DNS servers do not answer" : ares_strerror(status))};
}

// Never taken back: other code of this program may use c-ares too.
int library_status() {
  static const int status = ares_library_init(ARES_LIB_INIT_ALL);
  return status;
}

bool says_absence(int status) noexcept {
  return status == ARES_ENOTFOUND || status == ARES_ENODATA;
}

}  // namespace

struct dns_resolver::pending {
  dns_resolver& of;
  dns_question question;
};

dns_resolver::dns_resolver(std::string servers, std::chrono::milliseconds timeout, take_answer take)
    : servers_(std::move(servers)), timeout_(timeout), take_(std::move(take)) {}

dns_resolver::~dns_resolver() {
  close_channel();
}

error dns_resolver::open() {
  if (const int status = library_status(); status != ARES_SUCCESS)
    return ares_error(errc::system_error, "c-ares", status);
  epoll_ = file{kernel().epoll_create(EPOLL_CLOEXEC)};
  timer_ = file{timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)};
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = timer_.get();
  if (!epoll_ || !timer_ ||
      kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, timer_.get(), &event) != 0) {
    return {errc::system_error, "no descriptor for asking DNS", errno};
  }
  return make_channel();
}

error dns_resolver::make_channel() {
  ares_options options{};
  options.flags = ARES_FLAG_EDNS;
  options.ednspsz = udp_payload;
  options.timeout = static_cast<int>(timeout_.count());
  options.tries = attempts;
  options.sock_state_cb = on_socket;
  options.sock_state_cb_data = this;
  int given = ARES_OPT_FLAGS | ARES_OPT_EDNSPSZ | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES |
              ARES_OPT_SOCK_STATE_CB;
#ifdef ARES_OPT_QUERY_CACHE
  options.qcache_max_ttl = 0;  // else newer c-ares answers itself, and how old that is nobody knows
  given |= ARES_OPT_QUERY_CACHE;
#endif
  const int status = ares_init_options(&channel_, &options, given);
  if (status != ARES_SUCCESS) {
    channel_ = nullptr;
    return ares_error(errc::system_error, "the system's DNS servers (/etc/resolv.conf)", status);
  }
  if (servers_.empty())
    return {};
  if (const int set = ares_set_servers_ports_csv(channel_, servers_.c_str()); set != ARES_SUCCESS) {
    close_channel();  // it would ask those of the system
    return ares_error(errc::invalid_argument, "dns_options::servers", set);
  }
  return {};
}

void dns_resolver::close_channel() {
  if (channel_ == nullptr)
    return;
  closing_ = true;
  ares_destroy(std::exchange(channel_, nullptr));
  closing_ = false;
  watched_.clear();
}

void dns_resolver::begin_anew() {
  if (under_way_ != 0)
    return;
  close_channel();
  (void)make_channel();  // else the next question fails, and says why
}

void dns_resolver::ask(const dns_question& question) {
  if (channel_ == nullptr) {
    if (const error bad = make_channel(); !bad)
      return take_(question, bad);
  }
  auto asked = std::make_unique<pending>(pending{*this, question});
  ++under_way_;
  ares_query(channel_, question.name.c_str(), ns_c_in, static_cast<int>(question.type), on_answer,
             asked.release());
}

void dns_resolver::on_answer(void* question, int status, int /*timeouts*/, unsigned char* bytes,
                             int length) {
  const std::unique_ptr<pending> asked{static_cast<pending*>(question)};
  --asked->of.under_way_;
  if (asked->of.closing_)
    return;
  asked->of.answer(
      asked->question, status,
      std::as_bytes(std::span{bytes, bytes != nullptr ? static_cast<std::size_t>(length) : 0}));
}

// Called by c-ares, which knows no exceptions.
void dns_resolver::answer(const dns_question& question, int status, bytes_view bytes) {
  try {
    if (status != ARES_SUCCESS && !says_absence(status))
      return take_(question, ares_error(errc::system_error, question.name.c_str(), status));
    std::optional<dns_answer> read = read_dns_answer(bytes);
    if (!read) {
      return take_(question, error{errc::protocol_error,
                                   question.name + ": the server's answer is no DNS message"});
    }
    take_(question, *std::move(read));
  } catch (const std::bad_alloc&) {
    take_(question, error{errc::out_of_memory});
  }
}

void dns_resolver::on_socket(void* self, ares_socket_t socket, int readable, int writable) {
  static_cast<dns_resolver*>(self)->watch(socket, readable != 0, writable != 0);
}

// The epoll instance is shared with the parent: a child leaves it alone. What can't be watched has its time limit.
void dns_resolver::watch(ares_socket_t socket, bool readable, bool writable) noexcept {
  if (is_in_child())
    return;
  epoll_event event{};
  event.events = (readable ? EPOLLIN : 0u) | (writable ? EPOLLOUT : 0u);
  event.data.fd = socket;
  const auto known = std::ranges::find(watched_, socket);
  if (event.events == 0) {
    kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket, &event);
    if (known != watched_.end())
      watched_.erase(known);
  } else if (known != watched_.end()) {
    kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket, &event);
  } else {
    try {
      watched_.push_back(socket);
      kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket, &event);
    } catch (const std::bad_alloc&) {
      // Nothing may be thrown through c-ares.
    }
  }
}

void dns_resolver::drive() {
  if (is_in_child())
    return;
  std::array<epoll_event, 16> events{};
  const int count = kernel().epoll_wait(epoll_.get(), events.data(), events.size(), 0);
  for (const epoll_event& event :
       std::span{events}.first(static_cast<std::size_t>(std::max(count, 0)))) {
    const int fd = event.data.fd;
    if (fd == timer_.get()) {
      std::uint64_t expirations = 0;
      (void)kernel().read(fd, &expirations, sizeof expirations);
    } else if (channel_ != nullptr && std::ranges::find(watched_, fd) != watched_.end()) {
      const bool readable = (event.events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0;
      const bool writable = (event.events & EPOLLOUT) != 0;
      ares_process_fd(channel_, readable ? fd : ARES_SOCKET_BAD, writable ? fd : ARES_SOCKET_BAD);
    }
  }
  if (channel_ != nullptr)
    ares_process_fd(channel_, ARES_SOCKET_BAD, ARES_SOCKET_BAD);  // what has waited too long
}

void dns_resolver::wake_at(std::chrono::nanoseconds moment) {
  if (is_in_child())
    return;
  const std::chrono::nanoseconds at = now();
  timeval limit{};
  if (channel_ != nullptr && ares_timeout(channel_, nullptr, &limit) != nullptr) {
    const auto left = std::chrono::seconds{limit.tv_sec} + std::chrono::microseconds{limit.tv_usec};
    moment = std::min(moment, moment_after(at, left));
  }
  constexpr std::chrono::nanoseconds soonest =
      std::chrono::milliseconds{1};  // 0 would end the timer
  const auto left = std::max(moment - at, soonest);
  const auto whole = std::chrono::floor<std::chrono::seconds>(left);
  const itimerspec wake{
      .it_interval = {},
      .it_value = {static_cast<time_t>(whole.count()), static_cast<long>((left - whole).count())}};
  (void)timerfd_settime(timer_.get(), 0, &wake, nullptr);
}

}  // namespace atbus::detail
