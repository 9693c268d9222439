// The implementation behind `atbus::connection_set` and `atbus::connection`.
//
//    look      asks the kernel: continues dials, accepts, marks readable connections, writes where there
//              is room
//    poll      reads the marked connections in turns and calls handlers; only here does user code run
//    verbs     change a connection at once, and leave calls of handlers to poll
//
// Guarantees:
//  - A connection's entry, link and queue live until on_close has returned; nothing is freed while
//    a handler, an event list or a walk may refer to it.
//  - One function ends an attempt (lost), and one ends a connection (end). After `end`, on_close is the only
//    handler that is called.
//
// One thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atbus/connection.hpp"
#include "atbus/detail/chunk_cache.hpp"
#include "atbus/detail/dispatcher.hpp"
#include "channel/connection/connection_entry.h"
#include "channel/stream/busy_lines.h"
#include "channel/stream/poll_rhythm.h"
#include "channel/stream/read_buffer.h"
#include "system/fork_guard.h"
#include "system/kernel.h"
#include "system/spin_budget.h"

namespace atbus::detail {

// Tells a connection handle where its set is, or that the set is gone. Anchors are never freed; later sets
// use them again. Ids of earlier sets lie below `first_id`.
struct connection_anchor {
  std::atomic<connection_core*> core{nullptr};
  std::atomic<std::uint64_t> first_id{0};
  connection_anchor* next_unused = nullptr;
};

class connection_core final : public dispatcher, public fork_guard {
 public:
  [[nodiscard]] static result<connection_core*> open(connection_handlers handlers,
                                                     const connection_set_options& options);
  using dispatcher::release;

  // --- of the set

  void set_handlers(connection_handlers handlers);
  [[nodiscard]] result<std::string> listen(std::string_view address, const listen_options& options);
  [[nodiscard]] error close_listener(std::string_view address);
  [[nodiscard]] result<connection> connect(std::string_view address,
                                           const connect_options& options);
  std::size_t poll(const poll_limits& limits);
  [[nodiscard]] status wait(std::chrono::nanoseconds timeout);
  void end_poll() noexcept override {
    dispatcher::end_poll();
    lent_.end();
  }
  void flush() noexcept;
  // As the end of a poll does: not if that poll has left the sockets alone.
  void flush_due() noexcept;
  [[nodiscard]] int descriptor() const noexcept { return epoll_.get(); }
  [[nodiscard]] bool prepare_sleep();
  void finish_sleep();
  [[nodiscard]] std::chrono::nanoseconds longest_sleep() const noexcept;
  [[nodiscard]] channel_stats stats() const;
  [[nodiscard]] std::size_t size() const noexcept { return slots_.size() - free_.size(); }

  // --- of a connection

  // Null with `why` set to closed or used_after_fork on an error.
  [[nodiscard]] static connection_entry* find(connection_anchor* anchor, std::uint64_t id,
                                              connection_core*& core, status& why) noexcept;
  // For a caller that uses one connection for every message. Valid until its on_close has returned, and as
  // long as the set lives. The caller has to check usable() itself.
  [[nodiscard]] static connection_entry* find(const connection& at,
                                              connection_core*& core) noexcept {
    status why;
    return find(at.anchor_, at.id_, core, why);
  }
  // A new claim of the same connection discards an open one.
  [[nodiscard]] std::byte* claim(connection_entry& c, std::size_t length, status& why) noexcept {
    if (length > c.limit || frame_size(length) > c.chunk.room()) [[unlikely]]
      return claim_in_new_chunk(c, length, why);
    ++c.claims;
    return c.chunk.claim(length);
  }
  void commit(connection_entry& c, std::size_t length) noexcept {
    c.chunk.append(c.chunk.claimed(), length);
    mark_dirty(c);
    if (c.queue->committed() + c.chunk.appended() >= c.write_at && !c.blocked) [[unlikely]]
      write(c);
  }
  // Adds the chunk's frames to the queue; an open claim stays where it is.
  void settle(connection_entry& c) noexcept;
  [[nodiscard]] status flush(connection_entry& c) noexcept;
  void pause(connection_entry& c) noexcept;
  void resume(connection_entry& c) noexcept;
  void confirm(connection_entry& c) noexcept;
  std::size_t release(connection_entry& c, std::size_t messages) noexcept;
  void resend(connection_entry& c) noexcept;
  void close(connection_entry& c, std::chrono::nanoseconds linger) noexcept;
  void abort(connection_entry& c) noexcept;
  [[nodiscard]] static connection_state state(const connection_entry& c) noexcept;

