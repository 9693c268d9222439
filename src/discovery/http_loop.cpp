#include "discovery/http_loop.h"

#include <sys/timerfd.h>

#include <array>
#include <cerrno>
#include <mutex>
#include <new>
#include <utility>

#include "atbus/clock.hpp"
#include "discovery/quiet_signals.h"

namespace atbus::detail {
namespace {

using namespace std::chrono_literals;

constexpr auto no_moment = std::chrono::nanoseconds::max();
constexpr long connect_limit_ms = 2000;

bool start_curl() {
  static std::once_flag once;
  static bool works = false;
  std::call_once(once, [] { works = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK; });
  return works;
}

std::uint32_t events_of(int what) noexcept {
  std::uint32_t events = 0;
  if ((what & CURL_POLL_IN) != 0)
    events |= EPOLLIN;
  if ((what & CURL_POLL_OUT) != 0)
    events |= EPOLLOUT;
  return events;
}

int actions_of(std::uint32_t events) noexcept {
  int actions = 0;
  if ((events & (EPOLLIN | EPOLLHUP)) != 0)
    actions |= CURL_CSELECT_IN;
  if ((events & EPOLLOUT) != 0)
    actions |= CURL_CSELECT_OUT;
  return (events & EPOLLERR) != 0 ? actions | CURL_CSELECT_ERR : actions;
}

long in_ms(std::chrono::nanoseconds time) noexcept {
  return static_cast<long>(std::chrono::ceil<std::chrono::milliseconds>(time).count());
}

}  // namespace

struct http_loop::exchange {
  std::unique_ptr<CURL, free_easy> easy;
  std::unique_ptr<curl_slist, free_list> headers;
  http_loop* loop = nullptr;
  call number = 0;
  http_request request;
  std::function<void(std::string_view)> on_part;
  std::function<void(http_end)> on_end;
  std::string waiting;
  std::array<char, CURL_ERROR_SIZE> problem{};
  bool is_touched = false;
  bool is_too_large = false;
  bool has_ended = false;
  bool is_complete = false;
};

http_loop::http_loop(http_identity identity) : identity_(std::move(identity)) {}

result<std::unique_ptr<http_loop>> http_loop::make(http_identity identity) {
  std::unique_ptr<http_loop> made{new http_loop{std::move(identity)}};
  if (error bad = made->open(); !bad)
    return bad;
  return made;
}

error http_loop::open() {
  if (!start_curl())
    return {errc::system_error, "libcurl can't be started"};
  epoll_ = guarded_file::make([] { return kernel().epoll_create(EPOLL_CLOEXEC); });
  if (!epoll_)
    return {errc::system_error, "no epoll instance for requests to etcd", errno};
  timer_ = guarded_file::make(
      [] { return timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK); });
  epoll_event interest{.events = EPOLLIN, .data = {.fd = timer_.get()}};
  if (!timer_ || kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, timer_.get(), &interest) != 0)
    return {errc::system_error, "no timer for requests to etcd", errno};
  multi_ = curl_multi_init();
  if (multi_ == nullptr)
    return {errc::out_of_memory};
  curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, on_socket);
  curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, on_timer);
  curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, 4L);
  return {};
}

http_loop::~http_loop() {
  if (is_in_child()) {
    // The connections are the parent's: libcurl would write into them, or into what has their numbers now.
    for (auto& [number, one] : calls_)
      (void)one.release();
    return;
  }
  const quiet_signals quiet;
  for (const auto& [number, one] : calls_)
    curl_multi_remove_handle(multi_, one->easy.get());
  calls_.clear();
  curl_multi_cleanup(multi_);
}

