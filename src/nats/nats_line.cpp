#include "nats/nats_line.h"

#include <openssl/crypto.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "atbus/clock.hpp"
#include "nats/nats_settings.h"
#include "nats/server_refusal.h"
#include "system/fork_guard.h"
#include "system/passed_descriptors.h"

namespace atbus::detail {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds backoff_min = 250ms;
constexpr std::chrono::nanoseconds backoff_max = 4s;
// How long what was sent may take to leave after stop().
constexpr std::chrono::nanoseconds farewell = 1s;
constexpr std::size_t links_max = 4096;
// Between two times that listeners are told of inboxes to which this end may not publish.
constexpr std::chrono::nanoseconds pause_of_refused_answers = 10s;
// Before what links have to say is looked at again.
constexpr std::size_t openings_per_turn = 16;
// Between two looks at the clocks of links.
constexpr std::chrono::nanoseconds clock_grain = 50ms;
// Tags of epoll. Links have their token, which is neither.
constexpr std::uint64_t bell_tag = 0;
constexpr std::uint64_t listener_tag = 1;

// How long the end of the process waits for the threads. A connection attempt takes 2 s, what comes after stop() less.
constexpr std::chrono::nanoseconds exit_patience = 5s;

// All lines with a thread. Leaked on purpose: the threads may outlive static objects.
struct line_list {
  struct entry {
    nats_line* line;
    pid_t process;
  };

  std::mutex mutex;  // locked only inside a fork_pause: no child inherits it locked
  std::vector<entry> all;
  bool is_closed = false;  // the process ends
};
line_list& lines() {
  static auto* const list = new line_list;
  return *list;
}

void end_lines() noexcept {
  nats_line::stop_all();
  for (const auto limit = now() + exit_patience; nats_line::running() != 0 && now() < limit;)
    std::this_thread::sleep_for(1ms);
}

// At exit() libcrypto and libnats free what their threads use. Of what is to be done then, the latest comes first: so
// both have to be there before the threads are ended.
void end_lines_before_their_libraries() {
  static std::once_flag done;
  std::call_once(done, [] {
    std::thread{[] {
      (void)pthread_setname_np(pthread_self(), "atbus-nats");  // as the threads that it starts
      (void)nats_Open(-1);
      nats_ReleaseThreadMemory();
    }}.join();
    (void)OPENSSL_init_crypto(0, nullptr);
    (void)std::atexit(end_lines);
  });
}

// Threads that start meanwhile, and those that they start, take none of the program's signals.
class no_signals {
 public:
  no_signals() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  no_signals(const no_signals&) = delete;
  no_signals& operator=(const no_signals&) = delete;
  ~no_signals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

std::uint64_t random_number() noexcept {
  std::uint64_t number = 0;
  while (getrandom(&number, sizeof number, 0) != sizeof number || number <= listener_tag) {
  }
  return number;
}

std::string hexadecimal(std::uint64_t number) {
  std::array<char, 17> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, 16).ptr;
  const std::string text{digits.data(), end};
  return std::string(16 - text.size(), '0') + text;
}

std::optional<std::uint64_t> token_of(std::string_view subject) noexcept {
  std::uint64_t token = 0;
  const std::string_view digits = subject.substr(subject.size() - 16);
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), token, 16);
  return read.ec == std::errc{} && read.ptr == digits.data() + digits.size() ? std::optional{token}
                                                                             : std::nullopt;
}

bytes_view bytes_of(const natsMsg& message) noexcept {
  return {reinterpret_cast<const std::byte*>(natsMsg_GetData(&message)),
          static_cast<std::size_t>(natsMsg_GetDataLength(&message))};
}

std::string last_problem(natsStatus status) {
  const char* const text = nats_GetLastError(nullptr);
  return text != nullptr && *text != '\0' ? text : natsStatus_GetText(status);
}

