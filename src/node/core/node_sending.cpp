// How a message of the user's gets room: in a link, in what is held for a peer, or in what goes to
// oneself; and the way that the next ones take without all that.
#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

#include "node/core/node_core.h"

namespace atbus::detail {

std::byte* node_core::begin_data(peer& to, std::uint64_t number, std::uint32_t type,
                                 std::uint8_t flags, std::size_t length, status& why) {
  session& path = *to.current;
  if (!to.out.follows(number)) [[unlikely]] {
    why = announce(to, path, number);
    if (!why)
      return nullptr;
  }
  if (path.shared && !takes_share(to, path, message_head_size + length)) [[unlikely]] {
    why = errc::would_block;
    return nullptr;
  }
  std::byte* const at = path.at.claim(message_head_size + length, message_purpose::data, why);
  if (at == nullptr) [[unlikely]] {
    if (path.shared && why == errc::would_block)
      want_share(path);
    return nullptr;
  }
  path.unasked_bytes += message_head_size + length;
  if (path.unasked_bytes >= ask_after()) [[unlikely]] {
    flags |= path.keeps ? flag_acknowledge : std::uint8_t{0};
    path.unasked_bytes = 0;
  }
  encode(message_head{message_kind::data, flags, 0, type}, at);
  return at + message_head_size;
}

std::byte* node_core::claim_elsewhere(bus_id to, std::uint32_t type, std::uint8_t flags,
                                      std::size_t length, status& why) noexcept {
  give_up_claim();
  try {
    peer* const in = closed_ || leaving_ ? nullptr : find_or_look_up(to);
    return claim_for(in, to, type, flags, length, why);
  } catch (const std::bad_alloc&) {
    why = take_back_claim(to, length);
    return nullptr;
  }
}

bool node_core::is_only_awaited(const peer& of) const noexcept {
  return of.instance.incarnation == 0 && !of.wished && of.sessions.empty() && of.dials.empty() &&
         parent_ != &of;
}

void node_core::await_for_a_time(peer& of) {
  const bool was_met = of.instance.incarnation != 0 || !of.sessions.empty();
  if (!was_met && !of.wished && parent_ != &of && !of.forget.pending())
    of.forget.set(moment_after(on_.clock.now(), options_.first_idle_timeout()));
}

// There is no memory for it.
status node_core::take_back_claim(bus_id to, std::size_t length) noexcept {
  ++stats_.refused;
  // One that was made for this message only would never be forgotten.
  if (peer* const made = find(to); made != nullptr && is_only_awaited(*made) && !made->wants_room &&
                                   !made->out.holds() && !made->forget.pending())
    forget(*made);
  return {errc::out_of_memory, length};
}

std::byte* node_core::claim_for(peer* in, bus_id to, std::uint32_t type, std::uint8_t flags,
                                std::size_t length, status& why) {
  ++way_.claims;
  const auto refuse = [&](status reason) -> std::byte* {
    why = reason;
    ++(reason == errc::would_block ? stats_.would_block : stats_.refused);
    return nullptr;
  };
  if (closed_ || leaving_) [[unlikely]]
    return refuse(errc::closed);
  if (!fault_) [[unlikely]]
    return refuse(fault_.code());
  if (is_client() && (flags & command_flags) == 0) [[unlikely]]
    return refuse(errc::not_supported);
  if (length > options_.message_limit()) [[unlikely]]
    return refuse({errc::message_too_large, length, options_.message_limit()});
  if (in != nullptr && in->current != nullptr && in->next == nullptr && !in->out.holds())
      [[likely]] {
    session& path = *in->current;
    if (length > in->message_limit) [[unlikely]]
      return refuse({errc::message_too_large, length, in->message_limit});
    std::byte* const at = begin_data(*in, in->out.accepted() + 1, type, flags, length, why);
    if (at != nullptr) [[likely]] {
      claimed_.path = &path;
      claimed_.length = length;
      return at;
    }
    if (why != errc::would_block && why != errc::closed)
      return refuse(why);
    in->blocked = true;
    const bool is_full = why == errc::would_block;  // else it is about to end: this waits
    if (is_full && in->policy.overflow == overflow_policy::disconnect) {
      ++stats_.overflow_drops;
      path.too_slow = has_too_slow_ = true;  // the next poll ends it, which takes memory
      return refuse({errc::not_connected, to.value()});
    }
    if (is_full && in->policy.overflow == overflow_policy::would_block &&
        in->policy.message_deadline.count() == 0 && (flags & command_flags) == 0) {
      in->wants_room = true;
      return refuse({errc::would_block, length});
    }
  }
  const bool self = to == self_.id && !is_client();
  // Who is known only because something required waits for it is nobody to others. Who has asked comes
  // back for the reply.
  const bool is_reply = (flags & flag_reply) != 0;
  if (!self && (in == nullptr || (!is_reply && is_only_awaited(*in)))) [[unlikely]] {
    const bool required = (flags & flag_require_delivery) != 0;
    if (!is_reachable(to) && !(required && may_become_reachable(to)))
      return refuse({errc::no_route, to.value()});
    in = &find_or_make(to);
    if (required)
      await_for_a_time(*in);
  }
  if (!self && in->current == nullptr)
    seek(*in);
  const std::size_t waiting = self ? to_self_bytes_ : in->out.held_bytes();
  if (waiting != 0 && waiting + outgoing_flow::cost(length) > options_.send_buffer_size()) {
    switch (self ? overflow_policy::would_block : in->policy.overflow) {
      case overflow_policy::drop_oldest:
        while (in->out.holds() &&
               in->out.held_bytes() + outgoing_flow::cost(length) > options_.send_buffer_size()) {
          in->out.drop_oldest(errc::would_block, reporter(*in));
          ++stats_.overflow_drops;
        }
        break;
      case overflow_policy::drop_newest:
        break;  // commit sees to it
      case overflow_policy::would_block:
      case overflow_policy::disconnect:
        (self ? self_wants_room_ : in->wants_room) = true;
        return refuse({errc::would_block, length});
    }
  }
  std::list<held_message> made(1);
  held_message& message = made.front();
  message.type = type;
  message.required = (flags & flag_require_delivery) != 0;
  message.flags = flags & command_flags;
  // An empty message needs an address too: a null one means that it is refused.
  message.bytes.reserve(std::max<std::size_t>(length, 1));
  message.bytes.resize(length);
  claimed_.held = std::move(made);
  why = {};
  claimed_.in = in;
  claimed_.to_self = self;
  claimed_.length = length;
  return message.bytes.data();
}

static_assert(data_head_size == message_head_size &&
              data_head(77) == std::bit_cast<std::uint64_t>(message_head{.type = 77}));

void node_core::open_way(session& path) noexcept {
  const peer& of = *path.of;
  if (of.id == bus_id{})
    return;  // commands only, and replies
  if (of.current != &path || of.next != nullptr || of.out.holds() || path.shared || closed_ ||
      leaving_)
    return;
  const direct_place place = path.at.place();
  // It can't be seen whether a claim in a lane is open: nothing is left that flush() might put there.
  if (place.lane != nullptr && circuits_.has_unflushed()) [[unlikely]]
    circuits_.flush();
  way_.place = place;
  way_.to = of.id;
  way_.longest = std::min({of.message_limit, options_.message_limit(),
                           static_cast<std::size_t>(path.at.message_limit()) - message_head_size});
}

void node_core::end_way() noexcept {
  way_.place = {};
  ++way_.claims;
  stats_.accepted += way_.messages;
  stats_.accepted_bytes += way_.bytes;
  way_path_->committed += way_.messages;
  way_path_->last_data = way_path_->committed;
  way_path_->unasked_bytes += way_.bytes + way_.messages * data_head_size;
  way_path_->of->out.passed(std::exchange(way_.messages, 0));
  way_.bytes = 0;
}

void node_core::commit_held(std::size_t length) noexcept {
  if ((claimed_.in == nullptr && !claimed_.to_self) || length > claimed_.length) [[unlikely]]
    return;
  peer* const in = std::exchange(claimed_.in, nullptr);
  ++stats_.accepted;
  stats_.accepted_bytes += length;
  held_message& message = claimed_.held.front();
  message.bytes.resize(length);  // not longer
  if (std::exchange(claimed_.to_self, false)) {
    message.number = ++self_accepted_;
    to_self_bytes_ += outgoing_flow::cost(length);
    to_self_.splice(to_self_.end(), claimed_.held);
    return;
  }
  message.number = in->out.accept();
  if (message.deadline.count() == 0 && in->policy.message_deadline.count() != 0)
    message.deadline = moment_after(on_.clock.now(), in->policy.message_deadline);
  if (message.deadline.count() != 0 &&
      (!in->expiry.pending() || message.deadline < in->expiry.due()))
    in->expiry.set(message.deadline);
  if (in->policy.overflow == overflow_policy::drop_newest && in->out.holds() &&
      in->out.held_bytes() + outgoing_flow::cost(length) > options_.send_buffer_size()) {
    try {
      reporter (*in)(std::move(message), errc::would_block);
      ++stats_.overflow_drops;
      return;
    } catch (const std::bad_alloc&) {  // this one is kept, then: it was accepted
    }
  }
  in->out.hold(std::move(claimed_.held));
}

bool node_core::send_for_thread(bus_id to, std::uint32_t type, bytes_view bytes) {
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
  --stats_.refused;
  ++stats_.accepted;
  stats_.accepted_bytes += bytes.size();
  ++stats_.not_delivered;
  held_message never_sent;
  never_sent.type = type;
  never_sent.bytes.assign(bytes.begin(), bytes.end());
  tell_undelivered(to, std::move(never_sent), why.code());
  return true;
}

}  // namespace atbus::detail
