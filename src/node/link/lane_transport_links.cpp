// The part of a lane_transport that pairs lanes and ends links.
#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "atbus/clock.hpp"
#include "atbus/inspect.hpp"
#include "channel/shm/segment.h"
#include "core/error_text.h"
#include "node/link/lane_link.h"
#include "node/link/lane_transport.h"
#include "system/random.h"

namespace atbus::detail {
namespace {

constexpr std::chrono::nanoseconds look_interval = std::chrono::milliseconds{10};
// The longest interval between checks whether another process holds the inbox of a dead process.
constexpr std::chrono::nanoseconds look_for_successor = std::chrono::milliseconds{250};

bool is_wrong_address(const error& e) {
  return e == errc::invalid_address || e == errc::invalid_name || e == errc::not_supported ||
         e == errc::invalid_argument;
}

}  // namespace

// --- opening

lane_link& lane_transport::add(inbox& own, std::string peer) {
  const std::size_t room = std::bit_ceil(links_.size() + 1);
  for (std::vector<lane_link*>* const list : {&watched_, &waiting_, &unpublished_, &due_})
    list->reserve(room);
  links_.push_back(std::make_unique<lane_link>(*this, own, std::move(peer), links_.size()));
  return *links_.back();
}

result<link*> lane_transport::connect(const address& to) {
  const std::string text = to.to_string();
  if (to.kind() != address_kind::mem && to.kind() != address_kind::shm)
    return error{errc::not_supported, text + ": links over lanes are at shm:// or mem://"};
  if (to.name().empty())
    return error{errc::invalid_address, text + ": it names no segment"};
  if (closed_)
    return error{errc::closed, text + ": the transport is closed"};
  auto own = own_inbox(to.kind());
  if (!own)
    return own.error();
  sender_options options;
  options.directory = options_.directory;
  auto opened = sender::open(text, options);
  if (!opened && is_wrong_address(opened.error()))
    return opened.error();
  lane_link& made = add(**own, text);
  if (!opened) {
    end(made, std::move(opened).error());
    return &made;
  }
  made.out_.emplace(std::move(*opened));
  made.generation_ = made.out_->receiver_generation();
  if (made.generation_ == 0) {
    end(made, error_at(errc::not_found, text, "no receiver is there now"));
  } else {
    made.phase_ends_at_ = moment_after(now(), options_.connect_timeout);
    watch(made, look_for_successor);
    call(made);
  }
  return &made;
}

// Writes a call, behind the messages that wait in the lane.
void lane_transport::call(lane_link& of) {
  of.token_ = std::max<std::uint64_t>(random_word(), 1);
  const auto bytes = to_bytes({.kind = pairing_kind::call,
                               .durable = of.own_.durable,
                               .token = of.token_,
                               .address = of.own_.in.address()});
  const status sent = of.out_->send(bytes);
  of.call_due_ = sent == errc::would_block;
  if (of.call_due_)
    return wait_for_room(of);
  wait_no_more(of);
  if (!sent)
    end(of, {errc::peer_closed, of.peer() + ": it takes no call, " + status{sent}.text()});
}

void lane_transport::called(inbox& from, const received_message& message,
                            const pairing_record& call) {
  if (lane_link* const before = from.lanes[message.lane].link) {
    before->own_.lanes[message.lane] = {};
    before->session_ = 0;
    end(*before, error_at(errc::peer_closed, before->peer_, "it has begun anew"));
  }
  const auto where = address::parse(call.address);
  if (!where || where->kind() != from.where.kind() || where->name().empty())
    return refuse(from, message.lane, "it can't be answered where it says");
  sender_options options;
  options.directory = options_.directory;
  auto back = sender::open(call.address, options);
  const auto answer = to_bytes(
      {.kind = pairing_kind::answer, .durable = from.durable, .token = call.token, .address = {}});
  if (!back || !back->send(answer)) {
    return refuse(from, message.lane,
                  back ? call.address + " takes no answer" : back.error().text());
  }
  lane_link& made = add(from, where->to_string());
  made.out_.emplace(std::move(*back));
  made.generation_ = made.out_->receiver_generation();
  made.peer_durable_ = call.durable;
  made.now_ = lane_link::phase::open;
  attach(made, message.lane, message.session);
  events_->opened(made, true);
}

void lane_transport::answered(inbox& from, const received_message& message,
                              const pairing_record& answer) {
  const auto at = std::find_if(watched_.begin(), watched_.end(), [&](const lane_link* of) {
    return of->token_ == answer.token && &of->own_ == &from && !of->has_lane() &&
           (of->now_ == lane_link::phase::calling || of->now_ == lane_link::phase::recalling);
  });
  if (from.lanes[message.lane].link != nullptr)
    return refuse(from, message.lane, "it answers again");
  if (at == watched_.end())
    return from.in.drop(message.lane);  // the caller has given up
  lane_link& of = **at;
  const bool again = of.now_ == lane_link::phase::recalling;
  of.peer_durable_ = answer.durable;
  of.now_ = lane_link::phase::open;
  unwatch(of);
  attach(of, message.lane, message.session);
  if (again)
    events_->returned(of);
  else
    events_->opened(of, false);
}

void lane_transport::attach(lane_link& of, std::uint32_t lane, std::uint64_t session) {
  of.lane_ = lane;
  of.session_ = session;
  of.own_.lanes[lane] = {&of, session};
  if (of.paused_)
    of.own_.in.pause(lane);
}

// --- ending

// Called after all messages of the lane have been handed out.
void lane_transport::lane_ended(lane_link& of) noexcept {
  of.own_.lanes[of.lane_] = {};
  of.session_ = 0;
  if (of.now_ == lane_link::phase::closing)
    return end(of, {});
  of.now_ = lane_link::phase::ending;
  of.phase_ends_at_ = now() + dying_time;
  judge_end(of);
}

void lane_transport::judge_end(lane_link& of) noexcept {
  if (!of.out_->look())
    return end(of, error_at(errc::peer_closed, of.peer_, "the other end has closed the link"));
  const bool lives = of.generation_ != 0 && of.out_->receiver_generation() == of.generation_;
  if (lives && now() < of.phase_ends_at_)
    return watch(of, look_interval);
  if (!lives && of.peer_durable_) {
    of.now_ = lane_link::phase::left;
    of.left_due_ = true;
    due(of);
    return watch(of, look_interval);
  }
  of.orphaned_ = !lives;
  end(of, error_at(errc::peer_closed, of.peer_, "the process at the other end has ended"));
}

// Polls conditions that cause no event.
void lane_transport::tend(lane_link& of) {
  using phase = lane_link::phase;
  switch (of.now_) {
    case phase::calling:
      if (!of.out_->look() || of.out_->receiver_generation() != of.generation_)
        return end(of, error_at(errc::peer_closed, of.peer_,
                                "it has ended before it answered, or found no free lane for its "
                                "answer here"));
      if (now() >= of.phase_ends_at_)
        return end(of, error_at(errc::timed_out, of.peer_, "no answer within the connect timeout"));
      return watch(of, look_for_successor);
    case phase::ending:
      return judge_end(of);
    case phase::left:
    case phase::recalling: {
      if (!of.out_->look())
        return end(of, error_at(errc::peer_closed, of.peer_, "its inbox was removed"));
      const std::uint64_t held_by = of.out_->receiver_generation();
      // Again also where there was no room for the call, and no memory when there was.
      if (held_by != 0 && (held_by != of.generation_ || of.call_due_)) {
        of.now_ = phase::recalling;
        events_->recalling(of);
        call(of);
        of.generation_ = held_by;  // without memory it is called at the next look
      }
      if (of.now_ != phase::closed)
        watch(of, std::min(2 * of.look_again_in_, look_for_successor));
      return;
    }
    case phase::closing:
      if (of.settled())
        return end(of, {});
      if (now() >= of.phase_ends_at_)
        return end(of, error_at(errc::timed_out, of.peer_, "the linger time is over"));
      return watch(of, of.look_again_in_);
    case phase::open:
    case phase::closed:
      return unwatch(of);
  }
}

void lane_transport::tend_watched() {
  const auto time = now();
  for (std::size_t i = watched_.size(); i-- != 0;) {
    if (i < watched_.size() && watched_[i]->look_again_at_ <= time)
      tend(*watched_[i]);
  }
}

void lane_transport::end(lane_link& of, error why) noexcept {
  if (of.now_ == lane_link::phase::closed)
    return;
  of.claimed_.reset();
  of.flush();
  if (of.has_lane()) {
    of.own_.in.drop(of.lane_);
    of.own_.lanes[of.lane_] = {};
    of.session_ = 0;
  }
  unwatch(of);
  wait_no_more(of);
  of.now_ = lane_link::phase::closed;
  of.why_ = std::move(why);
  due(of);
}

void lane_transport::due(lane_link& of) noexcept {
  if (std::find(due_.begin(), due_.end(), &of) == due_.end())
    due_.push_back(&of);
}

void lane_transport::tell_due() {
  // Links that handlers end meanwhile have to wait for the next poll.
  for (std::size_t left = due_.size(); left != 0 && !closed_; --left) {
    lane_link& of = *due_.front();
    due_.erase(due_.begin());
    if (of.now_ != lane_link::phase::closed) {
      if (std::exchange(of.left_due_, false))
        events_->left(of);
      continue;
    }
    struct last_word {
      lane_transport& owner;
      lane_link& of;
      ~last_word() {
        const std::size_t index = of.index_;
        const bool clean = of.orphaned_ && of.kind() == link_kind::shared_memory;
        const std::string peer = std::move(of.peer_);
        owner.links_.back()->index_ = index;
        std::swap(owner.links_[index], owner.links_.back());
        owner.links_.pop_back();  // its sender holds a lane there
        if (!clean)
          return;
        try {
          (void)clean_segment(address::parse(peer)->name(),
                              {.directory = owner.options_.directory});
        } catch (const std::bad_alloc&) {  // its next incarnation removes it
        }
      }
    } const guard{*this, of};
    events_->closed(of, of.why_);
  }
}

// --- waiting

void lane_transport::watch(lane_link& of, std::chrono::nanoseconds again_in) noexcept {
  of.look_again_in_ = again_in;
  of.look_again_at_ = now() + again_in;
  if (std::find(watched_.begin(), watched_.end(), &of) == watched_.end())
    watched_.push_back(&of);
}

void lane_transport::unwatch(lane_link& of) noexcept {
  std::erase(watched_, &of);
}

void lane_transport::wait_for_room(lane_link& of) noexcept {
  if (std::find(waiting_.begin(), waiting_.end(), &of) != waiting_.end())
    return;
  waiting_.push_back(&of);
  epoll_event interest{.events = EPOLLIN, .data = {}};
  if (kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, of.out_->descriptor(), &interest) != 0)
    room_unwatched_ = true;
}

void lane_transport::wait_no_more(lane_link& of) noexcept {
  if (std::erase(waiting_, &of) == 0)
    return;
  if (waiting_.empty())
    room_unwatched_ = false;
  of.out_->finish_sleep();
  (void)kernel().epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, of.out_->descriptor(), nullptr);
}

void lane_transport::tell_writable() {
  for (std::size_t i = waiting_.size(); i-- != 0;) {
    if (i >= waiting_.size())
      continue;
    lane_link& of = *waiting_[i];
    if (!of.out_->poll_writable())
      continue;
    wait_no_more(of);
    if (of.call_due_)
      call(of);
    else
      events_->writable(of);
  }
}

}  // namespace atbus::detail
