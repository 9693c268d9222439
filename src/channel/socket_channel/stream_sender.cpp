#include "channel/socket_channel/stream_sender.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <functional>
#include <thread>
#include <utility>

#include "channel/common/frame.h"
#include "channel/common/socket_buffers.h"
#include "channel/stream/frame_queue.h"
#include "core/error_text.h"
#include "core/first_exception.h"
#include "system/random.h"
#include "system/wait_deadline.h"

namespace atbus::detail {
namespace {

// The size of one write while more is being queued (doc/design/stream.md has the figures).
constexpr std::uint64_t write_size = 256 * 1024;
constexpr std::uint64_t write_size_on_loop = 128 * 1024;
// Only control frames come back.
constexpr std::size_t control_read_size = 4096;
// While the other end, or a proxy, keeps reading, every write succeeds; only a read tells that the other end
// has said goodbye. A sender that never waits reads once after so many writes.
constexpr unsigned writes_per_read = 16;
// Most reads in a row: the other end may send control frames as fast as they are read.
constexpr int reads_per_turn = 16;
constexpr std::chrono::nanoseconds look_at_acknowledgement = std::chrono::milliseconds{1};
// The interval between checks whether a dead receiver's lock has ended.
constexpr std::chrono::nanoseconds look_at_lock = std::chrono::milliseconds{5};

}  // namespace

result<sender_backend*> stream_sender::open(const address& where, const sender_options& options) {
  const std::string text = where.to_string();
  if (auto e = check_frame_queue(queue_options(options), text); !e)
    return e;
  if (auto e = check_dialled(where); !e)
    return e;
  if (auto e = check_carrier(where, nullptr); !e)
    return e;
  const bool local = where.kind() == address_kind::unix_socket;
  auto tls = tls_sessions::make(where, options.socket.tls, tls_role::client);
  if (!tls)
    return tls.error();
  const bool wants_checksums = !*tls && options.socket.checksums.value_or(!local);
  stream_sender* made = nullptr;
  const auto fail = [&made](error why) {
    made->release();
    return why;
  };
  {
    const fork_pause no_fork;
    made = new stream_sender(where, options, std::move(*tls), wants_checksums,
                             local && where.flag(address_option::shm).value_or(true));
    made->epoll_ = file{kernel().epoll_create(EPOLL_CLOEXEC)};
    if (!made->epoll_)
      return fail({errc::system_error, text + ": can't make an epoll instance", errno});
    made->begin();
  }
  if (options.connect_timeout > std::chrono::nanoseconds{0} &&
      options.reconnect_min == std::chrono::nanoseconds{0})
    (void)made->wait_connected(options.connect_timeout);
  if (made->phase_ == phase::ended)
    return fail(made->why_);
  return static_cast<sender_backend*>(made);
}

stream_sender::stream_sender(const address& where, const sender_options& options, tls_sessions tls,
                             bool wants_checksums, bool offers_lanes)
    : local_(where.kind() == address_kind::unix_socket),
      text_(where.to_string()),
      options_(options),
      space_(control_read_size),
      tls_(std::move(tls)),
      dialler_(where,
               {.send_buffer = send_buffer_for(where, options.socket),
                .receive_buffer = 0,
                .keepalive = options.socket.keepalive},
               options.reconnect_min, options.reconnect_max),
      attempt_time_(options.connect_timeout > std::chrono::nanoseconds{0}
                        ? options.connect_timeout
                        : sender_options{}.connect_timeout) {
  through_stream_ = true;
  message_limit_ = queue_options(options).message_limit;
  own_.wants_checksums = wants_checksums;
  own_.offers_lanes = offers_lanes;
  own_.payload_max = static_cast<std::uint32_t>(message_limit_);
  own_.session = random_word() & ~std::uint64_t{0xffffffff};
  queue_ = make_frame_queue(queue_options(options));
  write_at_ = write_size;
}

stream_sender::~stream_sender() = default;

status stream_sender::usable() const noexcept {
  if (forked_)
    return errc::used_after_fork;
  return phase_ == phase::ended ? status{why_.code()} : status{};
}

// --- sending

status stream_sender::new_chunk(std::size_t length) noexcept {
  chunk_.frame = nullptr;  // a new claim discards an uncommitted one
  commit_chunk();
  if (left_lane_) [[unlikely]]
    forget_left_lane();
  if (phase_ == phase::linked && lane_ != nullptr) [[unlikely]] {
    if (move_on_to_lane())
      return {};
  } else if (queue_->committed() >= write_at_) {
    write_now();
  }
  status claimed = claim_chunk(length);
  if (claimed == errc::would_block && (lane_ == nullptr || phase_ != phase::linked)) {
    write_now();
    claimed = claim_chunk(length);
  }
  if (claimed == errc::would_block) {
    ++full_;
    refused_length_ = length;
  }
  return claimed;
}

// Claims room for many messages at once, if there is any, up to the next write.
status stream_sender::claim_chunk(std::size_t length) noexcept {
  if (phase_ == phase::ended)
    return usable();
  // First the queue has to be written, or the lane's messages have to be taken back.
  if (lane_ != nullptr)
    return errc::would_block;
  const std::uint64_t due = write_at_ > queue_->committed() ? write_at_ - queue_->committed() : 0;
  mutable_bytes place;
  const status claimed = claim_frames(*queue_, length, due, place);
  if (claimed)
    chunk_.start(place.data(), place.size());
  return claimed;
}

// Adds the chunk's frames to the queue; an open frame stays where it is.
void stream_sender::commit_chunk() noexcept {
  const std::size_t bytes = chunk_.appended();
  if (chunk_.begin == nullptr || (bytes == 0 && chunk_.frame != nullptr))
    return;
  queue_->commit(bytes);
  if (link_ != nullptr)
    link_->joined(bytes, chunk_.checked);
  mutable_bytes place;
  if (chunk_.frame != nullptr && queue_->claim(frame_size(chunk_.claimed()), place)) {
    assert(place.data() == chunk_.frame);  // it goes on where the queue ends
    chunk_.start(place.data(), place.size());
    return;
  }
  chunk_.stop();
}

void stream_sender::publish_frames() noexcept {
  if (!on_loop_)
    write_now();
}

void stream_sender::write_now() noexcept {
  commit_chunk();
  high_water_mark_ = std::max<std::uint64_t>(high_water_mark_, queue_->size());
  write_at_ = queue_->committed() + (on_loop_ ? write_size_on_loop : write_size);
  if (phase_ == phase::linked) {
    if (!link_->opened() || offer_awaited_ || ++writes_ % writes_per_read == 0)
      read_controls();
    flush_link();
  } else if (phase_ != phase::ended) {
    look(0);
  }
}

void stream_sender::read_controls() noexcept {
  const bool was_opened = link_->opened();
  for (int left = reads_per_turn; left != 0 && link_->receive(); --left) {
    frame_run messages;
    const walk_end ended = link_->lend(messages);
    // A message, or the switch to a lane.
    if (ended == walk_end::stopped)
      link_->close({errc::protocol_error, "the receiver sent messages, but none are expected"});
    if (ended != walk_end::needs_more || link_->drained())
      break;
  }
  if (!was_opened && link_->opened()) {
    message_limit_ = link_->send_limit();
    offer_awaited_ = link_->agreed_lanes();
    dialler_.connected();  // not before: a host may accept each connection and then refuse it
    chunk_.checked = link_->checks();
    if (message_limit_ < own_.payload_max) {
      commit_chunk();
      if (error too_long = check_queued_lengths(*queue_, message_limit_); !too_long) {
        dialler_.never_again();
        return link_->close(std::move(too_long));
      }
    }
  }
  if (offer_awaited_ && link_->offered_lane()) {
    offer_awaited_ = false;
    take_offer();
  }
  if (link_->ended_by_goodbye())
    link_->close({errc::peer_closed, "the receiver has closed it"});
}

// --- waiting for the kernel

status stream_sender::flush(std::chrono::nanoseconds timeout) {
  if (forked_)
    return errc::used_after_fork;
  if (!through_stream_) {
    look(0);  // check whether the receiver is alive
    leave_lane_that_ended();
    if (!through_stream_) {
      const status rung = lane_->flush(timeout);
      return rung == errc::would_block ? rung : usable();
    }
  }
  const wait_deadline deadline{now(), timeout};
  for (;;) {
    if (phase_ == phase::linked)
      read_controls();
    write_now();
    if (!has_unwritten())
      return {};
    if (auto s = usable(); !s)
      return s;
    if (deadline.over())
      return errc::would_block;
    look(deadline.left_ns(longest_sleep()));
  }
}

bool stream_sender::has_unwritten() const noexcept {
  return phase_ == phase::linked
             ? link_->has_unwritten()
             : queue_->size() != 0 || (lane_ != nullptr && lane_->holds_messages());
}

bool stream_sender::fits(std::size_t length) noexcept {
  no_memory_ = false;
  commit_chunk();
  if (chunk_.frame != nullptr)
    return true;  // a frame is open, with room of its own
  if (lane_ != nullptr)
    return !through_stream_ || (phase_ == phase::linked && move_on_to_lane());
  mutable_bytes place;
  const status claimed = queue_->claim(frame_size(length), place);
  if (claimed)
    queue_->abort();
  no_memory_ = claimed == errc::out_of_memory;
  return claimed || claimed == errc::invalid_argument;  // an open slot stays as it is
}

status stream_sender::wait_writable(std::chrono::nanoseconds timeout, std::size_t length) {
  if (auto s = usable(); !s)
    return s;
  // In a lane too: the segment's limit may be higher.
  if (length > message_limit_)
    return status{errc::message_too_large, length, message_limit_};
  const wait_deadline deadline{now(), timeout};
  if (!through_stream_) {
    refused_length_ = no_length;
    const status waited = lane_->wait_writable(timeout, length);
    const bool has_ended = waited == errc::retired || waited == errc::peer_closed;
    if (!has_ended || !dialler_.dials_again() || !leave_ended_lane())
      return waited;
  }
  const std::size_t wanted =
      length != 0 ? length : (refused_length_ == no_length ? 0 : refused_length_);
  status waited;
  for (bool first = true; waited && !fits(wanted); first = false) {
    if (first) {
      write_now();
    } else if (deadline.over()) {
      waited = errc::timed_out;
      break;
    } else {
      look(deadline.left_ns(longest_sleep()));
    }
    waited = usable();
  }
  no_memory_ = false;
  if (!waited)
    return waited;
  refused_length_ = no_length;
  call_on_writable();
  return {};
}

bool stream_sender::poll_writable() {
  if (forked_)
    return false;
  // Write now: some programs make no other call between a refused send and the next one.
  if (through_stream_)
    write_now();
  else if (lane_->wants_room() || is_look_due())
    look(0);
  if (!through_stream_ && refused_length_ == no_length)
    return lane_->poll_writable();
  if (refused_length_ == no_length)
    return false;
  // A channel that has ended counts as writable: the next send returns the reason. Otherwise the sender is
  // writable when half of the queue is free.
  if (phase_ != phase::ended &&
      (queue_->size() > queue_->byte_limit() / 2 || !fits(refused_length_))) {
    return false;
  }
  refused_length_ = no_length;
  call_on_writable();
  return true;
}

// --- waiting

bool stream_sender::set_interest() noexcept {
  if (link_ == nullptr || phase_ != phase::linked)
    return true;
  const std::uint32_t wanted = link_->interest();
  if (wanted == watched_)
    return true;
  epoll_event interest{.events = wanted, .data = {.fd = link_->descriptor()}};
  if (kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, link_->descriptor(), &interest) != 0) {
    lost(error_at(errc::system_error, text_, "can't watch its socket", errno));
    return false;
  }
  watched_ = wanted;
  return true;
}

