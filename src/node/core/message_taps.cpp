#include "node/core/message_taps.h"

#include <algorithm>
#include <utility>

namespace atbus::detail {
namespace {

constexpr std::chrono::nanoseconds look_interval = std::chrono::milliseconds{500};

std::string figures(std::uint64_t messages, std::uint64_t lost) {
  return std::to_string(messages) + " messages, of which " + std::to_string(lost) +
         " found no room";
}

}  // namespace

error message_taps::begin(std::string_view address, bus_id by) {
  if (node_.on.open_tap == nullptr)
    return {errc::not_supported, "this node has no shared memory for taps"};
  if (taps_.size() == taps_max)
    return {errc::would_block, "there are " + std::to_string(taps_max) +
                                   " taps at this node already: end one of them"};
  if (std::ranges::find(taps_, address, &tap::address) != taps_.end())
    return {errc::invalid_argument, std::string{address} + " is a tap of this node already"};
  taps_.reserve(taps_max);
  auto lane = node_.on.open_tap(address, longest());
  if (!lane)
    return lane.error();
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  const std::chrono::nanoseconds now = node_.now();
  tap made{.address = std::string{address}, .lane = std::move(*lane), .since_1970 = wall - now};
  const recording_entry head{
      .kind = entry_kind::begin, .to = node_.self.id, .number = node_.self.incarnation};
  if (const status sent = made.lane->send({tap_head(head, made.since_1970 + now)}); !sent)
    return {sent.code(), std::string{address} + ": nothing can be sent there"};
  events_.log("a tap begins: " + by.to_string() + " watches what this node receives, at " +
              made.address);
  taps_.push_back(std::move(made));
  node_.tapped = true;
  look_.set(moment_after(now, look_interval));
  return {};
}

result<message_taps::counts> message_taps::end(std::string_view address) {
  const auto found = std::ranges::find(taps_, address, &tap::address);
  if (found == taps_.end())
    return error{errc::not_found, std::string{address} + " is no tap of this node"};
  const counts so_far{found->messages, found->lost};
  const std::string line = "a tap has ended after " + figures(found->messages, found->lost_all);
  taps_.erase(found);
  ended();
  events_.log(line);
  return so_far;
}

void message_taps::copy(recording_entry head, bytes_view payload) noexcept {
  head.to = node_.self.id;
  const std::chrono::nanoseconds now = node_.now();
  for (tap& one : taps_) {
    head.number = ++one.messages;
    if (tell_lost(one, now) && one.lane->send({tap_head(head, one.since_1970 + now), payload}))
      continue;
    ++one.lost;
    ++one.lost_all;
  }
}

bool message_taps::tell_lost(tap& to, std::chrono::nanoseconds now) noexcept {
  if (to.lost == 0) [[likely]]
    return true;
  const recording_entry head{.kind = entry_kind::lost, .to = node_.self.id, .count = to.lost};
  if (!to.lane->send({tap_head(head, to.since_1970 + now)}))
    return false;
  to.lost = 0;
  return true;
}

void message_taps::tell_end(tap& to) noexcept {
  const std::chrono::nanoseconds now = node_.now();
  const recording_entry head{.kind = entry_kind::end,
                             .type = static_cast<std::uint32_t>(recording_end::node_closed),
                             .to = node_.self.id,
                             .number = to.messages};
  if (tell_lost(to, now))
    (void)to.lane->send({tap_head(head, to.since_1970 + now)});
}

void message_taps::look_at_readers() {
  look_.set(moment_after(node_.now(), look_interval));  // first: lines take memory
  for (std::size_t i = taps_.size(); i-- != 0;) {
    if (taps_[i].lane->has_reader())
      continue;
    const std::string line = "a tap has ended, because the process that read it has: after " +
                             figures(taps_[i].messages, taps_[i].lost_all);
    taps_.erase(taps_.begin() + static_cast<std::ptrdiff_t>(i));
    events_.log(line);
  }
  ended();
}

void message_taps::ended() {
  node_.tapped = !taps_.empty();
  if (node_.tapped)
    look_.set(moment_after(node_.now(), look_interval));
  else
    look_.cancel();
}

void message_taps::close() noexcept {
  for (tap& one : taps_)
    tell_end(one);
  taps_.clear();
  node_.tapped = false;
  look_.cancel();
}

}  // namespace atbus::detail
