#include "atbus/record/replayer.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "atbus/clock.hpp"

namespace atbus::tool {
namespace {

// So many messages that are due go out before the node looks for what has come.
constexpr std::uint64_t batch_max = 256;
// Below that a node's wait would spin.
constexpr std::chrono::nanoseconds short_gap = std::chrono::milliseconds{1};
constexpr std::chrono::nanoseconds longest_wait = std::chrono::milliseconds{100};

void sleep_until(std::chrono::nanoseconds due) {
  constexpr std::chrono::nanoseconds second = std::chrono::seconds{1};
  const timespec at{.tv_sec = static_cast<time_t>(due / second),
                    .tv_nsec = static_cast<long>((due % second).count())};
  (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr);
}

std::string sentence_of(const status& bad) {
  return std::string{name(bad.code())} + ": " + bad.text();
}

}  // namespace

replayer::replayer(const replay_target& to)
    : to_(to.id), own_(to.own.own_id(), to_node_options(to.own)) {
  own_.on_log([this](std::string_view line) { last_line_ = line; });
  own_.on_undelivered([this](const atbus::undelivered& one) {
    undelivered_ += one.count();
    why_ = std::string{name(one.outcome())} + ": " + std::string{explain(one.reason())};
  });
  if (const error bad = own_.connect(to_, to.own.address); !bad)
    throw std::runtime_error(std::string{name(bad.code())} + ": " + bad.text());
  std::optional<status> ready;
  const auto timeout = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>{to.own.timeout});
  if (const error bad = own_.on_ready(to_, timeout, [&](status how) { ready = how; }); !bad)
    throw std::runtime_error(std::string{name(bad.code())} + ": " + bad.text());
  while (!ready) {
    own_.poll();
    if (!ready)
      (void)own_.wait(longest_wait);
  }
  if (!*ready)
    throw std::runtime_error(sentence_of(*ready) + ": node " + to_.to_string() + " at " +
                             to.own.address +
                             (last_line_.empty() ? "" : "\nbefore that: " + last_line_));
}

bool replayer::wait_until(std::chrono::nanoseconds due, const stop_signal& signal) {
  for (std::chrono::nanoseconds at = now(); at < due; at = now()) {
    own_.poll();
    unpolled_ = 0;
    if (signal.seen())
      return false;
    if (due - at < short_gap)
      sleep_until(due);
    else
      (void)own_.wait(std::min(due - at, longest_wait));
  }
  return true;
}

bool replayer::send(std::uint32_t type, bytes_view payload, std::chrono::nanoseconds due,
                    const stop_signal& signal) {
  if (++unpolled_ == batch_max) {
    unpolled_ = 0;
    own_.poll();
  }
  while (true) {
    const status sent = own_.send(to_, type, payload);
    if (sent)
      break;
    if (sent != errc::would_block)
      throw std::runtime_error(sentence_of(sent) + ": after " + std::to_string(sent_) +
                               " messages");
    (void)own_.wait(longest_wait);
    own_.poll();
    if (signal.seen())
      return false;
  }
  ++sent_;
  latest_ = std::max(latest_, now() - due);
  return true;
}

void replayer::finish() {
  if (const status ended = own_.shutdown(std::chrono::seconds{5}); !ended && why_.empty())
    why_ = sentence_of(ended);
}

}  // namespace atbus::tool
