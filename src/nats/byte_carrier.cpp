#include "nats/byte_carrier.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace atbus::detail {
namespace {

constexpr std::size_t overhead = carrier_head_size + carrier_tag_size;
// With less no opening fits.
constexpr std::size_t message_limit_min = 1024;

bool is_temporary(int code) noexcept {
  return code == EAGAIN || code == EINTR || code == ENOBUFS || code == ENOMEM;
}

}  // namespace

byte_carrier::byte_carrier(carrier_outlet& out, file socket, std::string inbox, time now)
    : out_(out),
      socket_(std::move(socket)),
      inbox_(std::move(inbox)),
      pair_(key_pair::make()),
      dies_at_(now + silence_max),
      says_at_(now + sign_of_life) {
  if (!pair_)
    finish({errc::system_error, "libcrypto makes no key"});
}

byte_carrier::~byte_carrier() {
  // Another process may hold a copy of it since a fork.
  (void)kernel().shutdown(socket_.get(), SHUT_RDWR);
}

// --- opening

byte_buffer byte_carrier::opening_body() const {
  byte_buffer body{pair_->public_key().begin(), pair_->public_key().end()};
  const bytes_view inbox = as_bytes(inbox_);
  body.insert(body.end(), inbox.begin(), inbox.end());
  return body;
}

void byte_carrier::dial(const std::string& subject, time now) {
  if (ended_ || !pair_)  // a pair of keys opens one link
    return;
  dialled_ = true;
  theirs_ = subject;
  opening_ = opening_body();
  write_head(carrier_kind::open, 0, message_);
  message_.insert(message_.end(), opening_.begin(), opening_.end());
  if (!out_.publish(theirs_, inbox_, message_))
    end({errc::not_connected, "there is no connection to the NATS server"}, now);
}

void byte_carrier::answer(const carrier_frame& opening, time now) {
  const auto asked = ended_ ? std::nullopt : read_opening(opening.body);
  if (!asked)
    return finish({errc::protocol_error, "an opening that no carrier sends"});
  theirs_ = asked->inbox;
  const byte_buffer body = opening_body();
  keys_ = pair_->agree(asked->key, opening.body, body);
  if (!keys_)
    return finish({errc::protocol_error, "an opening with a key that is none"});
  pair_.reset();
  say(carrier_kind::accept, body, now);
}

void byte_carrier::accepted(const carrier_frame& frame, bytes_view message, time now) {
  const auto said = read_opening(frame.body);
  if (!dialled_ || frame.kind != carrier_kind::accept || frame.number != 0 || !said)
    return;
  const auto keys = pair_->agree(said->key, opening_, frame.body);
  if (!keys || !is_sealed(keys->of_listener, message))
    return;
  keys_ = keys;
  theirs_ = said->inbox;
  pair_.reset();
  next_in_ = 1;
  dies_at_ = now + silence_max;
}

// --- sending

error byte_carrier::send(carrier_kind kind, bytes_view body, time now) {
  write_head(kind, next_out_, message_);
  message_.insert(message_.end(), body.begin(), body.end());
  if (!seal(dialled_ ? keys_->of_dialler : keys_->of_listener, message_))
    return {errc::system_error, "libcrypto makes no seal"};
  if (!out_.publish(theirs_, inbox_, message_))
    return {errc::peer_closed, "the NATS server does not take what is sent"};
  ++next_out_;
  says_at_ = now + sign_of_life;
  return {};
}

void byte_carrier::say(carrier_kind kind, bytes_view body, time now) {
  if (ended_)
    return;
  error failed = send(kind, body, now);
  if (failed == errc::system_error)
    end(std::move(failed),
        now);  // for lack of memory, perhaps: then there is some for a shorter message
  else if (!failed)
    finish(std::move(failed));
}

std::uint64_t byte_carrier::window() const noexcept {
  return std::min(window_max, window_min + 2 * delivered_);
}

void byte_carrier::say_credit(time now) {
  granted_ = std::max(granted_, delivered_ + window());
  byte_buffer body;
  append_number(granted_, body);
  say(carrier_kind::credit, body, now);
}

void byte_carrier::grant(time now) {
  if (!end_heard_ && delivered_ + window() >= granted_ + window() / 4)
    say_credit(now);
}

std::size_t byte_carrier::sendable() const {
  const std::uint64_t room = std::min<std::uint64_t>(send_limit_ - sent_, data_max);
  return static_cast<std::size_t>(std::min<std::uint64_t>(room, out_.message_limit() - overhead));
}

void byte_carrier::read_socket(time now) {
  if (out_.message_limit() < message_limit_min)
    return finish({errc::message_too_large, "max_payload of the NATS server is below 1024 bytes"});
  std::array<std::byte, data_max> bytes;
  const ssize_t got = kernel().recv(socket_.get(), bytes.data(), sendable(), MSG_DONTWAIT);
  if (got > 0) {
    const auto size = static_cast<std::size_t>(got);
    sent_ += size;
    return say(carrier_kind::data, bytes_view{bytes}.first(size), now);
  }
  if (got < 0 && is_temporary(errno))
    return;
  end_said_ = true;
  say(carrier_kind::end, {}, now);
}