// False: the other end does not take it now, or is gone.
bool hand_over(int to, const file& socket) noexcept {
  char nothing = 0;
  iovec piece{.iov_base = &nothing, .iov_len = 1};
  msghdr packet{};
  packet.msg_iov = &piece;
  packet.msg_iovlen = 1;
  passed_descriptors<1> passed;
  passed.attach(packet, {socket.get()});
  return kernel().sendmsg(to, &packet, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

}  // namespace

error link_note::why() const {
  const std::lock_guard lock{mutex_};
  return why_;
}

void link_note::set(error why) {
  const std::lock_guard lock{mutex_};
  why_ = std::move(why);
}

// --- for other threads

result<std::shared_ptr<nats_line>> nats_line::start(const nats_options& options,
                                                    const std::string& server) {
  std::shared_ptr<nats_line> made{new nats_line{options, server}};
  if (!made->is_ready())
    return error{errc::system_error, "no descriptors for a connection to a NATS server", errno};
  const no_signals for_threads;
  try {
    end_lines_before_their_libraries();
    const fork_pause no_fork;
    line_list& list = lines();
    const std::lock_guard lock{list.mutex};
    list.all.reserve(list.all.size() + 1);
    if (list.is_closed)
      return error{errc::closed, "the process ends"};
    std::thread{[made] { made->run(); }}.detach();
    list.all.push_back({.line = made.get(), .process = getpid()});
  } catch (const std::system_error& refused) {
    return error{errc::system_error, "no thread for a connection to a NATS server",
                 refused.code().value()};
  }
  return made;
}

nats_line::nats_line(const nats_options& options, const std::string& server)
    : options_(options),
      server_(server),
      inbox_(options.inbox_prefix + ".atbus." + hexadecimal(random_number()) +
             hexadecimal(random_number()) + "."),
      bell_(nats_mailbox::make()),
      epoll_(kernel().epoll_create(EPOLL_CLOEXEC)) {}

void nats_line::listen(file socket, const address& at) {
  const std::lock_guard lock{mutex_};
  orders_.push_back({.socket = std::move(socket), .subject = at.subject(), .note = nullptr});
  bell_->ring();
}

void nats_line::dial(file socket, const address& to, std::shared_ptr<link_note> note) {
  const std::lock_guard lock{mutex_};
  orders_.push_back(
      {.socket = std::move(socket), .subject = to.subject(), .note = std::move(note)});
  bell_->ring();
}

void nats_line::stop() noexcept {
  const std::lock_guard lock{mutex_};
  stops_ = true;
  bell_->ring();
}

// --- the thread

void nats_line::run() {
  (void)pthread_setname_np(pthread_self(), "atbus-nats");
  epoll_event interest{.events = EPOLLIN, .data = {.u64 = bell_tag}};
  (void)kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, bell_->descriptor(), &interest);
  bool lives = true;
  while (lives) {
    try {
      work();
    } catch (const std::bad_alloc&) {
      begin_again();
      std::this_thread::sleep_for(10ms);
    }
    lives = goes_on();
  }
  disconnect();
  nats_ReleaseThreadMemory();
  OPENSSL_thread_stop();
  const fork_pause no_fork;
  line_list& list = lines();
  const std::lock_guard lock{list.mutex};
  std::erase_if(list.all, [this](const line_list::entry& one) { return one.line == this; });
}

int nats_line::running() noexcept {
  const fork_pause no_fork;
  line_list& list = lines();
  const std::lock_guard lock{list.mutex};
  // Those of a parent are not in this process.
  return static_cast<int>(std::ranges::count(list.all, getpid(), &line_list::entry::process));
}

void nats_line::stop_all() noexcept {
  const fork_pause no_fork;
  line_list& list = lines();
  const std::lock_guard lock{list.mutex};
  list.is_closed = true;
  for (const line_list::entry& one : list.all) {
    if (one.process == getpid())
      one.line->stop();
  }
}

void nats_line::work() {
  follow_orders();
  connect();
  subscribe_again();
  wait();
  read_news();
  take_openings();
  look_at_clocks();
  forget_ended();
}

// Without memory. What was to be done is not known any more, so all links end, and a new connection subscribes again
// for all listeners. Orders that nobody has followed stay.
void nats_line::begin_again() noexcept {
  for (auto& [token, of] : links_) {
    try {  // the other end learns of it, if there is memory for that
      of.stream->end({errc::out_of_memory}, now());
    } catch (const std::bad_alloc&) {
    }
    if (of.note != nullptr)
      of.note->set(of.stream->why());
    if (of.watched >= 0)
      (void)kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, of.stream->descriptor(), nullptr);
  }
  links_.clear();
  ended_.clear();
  disconnect();
  connects_at_ = now() + backoff_min;
}

bool nats_line::goes_on() {
  const std::lock_guard lock{mutex_};
  if (!stops_)
    return true;
  if (ends_at_ == time{0})
    ends_at_ = now() + farewell;
  return !links_.empty() && now() < ends_at_;
}

