#include "node/core/link_output.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "protocol/request_body.h"

namespace atbus::detail {
namespace {

static_assert(data_head_size == message_head_size &&
              data_head(77) == std::bit_cast<std::uint64_t>(message_head{.type = 77}));

// Nothing tells when there is memory again.
constexpr std::chrono::nanoseconds memory_pause = std::chrono::milliseconds{1};

// Whether an event of the link will tell when to try again: that there is room, or that it has ended. In a
// forked child nothing is to be said of the parent's messages.
constexpr bool passes(const status& refusal) noexcept {
  return refusal == errc::would_block || refusal == errc::closed ||
         refusal == errc::used_after_fork;
}

}  // namespace

link_output::link_output(node_context& node, event_queue& events, link_sharing& sharing,
                         circuits& relayed)
    : node_(node), events_(events), sharing_(sharing), circuits_(relayed) {
  scratch_.reserve(control_size_max);  // flush() says how far this node has come, and can't fail
}

status link_output::send_control(session& to, bytes_view message, message_purpose purpose) {
  status why;
  std::byte* const at = claim_in(to, message.size(), purpose, why);
  if (at == nullptr)
    return why;
  std::memcpy(at, message.data(), message.size());
  to.at.commit(message.size());
  ++to.committed;
  return {};
}

status link_output::announce(peer& of, session& path, std::uint64_t number) {
  const flow_body body{.next = number, .before = of.out.last_sent(), .turn = last_turn_ + 1};
  if (const status said = say(path, body); !said)
    return said;
  ++last_turn_;
  path.last_data = path.committed;  // it has to be there before another link is announced on
  of.out.announced(number);
  return {};
}

void link_output::try_again(peer& of) noexcept {
  const auto again = moment_after(node_.now(), memory_pause);
  if (!of.expiry.pending() || again < of.expiry.due())
    of.expiry.set(again);  // which drains it
}

void link_output::drain(peer& of) {
  while (of.out.holds() && of.current != nullptr && of.next == nullptr && !of.blocked) {
    session& path = *of.current;
    const held_message& message = of.out.front();
    if (message.bytes.size() > of.message_limit) {
      of.out.drop_oldest(errc::message_too_large, events_.reporter(of.id));
      continue;
    }
    const std::size_t length = message.bytes.size();
    status why;
    const auto flags =
        static_cast<std::uint8_t>(message.flags | (message.redelivered ? flag_redelivered : 0) |
                                  (message.required ? flag_require_delivery : 0));
    std::byte* const at = begin_data(of, message.number, message.type, flags, length, why);
    if (at == nullptr && why == errc::out_of_memory)
      return try_again(of);
    if (at == nullptr && !passes(why)) {
      of.out.drop_oldest(why.code(), events_.reporter(of.id));
      continue;
    }
    if (at == nullptr) {
      of.blocked = true;
      return;
    }
    if (length != 0)
      std::memcpy(at, message.bytes.data(), length);
    if ((message.flags & exchange_flags) == flag_request)
      renew_time_left(at, node_.now());
    end_data(path, length);
    of.out.carried();
  }
  if (of.blobs_wait && !of.blocked && !of.out.holds()) {
    of.blobs_wait = false;
    drain_blobs_(of);
  }
  if (of.interest_waits && !of.blocked && !of.out.holds() && !tell_interest_(of)) {
    of.blocked = true;
    return;
  }
  if (of.copies_wait && !of.blocked && !of.out.holds()) {
    // They may fill the link whenever there is room, so a sender that was refused goes first every other time.
    if (of.wants_room)
      of.messages_first = !of.messages_first;
    if (of.wants_room && of.messages_first) {
      yield_copies(of);
    } else {
      const std::uint64_t before = node_.stats.topic_copies;
      drain_copies_(of);
      // There is less room than the first of them takes, and the next room is theirs again.
      if (of.blocked && node_.stats.topic_copies == before)
        of.messages_first = true;
    }
  }
  if (of.wants_room && !of.blocked && !of.out.holds()) {
    try {
      events_.tell_writable(of.id);
    } catch (const std::bad_alloc&) {
      of.expiry.set(node_.now());  // which comes here again
      throw;
    }
    of.wants_room = false;
  }
}

std::uint8_t link_output::flags_after(session& path, std::size_t size) const noexcept {
  path.unasked_bytes += size;
  if (path.unasked_bytes < node_.acknowledge_after())
    return 0;
  path.unasked_bytes = 0;
  return path.keeps ? flag_acknowledge : std::uint8_t{0};
}

std::byte* link_output::begin_data(peer& to, std::uint64_t number, std::uint32_t type,
                                   std::uint8_t flags, std::size_t length, status& why) {
  session& path = *to.current;
  if (!to.out.follows(number)) [[unlikely]] {
    why = announce(to, path, number);
    if (!why)
      return nullptr;
  }
  if (path.shared && !sharing_.take(to, path, message_head_size + length)) [[unlikely]] {
    why = errc::would_block;
    return nullptr;
  }
  std::byte* const at = path.at.claim(message_head_size + length, message_purpose::data, why);
  if (at == nullptr) [[unlikely]] {
    if (path.shared && why == errc::would_block)
      sharing_.want(path);
    return nullptr;
  }
  path.unasked_bytes += message_head_size + length;
  if (path.unasked_bytes >= node_.acknowledge_after()) [[unlikely]] {
    flags |= path.keeps ? flag_acknowledge : std::uint8_t{0};
    path.unasked_bytes = 0;
  }
  encode(message_head{message_kind::data, flags, 0, type}, at);
  return at + message_head_size;
}

void link_output::open_path(session& path) noexcept {
  const peer& of = *path.of;
  if (of.id == bus_id{})
    return;  // commands only, and replies
  if (of.current != &path || of.next != nullptr || of.out.holds() || path.shared || node_.closed ||
      node_.leaving || of.checked_to)
    return;
  const direct_place place = path.at.place();
  // It can't be seen whether a claim in a lane is open: nothing is left that flush() might put there.
  if (place.lane != nullptr && circuits_.has_unflushed()) [[unlikely]]
    circuits_.flush();
  direct_.place = place;
  direct_.to = of.id;
  direct_.longest =
      std::min({of.message_limit, node_.options.message_limit(),
                static_cast<std::size_t>(path.at.message_limit()) - message_head_size});
}

void link_output::end_path() noexcept {
  direct_.place = {};
  ++direct_.claims;
  node_.stats.accepted += direct_.messages;
  node_.stats.accepted_bytes += direct_.bytes;
  direct_session_->committed += direct_.messages;
  direct_session_->last_data = direct_session_->committed;
  direct_session_->unasked_bytes += direct_.bytes + direct_.messages * data_head_size;
  direct_session_->of->counts.sent_bytes += direct_.bytes;
  direct_session_->of->out.passed(std::exchange(direct_.messages, 0));
  direct_.bytes = 0;
}

}  // namespace atbus::detail