void http_loop::set_up(exchange& of) {
  CURL* const easy = of.easy.get();
  const auto text = [easy](CURLoption option, const std::string& value) {
    if (!value.empty() && curl_easy_setopt(easy, option, value.c_str()) != CURLE_OK)
      throw std::bad_alloc{};
  };
  const auto header = [&](const std::string& line) {
    curl_slist* const more = curl_slist_append(of.headers.get(), line.c_str());
    if (more == nullptr)
      throw std::bad_alloc{};
    (void)of.headers.release();
    of.headers.reset(more);
  };
  header("Content-Type: application/json");
  header("Expect:");
  if (!of.request.token.empty())
    header("Authorization: " + of.request.token);
  text(CURLOPT_URL, of.request.url);
  text(CURLOPT_CAINFO, identity_.authority);
  text(CURLOPT_SSLCERT, identity_.certificate);
  text(CURLOPT_SSLKEY, identity_.key);
  curl_easy_setopt(easy, CURLOPT_KEYPASSWD, "");  // asks nobody at a terminal
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_PROXY, "");  // not what the environment says
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, of.headers.get());
  curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, static_cast<long>(of.request.body.size()));
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, of.request.body.c_str());
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, of.problem.data());
  curl_easy_setopt(easy, CURLOPT_PRIVATE, &of);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &of);
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, this);
  curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, on_close_socket);
  curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, this);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, connect_limit_ms);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  if (of.request.longest > 0ns)
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, in_ms(of.request.longest));
#if LIBCURL_VERSION_NUM >= 0x075700
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);  // waits for no thread that looks a name up
#endif
}

http_loop::call http_loop::start(http_request request,
                                 std::function<void(std::string_view)> on_part,
                                 std::function<void(http_end)> on_end) {
  auto made = std::make_unique<exchange>();
  made->easy.reset(curl_easy_init());
  if (made->easy == nullptr)
    throw std::bad_alloc{};
  made->loop = this;
  made->number = ++calls_so_far_;
  made->request = std::move(request);
  made->on_part = std::move(on_part);
  made->on_end = std::move(on_end);
  set_up(*made);
  touched_.reserve(calls_.size() + 1);
  exchange& added = *calls_.emplace(made->number, std::move(made)).first->second;
  const quiet_signals quiet;
  if (curl_multi_add_handle(multi_, added.easy.get()) != CURLM_OK) {
    calls_.erase(added.number);
    throw std::bad_alloc{};
  }
  return added.number;
}

void http_loop::cancel(call which) noexcept {
  const auto found = calls_.find(which);
  if (found == calls_.end() || is_in_child())
    return;
  const quiet_signals quiet;
  curl_multi_remove_handle(multi_, found->second->easy.get());
  std::erase(touched_, which);
  calls_.erase(found);
}

void http_loop::act(curl_socket_t fd, int actions) {
  int running = 0;
  // Behind that neither the socket nor the timer may be there for what is under way.
  if (curl_multi_socket_action(multi_, fd, actions, &running) == CURLM_OUT_OF_MEMORY)
    throw std::bad_alloc{};
}

void http_loop::send() {
  for (int round = 0; round != 4 && curl_due_ <= now(); ++round) {
    const quiet_signals quiet;
    curl_due_ = no_moment;
    act(CURL_SOCKET_TIMEOUT, 0);
  }
  take_ends();
  arm();
}

void http_loop::drive() {
  take_events();
  send();
  hand_over();
  send();
}

void http_loop::take_events() {
  std::array<epoll_event, 64> events;
  const int count =
      kernel().epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  const quiet_signals quiet;
  for (int i = 0; i < count; ++i) {
    const epoll_event event = events[static_cast<std::size_t>(i)];
    const int fd = event.data.fd;
    if (fd == timer_.get()) {
      std::uint64_t times = 0;
      (void)kernel().read(fd, &times, sizeof times);
      armed_ = 0ns;
    } else {
      // One that libcurl has closed meanwhile it ignores.
      act(fd, actions_of(event.events));
    }
  }
}

void http_loop::take_ends() {
  int left = 0;
  while (const CURLMsg* const said = curl_multi_info_read(multi_, &left)) {
    char* of = nullptr;
    curl_easy_getinfo(said->easy_handle, CURLINFO_PRIVATE, &of);
    exchange& ended = *reinterpret_cast<exchange*>(of);
    ended.has_ended = true;
    ended.is_complete = said->data.result == CURLE_OK;
    if (!ended.is_complete && ended.problem.front() == '\0') {
      const std::string_view why = curl_easy_strerror(said->data.result);
      std::copy_n(why.begin(), std::min(why.size(), ended.problem.size() - 1),
                  ended.problem.begin());
    }
    if (!ended.is_touched)
      touched_.push_back(ended.number);
    ended.is_touched = true;
  }
}