// Waits for sockets and news, and handles what the sockets have.
void nats_line::wait() {
  time until = now() + 1s;
  if (!links_.empty())
    until = std::min(until, looks_at_);
  if (bell_->has_openings())
    until = std::min(until, pace_.due_at());
  const bool is_wanted = !listeners_.empty() || !links_.empty();
  if (connection_ == nullptr && is_wanted && connects_at_ != time{0})
    until = std::min(until, connects_at_);
  std::array<epoll_event, 64> events;
  const int count =
      kernel().epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                          std::max(until - now(), time{0}).count());
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    const std::uint64_t token = event.data.u64;  // packed: nothing may refer to it
    if (const auto of = links_.find(token); of != links_.end()) {
      of->second.stream->ready(event.events, now());
      settle(of->first, of->second);
    } else if (token == listener_tag) {
      end_listening();
    }
  }
}

// Those whose node no longer listens.
void nats_line::end_listening() {
  for (auto at = listeners_.begin(); at != listeners_.end();) {
    pollfd hang_up{.fd = at->second.socket.get(), .events = 0, .revents = 0};
    if (poll(&hang_up, 1, 0) == 1 && (hang_up.revents & POLLHUP) != 0) {
      unsubscribe(at->second);
      (void)watch(at->second, EPOLL_CTL_DEL);
      at = listeners_.erase(at);
    } else {
      ++at;
    }
  }
}

// Only for its end, which epoll always tells. False: the kernel refuses.
bool nats_line::watch(const listener& one, int operation) noexcept {
  epoll_event end{.events = 0, .data = {.u64 = listener_tag}};
  return kernel().epoll_ctl(epoll_.get(), operation, one.socket.get(), &end) == 0;
}

// --- the connection

void nats_line::connect() {
  if (connection_ != nullptr || (listeners_.empty() && links_.empty()) || now() < connects_at_)
    return;
  natsOptions* made = nullptr;
  error why{errc::out_of_memory};
  if (natsOptions_Create(&made) == NATS_OK) {
    const std::unique_ptr<natsOptions, decltype(&natsOptions_Destroy)> options{
        made, &natsOptions_Destroy};
    why = configure_nats(*options, options_, server_, *bell_);
    if (why) {
      const natsStatus status = natsConnection_Connect(&connection_, options.get());
      if (status != NATS_OK)
        why = {errc::not_connected,
               server_ + ": no connection to the NATS server: " + last_problem(status)};
    }
  }
  if (why)
    return connected();
  connection_ = nullptr;
  backoff_ = std::clamp(2 * backoff_, backoff_min, backoff_max);
  connects_at_ = now() + backoff_;
  lost(why);
}

void nats_line::connected() {
  backoff_ = time{0};
  told_.clear();
  if (natsConnection_Subscribe(&inboxes_, connection_, (inbox_ + "*").c_str(),
                               nats_mailbox::on_message, bell_->closure()) != NATS_OK) {
    disconnect();
    connects_at_ = now() + backoff_min;
    return lost({errc::not_connected, server_ + ": the NATS server takes no subscription"});
  }
  for (auto& [subject, one] : listeners_)
    subscribe(subject, one);
  for (auto& [token, of] : links_) {
    of.stream->dial(of.subject, now());
    settle(token, of);
  }
}

void nats_line::disconnect() {
  for (auto& [subject, one] : listeners_)
    unsubscribe(one);
  if (inboxes_ != nullptr)
    natsSubscription_Destroy(std::exchange(inboxes_, nullptr));
  if (connection_ == nullptr)
    return;
  if (is_connected())
    (void)natsConnection_FlushTimeout(connection_, 500);
  natsConnection_Destroy(std::exchange(connection_, nullptr));
  bell_->renumber();
}

bool nats_line::is_connected() const {
  return connection_ != nullptr && natsConnection_Status(connection_) == NATS_CONN_STATUS_CONNECTED;
}

// All links end. Each listener is told once.
void nats_line::lost(const error& why) {
  for (auto& [token, of] : links_) {
    of.stream->end(why, now());
    settle(token, of);
  }
  forget_ended();
  tell_listeners(why.text());
}

// --- orders

void nats_line::follow_orders() {
  for (;;) {
    if (followed_.empty()) {
      const std::lock_guard lock{mutex_};
      followed_.swap(orders_);
    }
    if (followed_.empty())
      return;
    order& first = followed_.front();
    // What may throw before: then the order stays, and is tried again.
    listener* const listens = first.note == nullptr ? &listeners_[first.subject] : nullptr;
    order taken = std::move(first);
    followed_.pop_front();
    if (listens != nullptr)
      begin_listening(std::move(taken), *listens);
    else
      begin_dialling(std::move(taken));
  }
}

