// The circuits of one node.
#include <algorithm>
#include <new>
#include <utility>

#include "node/route/circuit.h"

namespace atbus::detail {
namespace {

// Small chunks: each circuit holds one for as long as a control message is not released. And what all
// circuits of a node keep idle: about what the busiest one holds between two acknowledgements.
constexpr chunk_cache::options chunk_sizes{.chunk_bytes = 4 * 1024, .idle_bytes = 1024 * 1024};

}  // namespace

circuits::circuits(bus_id self, const circuit_options& options, next_hops& hops,
                   link_events& events, timer_queue& timers, const clock_source& clock,
                   random_source& random, const poll_progress& progress)
    : self_(self),
      options_(options),
      hops_(hops),
      events_(events),
      timers_(timers),
      clock_(clock),
      random_(random),
      progress_(progress),
      chunks_(chunk_sizes) {
  unconfirmed_.reserve(unconfirmed_max);
  if (!options_.secret.empty()) {
    sealed_.resize(batch_max);
    plain_.resize(batch_max);
  }
  const fork_pause no_fork;
  in_child_ = std::make_unique<child_guard>(*this);
}

circuits::~circuits() {
  const fork_pause no_fork;
  in_child_.reset();
}

circuit& circuits::add(std::uint64_t number, bus_id peer, link_trust trust, bool accepted) {
  auto made = std::make_unique<circuit>(*this, number, peer, trust, accepted);
  for (auto* list : {&due_, &blocked_, &unflushed_, &resting_, &turn_})
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

void circuits::list_rest(circuit& of) noexcept {
  if (!std::exchange(of.resting_, true))
    resting_.push_back(&of);
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

// Relays authenticate the source, so one node can't end the circuits of others until there are too many in
// total.
bool circuits::make_room_for_call(bus_id from) {
  if (accepted_ >= accepted_max) {
    ++refused_;
    events_.problem({errc::would_block, from.to_string() +
                                            " calls over other nodes and is refused: " +
                                            std::to_string(accepted_) + " others are here"});
    return false;
  }
  const auto is_of_caller = [from](const circuit* one) { return one->peer_ == from; };
  if (std::ranges::count_if(unconfirmed_, is_of_caller) >=
      static_cast<std::ptrdiff_t>(unconfirmed_of_one_max)) {
    (*std::ranges::find_if(unconfirmed_, is_of_caller))->end(errc::timed_out);
  } else if (unconfirmed_.size() >= unconfirmed_max) {
    unconfirmed_.front()->end(errc::timed_out);
  }
  return true;
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
    case circuit_step::traced:
      return;  // of no circuit
    case circuit_step::ended:
      if (of != nullptr)
        of->end(errc::peer_closed);
      return;
  }
  std::optional<batch_cipher> with;
  const std::optional<bytes_view> opened = open_batch(head, carried_by(message), of, with);
  if (!opened)
    return refuse_batch(head, of != nullptr);
  const bytes_view batch = *opened;
  if (of != nullptr && from == link_trust::unproven)
    of->trust_ = from;  // which is looked at while the other end registers
  if (of == nullptr) {
    const bool is_call = head.number == 1 && head.messages != 0 &&
                         batch[frame_header_size] == std::byte{1};  // hello
    if (!is_call || all_.contains(head.circuit) || !make_room_for_call(head.source))
      return say(head.source, head.circuit, circuit_step::ended, 1);
    of = &add(head.circuit, head.source, from, true);
    of->in_cipher_ = std::move(with);
    unconfirmed_.push_back(of);
    ++accepted_;
    events_.opened(*of, true);
    if (closed_)
      return;
  }
  of->carried(head, batch);
}

std::optional<bytes_view> circuits::open_batch(const routed_head& head, bytes_view batch,
                                               circuit* of, std::optional<batch_cipher>& with) {
  if (options_.secret.empty())
    return batch;
  // What is left holds a whole message, as in each batch that is not encrypted.
  if (batch.size() < batch_cipher::overhead + frame_size(message_head_size))
    return std::nullopt;
  std::optional<batch_cipher>& used = of != nullptr && of->in_cipher_ ? of->in_cipher_ : with;
  if (!used)
    used = batch_cipher::make(options_.secret, head, batch_cipher::salt_of(batch));
  if (!used)
    throw std::bad_alloc{};
  if (!used->open(head, batch, plain_.data()))
    return std::nullopt;
  if (of != nullptr && !of->in_cipher_)
    of->in_cipher_ = std::move(with);
  return bytes_view{plain_.data(), batch.size() - batch_cipher::overhead};
}

void circuits::refuse_batch(const routed_head& head, bool is_known) {
  events_.problem({errc::denied, head.source.to_string() +
                                     " sends over other nodes what was not encrypted with the " +
                                     "secret of this node's circuits, or was changed on its way"});
  if (is_known)
    return;  // the right one may come yet
  const routed_head answer{.step = circuit_step::failed,
                           .reason = errc::denied,
                           .destination = head.source,
                           .source = self_,
                           .circuit = head.circuit,
                           .number = head.number};
  (void)hops_.pass_on(answer, {});
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

void circuits::tell_rests() {
  while (!closed_ && !resting_.empty() && !progress_.is_enough()) {
    circuit* const one = resting_.front();
    const auto has_rest = [one] { return one->listens() && !one->rest_.empty(); };
    if (has_rest())
      one->hand_up(one->rest_);
    if (closed_ || has_rest())
      return;
    one->resting_ = false;
    std::erase(resting_, one);
  }
}

void circuits::tell_due() {
  if (closed_)
    return;
  if (std::exchange(writable_, false)) {
    turn_.swap(blocked_);
    for (std::size_t i = 0; i != turn_.size(); ++i) {
      turn_[i]->blocked_ = false;
      turn_[i]->pump();
    }
    turn_.clear();
  }
  turn_.swap(due_);
  // What is thrown leaves the rest for the next call, and the one it is about unless that is gone.
  struct rest {
    circuits& of;
    std::size_t at = 0;
    bool is_gone = false;
    ~rest() {
      if (of.closed_)
        return;
      if (at != of.turn_.size() && (is_gone || std::exchange(of.turn_[at]->listed_, true)))
        ++at;  // gone, or listed again already
      for (; at < of.turn_.size(); ++at)
        of.due_.push_back(of.turn_[at]);
      of.turn_.clear();
    }
  } left{*this};
  for (; left.at != turn_.size(); ++left.at, left.is_gone = false) {
    circuit* const one = turn_[left.at];
    one->listed_ = false;
    if (one->open_due_ && !one->over_)
      events_.opened(*one, false);
    if (closed_)
      return;
    one->open_due_ = false;
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
    struct last_word {
      circuits& owner;
      circuit& of;
      ~last_word() {
        if (!owner.closed_)
          owner.remove(of);
      }
    } const end{*this, *one};
    left.is_gone = true;
    events_.closed(*one, error{one->why_});
    if (closed_)
      return;
  }
}

void circuits::remove(circuit& gone) noexcept {
  accepted_ -= gone.accepted_ ? 1 : 0;
  if (gone.listed_)
    std::erase(due_, &gone);
  if (gone.blocked_)
    std::erase(blocked_, &gone);
  if (gone.unflushed_)
    std::erase(unflushed_, &gone);
  if (gone.resting_)
    std::erase(resting_, &gone);
  if (last_found_ == &gone)
    last_found_ = nullptr;
  all_.erase(gone.number_);
}

void circuits::send_unflushed() noexcept {
  if (closed_)
    return;
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
