#include "node/core/session_set.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "core/first_exception.h"

namespace atbus::detail {
namespace {

constexpr std::chrono::nanoseconds goodbye_time = std::chrono::seconds{1};

}  // namespace

session& session_set::make(link& at) {
  try {
    auto made = std::make_unique<session>(node_.timers, at, nullptr);
    session& fresh = *made;
    fresh.clock.replace([this, &fresh] { on_timer_(fresh); });
    acknowledgements_.make_room(all_.size() + 1);
    all_.push_back(std::move(made));
    at.context = &fresh;
    return fresh;
  } catch (const std::bad_alloc&) {
    at.abort();  // nothing else would end it
    throw;
  }
}

// Several handshakes with one incarnation may be under way: all of them speak of one memory of its flow.
void session_set::prepare_flow(session& on, const node_instance& instance) {
  on.has_flow = true;
  on.flow_of = instance;
  for (const auto& other : all_) {
    if (other.get() != &on && other->has_flow && other->flow_of == instance) {
      on.flow = other->flow;
      return;
    }
  }
  on.flow = away_.take(instance);
}

void session_set::give_back_flow(session& gone) noexcept {
  if (!std::exchange(gone.has_flow, false))
    return;
  if (gone.flow_of.id == bus_id{})
    return away_.lose(gone.flow);
  const peer* const of = peers_.find(gone.flow_of);
  const bool in_use = (of != nullptr && of->instance == gone.flow_of) ||
                      std::any_of(all_.begin(), all_.end(), [&](const auto& other) {
                        return other->has_flow && other->flow_of == gone.flow_of;
                      });
  if (!in_use)
    away_.remember(gone.flow_of, gone.flow);
}

void session_set::end(session& gone) noexcept {
  give_back_flow(gone);
  gone.at.context = nullptr;
  acknowledgements_.forget(gone);
  circuits_.writable();  // nothing else tells those that it had no room for
  if (output_.claimed.path == &gone)
    output_.claimed = {};
  std::erase_if(all_, [&](const auto& one) { return one.get() == &gone; });
}

session& session_set::move(session& from, link& to) {
  session& fresh = make(to);
  fresh.dialled = std::exchange(from.dialled, nullptr);
  if (fresh.dialled != nullptr)
    fresh.dialled->at = &fresh;
  std::erase_if(all_, [&](const auto& one) { return one.get() == &from; });
  return fresh;
}

void session_set::violation(session& by, error what) {
  ++node_.stats.violations;
  first_exception thrown;  // of texts: it is dropped without them too
  std::string why;
  thrown.keep([&] {
    why = what.text();
    events_.log_cause(what.code(), "the link to " + by.at.peer() + " is closed: " + why);
  });
  drop(by, true, what.code(), why);
  thrown.rethrow();
}

void session_set::drop_too_slow() {
  has_too_slow_ = false;
  first_exception thrown;
  for (const auto& one : all_) {
    if (!std::exchange(one->too_slow, false) || one->stage != session_stage::registered)
      continue;
    thrown.keep([&] {
      events_.log("the link to " + one->instance.id.to_string() +
                  " is broken off: its queue is full");
    });
    drop(*one, true, errc::would_block, "too slow");
  }
  thrown.rethrow();
}

void session_set::drop(session& which, bool say_bye, errc reason, std::string_view text) {
  const bool goodbye = say_bye && which.stage == session_stage::registered;
  const bool refused = which.stage == session_stage::registering && !which.by_us;
  byte_buffer words;
  if (goodbye) {
    try {
      encode(bye_body{.reason = reason, .text = std::string{text}}, words);
    } catch (const std::bad_alloc&) {  // it goes without a word
      words.clear();
    }
  }
  which.goodbye.clear();
  if (goodbye && which.keeps && acknowledgements_.has_in_hand(which) && !words.empty()) {
    which.stage = session_stage::dropped;
    which.goodbye = std::move(words);
    owes_goodbyes_ = true;
    output_.close_path();
    if (peer* const of = which.of; of != nullptr && of->current == &which) {
      of->current = nullptr;  // what is sent from here on is not for this link
      of->left_behind = &which;
    }
    return;
  }
  if (goodbye)
    say_goodbye(which, words);
  which.stage = session_stage::dropped;
  // What was said is to get there. What is read from a lane counts as handled, so nothing may be any more:
  // the other end may have registered already, and sent.
  if (which.keeps && (goodbye || refused || reason == errc::denied))
    which.at.close(goodbye_time);
  else
    which.at.abort();
}

void session_set::say_goodbye(session& to, bytes_view words) noexcept {
  if (to.keeps)
    (void)acknowledgements_.acknowledge(to, node_.now());
  if (!words.empty())
    (void)output_.send_control(to, words);
}

void session_set::say_owed_goodbyes() noexcept {
  owes_goodbyes_ = false;
  for (const auto& one : all_) {
    if (one->goodbye.empty())
      continue;
    say_goodbye(*one, std::exchange(one->goodbye, {}));
    one->at.close(goodbye_time);
  }
}

bool session_set::has_heard_of(const node_instance& sender) noexcept {
  if (const peer* const of = peers_.find(sender); of != nullptr && of->instance == sender)
    return of->in.has_begun();
  for (const auto& one : all_) {
    if (one->has_flow && one->flow_of == sender)
      return one->flow.has_begun();
  }
  const incoming_flow* const past = away_.find(sender);
  return past != nullptr && past->has_begun();
}

}  // namespace atbus::detail
