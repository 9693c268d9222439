#include "nats/nats_links.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <optional>
#include <utility>

#include "atbus/clock.hpp"
#include "nats/inbox_token.h"
#include "nats/message_bytes.h"

namespace atbus::detail {
namespace {

using namespace std::chrono_literals;

// Between two looks at the clocks of links.
constexpr std::chrono::nanoseconds clock_grain = 50ms;

}  // namespace

error link_note::why() const {
  const std::lock_guard lock{mutex_};
  return why_;
}

void link_note::set(error why) {
  const std::lock_guard lock{mutex_};
  why_ = std::move(why);
}

void nats_links::dial(file socket, std::shared_ptr<link_note> note, std::string subject,
                      bool at_once) {
  auto& [token, made] = add(std::move(socket), std::move(note), std::move(subject));
  if (at_once)
    made.stream->dial(made.subject, now());
  settle(token, made);
}

void nats_links::dial_all() {
  for (auto& [token, of] : links_) {
    of.stream->dial(of.subject, now());
    settle(token, of);
  }
}

void nats_links::accept(file socket, const carrier_frame& opening) {
  auto& [token, made] = add(std::move(socket), nullptr, {});
  made.stream->answer(opening, now());
  settle(token, made);
}

bool nats_links::ready(std::uint64_t token, std::uint32_t events) {
  const auto of = links_.find(token);
  if (of == links_.end())
    return false;
  of->second.stream->ready(events, now());
  settle(of->first, of->second);
  return true;
}

void nats_links::take(natsMsg& message) {
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

void nats_links::end_all(const error& why) {
  for (auto& [token, of] : links_) {
    of.stream->end(why, now());
    settle(token, of);
  }
}

void nats_links::end_opening(const error& why) {
  for (auto& [token, of] : links_) {
    if (of.stream->is_opening())
      of.stream->end(why, now());
    settle(token, of);
  }
}

bool nats_links::end_those_to(std::string_view subject, const error& why) {
  bool accepted = false;
  for (auto& [token, of] : links_) {
    if (of.stream->other_end() != subject)
      continue;
    accepted |= of.note == nullptr;
    of.stream->end(why, now());
    settle(token, of);
  }
  return accepted;
}

void nats_links::drop_all() noexcept {
  for (auto& [token, of] : links_) {
    try {  // the other end learns of it, if there is memory for that
      of.stream->end({errc::out_of_memory}, now());
    } catch (const std::bad_alloc&) {
    }
    if (of.note != nullptr)
      of.note->set(of.stream->why());
    if (of.watched >= 0)
      (void)kernel().epoll_ctl(epoll_, EPOLL_CTL_DEL, of.stream->descriptor(), nullptr);
  }
  links_.clear();
  ended_.clear();
}

// Not settled yet.
nats_links::links::reference nats_links::add(file socket, std::shared_ptr<link_note> note,
                                             std::string subject) {
  const std::uint64_t token = random_token();
  carried made{.note = std::move(note), .subject = std::move(subject), .stream = nullptr};
  made.stream =
      std::make_unique<byte_carrier>(out_, std::move(socket), inbox_ + to_text(token), now());
  looks_at_ = links_.empty() ? made.stream->due_at() : std::min(looks_at_, made.stream->due_at());
  return *links_.emplace(token, std::move(made)).first;
}

// After each call of a link: tells epoll what it waits for now, and notes its end.
void nats_links::settle(std::uint64_t token, carried& of) {
  const auto interest = of.stream->ended() ? std::nullopt : of.stream->interest();
  const int wanted = interest ? static_cast<int>(*interest) : -1;
  if (wanted != of.watched) {
    epoll_event event{.events = interest.value_or(0), .data = {.u64 = token}};
    const int operation = wanted < 0       ? EPOLL_CTL_DEL
                          : of.watched < 0 ? EPOLL_CTL_ADD
                                           : EPOLL_CTL_MOD;
    if (kernel().epoll_ctl(epoll_, operation, of.stream->descriptor(), &event) != 0 && wanted >= 0)
      of.stream->end({errc::system_error, "can't watch a link's socket", errno}, now());
    else
      of.watched = wanted;
  }
  if (of.stream->ended())
    ended_.push_back(token);
}

// Links don't look at clocks in each turn, of which there are many: none is late by more than clock_grain.
void nats_links::look_at_clocks() {
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

void nats_links::forget_ended() {
  for (; !ended_.empty(); ended_.pop_back()) {
    const auto at = links_.find(ended_.back());
    if (at == links_.end())
      continue;  // noted twice
    carried& of = at->second;
    if (of.watched >= 0)
      (void)kernel().epoll_ctl(epoll_, EPOLL_CTL_DEL, of.stream->descriptor(), nullptr);
    if (of.note != nullptr)
      of.note->set(of.stream->why());
    links_.erase(at);
  }
}

}  // namespace atbus::detail