void http_loop::hand_over() {
  // What there is no memory for stays.
  while (!touched_.empty()) {
    const call number = touched_.front();
    exchange& of = *calls_.at(number);
    if (of.on_part && !of.waiting.empty()) {
      const auto on_part = of.on_part;  // which may cancel this
      const std::string bytes = std::exchange(of.waiting, {});
      on_part(bytes);
      if (!calls_.contains(number))
        continue;
    }
    if (!of.has_ended) {
      of.is_touched = false;
      touched_.erase(touched_.begin());
      continue;
    }
    http_end end{.is_too_large = of.is_too_large};
    long status = 0;
    curl_easy_getinfo(of.easy.get(), CURLINFO_RESPONSE_CODE, &status);
    end.status = of.is_complete ? static_cast<int>(status) : 0;
    const char* own_host = nullptr;
    if (curl_easy_getinfo(of.easy.get(), CURLINFO_LOCAL_IP, &own_host) == CURLE_OK &&
        own_host != nullptr)
      end.own_host = own_host;
    if (!of.is_complete)
      end.problem = of.problem.data();
    end.body = std::move(of.waiting);
    const auto on_end = std::move(of.on_end);
    cancel(number);
    on_end(std::move(end));
  }
}

void http_loop::wake_at(std::chrono::nanoseconds moment) noexcept {
  wanted_ = moment;
  arm();
}

void http_loop::arm() noexcept {
  // What waits to be handed over is due at once; 1 ns is in the past, and 0 would disarm.
  const auto due = touched_.empty() ? std::max(std::min(curl_due_, wanted_), 1ns) : 1ns;
  if (due == armed_)
    return;
  armed_ = due;
  itimerspec at{};
  if (due != no_moment) {
    at.it_value.tv_sec = static_cast<time_t>(due / 1s);
    at.it_value.tv_nsec = static_cast<long>((due % 1s).count());
  }
  (void)timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &at, nullptr);
}

int http_loop::on_timer(CURLM* /*multi*/, long timeout_ms, void* self) noexcept {
  static_cast<http_loop*>(self)->curl_due_ =
      timeout_ms < 0 ? no_moment : moment_after(now(), std::chrono::milliseconds{timeout_ms});
  return 0;
}

int http_loop::on_socket(CURL* /*easy*/, curl_socket_t fd, int what, void* self,
                         void* added) noexcept {
  http_loop& of = *static_cast<http_loop*>(self);
  if (what == CURL_POLL_REMOVE) {
    (void)kernel().epoll_ctl(of.epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    return 0;
  }
  epoll_event interest{.events = events_of(what), .data = {.fd = fd}};
  const int operation = added == nullptr ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  if (kernel().epoll_ctl(of.epoll_.get(), operation, fd, &interest) != 0)
    return -1;  // its requests fail
  curl_multi_assign(of.multi_, fd, self);
  return 0;
}

curl_socket_t http_loop::on_open_socket(void* self, curlsocktype /*purpose*/,
                                        curl_sockaddr* address) noexcept {
  try {
    guarded_file made = guarded_file::make([address] {
      return kernel().socket(address->family, address->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                             address->protocol);
    });
    const int fd = made.get();
    if (fd >= 0)
      static_cast<http_loop*>(self)->sockets_.insert_or_assign(fd, std::move(made));
    return fd < 0 ? CURL_SOCKET_BAD : fd;
  } catch (const std::bad_alloc&) {
    return CURL_SOCKET_BAD;
  }
}

int http_loop::on_close_socket(void* self, curl_socket_t fd) noexcept {
  static_cast<http_loop*>(self)->sockets_.erase(fd);
  return 0;
}

std::size_t http_loop::on_bytes(char* bytes, std::size_t size, std::size_t count,
                                void* of) noexcept {
  exchange& to = *static_cast<exchange*>(of);
  const std::size_t length = size * count;
  if (to.waiting.size() + length > answer_max) {
    to.is_too_large = true;
    return 0;
  }
  try {
    if (!to.is_touched && to.on_part)
      to.loop->touched_.push_back(to.number);
    to.is_touched = to.is_touched || static_cast<bool>(to.on_part);
    to.waiting.append(bytes, length);
    return length;
  } catch (const std::bad_alloc&) {
    return 0;
  }
}

}  // namespace atbus::detail
