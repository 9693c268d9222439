#include "channel/shm/sender_state.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "channel/shm/lane_stats.h"
#include "core/error_text.h"
#include "core/first_exception.h"
#include "system/random.h"
#include "system/wait_deadline.h"

namespace atbus::detail {
namespace {

// Without inotify: the interval at which a waiting sender looks for a new receiver.
constexpr std::chrono::nanoseconds look_for_receiver = std::chrono::seconds{1};
// The interval at which it retries a bell with a full backlog, and at which it looks for room if the kernel
// has no memory to watch the bell.
constexpr std::chrono::nanoseconds look_at_bell = std::chrono::milliseconds{20};

// Why a receiver that has heard of a connection does not keep it: its backlog is full, or it has closed the connection
// again, without descriptors. Anything else is this process's own: no descriptors, no memory, or it is not allowed.
bool has_been_heard(int code) noexcept {
  return code == EAGAIN || code == ECONNRESET || code == EPIPE;
}

}  // namespace

sender_state::sender_state(segment opened, std::uint32_t lane, const sender_options& options,
                           lane_writer* shared)
    : segment_(std::move(opened)),
      lane_(lane),
      out_(shared == nullptr ? writer_ : *shared),
      spin_(options.spin) {
  message_limit_ = segment_.geometry.message_limit;
}

status sender_state::start() {
  lane_slot& slot = segment_.slot(lane_);
  // Acquire: this sender holds the lane's lock, so the previous writer of the tail has ended.
  const std::uint64_t tail = slot.tail.load(std::memory_order_acquire);
  if ((tail & 7) != 0)  // it was not when the lane was chosen
    return errc::quarantined;
  out_.attach(&slot, segment_.lane_data(lane_), segment_.geometry.lane_size, tail);
  always_fence_ = !register_for_barriers();
  // A sender that needs fences stores the request before its first record: a receiver that has passed that
  // record has seen the request (longest_sleep relies on it).
  slot.request.store(always_fence_ ? request_fence : 0, std::memory_order_relaxed);
  slot.fence_echo.store(always_fence_ ? 1 : 0, std::memory_order_relaxed);
  // As in fence_while_sparse: a dead sender may have left 1.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  slot.withdrawn.store(0, std::memory_order_release);
  if (auto s = make_room(record_size(sizeof(open_record))); !s)
    return s;
  open_record record{};
  record.pid = static_cast<std::uint32_t>(getpid());
  record.opened_at = wall_clock_ns();
  record.session = random_word();
  std::strncpy(record.program, program_invocation_short_name, sizeof record.program - 1);
  std::memcpy(out_.begin(record_kind::open, sizeof record), &record, sizeof record);
  out_.append(sizeof record);
  first_own_ = out_.position();
  refused_size_ = 0;
  // Connect before the first message: from then on, the death of this process is an event for the receiver.
  connect_bell();
  // Without a socket nothing would wake the receiver: it does not know this sender yet, so it does not watch the
  // file. One that can't take the connection has heard of it.
  if (bell_busy_ && !has_been_heard(errno))
    return errc::system_error;
  if (out_.publish())
    answer_alert();
  test_hook(step::open_record_published);
  return {};
}

// --- the slow half of claim and commit

status sender_state::make_room(std::uint64_t size) noexcept {
  if (auto s = usable(); !s)
    return s;
  switch (out_.make_room(size)) {
    case lane_writer::room::made:
      return {};
    case lane_writer::room::none:
      // A full lane publishes nothing more, so no publish would see the alert.
      if (auto s = look_at_alert(); !s)
        return s;
      break;
    case lane_writer::room::impossible_head:
      end(condition::quarantined);
      return errc::quarantined;
  }
  lane_writer::count(out_.slot()->full, 1);
  refused_size_ = size;
  return errc::would_block;
}

void sender_state::heed(std::uint64_t alert) noexcept {
  if ((alert & alert_retired) != 0)
    end(condition::retired);
  else if ((alert & alert_quarantined) != 0)
    end(condition::quarantined);
}

status sender_state::look_at_alert() noexcept {
  if (condition_ == condition::open)
    heed(out_.slot()->alert.load(std::memory_order_acquire));
  return usable();
}

void sender_state::end(condition why) noexcept {
  condition_ = why;
  owe_ring(false);
  out_.close_window();
}

status sender_state::usable() const noexcept {
  switch (condition_) {
    case condition::open:
      return {};
    case condition::retired:
      return errc::retired;
    case condition::quarantined:
      return errc::quarantined;
    case condition::gone:
      return errc::peer_closed;
    case condition::closed:
      return errc::closed;
    case condition::forked:
      return errc::used_after_fork;
  }
  return errc::closed;
}

// --- waiting

// Published messages already lie where the receiver reads them. At most it has to be woken.
status sender_state::flush(std::chrono::nanoseconds timeout) {
  const wait_deadline deadline{now(), timeout};
  while (ring_owed_ && usable()) {
    answer_alert();
    if (!ring_owed_)
      break;
    if (deadline.over())
      return errc::would_block;
    sleep(deadline.left_ns(short_sleep));
  }
  return usable();
}

bool sender_state::has_room() noexcept {
  if (refused_size_ == 0 || out_.fits(refused_size_))
    return true;
  const std::uint64_t head = out_.slot()->head.load(std::memory_order_acquire);
  return out_.position() - head >
             out_.capacity() ||  // impossible: the next claim returns the error
         head - out_.head_needed_for(refused_size_) <= out_.capacity();
}

int sender_state::descriptor() {
  if (!epoll_ && condition_ != condition::forked) {
    const fork_pause no_fork;
    epoll_ = file{kernel().epoll_create(EPOLL_CLOEXEC)};
  }
  if (bell_.connected() && !bell_watched_)
    bell_watched_ = watch(bell_.descriptor());
  return epoll_.get();
}

bool sender_state::watch(int fd) noexcept {
  epoll_event interest{.events = EPOLLIN | EPOLLRDHUP, .data = {.fd = fd}};
  return epoll_ && kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &interest) == 0;
}