void nats_line::begin_listening(order wanted, listener& made) {
  unsubscribe(made);
  if (made.socket)
    (void)watch(made, EPOLL_CTL_DEL);
  made.socket = std::move(wanted.socket);  // the earlier one's end is an end of file
  if (!watch(made, EPOLL_CTL_ADD)) {
    tell(made, "the kernel can't watch this listener; it has ended");
    listeners_.erase(wanted.subject);
    return;
  }
  if (connection_ != nullptr)
    subscribe(wanted.subject, made);
  else if (const std::string problem = std::exchange(told_, {}); !problem.empty())
    tell_listeners(problem);
}

void nats_line::begin_dialling(order wanted) {
  const auto refuse = [&](const char* text) {
    wanted.note->set({errc::not_connected, server_ + ": " + text});
    (void)kernel().shutdown(wanted.socket.get(), SHUT_RDWR);
  };
  if (links_.size() >= links_max)
    return refuse("too many links");
  if (connection_ == nullptr && now() < connects_at_)
    return refuse("no connection to the NATS server; it is tried again");
  if (connection_ != nullptr && !is_connected())
    return refuse("no connection to the NATS server; it is tried again");
  auto& [token, made] =
      add(std::move(wanted.socket), std::move(wanted.note), std::move(wanted.subject));
  if (connection_ != nullptr)
    made.stream->dial(made.subject, now());
  settle(token, made);
}

void nats_line::subscribe(const std::string& subject, listener& to) {
  const natsStatus done = natsConnection_Subscribe(&to.subscription, connection_, subject.c_str(),
                                                   nats_mailbox::on_opening, bell_->closure());
  if (done == NATS_OK)
    return;
  to.subscription = nullptr;
  tell(to, server_ + ": can't subscribe for now: " + last_problem(done));
}

// What libnats refused, for lack of memory or of threads.
void nats_line::subscribe_again() {
  if (!is_connected() || now() < subscribes_at_)
    return;
  subscribes_at_ = now() + 1s;
  for (auto& [subject, one] : listeners_) {
    if (one.subscription == nullptr)
      subscribe(subject, one);
  }
}

void nats_line::unsubscribe(listener& from) {
  if (from.subscription != nullptr)
    natsSubscription_Destroy(std::exchange(from.subscription, nullptr));
}

void nats_line::tell_listeners(const std::string& problem) {
  if (problem == std::exchange(told_, problem))
    return;
  for (const auto& [subject, one] : listeners_)
    tell(one, problem);
}

void nats_line::tell(const listener& one, std::string_view problem) {
  (void)kernel().send(one.socket.get(), problem.data(), problem.size(),
                      MSG_DONTWAIT | MSG_NOSIGNAL);
}

// --- news

void nats_line::read_news() {
  const nats_news news = bell_->take();
  for (const nats_message& message : news.messages)
    take(*message);
  for (const std::string& problem : news.problems)
    heard_of(problem);
  if (news.disconnected) {
    told_.clear();
    lost({errc::peer_closed, server_ + ": the connection to the NATS server is lost"});
  }
  // libnats says nothing if it has no memory for that.
  if (news.closed || (connection_ != nullptr && natsConnection_IsClosed(connection_))) {
    disconnect();
    connects_at_ = now() + backoff_min;
  }
}

void nats_line::take(natsMsg& message) {
  const std::string_view subject = natsMsg_GetSubject(&message);
  if (subject.size() != inbox_.size() + 16 || !subject.starts_with(inbox_))
    return;
  const auto token = token_of(subject);
  const auto of = token ? links_.find(*token) : links_.end();
  if (of == links_.end())
    return;
  if (natsMsg_IsNoResponders(&message))
    of->second.stream->unheard(now());
  else
    (void)of->second.stream->take(bytes_of(message), now());
  settle(of->first, of->second);
}

// A few in each turn: what links have goes first.
void nats_line::take_openings() {
  const time at = now();
  const auto some = bell_->take_openings(std::min(openings_per_turn, pace_.allowed(at)));
  pace_.took(some.size(), at);
  for (const nats_message& one : some) {
    const auto to = listeners_.find(natsMsg_GetSubject(one.get()));
    if (to != listeners_.end())
      take_opening(*one, to->second);
  }
}

