#include "channel/stream/newcomers.h"

#include <algorithm>
#include <limits>
#include <span>

#include "atbus/clock.hpp"
#include "core/error_text.h"
#include "system/socket.h"

namespace atbus::detail {
namespace {

bool has_spoken(const newcomer& who) noexcept {
  return who.newcomer_link->bytes_read() != 0 || who.newcomer_link->unread() != 0;
}

// Of an IPv6 address the first half, because a host or site chooses the rest. IPv4 addresses lie in ::/64.
newcomer_origin shared_origin(int fd) noexcept {
  const link_origin from = remote_origin(fd);
  newcomer_origin shared{.where = from.where, .user = from.user, .address = from.address};
  const std::span second_half = std::span{shared.address}.last<8>();
  if (std::ranges::any_of(std::span{shared.address}.first<8>(),
                          [](std::byte b) { return b != std::byte{0}; }))
    std::ranges::fill(second_half, std::byte{0});
  return shared;
}

}  // namespace

error explain(stranger_end why) noexcept {
  const auto because = [](errc code, const char* text) {
    return error_of(code, [&]() -> error { return {code, text}; });
  };
  switch (why) {
    case stranger_end::silent:
      return because(errc::timed_out, "it has said nothing in time (first_byte_timeout)");
    case stranger_end::late:
      return because(errc::timed_out, "it has not become known in time (confirm_timeout)");
    case stranger_end::crowded:
      return because(errc::timed_out,
                     "too many unconfirmed connections, most of them from its address "
                     "(unconfirmed, per_address)");
    case stranger_end::talkative:
      return because(errc::protocol_error,
                     "it has sent more than a stranger may (stranger_limits::bytes)");
  }
  return {};
}

void count(stranger_end why, stranger_stats& in) noexcept {
  switch (why) {
    case stranger_end::silent:
      ++in.silent;
      return;
    case stranger_end::late:
      ++in.late;
      return;
    case stranger_end::crowded:
      ++in.crowded;
      return;
    case stranger_end::talkative:
      ++in.talkative;
      return;
  }
}

// A group that has a rank keeps its node of the map, so that no memory is needed.
void newcomers::change_rank(newcomer_group& of, std::size_t size) noexcept {
  auto node = ranked_.extract(of.rank);
  of.rank = {size, std::numeric_limits<std::uint64_t>::max() - ++changes_};
  node.key() = of.rank;
  if (size != 0)
    ranked_.insert(std::move(node));
}

void newcomers::join(newcomer& who, stream_link& over, std::chrono::nanoseconds time) {
  const newcomer_origin from = shared_origin(over.descriptor());
  const auto [place, is_new] = groups_.try_emplace(from);
  newcomer_group& group = place->second;
  if (is_new) {
    group.from = from;
    group.rank = {0, std::numeric_limits<std::uint64_t>::max() - ++changes_};
    try {
      ranked_.emplace(group.rank, &group);
    } catch (...) {
      groups_.erase(place);
      throw;
    }
  }
  who.newcomer_link = &over;
  who.group = &group;
  who.seen_to_speak = who.was_spared = who.has_begun = false;
  group.silent.join(who);
  if (limits_.first_byte_timeout > std::chrono::nanoseconds{0}) {
    who.silent_until = moment_after(time, limits_.first_byte_timeout);
    silent_.join(who);
  }
  change_rank(group, group.rank.first + 1);
  ++size_;
}

void newcomers::leave(newcomer& who) noexcept {
  newcomer_group* const group = who.group;
  if (group == nullptr)
    return;
  (who.seen_to_speak ? group->spoken : group->silent).leave(who);
  silent_.leave(who);
  wait_no_more(who);
  who.group = nullptr;
  change_rank(*group, group->rank.first - 1);
  --size_;
  if (group->rank.first == 0)
    groups_.erase(newcomer_origin{group->from});
}

newcomer* newcomers::next_to_go() noexcept {
  return next_of(*ranked_.rbegin()->second, nullptr);
}

newcomer* newcomers::next_of_too_many(const newcomer& latest) noexcept {
  const bool too_many = limits_.per_address != 0 && latest.group != nullptr &&
                        latest.group->rank.first > limits_.per_address;
  return too_many ? next_of(*latest.group, &latest) : nullptr;
}

newcomer* newcomers::next_of(newcomer_group& group, const newcomer* latest) noexcept {
  while (newcomer* const oldest = group.silent.first()) {
    if (oldest == latest)
      break;  // the last of the silent ones: all others have spoken
    if (latest == nullptr && !oldest->newcomer_link->was_read() && !waits(*oldest))
      return nullptr;
    if (!has_spoken(*oldest))
      return oldest;
    group.silent.leave(*oldest);
    oldest->seen_to_speak = true;
    group.spoken.join(*oldest);
  }
  for (;;) {
    newcomer* const oldest = group.spoken.first();
    if (oldest->was_spared || oldest->newcomer_link->unread() == 0)
      return oldest;
    oldest->was_spared = true;
    group.spoken.leave(*oldest);
    group.spoken.join(*oldest);
  }
}

newcomer* newcomers::next_too_silent(std::chrono::nanoseconds time) noexcept {
  while (newcomer* const oldest = silent_.first()) {
    if (oldest->silent_until > time)
      return nullptr;
    silent_.leave(*oldest);
    if (!has_spoken(*oldest))
      return oldest;
  }
  return nullptr;
}

bool newcomers::says_too_much(const newcomer& who, std::uint64_t longest_message) const noexcept {
  return limits_.bytes != 0 && who.group != nullptr &&
         who.newcomer_link->bytes_read() > longest_message &&
         who.newcomer_link->bytes_read() - longest_message > limits_.bytes;
}

void newcomers::wait(newcomer& who) noexcept {
  who.group->waiting.join(who);
  turns_.join(*who.group);
}

void newcomers::wait_no_more(newcomer& who) noexcept {
  newcomer_group& group = *who.group;
  group.waiting.leave(who);
  if (group.waiting.empty())
    turns_.leave(group);
}

bool newcomers::may_read(newcomer& who, std::chrono::nanoseconds time,
                         stranger_stats& counted) noexcept {
  if (who.has_begun || who.group == nullptr)
    return true;
  if (who.newcomer_link->bytes_read() != 0) {
    // They came between the look for them and the read.
    who.has_begun = true;
    handshakes_.force(time);
    return true;
  }
  if (who.newcomer_link->unread() == 0)
    return true;  // nothing, or its end
  if (!waits(who) && turns_.empty() && handshakes_.take(time)) {
    who.has_begun = true;
    return true;
  }
  counted.delayed += waits(who) ? 0 : 1;
  wait(who);
  return false;
}

newcomer* newcomers::next_to_begin(std::chrono::nanoseconds time) noexcept {
  newcomer_group* const group = turns_.first();
  if (group == nullptr || !handshakes_.take(time))
    return nullptr;
  newcomer* const next = group->waiting.first();
  turns_.leave(*group);
  group->waiting.leave(*next);
  if (!group->waiting.empty())
    turns_.join(*group);
  next->has_begun = true;
  return next;
}

std::chrono::nanoseconds newcomers::due_at() const noexcept {
  auto at = std::chrono::nanoseconds::max();
  if (!silent_.empty())
    at = silent_.first()->silent_until;
  if (!turns_.empty())
    at = std::min(at, handshakes_.free_at());
  return at;
}

}  // namespace atbus::detail
