#include "testing/simulated_inbox.h"

#include <algorithm>
#include <utility>

namespace atbus::detail {
namespace {

// The longest delay until a sender sees that another process holds the inbox.
constexpr std::chrono::nanoseconds look_for_successor_within = std::chrono::milliseconds{250};

}  // namespace

void simulated_inbox::keep(std::shared_ptr<simulated_wire> wire, std::size_t reader) {
  lanes.push_back({std::move(wire), reader});
}

void simulated_inbox::open(simulated_transport& by) {
  holder = &by;
  for (const lane& one : lanes) {
    if (simulated_link* const writer = one.wire->ends[1 - one.reader]; writer != nullptr)
      writer->look_for_successor();
  }
}

void simulated_inbox::close() {
  holder = nullptr;
  for (const lane& one : lanes)
    one.wire->called = false;
}

std::size_t simulated_inbox::inherit(const lane& from, link_events& events, std::size_t most) {
  simulated_way& way = from.wire->ways[1 - from.reader];
  std::size_t count = 0;
  while (count < most && way.handled < way.committed && !way.dropped && holder != nullptr &&
         (count == 0 || !holder->poll_ends_)) {
    if (!way.note || way.note_by != holder->self_) {  // their source or destination is unknown
      drop(from);
      break;
    }
    ++count;
    const bool again = std::exchange(way.begun, false);
    bool is_handled = false;
    {
      simulated_dispatch handled{*holder, *from.wire, from.reader};
      const bool awaited = from.wire->ends[1 - from.reader] != nullptr;
      is_handled = events.inherited(*way.note, way.at(way.handled), again, awaited);
      if (!is_handled)
        handled.leave();
    }
    if (is_handled)
      continue;
    way.begun = again;  // it is in doubt still
    if (holder != nullptr)
      drop(from);
  }
  return count;
}

void simulated_inbox::drop(const lane& from) {
  from.wire->ways[1 - from.reader].dropped = true;
  if (simulated_link* const writer = from.wire->ends[1 - from.reader]; writer != nullptr)
    writer->end_now(errc::peer_closed);
}

void simulated_inbox::answer(const lane& from) {
  simulated_link& caller = *from.wire->ends[1 - from.reader];
  auto fresh = std::make_shared<simulated_wire>();
  fresh->kind = from.wire->kind;
  fresh->to = from.wire->to;
  fresh->inboxes = {from.wire->inboxes[1 - from.reader], this};
  fresh->who[0] = caller.owner_.instance_;
  caller.take_over(fresh);
  simulated_link& accepted = holder->add(fresh, 1);
  accepted.open_due_ = true;
  holder->look_at(accepted);
}

std::size_t simulated_inbox::tell(link_events& events, std::size_t most) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < lanes.size() && holder != nullptr;) {
    const lane one = lanes[i];
    count += inherit(one, events, holder->poll_ends_ ? 0 : most - count);
    if (holder == nullptr)
      break;
    const simulated_way& way = one.wire->ways[1 - one.reader];
    const bool empty = way.dropped || way.handled == way.committed;
    const simulated_link* const writer = one.wire->ends[1 - one.reader];
    if (empty && writer != nullptr && one.wire->called)
      answer(one);
    else if (!empty || (writer != nullptr && !way.dropped)) {
      ++i;
      continue;
    }
    lanes.erase(lanes.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return count;
}

bool simulated_inbox::is_due() const noexcept {
  return std::any_of(lanes.begin(), lanes.end(), [](const lane& one) {
    const simulated_way& way = one.wire->ways[1 - one.reader];
    return !way.dropped && (way.handled < way.committed || one.wire->called);
  });
}

// --- the other end of such a lane

bool simulated_link::is_left_behind() const noexcept {
  return open_ && !closing_ && inbox_there() != nullptr && wire_->process_gone[1 - end_];
}

bool simulated_link::has_successor() const noexcept {
  return (recalled_ || left_) && inbox_there() != nullptr && inbox_there()->holder != nullptr;
}

void simulated_link::tell_left(link_events& events) {
  left_ = true;
  if (owner_.net_.watcher != nullptr)
    owner_.net_.watcher->left_behind(whereabouts());
  look_for_successor();
  events.left(*this);
}

void simulated_link::look_for_successor() {
  simulated_network& net = owner_.net_;
  const std::chrono::nanoseconds late{
      net.draw(static_cast<std::uint64_t>(look_for_successor_within.count()))};
  net.at(net.now() + late, [wire = wire_, end = end_] {
    simulated_link* const at = wire->ends[end];
    if (at == nullptr || !at->left_ || at->inbox_there()->holder == nullptr)
      return;
    at->recall_due_ = true;
    at->owner_.look_at(*at);
  });
}

void simulated_link::tell_recalling(link_events& events) {
  if (inbox_there()->holder == nullptr)
    return;
  recalled_ = true;
  events.recalling(*this);
  if (ended_ || closing_ || inbox_there()->holder == nullptr)
    return;
  wire_->called = true;
  inbox_there()->holder->wake_();
}

// All that was committed before the call is handled: nothing of the old wire is needed any more.
void simulated_link::take_over(std::shared_ptr<simulated_wire> fresh) {
  wire_->ends[end_] = nullptr;
  wire_ = std::move(fresh);
  end_ = 0;
  wire_->ends[end_] = this;
  end_seen_ = recall_due_ = false;  // a second call would be the fresh wire's
  simulated_network& net = owner_.net_;
  const std::chrono::nanoseconds back = net.now() + net.draw_delay() / 16;
  in().last_arrival = back;
  net.at(back, [wire = wire_] {
    simulated_link* const at = wire->ends[0];
    if (at == nullptr)
      return;
    at->return_due_ = true;
    at->owner_.look_at(*at);
  });
}

}  // namespace atbus::detail
