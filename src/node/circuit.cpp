#include "node/circuit.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace atbus::detail {
namespace {

using namespace std::chrono_literals;

// Bytes that are under way before anything was acknowledged, and when relays refuse.
constexpr std::size_t window_first = std::size_t{64} * 1024;
constexpr std::size_t window_least = std::size_t{16} * 1024;
// Bytes of the queue that data never fills: acknowledgements find room.
constexpr std::size_t control_reserve = std::size_t{16} * 1024;
// After a refusal of a relay's, doubled while they go on.
constexpr std::chrono::nanoseconds pause_first = 10ms;
constexpr std::chrono::nanoseconds pause_longest = 1s;
// For an answer.
constexpr std::chrono::nanoseconds patience_first = 200ms;
constexpr std::chrono::nanoseconds patience_longest = 4s;
// That an answer to what is not data waits for others: well within patience_first.
constexpr std::chrono::nanoseconds answer_delay = 20ms;
// The same wish again within this time is about what is under way.
constexpr std::chrono::nanoseconds go_back_interval = 20ms;
// Small chunks: each circuit holds one for as long as a control message is not released. And what all
// circuits of a node keep idle.
constexpr chunk_cache::options chunk_sizes{.chunk_bytes = 4 * 1024, .idle_bytes = 256 * 1024};
// The most that a stretch for several messages has, and the least that one of them takes.
constexpr std::size_t stretch_most = 4 * 1024;
constexpr std::size_t frame_least = frame_size(message_head_size);

// Will do better later: a queue is full, or a node on the way is just connecting again.
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
      queue_(std::max(owner.options_.queue_size, frame_size(owner.options_.message_limit)) +
                 control_reserve,
             owner.chunks_),
      window_(std::min(window_first, queue_.byte_limit())),
      pause_(pause_first),
      patience_(patience_first),
      clock_(owner.timers_, [this] { tick(); }),
      answer_(owner.timers_, [this] { owe(circuit_step::expects); }) {
  stretch_.checked = false;  // the links see to that
}

std::string circuit::peer() const {
  return owner_.hops_.way_to(peer_);
}

std::uint64_t circuit::message_limit() const noexcept {
  return owner_.options_.message_limit;
}

void circuit::confirm(const node_life&) noexcept {
  if (accepted_ && !std::exchange(confirmed_, true))
    --owner_.unconfirmed_;
}

std::byte* circuit::claim(std::size_t length, message_purpose purpose, status& why) noexcept {
  stretch_.frame = nullptr;
  if (frame_size(length) > stretch_.room() || for_one_ || length > owner_.options_.message_limit)
      [[unlikely]] {
    why = new_stretch(length, purpose);
    if (!why)
      return nullptr;
  }
  return stretch_.claim(length);
}

status circuit::new_stretch(std::size_t length, message_purpose purpose) noexcept {
  take_in();
  if (over_ || closing_)
    return errc::closed;
  if (length > owner_.options_.message_limit)
    return {errc::message_too_large, length, owner_.options_.message_limit};
  const std::size_t size = frame_size(length);
  std::size_t room = queue_.byte_limit() - std::min(queue_.byte_limit(), queue_.size());
  const bool is_data = purpose == message_purpose::data;
  if (is_data)
    room -= std::min(room, control_reserve);
  const std::size_t most = std::min(room, stretch_most);
  for_one_ = !is_data || most < size;
  mutable_bytes place;
  status claimed;
  if (size > room)
    claimed = {errc::would_block, size};
  else if (!make_room_in_ring(for_one_ ? 1 : most / frame_least))
    claimed = {errc::out_of_memory, size};
  else
    claimed = for_one_ ? queue_.claim(size, place) : queue_.claim_up_to(size, most, place);
  if (!claimed) {
    wants_room_ = wants_room_ || (is_data && claimed == errc::would_block);
    return claimed;
  }
  stretch_.start(place.data(), place.size());
  if (!std::exchange(unflushed_, true))
    owner_.unflushed_.push_back(this);
  return {};
}

bool circuit::make_room_in_ring(std::size_t messages) noexcept {
  const auto held = static_cast<std::size_t>(committed_ - released_);
  if (held + messages <= ring_.size())
    return true;
  try {
    std::vector<sent_message> larger(std::bit_ceil(std::max<std::size_t>(16, held + messages)));
    for (std::uint64_t index = released_; index < committed_; ++index)
      larger[static_cast<std::size_t>(index) & (larger.size() - 1)] = at(index);
    ring_ = std::move(larger);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

void circuit::commit(std::size_t length) noexcept {
  if (stretch_.frame != nullptr)
    stretch_.append(stretch_.claimed(), length);
}

direct_place circuit::place() noexcept {
  return for_one_ || over_ || closing_ ? direct_place{} : direct_place{.stretch = &stretch_};
}

void circuit::take_in() noexcept {
  const std::size_t bytes = stretch_.appended();
  if (stretch_.begin == nullptr || (bytes == 0 && stretch_.frame != nullptr))
    return;
  for (const std::byte* from = stretch_.begin; from != stretch_.at; ++committed_) {
    const std::size_t size = frame_length(load_little_endian<std::uint32_t>(from));
    ring_[static_cast<std::size_t>(committed_) & (ring_.size() - 1)] = {from + frame_header_size,
                                                                        size};
    from += frame_size(size);
  }
  queue_.commit(bytes);
  mutable_bytes place;
  // It goes on where the queue ends.
  if (stretch_.frame != nullptr && queue_.claim(frame_size(stretch_.claimed()), place)) {
    for_one_ = true;
    return stretch_.start(place.data(), place.size());
  }
  stretch_.stop();
}

void circuit::flush() noexcept {
  stretch_.frame = nullptr;  // given up: nobody flushes while a claim is open
  take_in();
  if (!blocked_)
    pump();
}

void circuit::pump() noexcept {
  if (over_)
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
  const sent_message& which = at(index);
  // Some times in each window, so that it does not come to an end.
  unasked_ += which.whole();
  const bool asks = unasked_ >= window_ / 4;
  if (asks)
    unasked_ = 0;
  const routed_head head{.asks = asks,
                         .destination = peer_,
                         .source = owner_.self_,
                         .circuit = number_,
                         .number = index + 1};
  return owner_.hops_.pass_on(head, {which.at, which.size});
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
  messages = std::min(messages, committed_ - released_);
  has_received(released_ + messages);
  std::size_t bytes = 0;
  for (; messages != 0; --messages)
    bytes += frame_size(at(released_++).size);
  queue_.release(bytes);
  if (wants_room_ && queue_.size() <= queue_.byte_limit() / 2)
    owner_.list(*this);
  if (!blocked_)
    pump();
}

void circuit::take_unreleased(const std::function<void(bytes_view, errc)>& each) {
  stretch_.frame = nullptr;
  take_in();
  for (; released_ < committed_; ++released_) {
    const sent_message& one = at(released_);
    each({one.at, one.size}, released_ < left_here_ ? errc::outcome_unknown : errc::not_delivered);
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
    window_ = std::min(window_ + size / 2, queue_.byte_limit());
  }
  next_ = std::max(next_, received_);
  left_here_ = std::max(left_here_, received_);
  pause_ = pause_first;
  patience_ = patience_first;
}

void circuit::expects(std::uint64_t number) noexcept {
  if (number > left_here_ + 1)
    return;
  has_received(number - 1);
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
  go_back(number - 1);
  window_ = std::max(window_ / 2, window_least);
  if (held_until_.count() != 0)
    return;
  held_until_ = owner_.clock_.now() + pause_;
  pause_ = std::min(2 * pause_, pause_longest);
  clock_.set(held_until_);
}

void circuit::carried(const routed_head& head, bytes_view inner, link_events& events) {
  if (over_ || closing_ || paused_)
    return;
  if (head.number != expected_) {
    // A lower one was sent again because no answer came. Of a gap one word is enough.
    if (head.number < expected_)
      owe(circuit_step::expects);
    else if (std::exchange(gap_told_at_, expected_) != expected_)
      owe(circuit_step::misses);
    return;
  }
  ++expected_;
  // Whoever answers has the call. It must not come again: another life would take it for a new one.
  if (!accepted_ && committed_ != 0)
    has_received(1);
  // What is not data is not acknowledged by the session. Nobody waits for that: each word on its own
  // may wake all nodes on the way.
  if (head.asks)
    owe(circuit_step::expects);
  else if (inner[0] != std::byte{0} && !answer_.pending())
    answer_.set(owner_.clock_.now() + answer_delay);
  events.received(*this, inner, false);
}

void circuit::owe(circuit_step step) noexcept {
  owed_ = std::max(owed_, step);
  owner_.list(*this);
}

void circuit::resume() noexcept {
  if (std::exchange(paused_, false))
    owe(circuit_step::misses);
}

void circuit::close(std::chrono::nanoseconds linger) noexcept {
  if (over_ || std::exchange(closing_, true))
    return;
  stretch_.frame = nullptr;
  take_in();
  closes_at_ = owner_.clock_.now() + linger;
  clock_.set(held_until_.count() != 0 ? std::min(held_until_, closes_at_) : closes_at_);
  if (!blocked_)
    pump();
}

void circuit::end(errc why) noexcept {
  if (std::exchange(over_, true))
    return;
  why_ = why == errc::ok ? errc::closed : why;
  clock_.cancel();
  owner_.list(*this);
}

circuits::circuits(bus_id self, const circuit_options& options, next_hops& hops,
                   link_events& events, timer_queue& timers, const clock_source& clock,
                   random_source& random)
    : self_(self),
      options_(options),
      hops_(hops),
      events_(events),
      timers_(timers),
      clock_(clock),
      random_(random),
      chunks_(chunk_sizes) {}

circuits::~circuits() = default;

circuit& circuits::add(std::uint64_t number, bus_id peer, link_trust trust, bool accepted) {
  auto made = std::make_unique<circuit>(*this, number, peer, trust, accepted);
  for (auto* list : {&due_, &blocked_, &unflushed_, &turn_})
    list->reserve(all_.size() + 1);
  return *all_.emplace(number, std::move(made)).first->second;
}

link* circuits::open(bus_id to) {
  std::uint64_t number = 0;
  while (number == 0 || all_.contains(number))
    number = random_.word();
  circuit& made = add(number, to, hops_.trust_towards(to), false);
  made.open_due_ = true;
  list(made);
  return &made;
}

void circuits::list(circuit& of) noexcept {
  if (!std::exchange(of.listed_, true))
    due_.push_back(&of);
}

circuit* circuits::find(const routed_head& head) noexcept {
  if (last_found_ == nullptr || last_found_->number_ != head.circuit) [[unlikely]] {
    const auto found = all_.find(head.circuit);
    if (found == all_.end())
      return nullptr;
    last_found_ = found->second.get();
  }
  return last_found_->peer_ == head.source ? last_found_ : nullptr;
}

void circuits::say(bus_id to, std::uint64_t number, circuit_step step,
                   std::uint64_t what) noexcept {
  const routed_head head{
      .step = step, .destination = to, .source = self_, .circuit = number, .number = what};
  (void)hops_.pass_on(head, {});  // lost: it is asked again, or said again
}

void circuits::arrived(const routed_head& head, bytes_view message, link_trust from) {
  circuit* of = find(head);
  switch (head.step) {
    case circuit_step::carry:
      break;
    case circuit_step::expects:
      if (of != nullptr)
        of->expects(head.number);
      return;
    case circuit_step::misses:
      if (of != nullptr)
        of->misses(head.number);
      return;
    case circuit_step::failed:
      if (of != nullptr)
        of->failed(head.number, head.reason);
      return;
    case circuit_step::reached:
      return;  // of no circuit
    case circuit_step::ended:
      if (of != nullptr)
        of->end(errc::peer_closed);
      return;
  }
  const bytes_view inner = carried_by(message);
  if (of == nullptr) {
    const bool is_call = head.number == 1 && inner[0] == std::byte{1};  // message_kind::hello
    if (!is_call || unconfirmed_ >= unconfirmed_max || all_.contains(head.circuit))
      return say(head.source, head.circuit, circuit_step::ended, 1);
    of = &add(head.circuit, head.source, from, true);
    ++unconfirmed_;
    events_.opened(*of, true);
    if (closed_)
      return;
  }
  of->carried(head, inner, events_);
}

void circuits::writable() noexcept {
  writable_ = writable_ || !blocked_.empty();
}

void circuits::ways_changed() noexcept {
  writable();
  for (const auto& [number, one] : all_) {
    if (one->under_way_ != 0 && one->held_until_.count() == 0)
      one->clock_.set(clock_.now());
  }
}

void circuits::poll() {
  if (std::exchange(writable_, false)) {
    turn_.swap(blocked_);
    for (std::size_t i = 0; i != turn_.size(); ++i) {
      turn_[i]->blocked_ = false;
      turn_[i]->pump();
    }
    turn_.clear();
  }
  turn_.swap(due_);
  for (std::size_t i = 0; i != turn_.size(); ++i) {
    circuit* const one = turn_[i];
    one->listed_ = false;
    if (std::exchange(one->open_due_, false) && !one->over_)
      events_.opened(*one, false);
    if (closed_)
      return;
    const circuit_step owed = std::exchange(one->owed_, circuit_step::carry);
    if (owed != circuit_step::carry)
      one->answer_.cancel();
    if (owed != circuit_step::carry && !one->over_)
      say(one->peer_, one->number_, owed, one->expected_);
    const bool roomy = one->queue_.size() <= one->queue_.byte_limit() / 2;
    if (roomy && !one->over_ && std::exchange(one->wants_room_, false))
      events_.writable(*one);
    if (closed_)
      return;
    if (!one->over_)
      continue;
    if (one->why_ != errc::peer_closed)
      say(one->peer_, one->number_, circuit_step::ended, 1);
    events_.closed(*one, error{one->why_});
    if (closed_)
      return;
    if (one->accepted_ && !one->confirmed_)
      --unconfirmed_;
    if (one->listed_)
      std::erase(due_, one);
    if (one->blocked_)
      std::erase(blocked_, one);
    if (one->unflushed_)
      std::erase(unflushed_, one);
    if (last_found_ == one)
      last_found_ = nullptr;
    all_.erase(one->number_);
  }
  turn_.clear();
}

void circuits::flush() noexcept {
  for (std::size_t i = 0; i != unflushed_.size(); ++i) {
    unflushed_[i]->unflushed_ = false;
    unflushed_[i]->flush();
  }
  unflushed_.clear();
}

void circuits::close() noexcept {
  closed_ = true;
}

}  // namespace atbus::detail
