#include "channel/stream/stream_link.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <span>

#include "system/fork_guard.h"
#include "system/passed_descriptors.h"
#include "system/socket.h"

namespace atbus::detail {
namespace {

// Pieces of a gather list. A ring has at most two; 16 chunks of 64 KiB make a write of 1 MiB.
constexpr std::size_t most_pieces = 16;

constexpr const char* ended_in_handshake =
    "the other end has closed the connection inside the TLS handshake: it may have another token "
    "or "
    "expect no TLS";

mutable_bytes writable(bytes_view queued) noexcept {
  // The link may write to the queue's memory; only gather() returns it as read-only.
  return {const_cast<std::byte*>(queued.data()), queued.size()};
}

}  // namespace

stream_link::stream_link(file socket, bool connected, const hello& own, send_queue* queue,
                         read_space& space, std::unique_ptr<tls_socket> tls) noexcept
    : socket_(std::move(socket)),
      tls_(std::move(tls)),
      queue_(queue),
      reader_(space, own),
      send_limit_(own.payload_max),
      sealed_(queue == nullptr ? 0 : queue->released()),
      checksums_(tls_ == nullptr),
      state_(connected ? state::open : state::connecting) {
  const auto frame = hello_frame(own);
  std::copy(frame.begin(), frame.end(), opening_.begin());
  if (queue_ == nullptr)
    return;
  queue_->rewind();  // messages that an earlier link wrote in part are sent again whole
  marks_ = frame_marks{queue_->byte_limit()};
  marks_.add({.bytes = queue_->committed(), .frames = 0});
  backlog_end_ = queue_->committed();
}

void stream_link::close(error why) noexcept {
  if (state_ == state::closed)
    return;
  state_ = state::closed;
  why_ = std::move(why);
  if (queue_ != nullptr && !keeps_written_)
    release_all();
  (void)take_peeked();  // unread bytes at close would reset the connection
  const fork_pause no_fork;
  given_ = {};
  taken_ = {};
  socket_.reset();
}

void stream_link::take_descriptors(bool wanted) noexcept {
  takes_descriptors_ = wanted && is_of_our_user(socket_.get());
  let_descriptors_through(socket_.get(), takes_descriptors_);
}

void stream_link::abandon() noexcept {
  if (tls_ != nullptr)
    tls_->abandon();
  state_ = state::closed;
  given_ = {};
  taken_ = {};
  socket_.reset();
}

void stream_link::seal_committed() noexcept {
  const std::uint64_t committed = queue_->committed();
  sealed_ = std::max(sealed_, queue_->written());  // bytes taken back or released need no checksum
  if (!checksums_) {
    sealed_ = committed;
    return;
  }
  if (sealed_ == committed)
    return;
  std::array<bytes_view, most_pieces> runs;
  const std::size_t found = queue_->gather(runs);
  std::uint64_t at = queue_->written();
  for (const bytes_view run : std::span{runs}.first(found)) {
    if (at + run.size() > sealed_) {
      const std::size_t done = sealed_ > at ? static_cast<std::size_t>(sealed_ - at) : 0;
      sealed_ += seal(writable(run.subspan(done)));  // frames never lie across two runs
    }
    at += run.size();
  }
  // The rest is sealed after this part is written.
}

void stream_link::release_most() noexcept {
  if (queue_->unwritten() == 0) {
    marks_.clear();
    return queue_->release(queue_->size());
  }
  const std::uint64_t whole = marks_.take(queue_->written(), frame_marks::any).bytes;
  if (whole > queue_->released())
    queue_->release(static_cast<std::size_t>(whole - queue_->released()));
  else if (queue_->released() < backlog_end_)
    release_all();  // visits each frame of the backlog once
}

void stream_link::release_all() noexcept {
  std::array<bytes_view, most_pieces> runs;
  for (std::size_t found = runs.size(); found == runs.size();) {
    found = queue_->gather_unreleased(runs, queue_->in_flight());
    std::size_t whole = 0;
    for (const bytes_view run : std::span{runs}.first(found)) {
      for (std::size_t at = 0; at != run.size();) {
        const std::size_t left = run.size() - at;
        const std::size_t size =
            left < frame_header_size
                ? left + 1
                : frame_size(frame_length(load_little_endian<std::uint32_t>(run.data() + at)));
        if (size > left)
          return queue_->release(whole);  // this frame is only partly written
        whole += size;
        at += size;
      }
    }
    queue_->release(whole);
  }
}

error stream_link::broken(const char* what, int code) const noexcept {
  if (code == EPROTO && tls_ != nullptr && !tls_->why())
    return tls_->why();
  if (code == EPIPE || code == ECONNRESET)
    return {errc::peer_closed,
            secured() ? "the other end has closed the connection" : ended_in_handshake, code};
  if (code == ETIMEDOUT)
    return {errc::timed_out, "the other end does not answer any more", code};
  return {errc::system_error, what, code};
}

ssize_t stream_link::send(std::span<const iovec> pieces) noexcept {
  if (tls_ != nullptr) {
    if (!pieces.empty())
      return tls_->write(socket_.get(), pieces);
    return tls_->flush(socket_.get()) ? 0 : -1;
  }
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  passed_descriptors<2> passed;
  if (given_[0])
    passed.attach(message, {given_[0].get(), given_[1].get()});
  return kernel().sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void stream_link::secure() noexcept {
  if (state_ != state::open || tls_ == nullptr || (secured() && tls_->pending() == 0))
    return;
  const bool done = tls_->flush(socket_.get());
  const int code = errno;
  note_sent();
  starved_writing_ = !done && is_out_of_memory(code);
  if (!done && code != EAGAIN && !starved_writing_)
    close(broken("can't write to the connection", code));
}

struct stream_link::outgoing {
  void add(const void* at, std::size_t size) noexcept {
    if (size != 0)
      pieces[count++] = {.iov_base = const_cast<void*>(at), .iov_len = size};
    total += size;
  }

  std::array<iovec, most_pieces + 2> pieces;
  std::size_t count = 0;
  std::size_t total = 0;   // bytes
  std::size_t queued = 0;  // of them from the queue
};

void stream_link::gather(outgoing& next) noexcept {
  if (tls_ != nullptr && tls_->pending() != 0)
    return;
  next.add(opening_.data() + opening_written_, opening_size_ - opening_written_);
  if (unwritten() != 0) {
    seal_committed();
    std::array<bytes_view, most_pieces> runs;
    const std::uint64_t end = stop_at_ == 0 ? sealed_ : std::min(sealed_, stop_at_);
    const std::size_t found =
        queue_->gather(runs, static_cast<std::size_t>(end - queue_->written()));
    for (const bytes_view run : std::span{runs}.first(found)) {
      next.add(run.data(), run.size());
      next.queued += run.size();
    }
  }
  if (next.queued == unwritten() && stop_at_ == 0)
    next.add(closing_.data() + closing_written_, closing_size_ - closing_written_);
}

void stream_link::took(const outgoing& from, std::size_t bytes) noexcept {
  if (from.queued != 0) {
    on_way_.begin = queue_->written();
    const std::size_t before = opening_size_ - opening_written_;
    on_way_.end = on_way_.begin + std::min(from.queued, bytes - std::min(bytes, before));
  }
  if (tls_ == nullptr)
    written(bytes);
  else
    note_sent();
}

bool stream_link::flush() noexcept {
  if (state_ != state::open)
    return state_ == state::closed;
  starved_writing_ = false;
  while (has_unwritten() && !stopped_) {
    outgoing next;
    gather(next);
    const ssize_t n = send(std::span{next.pieces}.first(next.count));
    if (n < 0) {
      note_sent();
      if (errno == EINTR)
        continue;
      // Too many descriptors are in flight, or the other end accepts none: send the offer without
      // descriptors, which counts as no offer.
      if ((errno == ETOOMANYREFS || errno == EPERM) && given_[0]) {
        given_ = {};
        continue;
      }
      starved_writing_ = is_out_of_memory(errno);
      if (errno == EAGAIN || starved_writing_)
        return false;
      fail_writing(errno);
      return true;
    }
    given_ = {};  // the descriptors went with the first byte
    took(next, static_cast<std::size_t>(n));
    // A short write: the socket is full.
    if (static_cast<std::size_t>(n) < next.total)
      return false;
  }
  return true;
}

// If reads_on_ is set, the link lives on and reads what the other end sent before it ended.
void stream_link::fail_writing(int code) noexcept {
  error why = broken("can't write to the connection", code);
  if (queue_ != nullptr && !(reads_on_ && why == errc::peer_closed))
    return close(std::move(why));
  opening_written_ = opening_size_;
  closing_written_ = closing_size_;
  on_way_ = {};
  if (tls_ != nullptr)
    tls_->end_writing();
  if (queue_ != nullptr)
    write_failure_ = std::move(why);
}

void stream_link::written(std::size_t bytes) noexcept {
  const std::size_t of_opening = std::min(bytes, opening_size_ - opening_written_);
  opening_written_ += of_opening;
  bytes -= of_opening;
  const auto of_queue =
      static_cast<std::size_t>(std::min<std::uint64_t>(bytes, on_way_.end - on_way_.begin));
  closing_written_ += bytes - of_queue;
  if (of_queue == 0)
    return;
  on_way_.begin += of_queue;
  if (on_way_.begin > queue_->written())  // else they have been released
    queue_->mark_written(static_cast<std::size_t>(on_way_.begin - queue_->written()));
  if (on_way_.begin == on_way_.end)
    on_way_ = {};
  if (stop_at_ != 0 && queue_->written() >= stop_at_) {
    stop_at_ = 0;
    stopped_ = true;
  }
  if (!keeps_written_)
    release_most();
}

void stream_link::note_sent() noexcept {
  if (tls_ == nullptr || tls_->sent_plain() == sent_plain_)
    return;
  const int code = errno;
  const std::uint64_t before = std::exchange(sent_plain_, tls_->sent_plain());
  written(static_cast<std::size_t>(sent_plain_ - before));
  errno = code;
}

void stream_link::say(bytes_view frame) noexcept {
  std::copy(frame.begin(), frame.end(),
            closing_.begin() + static_cast<std::ptrdiff_t>(closing_size_));
  closing_size_ += frame.size();
}

void stream_link::say_switch() noexcept {
  say(switch_frame(checksums_));
}

void stream_link::say_goodbye(errc reason) noexcept {
  if (!std::exchange(goodbye_said_, true))
    say(goodbye_frame(reason, checksums_));
}

void stream_link::offer_lane(std::uint32_t lane, file segment, file bell) noexcept {
  const auto frame = lanes_frame(lane, checksums_);
  assert(opening_size_ + frame.size() <= opening_.size());
  std::copy(frame.begin(), frame.end(),
            opening_.begin() + static_cast<std::ptrdiff_t>(opening_size_));
  opening_size_ += frame.size();
  given_ = {std::move(segment), std::move(bell)};
}

std::size_t stream_link::unacknowledged() const noexcept {
  int bytes = 0;
  if (state_ != state::open || ioctl(socket_.get(), SIOCOUTQ, &bytes) != 0)
    return 0;
  return static_cast<std::size_t>(std::max(bytes, 0)) + (tls_ == nullptr ? 0 : tls_->pending());
}

std::size_t stream_link::unread() const noexcept {
  int bytes = 0;
  return state_ == state::open && ioctl(socket_.get(), FIONREAD, &bytes) == 0 && bytes > 0
             ? static_cast<std::size_t>(bytes)
             : 0;
}

void stream_link::shut_down() noexcept {
  if (state_ != state::open)
    return;
  if (tls_ != nullptr)
    tls_->shut_down(socket_.get());
  (void)kernel().shutdown(socket_.get(), SHUT_WR);
}

ssize_t stream_link::take_peeked() noexcept {
  std::array<std::byte, most_peeked> nowhere;  // nothing is copied
  ssize_t n = 1;
  while (peeked_ != 0 && n > 0) {
    n = kernel().recv(socket_.get(), nowhere.data(), peeked_, MSG_DONTWAIT | MSG_TRUNC);
    peeked_ -= static_cast<std::size_t>(std::max<ssize_t>(n, 0));
  }
  return n;
}

ssize_t stream_link::receive_into(mutable_bytes place, bool peek) noexcept {
  if (tls_ != nullptr) {
    const ssize_t n = tls_->read(socket_.get(), place);
    note_sent();
    return n;
  }
  if (const ssize_t taken = take_peeked(); taken <= 0)
    return taken;
  if (peek) {
    const ssize_t n =
        kernel().recv(socket_.get(), place.data(), place.size(), MSG_DONTWAIT | MSG_PEEK);
    peeked_ = static_cast<std::size_t>(std::max<ssize_t>(n, 0));
    return n;
  }
  if (!takes_descriptors_)
    return kernel().recv(socket_.get(), place.data(), place.size(), MSG_DONTWAIT);
  const fork_pause no_fork;
  iovec piece{.iov_base = place.data(), .iov_len = place.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  arriving_descriptors<2> arriving;
  arriving.attach(message);
  const ssize_t n = kernel().recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n >= 0)
    arriving.take(message, taken_);  // those of an earlier message are closed here
  return n;
}

void stream_link::reject(bytes_view message) noexcept {
  reader_.reject(message);
  state_ = state::open;  // so that this reason replaces one that came meanwhile
  close(reader_.reader().problem());
}

frame_flow stream_link::control_seen(bytes_view payload) noexcept {
  control_type type{};
  (void)read_control_type(payload, type);  // the reader has checked it
  if (type == control_type::hello && stops_when_opened_)
    return frame_flow::stop;
  if (type == control_type::switch_to_lanes) {
    switched_ = true;
    return frame_flow::stop;
  }
  std::uint32_t lane = no_lane;
  if (type != control_type::lanes || read_lanes(payload, lane) != frame_fault::none)
    return frame_flow::go_on;
  offered_ = lane;
  return stops_when_opened_ ? frame_flow::stop : frame_flow::go_on;
}

bool stream_link::receive(bool peek) noexcept {
  drained_ = true;
  if (state_ != state::open)
    return false;
  ++reads_;
  mutable_bytes place;
  const status prepared = reader_.prepare(place);
  starved_reading_ = prepared == errc::out_of_memory;
  if (!prepared)
    return false;  // no memory, or messages are waiting
  place = place.first(std::min(place.size(), peek ? most_peeked : most_read_));
  ssize_t n = 0;
  do {
    n = receive_into(place, peek);
  } while (n < 0 && errno == EINTR);
  if (n > 0) {
    drained_ = static_cast<std::size_t>(n) < place.size() && (tls_ == nullptr || !tls_->starved());
    reader_.received(static_cast<std::size_t>(n));
    bytes_read_ += static_cast<std::uint64_t>(n);
    return true;
  }
  starved_reading_ = n < 0 && is_out_of_memory(errno);
  if (n < 0 && (errno == EAGAIN || starved_reading_))
    return false;
  if (n < 0) {
    close(write_failure_ ? broken("can't read from the connection", errno) : write_failure_);
  } else if (!write_failure_) {
    close(write_failure_);
  } else if (reader_.reader().goodbye()) {
    close({errc::peer_closed, "the other end has said goodbye"});
  } else {
    close({errc::peer_closed, !secured() ? ended_in_handshake
                              : reader_.pending() == 0
                                  ? "the other end has closed the connection without a goodbye"
                                  : "the other end has closed the connection inside a message"});
  }
  return false;
}

// Ends the link after impossible bytes. If the versions differ or a message is too long, first sends this
// end's hello, which has the version and the limit.
void stream_link::end_badly() noexcept {
  const frame_fault fault = reader_.reader().fault();
  if (fault == frame_fault::no_common_version || fault == frame_fault::too_large)
    (void)flush();
  close(reader_.reader().problem());
}

void stream_link::settle_opening() noexcept {
  settled_ = true;
  const agreement& agreed = reader_.reader().agreed();
  send_limit_ = std::min<std::size_t>(send_limit_, agreed.send_payload_max);
  checksums_ = agreed.checksums;
}

}  // namespace atbus::detail