// --- receiving

bool byte_carrier::take(bytes_view message, time now) {
  const auto frame = ended_ ? std::nullopt : read_frame(message);
  if (!frame)
    return false;
  if (!keys_) {
    accepted(*frame, message, now);
    return keys_.has_value();
  }
  if (frame->kind == carrier_kind::open ||
      !is_sealed(dialled_ ? keys_->of_listener : keys_->of_dialler, message))
    return false;
  if (frame->number < next_in_)
    return false;  // a second time
  if (frame->number > next_in_) {
    end({errc::peer_closed, "messages on the way through NATS were lost"}, now);
    return true;
  }
  ++next_in_;
  dies_at_ = now + silence_max;
  take_sealed(*frame, now);
  settle_ends(now);
  return true;
}

void byte_carrier::take_sealed(const carrier_frame& frame, time now) {
  const auto wrong = [&] { end({errc::protocol_error, "a message that no carrier sends"}, now); };
  switch (frame.kind) {
    case carrier_kind::data:
      return end_heard_ ? wrong() : take_data(frame.body, now);
    case carrier_kind::credit: {
      const auto limit = read_credit(frame.body);
      if (!limit || *limit < send_limit_ || *limit > sent_ + 2 * window_max)
        return wrong();
      send_limit_ = *limit;
      return;
    }
    case carrier_kind::end:
      end_heard_ = true;
      return;
    case carrier_kind::close:
      end_heard_ = close_heard_ = true;
      return;
    case carrier_kind::open:
    case carrier_kind::accept:
      return wrong();
  }
}

void byte_carrier::take_data(bytes_view bytes, time now) {
  received_ += bytes.size();
  if (bytes.empty() || received_ > granted_)
    return end({errc::protocol_error, "more data than was asked for"}, now);
  // Joined, so that many small messages cost no more than their bytes.
  if (waiting_.empty() || waiting_.back().size() >= data_max)
    waiting_.emplace_back(bytes.begin(), bytes.end());
  else
    waiting_.back().insert(waiting_.back().end(), bytes.begin(), bytes.end());
  deliver(now);
}

void byte_carrier::deliver(time now) {
  while (!waiting_.empty()) {
    const byte_buffer& first = waiting_.front();
    const ssize_t put = kernel().send(socket_.get(), first.data() + first_at_,
                                      first.size() - first_at_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put < 0 && is_temporary(errno))
      break;
    if (put < 0)
      return end({errc::closed, "the node has closed the link"}, now);
    first_at_ += static_cast<std::size_t>(put);
    delivered_ += static_cast<std::uint64_t>(put);
    if (first_at_ == first.size()) {
      waiting_.pop_front();
      first_at_ = 0;
    }
  }
  grant(now);
}

void byte_carrier::unheard(time now) {
  if (keys_)
    dies_at_ = std::min(dies_at_, now + silence_max_unheard);
  else if (dialled_)
    finish({errc::not_found, "nobody listens to this subject"});
}

// --- both

void byte_carrier::ready(std::uint32_t events, time now) {
  if ((events & EPOLLHUP) != 0)
    hung_up_ = true;
  if (hung_up_ && !keys_)
    return finish({errc::closed, "the node has given up"});
  if (keys_ && !ended_ && !waiting_.empty())
    deliver(now);
  if (keys_ && !ended_ && !end_said_ && sent_ < send_limit_ &&
      (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0)
    read_socket(now);
  settle_ends(now);
}

void byte_carrier::settle_ends(time now) {
  if (ended_ || !keys_)
    return;
  if (end_heard_ && waiting_.empty()) {
    if (end_said_ || close_heard_)
      return finish({});
    (void)kernel().shutdown(socket_.get(), SHUT_WR);
  }
  if (hung_up_ && end_said_)
    end({}, now);
}

void byte_carrier::look_at_clock(time now) {
  if (ended_)
    return;
  if (now >= dies_at_) {
    return keys_ ? end({errc::timed_out, "the other end is silent"}, now)
                 : finish({errc::timed_out, "no listener answers"});
  }
  if (now < says_at_)
    return;
  says_at_ = now + sign_of_life;
  if (keys_)
    say_credit(now);
}

void byte_carrier::end(error why, time now) {
  if (ended_)
    return;
  finish(std::move(why));
  if (keys_)
    (void)send(carrier_kind::close, {}, now);  // if it can
}

void byte_carrier::finish(error why) {
  if (std::exchange(ended_, true))
    return;
  why_ = std::move(why);
  waiting_.clear();
}

std::optional<std::uint32_t> byte_carrier::interest() const noexcept {
  const bool reads = keys_ && !end_said_ && sent_ < send_limit_;
  if (hung_up_ && !reads)
    return std::nullopt;
  return (reads ? static_cast<std::uint32_t>(EPOLLIN) : 0U) |
         (waiting_.empty() ? 0U : static_cast<std::uint32_t>(EPOLLOUT));
}

}  // namespace atbus::detail