bool sender_state::prepare_sleep() {
  if (!usable() || has_room())
    return false;
  lane_slot& slot = *out_.slot();
  const std::uint64_t fence = always_fence_ ? request_fence : 0;
  const std::uint64_t request = out_.head_needed_for(refused_size_) | request_space | fence;
  // Already prepared: that request still stands, and its ring will come or is waiting to be read.
  if (requesting_ && slot.request.load(std::memory_order_relaxed) == request)
    return true;
  requesting_ = true;
  slot.request.store(request, std::memory_order_seq_cst);
  test_hook(step::request_stored);
  if (!barrier_on_every_core() && fence == 0) {
    // From now on the receiver fences after each `head` of this lane.
    slot.request.fetch_or(request_fence, std::memory_order_seq_cst);
  }
  if (has_room()) {
    finish_sleep();
    return false;
  }
  test_hook(step::request_checked);
  (void)descriptor();
  if (!bell_.connected())
    connect_bell();  // connecting makes the receiver look at every request
  if (!bell_.connected() && !segment_.name.in_memory() && !inotify_) {
    const fork_pause no_fork;
    inotify_ = file{kernel().inotify_init(IN_CLOEXEC | IN_NONBLOCK)};
    if (inotify_ && kernel().inotify_add_watch(inotify_.get(), segment_.name.directory.c_str(),
                                               IN_MOVED_TO | IN_CREATE | IN_DELETE) < 0) {
      inotify_.reset();
    }
    if (inotify_ && !watch(inotify_.get()))
      inotify_.reset();
    if (inotify_) {
      connect_bell();  // the bell may have appeared meanwhile
    }
  }
  // Check the alert before sleeping, for two reasons. The bell belongs to the name, which another segment
  // may have by now; the process that removed this segment set the alert first. And a lane that was
  // quarantined before the request was stored gets no ring.
  heed(slot.alert.load(std::memory_order_acquire));
  if (!usable() || has_room()) {
    finish_sleep();
    return false;
  }
  return true;
}