// One end of a new pair; the node gets the other one. No file: it can't be had.
file nats_line::pair_with(const listener& at) noexcept {
  // A child with a copy of the node's end would keep the link from ending.
  const fork_pause no_fork;
  std::array<int, 2> ends{};
  if (kernel().socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return {};
  file ours{ends[0]};
  const file theirs{ends[1]};
  return hand_over(at.socket.get(), theirs) ? std::move(ours) : file{};
}

void nats_line::take_opening(natsMsg& message, listener& at) {
  const auto frame = read_frame(bytes_of(message));
  if (!frame || frame->kind != carrier_kind::open || !read_opening(frame->body) ||
      links_.size() >= links_max)
    return;
  file ours = pair_with(at);
  if (!ours)
    return;  // the node accepts no more for now
  auto& [token, made] = add(std::move(ours), nullptr, {});
  made.stream->answer(*frame, now());
  settle(token, made);
}

// A missing permission ends what needs it, and nothing else: strangers can make this end publish to inboxes that
// the server forbids.
void nats_line::heard_of(const std::string& problem) {
  const auto what = read_refusal(problem);
  const std::string text = server_ + ": " + problem;
  if (!what)
    return tell_listeners(text);
  if (what->publishing)
    return may_not_publish(what->subject, text);
  if (what->subject == inbox_ + "*")
    return hears_no_answers(text);
  if (const auto at = listeners_.find(std::string{what->subject}); at != listeners_.end())
    tell(at->second, text);
}

void nats_line::may_not_publish(std::string_view subject, const std::string& text) {
  bool accepted = false;
  for (auto& [token, of] : links_) {
    if (of.stream->other_end() != subject)
      continue;
    accepted |= of.note == nullptr;
    of.stream->end({errc::denied, text}, now());
    settle(token, of);
  }
  if (!accepted || now() < answers_again_at_)
    return;
  answers_again_at_ = now() + pause_of_refused_answers;
  for (const auto& [at, one] : listeners_)
    tell(one, text + ": an end that dials has its inbox there (nats_options::inbox_prefix)");
}

void nats_line::hears_no_answers(const std::string& text) {
  for (auto& [token, of] : links_) {
    if (of.stream->is_opening())
      of.stream->end({errc::denied, text}, now());
    settle(token, of);
  }
  tell_listeners(text);
}

// --- links

// Not settled yet.
nats_line::links::reference nats_line::add(file socket, std::shared_ptr<link_note> note,
                                           std::string subject) {
  const std::uint64_t token = random_number();
  carried made{.note = std::move(note), .subject = std::move(subject), .stream = nullptr};
  made.stream =
      std::make_unique<byte_carrier>(*this, std::move(socket), inbox_ + hexadecimal(token), now());
  looks_at_ = links_.empty() ? made.stream->due_at() : std::min(looks_at_, made.stream->due_at());
  return *links_.emplace(token, std::move(made)).first;
}

// After each call of a link: tells epoll what it waits for now, and notes its end.
void nats_line::settle(std::uint64_t token, carried& of) {
  const auto interest = of.stream->ended() ? std::nullopt : of.stream->interest();
  const int wanted = interest ? static_cast<int>(*interest) : -1;
  if (wanted != of.watched) {
    epoll_event event{.events = interest.value_or(0), .data = {.u64 = token}};
    const int operation = wanted < 0       ? EPOLL_CTL_DEL
                          : of.watched < 0 ? EPOLL_CTL_ADD
                                           : EPOLL_CTL_MOD;
    if (kernel().epoll_ctl(epoll_.get(), operation, of.stream->descriptor(), &event) != 0 &&
        wanted >= 0)
      of.stream->end({errc::system_error, "can't watch a link's socket", errno}, now());
    else
      of.watched = wanted;
  }
  if (of.stream->ended())
    ended_.push_back(token);
}

// Links don't look at clocks in each turn, of which there are many: none is late by more than clock_grain.
void nats_line::look_at_clocks() {
  const time at = now();
  if (links_.empty() || at < looks_at_)
    return;
  looks_at_ = time::max();
  for (auto& [token, of] : links_) {
    of.stream->look_at_clock(at);
    settle(token, of);
    looks_at_ = std::min(looks_at_, of.stream->due_at());
  }
  looks_at_ = std::max(looks_at_, at + clock_grain);
}

void nats_line::forget_ended() {
  for (; !ended_.empty(); ended_.pop_back()) {
    const auto at = links_.find(ended_.back());
    if (at == links_.end())
      continue;  // noted twice
    carried& of = at->second;
    if (of.watched >= 0)
      (void)kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, of.stream->descriptor(), nullptr);
    if (of.note != nullptr)
      of.note->set(of.stream->why());
    links_.erase(at);
  }
}

bool nats_line::publish(const std::string& subject, const std::string& reply, bytes_view message) {
  return is_connected() &&
         natsConnection_PublishRequest(connection_, subject.c_str(), reply.c_str(), message.data(),
                                       static_cast<int>(message.size())) == NATS_OK;
}

std::size_t nats_line::message_limit() const {
  const std::int64_t limit = connection_ != nullptr ? natsConnection_GetMaxPayload(connection_) : 0;
  return limit > 0 ? static_cast<std::size_t>(limit) : 0;
}

}  // namespace atbus::detail
