#include "nats/nats_listeners.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>

#include "atbus/clock.hpp"
#include "nats/carrier_frame.h"
#include "nats/connection_problem.h"
#include "nats/message_bytes.h"
#include "system/fork_guard.h"
#include "system/passed_descriptors.h"

namespace atbus::detail {
namespace {

using namespace std::chrono_literals;

// Between two times that listeners are told of inboxes to which this end may not publish.
constexpr std::chrono::nanoseconds pause_of_refused_answers = 10s;
// Before what links have to say is looked at again.
constexpr std::size_t openings_per_turn = 16;

// One end of a new pair; the node gets the other one. No file: it can't be had.
file pair_with(const file& node) noexcept {
  // A child with a copy of the node's end would keep the link from ending.
  const fork_pause no_fork;
  std::array<int, 2> ends{};
  if (kernel().socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return {};
  file ours{ends[0]};
  const file theirs{ends[1]};
  return pass_descriptor(node.get(), theirs.get()) ? std::move(ours) : file{};
}

}  // namespace

void nats_listeners::begin(file socket, const std::string& subject, natsConnection* connection) {
  listener& made = listeners_.find(subject)->second;
  unsubscribe(made);
  if (made.socket)
    (void)watch(made, EPOLL_CTL_DEL);
  made.socket = std::move(socket);  // the earlier one's end is an end of file
  if (!watch(made, EPOLL_CTL_ADD)) {
    tell(made, "the kernel can't watch this listener; it has ended");
    listeners_.erase(subject);
    return;
  }
  if (connection != nullptr)
    subscribe(subject, made, *connection);
  else if (const std::string problem = std::exchange(told_, {}); !problem.empty())
    tell_all(problem);
}

void nats_listeners::forget_ended() {
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
bool nats_listeners::watch(const listener& one, int operation) noexcept {
  epoll_event end{.events = 0, .data = {.u64 = tag_}};
  return kernel().epoll_ctl(epoll_, operation, one.socket.get(), &end) == 0;
}

void nats_listeners::subscribe_all(natsConnection& connection) {
  for (auto& [subject, one] : listeners_)
    subscribe(subject, one, connection);
}

void nats_listeners::subscribe(const std::string& subject, listener& to,
                               natsConnection& connection) {
  const natsStatus done = natsConnection_Subscribe(&to.subscription, &connection, subject.c_str(),
                                                   nats_mailbox::on_opening, bell_->closure());
  if (done == NATS_OK)
    return;
  to.subscription = nullptr;
  tell(to, server_ + ": can't subscribe for now: " + last_problem(done));
}

void nats_listeners::subscribe_again(natsConnection& connection) {
  if (now() < subscribes_at_)
    return;
  subscribes_at_ = now() + 1s;
  for (auto& [subject, one] : listeners_) {
    if (one.subscription == nullptr)
      subscribe(subject, one, connection);
  }
}

void nats_listeners::unsubscribe_all() {
  for (auto& [subject, one] : listeners_)
    unsubscribe(one);
}

void nats_listeners::unsubscribe(listener& from) {
  if (from.subscription != nullptr)
    natsSubscription_Destroy(std::exchange(from.subscription, nullptr));
}

void nats_listeners::tell_all(const std::string& problem) {
  if (problem == std::exchange(told_, problem))
    return;
  for (const auto& [subject, one] : listeners_)
    tell(one, problem);
}

void nats_listeners::tell(const listener& one, std::string_view problem) {
  (void)kernel().send(one.socket.get(), problem.data(), problem.size(),
                      MSG_DONTWAIT | MSG_NOSIGNAL);
}

void nats_listeners::tell(std::string_view subject, std::string_view problem) const {
  if (const auto at = listeners_.find(std::string{subject}); at != listeners_.end())
    tell(at->second, problem);
}

void nats_listeners::tell_of_refused_answers(const std::string& problem) {
  if (now() < answers_again_at_)
    return;
  answers_again_at_ = now() + pause_of_refused_answers;
  for (const auto& [at, one] : listeners_)
    tell(one, problem + ": an end that dials has its inbox there (nats_options::inbox_prefix)");
}

void nats_listeners::take_openings(nats_links& into) {
  const time at = now();
  const auto some = bell_->take_openings(std::min(openings_per_turn, pace_.allowed(at)));
  pace_.took(some.size(), at);
  for (const nats_message& one : some) {
    const auto to = listeners_.find(natsMsg_GetSubject(one.get()));
    if (to != listeners_.end())
      take_opening(*one, to->second, into);
  }
}

void nats_listeners::take_opening(natsMsg& message, const listener& at, nats_links& into) {
  const auto frame = read_frame(bytes_of(message));
  if (!frame || frame->kind != carrier_kind::open || !read_opening(frame->body) || into.is_full())
    return;
  file ours = pair_with(at.socket);
  if (!ours)
    return;  // the node accepts no more for now
  into.accept(std::move(ours), *frame);
}

}  // namespace atbus::detail