void sender_state::finish_sleep() {
  if (condition_ == condition::forked)
    return;
  if (std::exchange(requesting_, false)) {
    shared_word& request = out_.slot()->request;
    request.store(request.load(std::memory_order_relaxed) & request_fence,
                  std::memory_order_release);
  }
  // Even without a request: the ring of an earlier one may come late.
  if (bell_.connected())
    bell_.drain();
  if (bell_.connected() && inotify_) {
    const fork_pause no_fork;
    inotify_.reset();
  }
  // One read is enough: any event means "try to connect again".
  char events[4096];
  if (inotify_)
    (void)!::read(inotify_.get(), events, sizeof events);
  // A receiver may have retired the segment, or taken it over, while nothing was published.
  if (out_.slot()->alert.load(std::memory_order_relaxed) != out_.alert_seen())
    answer_alert();
}

std::chrono::nanoseconds sender_state::longest_sleep() const noexcept {
  if (condition_ != condition::forked && ring_owed_)
    return short_sleep;
  if (!requesting_ || condition_ == condition::forked)
    return std::chrono::nanoseconds{-1};
  // A receiver that did not see the request to fence (see prepare_sleep) may miss the space request, so the
  // sleep must be short. `fence_answered` counts only after the receiver has passed the first record of this
  // sender; before that, it answered the previous sender of the lane.
  const lane_slot& slot = *out_.slot();
  const bool answered = slot.fence_answered.load(std::memory_order_acquire) != 0 &&
                        slot.head.load(std::memory_order_acquire) - first_own_ <= out_.capacity();
  if ((slot.request.load(std::memory_order_relaxed) & request_fence) != 0 && !answered)
    return short_sleep;
  if (bell_.connected() && bell_watched_)
    return std::chrono::nanoseconds{-1};
  if (bell_.connected() || bell_busy_)
    return look_at_bell;
  return inotify_ ? std::chrono::nanoseconds{-1} : look_for_receiver;
}

void sender_state::sleep(std::int64_t timeout_ns) noexcept {
  epoll_event ready[4];
  if (kernel().epoll_wait(epoll_.get(), ready, 4, timeout_ns) >= 0 || errno == EINTR)
    return;
  // Out of descriptors, there is nothing to wait on: pause instead of spinning.
  const std::int64_t pause_ns =
      timeout_ns < 0 ? look_at_bell.count() : std::min(timeout_ns, look_at_bell.count());
  const timespec pause{.tv_sec = 0, .tv_nsec = static_cast<long>(pause_ns)};
  (void)nanosleep(&pause, nullptr);
}

status sender_state::wait_writable(std::chrono::nanoseconds timeout, std::size_t length) {
  if (auto s = usable(); !s)
    return s;
  if (length > message_limit_)
    return status{errc::message_too_large, length, message_limit_};
  if (length != 0)
    refused_size_ = record_size(length);
  const auto start = now();
  const wait_deadline deadline{start, timeout};
  if (!has_room() && !spin_.spin(start, deadline.at(), [this] { return has_room(); })) {
    while (prepare_sleep()) {
      sleep(deadline.left_ns(longest_sleep()));
      finish_sleep();
      if (auto s = usable(); !s)
        return s;
      if (has_room())
        break;
      if (deadline.over())
        return errc::timed_out;
    }
    if (auto s = usable(); !s)
      return s;
  }
  spin_.learn(now() - start);
  room_found();
  return {};
}

bool sender_state::poll_writable() {
  if (condition_ == condition::closed || condition_ == condition::forked || refused_size_ == 0)
    return false;
  // A channel that has ended counts as writable: the next send returns the reason.
  if (look_at_alert() && !has_room())
    return false;
  room_found();
  return true;
}

void sender_state::room_found() {
  refused_size_ = 0;
  call_on_writable();
}

// --- taking back