void stream_sender::look(std::int64_t timeout_ns) noexcept {
  if (!set_interest())
    return;
  std::array<epoll_event, 2> events;
  const int n =
      kernel().epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout_ns);
  switch (phase_) {
    case phase::resolving:
      take_answer();
      if (phase_ == phase::resolving && now() >= attempt_ends_at_)
        lost(no_answer());
      return;
    case phase::connecting:
      if (n > 0 || now() >= due_)
        attempt_ended(n > 0 ? dial_result(link_->descriptor(), text_) : no_answer());
      return;
    case phase::linked:
      if (n > 0 || link_->starved())
        read_controls();
      return flush_link();
    case phase::waiting:
      if (now() < due_)
        return;
      if (empty_lane())
        return begin();
      due_ = now() + look_at_lock;
      return;
    case phase::ended:
      return;
  }
}

bool stream_sender::prepare_sleep() {
  if (!usable())
    return false;
  if (through_stream_)
    write_now();
  no_memory_ = false;
  if (!usable() || (refused_length_ != no_length && fits(refused_length_) &&
                    queue_->size() <= queue_->byte_limit() / 2))
    return false;
  if (!set_interest() || through_stream_ || !lane_->wants_room())
    return static_cast<bool>(usable());
  return lane_->prepare_sleep();
}

