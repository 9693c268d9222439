#include "testing/simulated_link.h"

#include <algorithm>
#include <utility>

#include "testing/simulated_inbox.h"

namespace atbus::detail {
namespace {

constexpr std::size_t frame_head = 8;
// As stream_transport's: data never fills it.
constexpr std::size_t control_reserve = 16 * 1024;

std::size_t size_of(const std::vector<std::byte>& message) noexcept {
  return frame_head + message.size();
}

void drop_finished(simulated_way& of) noexcept {
  while (!of.queue.empty() && of.first < of.released && of.first < of.handled) {
    of.queue.pop_front();
    ++of.first;
  }
}

}  // namespace

void simulated_wire::lose_some(simulated_network& net, std::size_t from) {
  simulated_way& way = ways[from];
  way.lost_from = std::min(way.lost_from, way.arrived + net.draw(way.written - way.arrived + 1));
}

void simulated_wire::tell_end(simulated_network& net, std::size_t end,
                              std::chrono::nanoseconds delay, errc why) {
  if (ends[end] == nullptr)
    return;
  // The wire lives for as long as one of its ends does, or something is on its way.
  net.at(moment_after(net.now(), delay), [wire = ends[end]->wire_, end, why] {
    simulated_link* const at = wire->ends[end];
    if (at == nullptr || at->end_seen_)
      return;
    at->end_seen_ = true;
    at->why_ = why;
    at->in().lost_from = std::min(at->in().lost_from, at->in().arrived);
    at->owner_.look_at(*at);
  });
}

simulated_link::simulated_link(simulated_transport& owner, std::shared_ptr<simulated_wire> wire,
                               std::size_t end)
    : owner_(owner),
      wire_(std::move(wire)),
      end_(end),
      queue_size_(std::min(owner.process_.queue_size, owner.net_.conditions.queue_size)),
      kernel_holds_(owner.net_.conditions.kernel_holds),
      message_limit_(owner.process_.message_limit) {
  wire_->ends[end_] = this;
}

simulated_link::~simulated_link() {
  leave_wire();
}

link_trust simulated_link::trust() const noexcept {
  switch (wire_->kind) {
    case link_kind::memory:
      return link_trust::same_process;
    case link_kind::tcp:
      return link_trust::unproven;
    default:
      return link_trust::same_user;
  }
}

// All simulated hosts have the address ::, and all processes there belong to root.
link_origin simulated_link::origin() const {
  return {.where = wire_->kind == link_kind::tcp ? link_origin::place::network
                                                 : link_origin::place::host};
}

std::string simulated_link::peer() const {
  return end_ == 0 ? wire_->to : "a caller of " + wire_->to;
}

std::byte* simulated_link::claim(std::size_t length, message_purpose purpose,
                                 status& why) noexcept {
  const foreign_code here;
  const auto refuse = [&](errc code) -> std::byte* {
    why = code;
    return nullptr;
  };
  slot_.clear();
  if (ended_ || closing_ || over_)
    return refuse(errc::closed);
  if (length > message_limit_)
    return refuse(errc::message_too_large);
  // As in channels: the longest message always finds room beside what is half released, and control
  // messages have a reserve beyond all data.
  const bool is_control = purpose == message_purpose::control;
  const std::size_t size = frame_head + length;
  const std::size_t longest = is_control ? frame_head + message_limit_ : size;
  const std::size_t most =
      std::max(queue_size_, longest + queue_size_ / 2) + (is_control ? control_reserve : 0);
  if (out().queued_bytes + size > most) {
    waits_ = true;
    return refuse(errc::would_block);
  }
  slot_.resize(std::max<std::size_t>(length, 1));
  return slot_.data();
}

std::size_t simulated_link::share() const noexcept {
  return queued() <= queue_size_ / 2 ? queue_size_ / 4 : 0;
}

bool simulated_link::commit(std::size_t length) noexcept {
  const foreign_code here;
  if (!has_claim())
    return false;
  simulated_way& way = out();
  slot_.resize(length);
  if (owner_.net_.watcher != nullptr)
    owner_.net_.watcher->committed(whereabouts(), slot_);
  way.queued_bytes += size_of(slot_);
  way.queue.push_back(std::exchange(slot_, {}));
  ++way.committed;
  if (keeps())
    owner_.flush_later(*this);
  else
    flush();
  return true;
}

void simulated_link::flush() noexcept {
  const foreign_code here;
  simulated_way& way = out();
  if (ended_ || over_)
    return;
  const std::uint64_t before = way.written;
  while (way.written < way.committed) {
    const std::size_t size = size_of(way.at(way.written));
    if (keeps() && way.under_way_bytes != 0 && way.under_way_bytes + size > kernel_holds_)
      break;
    way.under_way_bytes += size;
    ++way.written;
  }
  simulated_network& net = owner_.net_;
  if (way.written != before) {
    way.last_arrival =
        std::max(way.last_arrival, net.now() + net.draw_delay() / (keeps() ? 1 : 16));
    net.at(way.last_arrival, [wire = wire_, from = end_, upto = way.written] {
      simulated_way& of = wire->ways[from];
      of.arrived = std::max(of.arrived, std::min(upto, of.lost_from));
      const simulated_inbox* const inbox = wire->inboxes[1 - from];
      if (simulated_link* const reader = wire->ends[1 - from]; reader != nullptr)
        reader->owner_.look_at(*reader);
      else if (inbox != nullptr && inbox->holder != nullptr)
        inbox->holder->wake_();
    });
  }
  if (closing_ && !goodbye_ && keeps() && way.written == way.committed) {
    goodbye_ = true;
    if (!wire_->cut) {
      const auto delay = std::max(way.last_arrival - net.now(), net.draw_delay());
      wire_->tell_end(net, 1 - end_, delay, errc::peer_closed);
    }
  }
}

void simulated_link::release(std::uint64_t messages) noexcept {
  const foreign_code here;
  if (keeps())  // a lane is told by its reader
    let_go(messages);
}

void simulated_link::let_go(std::uint64_t messages) noexcept {
  simulated_way& way = out();
  for (; messages != 0 && way.released < way.committed; --messages) {
    const std::vector<std::byte>& message = way.at(way.released++);
    way.queued_bytes -= size_of(message);
    if (owner_.net_.watcher != nullptr)
      owner_.net_.watcher->released(whereabouts(), message);
  }
  drop_finished(way);
  if (waits_ && way.queued_bytes <= queue_size_ / 2) {
    waits_ = false;
    roomy_ = true;
    owner_.look_at(*this);
  }
}

bool simulated_link::settled() const noexcept {
  return (keeps() ? out().released : out().handled) == out().committed;
}

void simulated_link::take_unreleased(const std::function<void(bytes_view, errc)>& each) {
  simulated_way& way = out();
  // Who reads a lane says what it has begun, unless it lives and may be at it.
  const bool is_ours =
      !keeps() &&
      (way.dropped || (wire_->process_gone[1 - end_] && !(inbox_there() && inbox_there()->holder)));
  if (is_ours)
    way.dropped = true;
  // What is handled in a lane that this end has left already is not released here.
  const std::uint64_t first = keeps() ? way.released : std::max(way.released, way.handled);
  for (std::uint64_t number = way.released; owner_.net_.watcher != nullptr && number < first;
       ++number)
    owner_.net_.watcher->released(whereabouts(), way.at(number));
  for (std::uint64_t number = first; number < way.committed; ++number) {
    const bool seen = keeps()   ? number < way.written
                      : is_ours ? way.begun && number == way.handled
                                : true;
    const errc fate = seen ? errc::outcome_unknown : errc::not_delivered;
    if (owner_.net_.watcher != nullptr)
      owner_.net_.watcher->taken_back(whereabouts(), way.at(number), fate);
    each(way.at(number), fate);
  }
}

void simulated_link::visit_unhandled(const std::function<void(bytes_view)>& each) const {
  const simulated_way& way = out();
  for (std::uint64_t number = std::max(way.released, way.handled);
       !keeps() && number < way.committed; ++number)
    each(way.at(number));
}

void simulated_link::resume() noexcept {
  const foreign_code here;
  if (std::exchange(paused_, false))
    owner_.look_at(*this);
}

void simulated_link::close(std::chrono::nanoseconds linger) noexcept {
  const foreign_code here;
  if (ended_ || std::exchange(closing_, true))
    return;
  paused_ = false;
  slot_.clear();
  owner_.net_.timer(moment_after(owner_.net_.now(), linger), [wire = wire_, end = end_] {
    if (wire->ends[end] != nullptr)
      wire->ends[end]->end_now(errc::timed_out);
  });
  flush();
  owner_.look_at(*this);
}

void simulated_link::abort() noexcept {
  const foreign_code here;
  end_now(errc::closed);
}

void simulated_link::end_now(errc why) noexcept {
  if (std::exchange(ended_, true))
    return;
  slot_.clear();
  why_ = why;
  leave_wire();
  owner_.look_at(*this);
}

void simulated_link::leave_wire() noexcept {
  if (wire_->ends[end_] != this)
    return;
  wire_->ends[end_] = nullptr;
  if (!keeps() && !wire_->process_gone[end_])
    in().dropped = true;
  if (wire_->cut || goodbye_)
    return;
  simulated_network& net = owner_.net_;
  if (keeps() && net.draw(2) == 0)
    wire_->lose_some(net, end_);
  wire_->tell_end(net, 1 - end_, std::max(out().last_arrival - net.now(), net.draw_delay()),
                  errc::peer_closed);
}

bool simulated_link::is_due() const noexcept {
  const bool reads = open_ && !paused_ && !has_read_all();
  const bool end_reached = end_seen_ && !left_ && !paused_ && has_read_all();
  return !over_ && (ended_ || open_due_ || reads || roomy_ || recall_due_ || return_due_ ||
                    end_reached || (closing_ && !keeps() && settled()));
}

void simulated_wire::handled_one(std::size_t reader) noexcept {
  simulated_way& way = ways[1 - reader];
  way.under_way_bytes -= size_of(way.at(way.handled++));
  simulated_link* const writer = ends[1 - reader];
  if (keeps()) {
    drop_finished(way);
    if (writer != nullptr && way.written < way.committed) {
      writer->owner_.flush_later(*writer);
      writer->owner_.wake_();
    }
  } else if (writer != nullptr) {
    writer->let_go(1);
    if (writer->closing_)
      writer->owner_.look_at(*writer);
  }
}

simulated_dispatch::~simulated_dispatch() {
  if (is_left_)
    return;
  if (by_.closed_ && !wire_.keeps() && by_.net_.draw(2) == 0)
    wire_.ways[1 - reader_].begun = true;
  else
    wire_.handled_one(reader_);
}

std::size_t simulated_link::tell_messages(link_events& events, std::size_t most) {
  std::size_t count = 0;
  while (count < most && !has_read_all() && !ended_ && !paused_ && !owner_.closed_ &&
         (count == 0 || !owner_.poll_ends_)) {
    ++count;
    simulated_dispatch handled{owner_, *wire_, end_};  // also if the handler throws
    if (!events.received(*this, in().at(in().handled), false) && !wire_->keeps())
      handled.leave();
  }
  return count;
}

error simulated_link::reason_of_end() const {
  if (closing_ && !ended_ && out().written == out().committed)
    return {};
  const errc why = why_ == errc::ok ? errc::closed : why_;
  return why == errc::not_found ? error{why, wire_->to + ": nothing listens there"} : error{why};
}

std::size_t simulated_link::tell(link_events& events, std::size_t most) {
  if (over_)
    return 0;  // its node has thrown when it was told so
  std::size_t count = 0;
  if (open_due_ && !ended_) {
    open_due_ = false;
    open_ = true;
    events.opened(*this, end_ == 1);
  }
  if (std::exchange(return_due_, false) && !ended_) {
    left_ = recalled_ = false;
    events.returned(*this);
  }
  if (open_ && !owner_.closed_)
    count = tell_messages(events, most);
  if (owner_.closed_)
    return count;
  if (std::exchange(roomy_, false) && open_ && !ended_ && !closing_) {
    events.writable(*this);
    if (owner_.closed_)
      return count;
  }
  if (std::exchange(recall_due_, false) && left_ && !ended_ && !closing_) {
    tell_recalling(events);
    return count;
  }
  const bool lane_done = closing_ && !keeps() && settled();
  const bool end_reached = end_seen_ && !left_ && !paused_ && has_read_all();
  if (!ended_ && end_reached && is_left_behind()) {
    tell_left(events);
    return count;
  }
  if (!ended_ && !end_reached && !lane_done)
    return count;
  over_ = true;
  events.closed(*this, reason_of_end());
  if (!owner_.closed_)
    leave_wire();
  return count;
}

}  // namespace atbus::detail