bool sender_state::has_receiver() const noexcept {
  // A closed bell connection does not prove that the receiver has died.
  return (usable() || condition_ == condition::gone) &&
         query_byte(segment_.fd.get(), receiver_lock_byte) != lock_state::taken;
}

std::uint64_t sender_state::receiver_generation() const noexcept {
  return has_receiver() ? segment_.header().generation.load(std::memory_order_acquire) : 0;
}

std::uint64_t sender_state::share() const noexcept {
  if (condition_ == condition::forked)
    return 0;
  const std::uint64_t all = out_.capacity();
  // Acquire: pairs with the receiver's release store of `head`, as in make_room. An impossible `head` counts
  // as room: the next claim returns the error.
  const std::uint64_t used = out_.position() - out_.slot()->head.load(std::memory_order_acquire);
  return used <= all / 2 || used > all ? all / 4 : 0;
}

std::uint64_t sender_state::unhandled_bytes() const noexcept {
  if (condition_ == condition::forked)
    return 0;
  // Relaxed: a figure for people, on which nothing depends. An impossible `done` shows nothing.
  const std::uint64_t waiting = out_.position() - out_.slot()->done.load(std::memory_order_relaxed);
  return waiting <= out_.capacity() ? waiting : 0;
}

bool sender_state::settled() const noexcept {
  return condition_ != condition::forked &&
         out_.is_empty_behind(out_.slot()->done.load(std::memory_order_acquire));
}

std::size_t sender_state::unhandled(const std::function<void(bytes_view)>& each) const {
  own_records own;
  if (condition_ == condition::closed || condition_ == condition::forked || !find_own_records(own))
    return 0;
  return walk_records(own.begin, own.end, each);
}

bool sender_state::find_own_records(own_records& own) const noexcept {
  const lane_slot& slot = *out_.slot();
  // Acquire: the receiver that wrote these has ended, as the kernel's lock shows.
  const std::uint64_t done = slot.done.load(std::memory_order_acquire);
  const std::uint64_t handling = slot.handling.load(std::memory_order_acquire);
  const std::uint64_t tail = out_.position();
  if (tail - done > out_.capacity() || (done & 7) != 0)
    return false;
  // Records before `first_own_` belong to a previous sender of the lane.
  own.begin = own.keep = tail - done > tail - first_own_ ? first_own_ : done;
  own.end = tail;
  if (own.begin == done && handling != done && handling - done <= tail - done &&
      (handling & 7) == 0)
    own.keep = handling;
  return true;
}

bool sender_state::holds_messages() const noexcept {
  own_records own;
  return !find_own_records(own) || !out_.is_empty_behind(own.begin);
}

std::uint64_t sender_state::held_bytes() const noexcept {
  own_records own;
  return find_own_records(own) ? own.end - own.begin : 0;
}