  void abandon_in_child() noexcept override;

 private:
  using phase = connection_entry::phase;
  // A time that never comes, or no timeout.
  static constexpr std::chrono::nanoseconds never{0};
  // Queued bytes are written at the end of the turn, or earlier when they reach this size.
  static constexpr std::uint64_t write_size = 256 * 1024;
  static constexpr std::string_view peer_has_closed = "the other end has closed the connection";

  connection_core(connection_handlers handlers, const connection_set_options& options);
  ~connection_core() override;
  void take_next_handlers();
  void stop() noexcept override;
  void destroy() noexcept override;

  // Opening and ending connections.
  // Gives it an id and a slot. Throws std::bad_alloc; then nothing has changed.
  connection_entry& add(std::unique_ptr<connection_entry> made);
  void configure(connection_entry& c, const connection_options& options, bool local);
  [[nodiscard]] bool offers_lanes(const address& at) const noexcept;
  void begin_pairing(connection_entry& c) noexcept;
  void accept_some(listener_entry& from) noexcept;
  // Whether there is room for one more, in the listener and in the set.
  [[nodiscard]] bool may_accept(const listener_entry& at) const noexcept;
  // Whether one more connection may be accepted. If `goes` is not null, that one has to be closed first.
  [[nodiscard]] bool has_room(listener_entry& at, connection_entry*& goes) noexcept;
  void turn_away(connection_entry& stranger, stranger_end why) noexcept;
  // Whether it may be read; if not, it has left the line of busy connections, and comes back.
  [[nodiscard]] bool may_read(connection_entry& c) noexcept;
  // False: there is no memory for it, and it is closed.
  bool add_accepted(listener_entry& from, file socket) noexcept;
  void begin(connection_entry& c) noexcept;
  void dial_next(connection_entry& c) noexcept;
  // This address does not answer: dials the next one, or ends the attempt.
  void no_answer(connection_entry& c, error why) noexcept;
  void linked(connection_entry& c) noexcept;
  [[nodiscard]] bool add_link(connection_entry& c, file socket, bool connected) noexcept;
  // Ends the attempt or the link.
  void lost(connection_entry& c, error why) noexcept;
  void link_ended(connection_entry& c) noexcept;  // the link has closed itself and has the reason
  void end(connection_entry& c, error why) noexcept;
  void unlink(connection_entry& c, const error& why) noexcept;
  void forget(connection_entry& c) noexcept;
  void give_up_claim(connection_entry& c) noexcept;
  void say_goodbye(connection_entry& c) noexcept;
  void settle_confirmed(connection_entry& c) noexcept;
  void leave_unconfirmed(connection_entry& c) noexcept;
  [[nodiscard]] bool succeeded(const connection_entry& c, const error& why) const noexcept;
  void report_fault(const connection_entry& c) noexcept;
  void report_end(const connection_entry& c) noexcept;

  // Writing.
  // Makes room for a message of that length, and for further ones if there is more.
  [[nodiscard]] status new_chunk(connection_entry& c, std::size_t length) noexcept;
  [[nodiscard]] std::byte* claim_in_new_chunk(connection_entry& c, std::size_t length,
                                              status& why) noexcept;
  [[nodiscard]] status claim_chunk(connection_entry& c, std::size_t length) noexcept;
  void mark_dirty(connection_entry& c) noexcept {
    if (!dirty_.holds(c)) [[unlikely]]
      dirty_.join(c);
  }
  void write(connection_entry& c) noexcept;
  void wrote(connection_entry& c) noexcept;
  void secure(connection_entry& c) noexcept;
  void pay_release_debt(connection_entry& c) noexcept;
  void note_starved(connection_entry& c) noexcept;
  void tell_writable_soon(connection_entry& c) noexcept;