void stream_sender::finish_sleep() {
  if (!through_stream_)
    lane_->finish_sleep();
  look(0);
}

std::chrono::nanoseconds stream_sender::longest_sleep() const noexcept {
  constexpr std::chrono::nanoseconds for_ever{-1};
  const auto of_lane = through_stream_ ? for_ever : lane_->longest_sleep();
  if (!forked_ && phase_ == phase::linked && (no_memory_ || link_->starved()))
    return of_lane == for_ever ? stream_link::starved_pause
                               : std::min(of_lane, stream_link::starved_pause);
  if (forked_ || phase_ == phase::ended || (phase_ == phase::linked && !limits_handshake()))
    return of_lane;
  return std::max((phase_ == phase::resolving ? attempt_ends_at_ : due_) - now(),
                  std::chrono::nanoseconds{0});
}

// --- the rest

result<std::size_t> stream_sender::take_back(const std::function<void(bytes_view, errc)>& each) {
  if (forked_)
    return error{errc::used_after_fork};
  if (receiver_alive())
    return error_at(errc::receiver_alive, text_, "it is connected and what was sent may arrive");
  chunk_.frame = nullptr;
  discard_slot();
  commit_chunk();
  first_exception thrown;
  const auto hand_out = [&](bytes_view m, errc outcome) { thrown.keep([&] { each(m, outcome); }); };
  std::size_t count = for_each_frame(*queue_, [&](bytes_view m, bool written) {
    hand_out(m, written ? errc::outcome_unknown : errc::not_delivered);
  });
  queue_->release(queue_->size());
  if (lane_ != nullptr) {
    wait_for_lock();
    auto of_lane = lane_->take_back(hand_out);
    if (!of_lane && count == 0)
      return of_lane;
    count += of_lane ? *of_lane : 0;
  }
  thrown.rethrow();
  return count;
}