result<std::size_t> sender_state::take_back(const std::function<void(bytes_view, errc)>& each) {
  if (condition_ == condition::closed || condition_ == condition::forked)
    return error{usable()};
  lane_slot& slot = *out_.slot();
  // A living receiver that has dropped the lane does not read it any more. (Acquire: as in look_at_alert.)
  if ((slot.alert.load(std::memory_order_acquire) & alert_quarantined) != 0)
    (void)look_at_alert();
  // Seq_cst: pairs with receiver_state::take_over_lane, through the kernel's lock. A receiver that opens
  // takes its lock and then reads `withdrawn`; this sender sets it and then queries the lock. At least one of
  // them sees the other.
  slot.withdrawn.store(1, std::memory_order_seq_cst);
  test_hook(step::withdrawn_set);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const bool alive = has_receiver();
  test_hook(step::withdrawn_asked);
  own_records own;
  const bool possible = !alive && find_own_records(own);
  // The message whose handler was entered. An earlier call may have turned it into padding.
  bytes_view begun;
  if (possible) {
    (void)walk_records(own.begin, own.keep, [&begun](bytes_view message) { begun = message; });
    // Cut the lane before the first callback: if this process dies later, no receiver delivers a record that
    // was reported as taken back.
    out_.rewind(own.keep);
    discard_slot();
    if (begun.data() != nullptr) {
      // This record must not be delivered again. It stays as padding, so that the next receiver's
      // "redelivered" mark applies to no message. Written after the cut: if this process died in between, the
      // records behind it would be delivered and this one would not.
      std::byte* const payload = out_.data() + (begun.data() - out_.data());
      store_record_header(payload - record_header_size,
                          make_record_header(record_kind::padding, begun.size()));
    }
  }
  test_hook(step::withdrawn_cut);
  // Release: a receiver that reads 0 here also sees the new tail.
  slot.withdrawn.store(0, std::memory_order_release);
  // A receiver that opened meanwhile has skipped this lane. A removed segment has none.
  if (condition_ != condition::retired)
    rouse_receiver();
  if (alive)
    return error_of(errc::receiver_alive, [this]() -> error {
      return {errc::receiver_alive,
              segment_.name.text() + ": its receiver is alive and may handle them"};
    });
  if (!possible)
    return error_of(errc::quarantined, [this]() -> error {
      return {errc::quarantined,
              segment_.name.text() + ": the lane's control words are impossible"};
    });
  // The lane holds them no more: hand all of them out whatever is thrown.
  first_exception thrown;
  std::size_t count = 0;
  if (begun.data() != nullptr) {
    thrown.keep([&] { each(begun, errc::outcome_unknown); });
    ++count;
  }
  // Until the next claim, only this sender uses the bytes behind the new tail.
  count += walk_records(own.keep, own.end, [&](bytes_view message) {
    thrown.keep([&] { each(message, errc::not_delivered); });
  });
  thrown.rethrow();
  return count;
}

// A list would need memory.
template <class Each>
std::size_t sender_state::walk_records(std::uint64_t at, std::uint64_t end,
                                       const Each& each) const {
  std::size_t count = 0;
  while (at != end) {
    const std::uint64_t offset = at & (out_.capacity() - 1);
    const std::byte* const record = out_.data() + offset;
    // Another process may have written here: check the header as the receiver does.
    const std::uint64_t header = load_record_header(record);
    const std::uint64_t size = record_size(record_length(header));
    if (size > end - at || size > out_.capacity() - offset)
      break;
    if (record_kind_of(header) == record_kind::message && record_length(header) <= message_limit_) {
      ++count;
      each(
          bytes_view{record + record_header_size, static_cast<std::size_t>(record_length(header))});
    }
    at += size;
  }
  return count;
}

// --- lifetime

channel_stats sender_state::stats() const {
  channel_stats sum;
  if (condition_ != condition::forked)
    add_stats(sum, segment_.slot(lane_));
  return sum;
}

void sender_state::stop() noexcept {
  if (condition_ == condition::forked)
    return;
  if (requesting_)
    finish_sleep();
  end(condition::closed);
  // Release the lock before the bell: a receiver that reads the end-of-file then finds the lane free.
  if (segment_.fd)
    unlock_byte(segment_.fd.get(), lane_lock_byte(lane_));
}

void sender_state::leave_lane_in(held_lane& place) noexcept {
  if (requesting_)
    finish_sleep();
  end(condition::closed);
  place.opened = std::move(segment_);
  place.lane = lane_;
  place.bell = std::move(bell_);
}

void sender_state::destroy() noexcept {
  const fork_pause no_fork;
  delete this;
}

void sender_state::abandon_in_child() noexcept {
  // An open slot or batch still writes to this memory, which is not the lane's.
  static lane_slot nowhere;
  out_.attach(&nowhere, reinterpret_cast<std::byte*>(nowhere.session), sizeof nowhere.session, 0);
  out_.alert_seen(nowhere.alert.load(std::memory_order_relaxed));
  end(condition::forked);
  segment_.abandon();
  bell_.close();
  epoll_.reset();
  inotify_.reset();
}

}  // namespace atbus::detail
