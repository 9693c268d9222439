#include "nats/nats_line.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <thread>
#include <utility>

#include "atbus/clock.hpp"
#include "nats/connection_problem.h"
#include "nats/inbox_token.h"
#include "nats/nats_settings.h"
#include "nats/server_refusal.h"

namespace atbus::detail {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds backoff_min = 250ms;
constexpr std::chrono::nanoseconds backoff_max = 4s;
// How long what was sent may take to leave after stop().
constexpr std::chrono::nanoseconds farewell = 1s;
// Tags of epoll. Links have their token, which is neither.
constexpr std::uint64_t bell_tag = 0;
constexpr std::uint64_t listener_tag = 1;
static_assert(listener_tag < smallest_token);

}  // namespace

// --- for other threads

result<std::shared_ptr<nats_line>> nats_line::start(const nats_options& options,
                                                    const std::string& server) {
  std::shared_ptr<nats_line> made{new nats_line{options, server}};
  if (!made->is_ready())
    return error{errc::system_error, "no descriptors for a connection to a NATS server", errno};
  if (error bad = line_threads::start(made); !bad)
    return bad;
  return made;
}

nats_line::nats_line(const nats_options& options, const std::string& server)
    : options_(options),
      server_(server),
      inbox_(options.inbox_prefix + ".atbus." + to_text(random_token()) + to_text(random_token()) +
             "."),
      bell_(nats_mailbox::make()),
      epoll_(kernel().epoll_create(EPOLL_CLOEXEC)),
      listeners_(epoll_.get(), listener_tag, bell_, server_),
      links_(*this, epoll_.get(), inbox_) {}

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
}

void nats_line::work() {
  follow_orders();
  connect();
  if (is_connected())
    listeners_.subscribe_again(*connection_);
  wait();
  read_news();
  listeners_.take_openings(links_);
  links_.look_at_clocks();
  links_.forget_ended();
}

// Without memory. What was to be done is not known any more, so all links end, and a new connection subscribes again
// for all listeners. Orders that nobody has followed stay.
void nats_line::begin_again() noexcept {
  links_.drop_all();
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
  time until = std::min({now() + 1s, links_.looks_at(), listeners_.next_opening()});
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
    if (!links_.ready(token, event.events) && token == listener_tag)
      listeners_.forget_ended();
  }
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
  listeners_.forget_told();
  if (natsConnection_Subscribe(&inboxes_, connection_, (inbox_ + "*").c_str(),
                               nats_mailbox::on_message, bell_->closure()) != NATS_OK) {
    disconnect();
    connects_at_ = now() + backoff_min;
    return lost({errc::not_connected, server_ + ": the NATS server takes no subscription"});
  }
  listeners_.subscribe_all(*connection_);
  links_.dial_all();
}

void nats_line::disconnect() {
  listeners_.unsubscribe_all();
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
  links_.end_all(why);
  links_.forget_ended();
  listeners_.tell_all(why.text());
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
    const bool listens = first.note == nullptr;
    // What may throw before: then the order stays, and is tried again.
    if (listens)
      listeners_.prepare(first.subject);
    order taken = std::move(first);
    followed_.pop_front();
    if (listens)
      listeners_.begin(std::move(taken.socket), taken.subject, connection_);
    else
      begin_dialling(std::move(taken));
  }
}

void nats_line::begin_dialling(order wanted) {
  const auto refuse = [&](const char* text) {
    wanted.note->set({errc::not_connected, server_ + ": " + text});
    (void)kernel().shutdown(wanted.socket.get(), SHUT_RDWR);
  };
  if (links_.is_full())
    return refuse("too many links");
  if (connection_ == nullptr && now() < connects_at_)
    return refuse("no connection to the NATS server; it is tried again");
  if (connection_ != nullptr && !is_connected())
    return refuse("no connection to the NATS server; it is tried again");
  links_.dial(std::move(wanted.socket), std::move(wanted.note), std::move(wanted.subject),
              connection_ != nullptr);
}

// --- news

void nats_line::read_news() {
  const nats_news news = bell_->take();
  for (const nats_message& message : news.messages)
    links_.take(*message);
  for (const std::string& problem : news.problems)
    heard_of(problem);
  if (news.disconnected) {
    listeners_.forget_told();
    lost({errc::peer_closed, server_ + ": the connection to the NATS server is lost"});
  }
  // libnats says nothing if it has no memory for that.
  if (news.closed || (connection_ != nullptr && natsConnection_IsClosed(connection_))) {
    // Where it could not begin to connect again, nor was anything said of the end.
    lost({errc::peer_closed, server_ + ": the connection to the NATS server is closed"});
    disconnect();
    connects_at_ = now() + backoff_min;
  }
}

// A missing permission ends what needs it, and nothing else: strangers can make this end publish to inboxes that
// the server forbids.
void nats_line::heard_of(const std::string& problem) {
  const auto what = read_refusal(problem);
  const std::string text = server_ + ": " + problem;
  if (!what)
    return listeners_.tell_all(text);
  if (what->publishing) {
    if (links_.end_those_to(what->subject, {errc::denied, text}))
      listeners_.tell_of_refused_answers(text);
  } else if (what->subject == inbox_ + "*") {  // no answer is heard
    links_.end_opening({errc::denied, text});
    listeners_.tell_all(text);
  } else {
    listeners_.tell(what->subject, text);
  }
}

// --- for links

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