  // Waiting.
  void look() noexcept;
  void look_at_sockets(std::int64_t timeout_ns) noexcept;
  // Finds readable connections, without asking the kernel where a read answers as well.
  void find_busy() noexcept;
  void look_at_clock() noexcept;
  void look_at_strangers(listener_entry& of, std::chrono::nanoseconds time) noexcept;
  // Polls name lookups once: only then does libuv watch for an answer.
  void look_at_questions() noexcept;
  void ready(connection_entry& c, std::uint32_t events) noexcept;
  void time_is_up(connection_entry& c) noexcept;
  // Whether its link is read: a pause holds messages, not a TLS handshake.
  [[nodiscard]] static bool reads(const connection_entry& c) noexcept {
    return !c.peer_done && (!c.paused || !c.opened);
  }
  // False: the kernel refused, and the link is lost.
  bool watch(connection_entry& c) noexcept;
  void set_timer(connection_entry& c) noexcept;
  [[nodiscard]] bool anything() const noexcept {
    return !busy_.empty() || !due_.empty() || has_problems();
  }

  // Calling handlers. False: the set has closed, or this is a forked child.
  struct budget;
  void write_dirty() noexcept;
  [[nodiscard]] bool read_turn(connection_entry& c, budget& left);
  [[nodiscard]] bool walk(connection_entry& c, budget& left);
  [[nodiscard]] walk_end tell_messages(connection_entry& c, budget& left);
  // False: the opening has failed.
  [[nodiscard]] bool pair_lanes(connection_entry& c) noexcept;
  [[nodiscard]] bool tell_opened(connection_entry& c);
  [[nodiscard]] bool tell_due() { return due_.empty() || tell_all_due(); }
  [[nodiscard]] bool tell_all_due();
  [[nodiscard]] connection handle(const connection_entry& c) const noexcept {
    return {anchor_, c.id};
  }
  [[nodiscard]] connection_entry* find(std::uint64_t id) const noexcept;

  connection_anchor* anchor_;
  file epoll_;
  lane_exchange* lanes_;  // null: connections use no lanes
  connection_handlers handlers_;
  std::optional<connection_handlers> next_handlers_;  // set by a handler, for the next poll
  read_space space_;
  spin_budget spin_;
  bool flush_in_poll_;
  std::chrono::nanoseconds write_delay_;
  // When a poll wrote last; 0: no poll has, since the program has waited or flushed.
  std::chrono::nanoseconds wrote_at_{0};
  bool resting_ = false;  // this poll leaves the sockets alone
  poll_rhythm rhythm_;
  chunk_cache chunks_{{.idle_bytes = std::size_t{4} << 20}};
  tls_buffers tls_buffers_;
  timer_queue timers_;
  std::vector<std::unique_ptr<connection_entry>> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<std::unique_ptr<listener_entry>> listeners_;
  busy_lines<connection_entry, &connection_entry::turn> busy_;
  line<connection_entry, &connection_entry::dirty> dirty_;  // to be written
  line<connection_entry, &connection_entry::due> due_;      // whose handlers are to be called
  line<connection_entry, &connection_entry::asked> asked_;  // new name lookups since the last look

  message_run lent_;  // lent to the handler

  std::uint64_t messages_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t full_ = 0;
  std::uint64_t faulty_ = 0;
  std::uint64_t dropped_ = 0;
  stranger_stats strangers_;
  std::uint64_t tls_failed_ = 0;
  std::uint64_t reconnects_ = 0;
};

}  // namespace atbus::detail