bool stream_sender::receiver_alive() noexcept {
  leave_lane_that_ended();
  // Read twice: the end of the connection may follow its last bytes.
  for (int i = 0; i != 2 && phase_ == phase::linked; ++i)
    look(0);
  return phase_ == phase::linked;
}

channel_stats stream_sender::stats() const {
  channel_stats sum;
  if (forked_)
    return sum;
  if (lane_ != nullptr)
    sum = lane_->stats();
  sum.messages += chunk_.frames;
  sum.bytes += chunk_.bytes;
  sum.full += full_;
  sum.high_water_mark = high_water_mark_;
  sum.connections = phase_ == phase::linked ? 1 : 0;
  sum.tls_failed = tls_failed_;
  sum.reconnects = connections_ > 1 ? connections_ - 1 : 0;
  if (phase_ == phase::linked)
    sum.socket_buffer = granted_buffer(link_->descriptor(), SO_SNDBUF);
  return sum;
}

// Waits until everything accepted is written. If the peer's hello has not arrived, also waits until the
// other host's kernel has the bytes: a hello that arrives at a closed socket resets the connection, which
// would lose bytes in flight.
void stream_sender::linger(std::chrono::nanoseconds longest) noexcept {
  const wait_deadline deadline{now(), longest};
  chunk_.frame = nullptr;
  commit_chunk();
  while (phase_ != phase::ended && phase_ != phase::linked && has_unwritten() && !deadline.over()) {
    look(deadline.left_ns(longest_sleep()));
  }
  if (phase_ != phase::linked)
    return;
  link_->say_goodbye(errc::ok);
  write_now();
  while (phase_ == phase::linked && has_unwritten() && !deadline.over())
    look(deadline.left_ns(longest_sleep()));
  if (local_)
    return;
  while (phase_ == phase::linked && !link_->opened() && link_->unacknowledged() != 0 &&
         !deadline.over()) {
    look(deadline.left_ns(look_at_acknowledgement));
  }
}

