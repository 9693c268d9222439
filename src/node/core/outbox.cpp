#include "node/core/outbox.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "protocol/blob_body.h"

namespace atbus::detail {

void outbox::give_up_claim() noexcept {
  output_.close_path();
  receive_.close();
  output_.claimed.path = nullptr;
  held_.in = nullptr;
  held_.to_self = false;
}

void outbox::forget(const peer& of) noexcept {
  if (held_.in == &of)
    held_ = {};
  if (output_.claimed.path != nullptr && output_.claimed.path->of == &of)
    output_.claimed = {};
}

std::byte* outbox::refuse(status reason, status& why) noexcept {
  why = reason;
  ++(reason == errc::would_block ? node_.stats.would_block : node_.stats.refused);
  return nullptr;
}

std::byte* outbox::claim_elsewhere(bus_id to, std::uint32_t type, std::uint8_t flags,
                                   std::size_t length, status& why) noexcept {
  give_up_claim();
  try {
    peer* const in = node_.closed || node_.leaving ? nullptr : directory_.find_or_look_up(to);
    return claim_for(in, to, type, flags, length, why);
  } catch (const std::bad_alloc&) {
    why = take_back_claim(to, length);
    return nullptr;
  }
}

// There is no memory for it.
status outbox::take_back_claim(bus_id to, std::size_t length) noexcept {
  ++node_.stats.refused;
  // A peer that was made for this message only would never be forgotten.
  if (peer* const made = peers_.find(to); made != nullptr && retention_.is_only_awaited(*made) &&
                                          !made->wants_room && !made->out.holds() &&
                                          !made->forget.pending())
    retention_.forget(*made);
  return {errc::out_of_memory, length};
}

bool outbox::has_to_be_held(peer& in, bus_id to, std::uint32_t type, std::uint8_t flags,
                            std::size_t length, status& why, std::byte*& at) {
  session& path = *in.current;
  if (length > in.message_limit) [[unlikely]] {
    at = refuse({errc::message_too_large, length, in.message_limit}, why);
    return false;
  }
  // Commands and answers are held: whoever has them can do nothing better.
  const bool may_be_refused = in.policy.overflow == overflow_policy::would_block &&
                              in.policy.message_deadline.count() == 0 &&
                              (flags & command_flags) == 0;
  if (may_be_refused && in.shares_room()) [[unlikely]] {
    ++in.counts.would_block;
    refuse({errc::would_block, length}, why);
    return false;
  }
  at = output_.begin_data(in, in.out.accepted() + 1, type, flags, length, why);
  if (at != nullptr) [[likely]] {
    output_.claimed = {&path, length};
    return false;
  }
  if (why != errc::would_block && why != errc::closed) {
    refuse(why, why);
    return false;
  }
  in.blocked = true;
  const bool is_full = why == errc::would_block;  // else it is about to end: this waits
  if (is_full && in.policy.overflow == overflow_policy::disconnect && is_blob(flags)) {
    at = nullptr;  // what is held would keep the next message from breaking the link
    return false;
  }
  if (is_full && in.policy.overflow == overflow_policy::disconnect) {
    ++node_.stats.overflow_drops;
    sessions_.set_too_slow(path);
    refuse({errc::not_connected, to.value()}, why);
    return false;
  }
  if (is_full && may_be_refused) {
    in.wants_room = true;
    ++in.counts.would_block;
    refuse({errc::would_block, length}, why);
    return false;
  }
  return true;
}

bool outbox::is_held_full(const peer& in, bool exempt, std::size_t length) const noexcept {
  const std::size_t held = in.out.held_bytes(exempt);
  return held != 0 && held + outgoing_flow::cost(length) > node_.options.send_buffer_size();
}

bool outbox::make_room(peer& in, std::uint8_t flags, std::size_t length) {
  const auto is_full = [&] { return is_held_full(in, is_blob(flags), length); };
  if (!is_full())
    return true;
  if (is_blob(flags))
    return false;  // no user waits for that room
  switch (in.policy.overflow) {
    case overflow_policy::drop_oldest:
      while (is_full()) {
        in.out.drop_oldest_by_policy(errc::would_block,
                                     [this, &in](held_message&& what, errc reason) {
                                       events_.report(in.id, std::move(what), reason);
                                     });
        ++node_.stats.overflow_drops;
      }
      return true;
    case overflow_policy::drop_newest:
      return true;  // commit sees to it
    case overflow_policy::would_block:
    case overflow_policy::disconnect:
      break;
  }
  in.wants_room = true;
  return false;
}

// A command has its name in the payload: command_exchange sees to it. A blob is checked when it begins.
status outbox::check_access(bus_id to, std::uint32_t type, std::uint8_t flags) noexcept {
  const unsigned kind = flags & exchange_flags;
  if (to == node_.self.id || (kind != 0 && kind != flag_request))
    return {};
  return access_.check_sent(to, class_of(kind), type);
}

status outbox::check_blob(bus_id to, std::uint32_t type) noexcept {
  const status allowed = check_access(to, type, 0);
  if (!allowed)
    ++node_.stats.refused;
  return allowed;
}

std::size_t outbox::longest_message(bus_id to) noexcept {
  std::size_t most = node_.options.message_limit();
  if (const peer* const of = peers_.find(to); of != nullptr) {
    most = std::min(most, of->message_limit);
    if (of->current != nullptr)
      most = std::min(
          most, static_cast<std::size_t>(of->current->at.message_limit()) - message_head_size);
  }
  return most;
}

std::byte* outbox::claim_for(peer* in, bus_id to, std::uint32_t type, std::uint8_t flags,
                             std::size_t length, status& why) {
  ++output_.path().claims;
  if (node_.closed || node_.leaving) [[unlikely]]
    return refuse(errc::closed, why);
  if (node_.is_forked()) [[unlikely]]
    return refuse(errc::used_after_fork, why);
  if (!node_.fault) [[unlikely]]
    return refuse(node_.fault.code(), why);
  if (node_.is_client() && (flags & exchange_flags) == 0) [[unlikely]]
    return refuse(errc::not_supported, why);
  if (length > node_.options.message_limit()) [[unlikely]]
    return refuse({errc::message_too_large, length, node_.options.message_limit()}, why);
  if (const status allowed = check_access(to, type, flags); !allowed) [[unlikely]]
    return refuse(allowed, why);
  if (in != nullptr && in->current != nullptr && in->next == nullptr && !in->out.holds())
      [[likely]] {
    std::byte* at = nullptr;
    if (!has_to_be_held(*in, to, type, flags, length, why, at)) [[likely]]
      return at;
  }
  const bool self = to == node_.self.id && !node_.is_client();
  // A peer that is known only because something required waits for it is unknown to all else. One that
  // has asked comes back for the reply.
  const bool is_reply = (flags & flag_reply) != 0;
  if (!self && (in == nullptr || (!is_reply && retention_.is_only_awaited(*in)))) [[unlikely]] {
    const bool required = (flags & flag_require_delivery) != 0;
    if (!reach_.is_reachable(to) && !(required && reach_.may_become_reachable(to)))
      return refuse({errc::no_route, to.value()}, why);
    in = &peers_.find_or_make(to);
    if (required)
      retention_.await_for_a_time(*in);
  }
  if (!self && in->current == nullptr)
    retention_.seek(*in);
  const bool of_blob = is_blob(flags);
  const bool has_room = !self     ? make_room(*in, flags, length)
                        : of_blob ? loopback_.fits(length)
                                  : loopback_.has_room(length);
  if (!has_room) {
    why = {errc::would_block, length};
    if (of_blob)
      return nullptr;
    if (!self)
      ++in->counts.would_block;
    return refuse(why, why);
  }
  std::list<held_message> made(1);
  held_message& message = made.front();
  message.type = type;
  message.required = (flags & flag_require_delivery) != 0;
  message.flags = flags & payload_flags;
  message.exempt = of_blob;
  // An empty message needs an address too: a null one means that it is refused.
  message.bytes.reserve(std::max<std::size_t>(length, 1));
  message.bytes.resize(length);
  why = {};
  held_ = {.in = in, .to_self = self, .length = length, .held = std::move(made)};
  return message.bytes.data();
}

void outbox::commit_held(std::size_t length) noexcept {
  if ((held_.in == nullptr && !held_.to_self) || length > held_.length) [[unlikely]]
    return;
  peer* const in = std::exchange(held_.in, nullptr);
  ++node_.stats.accepted;
  node_.stats.accepted_bytes += length;
  held_message& message = held_.held.front();
  message.bytes.resize(length);  // not longer
  if (std::exchange(held_.to_self, false))
    return loopback_.push(held_.held);
  message.number = in->out.accept();
  in->counts.sent_bytes += length;
  if (!message.exempt && message.deadline.count() == 0 && in->policy.message_deadline.count() != 0)
    message.deadline = moment_after(node_.now(), in->policy.message_deadline);
  if (message.deadline.count() != 0 &&
      (!in->expiry.pending() || message.deadline < in->expiry.due()))
    in->expiry.set(message.deadline);
  if (in->policy.overflow == overflow_policy::drop_newest && !message.exempt &&
      is_held_full(*in, false, length)) {
    try {
      events_.report(in->id, std::move(message), errc::would_block);
      ++node_.stats.overflow_drops;
      return;
    } catch (const std::bad_alloc&) {  // this one is kept, then: it was accepted
    }
  }
  in->out.hold(std::move(held_.held));
}

status outbox::send_command(peer* in, bus_id to, std::uint32_t type, std::uint8_t flags,
                            bytes_view payload, std::chrono::nanoseconds deadline) {
  status why;
  std::byte* at = nullptr;
  try {
    at = claim_for(in, to, type, flags, payload.size(), why);
  } catch (const std::bad_alloc&) {
    why = take_back_claim(to, payload.size());
  }
  if (at == nullptr)
    return why;
  std::memcpy(at, payload.data(), payload.size());
  if (held_.in != nullptr)
    held_.held.front().deadline = deadline;
  commit(payload.size());
  return {};
}

std::byte* outbox::claim_exchange(peer* in, bus_id to, std::uint32_t type, std::uint8_t flags,
                                  std::size_t length, status& why) noexcept {
  output_.close_path();
  if (std::byte* const at = claim_in_link(in, type, flags, length); at != nullptr) [[likely]]
    return at;
  give_up_claim();
  try {
    return claim_for(in, to, type, flags, length, why);
  } catch (const std::bad_alloc&) {
    why = take_back_claim(to, length);
    return nullptr;
  }
}

std::byte* outbox::claim_blob(peer* in, bus_id to, std::uint32_t type, std::uint8_t flags,
                              std::size_t length, status& why) noexcept {
  std::byte* const at = claim_exchange(in, to, type, flags, length, why);
  if (at == nullptr && why == errc::out_of_memory) {
    if (peer* const of = peers_.find(to); of != nullptr)
      output_.try_again(*of);
  }
  return at;
}

bool outbox::commit_exchange(std::size_t length, std::chrono::nanoseconds deadline) noexcept {
  if (commit_in_link(length) != nullptr) [[likely]]
    return true;
  if ((held_.in == nullptr && !held_.to_self) || length > held_.length)
    return false;
  if (held_.in != nullptr)
    held_.held.front().deadline = deadline;
  commit_held(length);
  return true;
}

bool outbox::send_for_thread(bus_id to, std::uint32_t type, bytes_view bytes) {
  status why;
  std::byte* const at = claim(to, type, bytes.size(), why);
  if (at == nullptr && why == errc::would_block)
    return false;
  if (at != nullptr) {
    if (!bytes.empty())
      std::memcpy(at, bytes.data(), bytes.size());
    commit(bytes.size());
    return true;
  }
  --node_.stats.refused;
  ++node_.stats.accepted;
  node_.stats.accepted_bytes += bytes.size();
  ++node_.stats.not_delivered;
  try {
    held_message never_sent;
    never_sent.type = type;
    never_sent.bytes.assign(bytes.begin(), bytes.end());
    events_.tell_undelivered(to, std::move(never_sent), why.code());
  } catch (const std::bad_alloc&) {  // it is counted
  }
  return true;
}

}  // namespace atbus::detail
