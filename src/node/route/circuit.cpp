#include "node/route/circuit.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <new>
#include <utility>

#include "protocol/control.h"

namespace atbus::detail {
namespace {

using namespace std::chrono_literals;

// The window in bytes before the first acknowledgement, and while relays refuse.
constexpr std::size_t window_first = std::size_t{64} * 1024;
constexpr std::size_t window_least = std::size_t{16} * 1024;
// Bytes of the queue that data never fills, so that acknowledgements find room.
constexpr std::size_t control_reserve = std::size_t{16} * 1024;
// The first pause after a relay has refused a batch; it doubles with each further refusal.
constexpr std::chrono::nanoseconds pause_first = 1ms;
constexpr std::chrono::nanoseconds pause_longest = 1s;
// The first timeout for an answer.
constexpr std::chrono::nanoseconds patience_first = 200ms;
constexpr std::chrono::nanoseconds patience_longest = 4s;
// The delay of an answer to control messages, to send several at once: well within patience_first.
constexpr std::chrono::nanoseconds answer_delay = 20ms;
// The interval of answers while fragments arrive.
constexpr std::chrono::nanoseconds fragment_answer_delay = 100ms;
// A repeated request within this time concerns batches that are already in flight.
constexpr std::chrono::nanoseconds go_back_interval = 20ms;
// The size limit of a batch with several messages.
constexpr std::size_t batch_most = 4 * 1024;
static_assert(batch_most <= batch_max);
static_assert(batch_most / frame_size(message_head_size) <
              std::numeric_limits<std::uint16_t>::max());
// Most batches from one chunk: messages before an open claim may be sent first.
constexpr std::size_t batches_of_stretch = 2;
// Messages of batches between two looks at the clock.
constexpr std::size_t messages_per_clock = 32;

// Whether the error is temporary: a queue is full, or a node on the path is reconnecting.
constexpr bool is_passing(errc why) noexcept {
  return why == errc::would_block || why == errc::not_connected;
}

}  // namespace

circuit::circuit(circuits& owner, std::uint64_t number, bus_id peer, link_trust trust,
                 bool accepted)
    : owner_(owner),
      number_(number),
      peer_(peer),
      trust_(trust),
      accepted_(accepted),
      // As in other links, the longest message finds room beside what is half released.
      data_limit_(
          std::max(owner.options_.queue_size, 2 * frame_size(owner.options_.message_limit))),
      queue_(data_limit_ + control_reserve, owner.chunks_),
      window_(std::min(window_first, queue_.byte_limit())),
      threshold_(queue_.byte_limit()),
      pause_(pause_first),
      patience_(patience_first),
      clock_(owner.timers_, [this] { tick(); }),
      longest_message_(control_size_max),
      answer_(owner.timers_, [this] { owe(circuit_step::expects); }) {
  chunk_.checked = false;  // the links see to that
  if (owner.options_.secret.empty())
    return;
  out_cipher_ = batch_cipher::make(owner.options_.secret,
                                   {.destination = peer, .source = owner.self_, .circuit = number},
                                   owner.random_.word());
  if (!out_cipher_)
    throw std::bad_alloc{};
}

std::string circuit::peer() const {
  return owner_.hops_.way_to(peer_);
}

std::uint64_t circuit::message_limit() const noexcept {
  return owner_.options_.message_limit;
}

void circuit::confirm(const node_instance&) noexcept {
  longest_message_ = owner_.options_.message_limit;
  if (accepted_)
    std::erase(owner_.unconfirmed_, this);
}

std::byte* circuit::claim(std::size_t length, message_purpose purpose, status& why) noexcept {
  chunk_.frame = nullptr;
  if (frame_size(length) > chunk_.room() || for_one_ || length > owner_.options_.message_limit)
      [[unlikely]] {
    why = new_chunk(length, purpose);
    if (!why)
      return nullptr;
  }
  return chunk_.claim(length);
}

status circuit::new_chunk(std::size_t length, message_purpose purpose) noexcept {
  take_in();
  if (over_ || closing_)
    return errc::closed;
  if (length > owner_.options_.message_limit)
    return {errc::message_too_large, length, owner_.options_.message_limit};
  const std::size_t size = frame_size(length);
  const bool is_data = purpose == message_purpose::data;
  const std::size_t limit = is_data ? data_limit_ : queue_.byte_limit();
  const std::size_t room = limit - std::min(limit, queue_.size());
  const std::size_t most = std::min(room, batch_most);
  for_one_ = !is_data || most < size;
  mutable_bytes place;
  status claimed;
  if (size > room)
    claimed = {errc::would_block, size};
  else if (!make_room_in_ring(batches_of_stretch + size / fragment_most()))
    claimed = {errc::out_of_memory, size};
  else
    claimed = for_one_ ? queue_.claim(size, place) : queue_.claim_up_to(size, most, place);
  if (!claimed) {
    wants_room_ = wants_room_ || claimed == errc::would_block;
    return claimed;
  }
  chunk_.start(place.data(), place.size());
  if (!std::exchange(unflushed_, true))
    owner_.unflushed_.push_back(this);
  return {};
}

bool circuit::make_room_in_ring(std::size_t batches) noexcept {
  const auto held = static_cast<std::size_t>(committed_ - released_);
  if (held + batches <= ring_.size())
    return true;
  try {
    std::vector<sent_batch> larger(std::bit_ceil(std::max<std::size_t>(16, held + batches)));
    for (std::uint64_t index = released_; index < committed_; ++index)
      larger[static_cast<std::size_t>(index) & (larger.size() - 1)] = at(index);
    ring_ = std::move(larger);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

bool circuit::commit(std::size_t length) noexcept {
  return has_claim() && chunk_.append(chunk_.claimed(), length);
}

direct_place circuit::place() noexcept {
  return for_one_ || over_ || closing_ ? direct_place{} : direct_place{.chunk = &chunk_};
}

void circuit::take_in() noexcept {
  const std::size_t bytes = chunk_.appended();
  if (chunk_.begin == nullptr || (bytes == 0 && chunk_.frame != nullptr))
    return;
  if (bytes != 0) {
    const std::uint64_t messages = chunk_.frames - std::exchange(taken_, chunk_.frames);
    const auto add = [this](const sent_batch& batch) {
      ring_[static_cast<std::size_t>(committed_++) & (ring_.size() - 1)] = batch;
    };
    std::size_t before = 0;
    for (; bytes - before > longest_batch(); before += fragment_most())
      add({chunk_.begin + before, fragment_most(), 0, before});
    add({chunk_.begin + before, bytes - before, static_cast<std::uint16_t>(messages), before});
  }
  queue_.commit(bytes);
  mutable_bytes place;
  // An open claim continues at the end of the queue.
  if (chunk_.frame != nullptr && queue_.claim(frame_size(chunk_.claimed()), place)) {
    for_one_ = true;
    return chunk_.start(place.data(), place.size());
  }
  chunk_.stop();
}

void circuit::flush() noexcept {
  chunk_.frame = nullptr;  // discarded: a flush never happens while a claim is open
  take_in();
  if (!blocked_)
    pump();
}

void circuit::pump() noexcept {
  if (over_ || blocked_)
    return;
  take_in();
  if (held_until_.count() != 0) {
    if (owner_.clock_.now() < held_until_)
      return;
    held_until_ = {};
  }
  while (next_ < committed_) {
    const std::size_t size = at(next_).whole();
    if (under_way_ != 0 && under_way_ + size > window_)
      break;
    if (const status sent = pass_on(next_); !sent) {
      if (!is_passing(sent.code()))
        return end(sent.code());
      blocked_ = true;
      owner_.blocked_.push_back(this);
      break;
    }
    under_way_ += size;
    left_here_ = std::max(left_here_, ++next_);
  }
  if (closing_ && next_ == committed_)
    return end(errc::ok);
  if (under_way_ != 0 && !clock_.pending()) {
    received_at_tick_ = received_;
    clock_.set(owner_.clock_.now() + patience_);
  }
}

status circuit::pass_on(std::uint64_t index) noexcept {
  const sent_batch& which = at(index);
  // Ask several times per window, so that the window does not run out.
  unasked_ += which.whole();
  const bool asks = unasked_ >= window_ / 4;
  if (asks)
    unasked_ = 0;
  const routed_head head{.asks = asks,
                         .messages = which.messages,
                         .destination = peer_,
                         .source = owner_.self_,
                         .circuit = number_,
                         .number = index + 1};
  const bytes_view batch{which.at, which.size};
  if (!out_cipher_)
    return owner_.hops_.pass_on(head, batch);
  if (!out_cipher_->seal(head, batch, owner_.sealed_.data()))
    return errc::system_error;
  return owner_.hops_.pass_on(head, {owner_.sealed_.data(), which.size + batch_cipher::overhead});
}

void circuit::tick() {
  const std::chrono::nanoseconds now = owner_.clock_.now();
  if (closing_) {
    if (now >= closes_at_)
      return end(errc::timed_out);
    clock_.set(closes_at_);
    return pump();
  }
  if (held_until_.count() != 0)
    return pump();
  if (std::exchange(received_at_tick_, received_) != received_) {
    if (under_way_ != 0)
      clock_.set(now + patience_);
    return;
  }
  patience_ = std::min(2 * patience_, patience_longest);
  window_ = window_least;
  go_back(received_);
  if (!blocked_)
    pump();
}

void circuit::release(std::uint64_t messages) noexcept {
  released_of_next_ += messages;
  std::size_t bytes = 0;
  while (released_ != committed_) {
    std::uint64_t last = released_;  // the fragments of a message go with it
    while (at(last).messages == 0)
      ++last;
    if (released_of_next_ < at(last).messages)
      break;
    has_received(last + 1);
    released_of_next_ -= at(last).messages;
    bytes += at(last).before + at(last).size;
    released_ = last + 1;
  }
  if (released_ == committed_)
    released_of_next_ = 0;
  queue_.release(bytes);
  if (wants_room_ && queue_.size() <= data_limit_ / 2)
    owner_.list(*this);
  if (!blocked_)
    pump();
}

void circuit::take_unreleased(const std::function<void(bytes_view, errc)>& each) {
  chunk_.frame = nullptr;
  take_in();
  for (; released_ < committed_; ++released_) {
    const sent_batch& batch = at(released_);
    if (batch.messages == 0)
      continue;  // its message is where the last fragment is
    const errc fate = released_ < left_here_ ? errc::outcome_unknown : errc::not_delivered;
    frame_run run{
        .at = batch.at - batch.before, .end = batch.at + batch.size, .limit = frame_payload_max};
    for (std::uint64_t length = 0; run.has_next(length); run.at += frame_size(length)) {
      if (released_of_next_ != 0)
        --released_of_next_;
      else
        each({run.at + frame_header_size, length}, fate);
    }
  }
  queue_.release(queue_.size());
}

void circuit::go_back(std::uint64_t index) noexcept {
  for (; next_ > index; --next_)
    under_way_ -= at(next_ - 1).whole();
}

void circuit::has_received(std::uint64_t index) noexcept {
  if (index <= received_)
    return;
  for (; received_ < index; ++received_) {
    const std::size_t size = at(received_).whole();
    if (received_ < next_)
      under_way_ -= size;
    const std::size_t more =
        window_ < threshold_ ? size / 2 : std::max<std::size_t>(size * batch_most / window_, 1);
    window_ = std::min(window_ + more, queue_.byte_limit());
  }
  next_ = std::max(next_, received_);
  left_here_ = std::max(left_here_, received_);
  pause_ = pause_first;
  patience_ = patience_first;
}

void circuit::expects(std::uint64_t number) noexcept {
  if (number > left_here_ + 1)
    return;
  const std::uint64_t before = received_;
  has_received(number - 1);
  if (received_ != before)
    bytes_read_ += routed_head_size;  // only progress is a sign of life
  if (!blocked_)
    pump();
}

void circuit::misses(std::uint64_t number) noexcept {
  expects(number);
  if (number <= received_ || number > next_)
    return;  // that was before, or nothing behind it is under way
  const std::chrono::nanoseconds now = owner_.clock_.now();
  if (went_back_to_ == number && now - went_back_at_ < go_back_interval)
    return;
  went_back_to_ = number;
  went_back_at_ = now;
  go_back(number - 1);
  if (!blocked_)
    pump();
}

void circuit::failed(std::uint64_t number, errc why) noexcept {
  if (number <= received_ || number > left_here_)
    return;
  if (!is_passing(why))
    return end(why);
  const std::size_t too_much = std::min(window_, under_way_);
  go_back(number - 1);
  if (held_until_.count() != 0)
    return;  // that was for the same reason
  window_ = std::max(too_much / 2, window_least);
  if (why == errc::would_block)
    threshold_ = window_;
  held_until_ = owner_.clock_.now() + pause_;
  pause_ = std::min(2 * pause_, pause_longest);
  clock_.set(held_until_);
}

void circuit::carried(const routed_head& head, bytes_view batch) {
  if (!listens() || !rest_.empty()) {
    passed_over_ = true;
    return;
  }
  if (head.number != expected_) {
    // A lower one was sent again because no answer came. Of a gap one word is enough.
    if (head.number < expected_)
      owe(circuit_step::expects);
    else if (std::exchange(gap_told_at_, expected_) != expected_)
      owe(circuit_step::misses);
    return;
  }
  ++expected_;
  // An answer shows that the call has arrived. Never send it again: another incarnation would take it for a
  // new call.
  if (!accepted_ && committed_ != 0)
    has_received(1);
  if (head.asks)
    owe(circuit_step::expects);
  bytes_read_ += batch.size();
  if (head.messages == 0 || !fragments_.empty())
    return take_fragment(head.messages != 0, batch);
  const std::size_t first =
      frame_size(frame_length(load_little_endian<std::uint32_t>(batch.data())));
  if (batch.size() > batch_most && batch.size() != first)
    owner_.events_.received(*this, {}, false);  // reports a malformed message
  else
    hand_up(batch);
}

void circuit::take_fragment(bool is_last, bytes_view fragment) {
  const std::byte* const begin = fragments_.empty() ? fragment.data() : fragments_.data();
  const std::size_t length = frame_length(load_little_endian<std::uint32_t>(begin));
  const std::size_t left = frame_size(length) - std::min(frame_size(length), fragments_.size());
  if (length > longest_message_ || (is_last ? fragment.size() != left : fragment.size() >= left)) {
    fragments_ = {};
    owner_.events_.received(*this, {}, false);  // reports a malformed message
    return;
  }
  try {
    // What has come grows with what comes, and never beyond the frame.
    if (fragments_.capacity() < fragments_.size() + fragment.size())
      fragments_.reserve(std::min(2 * (fragments_.size() + fragment.size()), frame_size(length)));
    fragments_.insert(fragments_.end(), fragment.begin(), fragment.end());
  } catch (const std::bad_alloc&) {
    return end(errc::out_of_memory);
  }
  if (is_last) {
    rest_ = std::exchange(fragments_, {});
    hand_up(rest_);
  } else if (!answer_.pending()) {
    answer_.set(owner_.clock_.now() + fragment_answer_delay);
  }
}

void circuit::hand_up(bytes_view batch) {
  frame_run run{.at = batch.data(), .end = batch.data() + batch.size(), .limit = longest_message_};
  // Also when a handler throws.
  struct keeper {
    circuit& of;
    const frame_run& run;
    ~keeper() {
      if (!of.owner_.closed_)
        of.keep({run.at, run.end});
    }
  } const at_end{*this, run};
  const poll_progress& progress = owner_.progress_;
  std::uint64_t length = 0;
  while (listens() && !progress.is_enough() && run.at != run.end) {
    bytes_view message;
    if (run.has_next(length) && length >= message_head_size) [[likely]] {
      message = {run.at + frame_header_size, static_cast<std::size_t>(length)};
      run.at += frame_size(length);
      // The session does not acknowledge control messages. Delay the answer: each separate message may wake
      // all nodes on the path.
      if (message[0] != std::byte{0} && !answer_.pending())
        answer_.set(owner_.clock_.now() + answer_delay);
    } else {
      run.at = run.end;  // no node sends that: the session sees an empty message, which none is
    }
    owner_.events_.received(*this, message, false);
    if (owner_.closed_)
      return;
    if (++owner_.handed_up_ % messages_per_clock == 0 && progress.deadline.count() != 0 &&
        owner_.clock_.now() >= progress.deadline)
      return owner_.hops_.end_poll();
  }
}

void circuit::keep(bytes_view rest) noexcept {
  const bool was_kept = !rest_.empty();
  if (over_ || closing_ || rest.empty()) {
    if (rest_.capacity() > batch_most)
      rest_ = {};
    rest_.clear();
    // It is taken from there.
    if (was_kept && std::exchange(passed_over_, false))
      owe(circuit_step::misses);
    return;
  }
  try {
    if (was_kept)
      rest_.erase(rest_.begin(), rest_.end() - static_cast<std::ptrdiff_t>(rest.size()));
    else
      rest_.assign(rest.begin(), rest.end());
  } catch (const std::bad_alloc&) {
    return end(errc::out_of_memory);
  }
  if (!paused_)
    owner_.list_rest(*this);
}

void circuit::owe(circuit_step step) noexcept {
  owed_ = std::max(owed_, step);
  owner_.list(*this);
}

void circuit::resume() noexcept {
  if (!std::exchange(paused_, false))
    return;
  passed_over_ = false;
  owe(circuit_step::misses);
  if (!rest_.empty())
    owner_.list_rest(*this);
}

void circuit::close(std::chrono::nanoseconds linger) noexcept {
  if (over_ || std::exchange(closing_, true))
    return;
  chunk_.frame = nullptr;
  take_in();
  closes_at_ = moment_after(owner_.clock_.now(), linger);
  clock_.set(held_until_.count() != 0 ? std::min(held_until_, closes_at_) : closes_at_);
  if (!blocked_)
    pump();
}

void circuit::end(errc why) noexcept {
  if (std::exchange(over_, true))
    return;
  why_ = why == errc::ok ? errc::closed : why;
  clock_.cancel();
  std::erase(owner_.unconfirmed_, this);
  owner_.list(*this);
}

}  // namespace atbus::detail
