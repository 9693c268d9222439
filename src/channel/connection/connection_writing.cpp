// The part of a connection_set that writes: chunks are claimed, join the queue, are written by the
// link, released and written again.
#include <algorithm>
#include <cassert>
#include <utility>

#include "atbus/clock.hpp"
#include "channel/connection/connection_set.h"
#include "core/error_text.h"

namespace atbus::detail {
namespace {

constexpr std::size_t no_end = static_cast<std::size_t>(-1);

// The bytes left to write of a frame that has begun to leave.
std::size_t rest_of_begun(const connection_entry& c, const frame_measure& found) {
  return found.written_bytes + found.begun -
         static_cast<std::size_t>(c.link->taken() - c.queue->released());
}

}  // namespace

status connection_core::new_chunk(connection_entry& c, std::size_t length) noexcept {
  c.chunk.frame = nullptr;  // discard an open claim
  if (c.now == phase::closed || c.ending())
    return errc::closed;
  if (length > c.limit)
    return {errc::message_too_large, length, c.limit};
  settle(c);
  status claimed = claim_chunk(c, length);
  if (claimed == errc::would_block && !c.blocked) {
    write(c);
    claimed = c.now == phase::closed ? status{errc::closed} : claim_chunk(c, length);
  }
  if (claimed == errc::would_block) {
    ++full_;
    c.wants_writable = true;
  }
  return claimed;
}

std::byte* connection_core::claim_in_new_chunk(connection_entry& c, std::size_t length,
                                               status& why) noexcept {
  why = new_chunk(c, length);
  return why ? claim(c, length, why) : nullptr;
}

status connection_core::claim_chunk(connection_entry& c, std::size_t length) noexcept {
  // While the kernel takes nothing no write is due.
  const std::uint64_t due =
      c.blocked ? no_end : c.write_at - std::min(c.write_at, c.queue->committed());
  mutable_bytes place;
  const status claimed = claim_frames(*c.queue, length, due, place);
  if (claimed)
    c.chunk.start(place.data(), place.size());
  return claimed;
}

void connection_core::settle(connection_entry& c) noexcept {
  const std::size_t bytes = c.chunk.appended();
  if (c.chunk.begin == nullptr || (bytes == 0 && c.chunk.frame != nullptr))
    return;
  c.queue->commit(bytes);
  if (c.release == release_policy::by_user)
    c.marks.add({.bytes = c.queue->committed(), .frames = c.chunk.frames});
  if (c.link != nullptr)
    c.link->joined(bytes, c.chunk.checked);
  mutable_bytes place;
  if (c.chunk.frame != nullptr && c.queue->claim(frame_size(c.chunk.claimed()), place)) {
    assert(place.data() == c.chunk.frame);  // it goes on where the queue ends
    c.chunk.start(place.data(), place.size());
    return;
  }
  c.chunk.stop();
}

void connection_core::flush() noexcept {
  wrote_at_ = {};  // the program may sleep now: then the next poll has to read
  if (interrupted_ == interruption::none)
    write_dirty();
}

void connection_core::flush_due() noexcept {
  if (std::exchange(resting_, false) || interrupted_ != interruption::none || dirty_.empty())
    return;
  write_dirty();
  if (write_delay_ != std::chrono::nanoseconds{0})
    wrote_at_ = now();
}

void connection_core::write_dirty() noexcept {
  for (std::size_t left = dirty_.size(); left != 0; --left) {
    connection_entry& c = *dirty_.first();
    dirty_.leave(c);
    if (!c.blocked)
      write(c);
    if (c.chunk.frame != nullptr)
      dirty_.join(c);  // appending an open claim reports nothing
  }
}

status connection_core::flush(connection_entry& c) noexcept {
  write(c);
  if (c.now == phase::closed)
    return errc::closed;
  return c.queue->unwritten() == 0 ? status{} : status{errc::would_block};
}

void connection_core::write(connection_entry& c) noexcept {
  settle(c);
  c.write_at = c.queue->committed() + write_size;
  if (c.now != phase::linked)
    return;
  if (c.dial == nullptr && !c.opened && !c.pairing.offered())
    return secure(c);
  (void)c.link->flush();
  while (c.link->take_stop()) {
    pay_release_debt(c);
    if (std::exchange(c.resend_due, false))
      c.queue->rewind();
    (void)c.link->flush();
  }
  wrote(c);
}

// An end that accepts says nothing before the other has said hello, except in a TLS handshake.
void connection_core::secure(connection_entry& c) noexcept {
  if (c.link->tls() == nullptr)
    return;
  c.link->secure();
  if (c.link->now() == stream_link::state::closed)
    return link_ended(c);
  c.blocked = c.link->wants_room(false);
  note_starved(c);
  watch(c);
}

void connection_core::wrote(connection_entry& c) noexcept {
  pay_release_debt(c);
  tell_writable_soon(c);
  if (c.link->now() == stream_link::state::closed) {
    // Messages that have been read are handed out first, for a paused connection after it resumes.
    if (!c.more)
      return link_ended(c);
    if (!c.paused)
      busy_.join(c);
    return;
  }
  c.blocked = c.link->wants_room();
  note_starved(c);
  if (c.goodbye && !c.link->has_unwritten()) {
    if (c.peer_done)
      return lost(c, error_at(errc::peer_closed, c.peer, peer_has_closed));
    if (!std::exchange(c.shut, true))
      c.link->shut_down();
  }
  watch(c);
}

// The kernel does not report when it has memory again, so a timer retries.
void connection_core::note_starved(connection_entry& c) noexcept {
  if (!c.link->starved() || c.starved_until != never)
    return;
  c.starved_until = now() + stream_link::starved_pause;
  set_timer(c);
  watch(c);
}

void connection_core::tell_writable_soon(connection_entry& c) noexcept {
  if (!c.wants_writable || c.now == phase::closed || c.queued() > c.queue->byte_limit() / 2)
    return;
  c.wants_writable = false;
  c.writable_due = true;
  due_.join(c);
}

// A partly written frame is completed before it is released.
void connection_core::pay_release_debt(connection_entry& c) noexcept {
  if (c.release_debt != 0)
    (void)release(c, 0);
}

std::size_t connection_core::release(connection_entry& c, std::size_t messages) noexcept {
  if (c.release != release_policy::by_user)
    return 0;
  settle(c);
  const std::size_t owed = c.release_debt;
  const std::size_t wanted = messages > no_end - owed ? no_end : owed + messages;
  const bool live = c.now == phase::linked && c.link->now() == stream_link::state::open &&
                    !c.link->writes_no_more();
  const std::uint64_t before = c.released;
  const std::uint64_t until = wanted == no_end ? c.chunk.frames : c.released + wanted;
  const std::uint64_t leaving = live ? c.link->taken() : c.queue->committed();
  // Release most frames by a mark, the rest one by one.
  const auto mark = c.marks.take(leaving, until);
  if (mark.bytes > c.queue->released()) {
    c.queue->release(static_cast<std::size_t>(mark.bytes - c.queue->released()));
    c.released = mark.frames;
  }
  const frame_measure oldest =
      measure_frames(*c.queue, leaving, static_cast<std::size_t>(until - c.released));
  if (live && oldest.begun != 0) {
    c.link->stop_behind(rest_of_begun(c, oldest));
    c.queue->release(oldest.written_bytes);
    c.released += oldest.written_messages;
    c.release_debt = oldest.messages - oldest.written_messages;
  } else {
    c.queue->release(oldest.bytes);
    c.released += oldest.messages;
    c.release_debt = 0;
  }
  tell_writable_soon(c);
  return static_cast<std::size_t>(c.released - before) + c.release_debt - owed;
}

void connection_core::resend(connection_entry& c) noexcept {
  if (c.release != release_policy::by_user || c.now != phase::linked || c.ending() ||
      c.link->now() != stream_link::state::open)
    return;
  settle(c);
  const frame_measure all = measure_frames(*c.queue, c.link->taken(), no_end);
  if (all.begun == 0 && c.link->taken() == c.queue->written()) {
    c.queue->rewind();
  } else {
    c.link->stop_behind(rest_of_begun(c, all));
    c.resend_due = true;
  }
  mark_dirty(c);
}

}  // namespace atbus::detail