// The connections of a dying receiver may end shortly before its lock. Until then it looks like a living
// receiver that handles the messages of the lane.
void stream_sender::wait_for_lock() const noexcept {
  while (lane_ != nullptr && through_stream_ && phase_ != phase::linked &&
         lane_->holds_messages() && lane_->receiver_alive() && now() - lane_left_at_ < dying_time)
    std::this_thread::sleep_for(look_at_lock);
}

std::size_t stream_sender::finish(std::chrono::nanoseconds longest,
                                  const std::function<void(bytes_view)>& unsent) {
  if (forked_)
    return 0;
  dialler_.never_again();
  leave_lane_that_ended();
  if (phase_ != phase::ended)
    linger(longest);
  wait_for_lock();
  {
    const fork_pause no_fork;
    if (link_ != nullptr)
      link_->close({errc::closed});
    end({errc::closed});
  }
  first_exception thrown;
  std::size_t count =
      for_each_frame(*queue_, [&](bytes_view m, bool) { thrown.keep([&] { unsent(m); }); });
  queue_->release(queue_->size());
  if (lane_ != nullptr) {
    // Refused while the receiver lives, because it still delivers these messages. A message whose handler
    // had begun counts as sent.
    const auto hand_out = [&](bytes_view m, errc outcome) {
      if (outcome != errc::not_delivered)
        return;
      ++count;
      thrown.keep([&] { unsent(m); });
    };
    (void)lane_->take_back(std::ref(hand_out));  // as a function of its own it would take memory
  }
  thrown.rethrow();
  return count;
}

void stream_sender::stop() noexcept {
  if (forked_)
    return;
  dialler_.never_again();
  if (phase_ != phase::ended)
    linger(options_.linger);
  const fork_pause no_fork;
  if (phase_ == phase::linked)
    read_controls();
  if (link_ != nullptr)
    link_->close({errc::closed});
  dialler_.stop(epoll_);
  end({errc::closed});
  if (lane_ != nullptr)
    std::exchange(lane_, nullptr)->release();
  through_stream_ = true;
  epoll_.reset();
}

void stream_sender::destroy() noexcept {
  if (lane_ != nullptr)
    std::exchange(lane_, nullptr)->release();
  const fork_pause no_fork;
  delete this;
}

void stream_sender::abandon_in_child() noexcept {
  forked_ = true;
  phase_ = phase::ended;
  chunk_.stop();
  if (link_ != nullptr)
    link_->abandon();
  dialler_.abandon();
  if (left_lane_)
    left_lane_->abandon();
  epoll_.reset();
}

}  // namespace atbus::detail
