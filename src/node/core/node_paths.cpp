// Which link a peer's messages take, what a lost one leaves, and dialling.
#include <algorithm>
#include <cstring>
#include <utility>

#include "node/core/node_core.h"

namespace atbus::detail {
namespace {

// Better ways that one peer may offer; more are not tried.
constexpr std::size_t offers_max = 8;

// Whether an event of the link will tell when to try again: that there is room, or that it has ended. In a
// forked child nothing is to be said of the parent's messages.
constexpr bool passes(const status& refusal) noexcept {
  return refusal == errc::would_block || refusal == errc::closed ||
         refusal == errc::used_after_fork;
}

}  // namespace

peer* node_core::find(bus_id id) noexcept {
  if (last_found_ != nullptr && last_found_->id == id) [[likely]]
    return last_found_;
  const auto found = peers_.find(id.value());
  if (found == peers_.end())
    return nullptr;
  if (!is_client())  // which sends commands only
    last_found_ = found->second.get();
  return found->second.get();
}

peer* node_core::find(const node_instance& who) noexcept {
  if (is_client() || who.id != bus_id{})
    return find(known_as(who.id));
  const auto found =
      std::ranges::find(clients_, who, [](const auto& one) { return one->instance; });
  return found != clients_.end() ? found->get() : nullptr;
}

peer& node_core::find_or_make(const node_instance& who) {
  if (is_client() || who.id != bus_id{})
    return find_or_make(known_as(who.id));
  peer* const known = find(who);
  return known != nullptr ? *known : *clients_.emplace_back(make_peer(who.id));
}

peer& node_core::find_or_make(bus_id id) {
  if (peer* const known = find(id); known != nullptr)
    return *known;
  return *peers_.emplace(id.value(), make_peer(id)).first->second;
}

std::unique_ptr<peer> node_core::make_peer(bus_id id) {
  auto made = std::make_unique<peer>(id, numbers_used_, timers_);
  peer& of = *made;
  const auto own = policies_.find(id.value());
  of.policy = own != policies_.end()
                  ? own->second
                  : peer_policy{options_.overflow(), options_.message_deadline()};
  of.forget.replace([this, &of] {
    log(of.id.to_string() + " has not come back");
    give_up(of, errc::peer_closed);
  });
  of.expiry.replace([this, &of] {
    of.out.expire(on_.clock.now(), [this, &of](held_message&& what, errc reason) {
      ++stats_.deadline_drops;
      reporter(of)(std::move(what), reason);
    });
    if (const auto next = of.out.earliest_deadline())
      of.expiry.set(*next);
    drain(of);  // there may be room for more
  });
  return made;
}

// The reason mostly begins with where.
std::string node_core::at_place(const std::string& where, const error& why) {
  const std::string text = why.text();
  return text.starts_with(where) ? text : where + ": " + text;
}

error node_core::start_dial(std::list<dial>& among, peer* of, std::optional<address> to,
                            bool offered) {
  dial& fresh = among.emplace_back(of, timers_, std::move(to), offered);
  fresh.again.replace([this, &fresh] {
    if (error bad = dial_now(fresh); !bad) {
      if (std::exchange(fresh.told, bad.code()) != bad.code())
        log("no connection to " + at_place(fresh.where(), bad));
      dial_again(fresh);
    }
  });
  try {
    error bad = dial_now(fresh);
    if (!bad)
      among.pop_back();
    return bad;
  } catch (const std::bad_alloc&) {
    among.pop_back();
    throw;
  }
}

error node_core::dial_now(dial& which) {
  ++stats_.dials;
  result<link*> began =
      which.is_relayed() ? circuits_.open(which.of->id) : on_.channels.connect(*which.to);
  if (!began)
    return began.error();
  session* made = nullptr;
  try {
    made = &make_session(**began);
  } catch (const std::bad_alloc&) {
    (*began)->abort();
    throw;
  }
  session& on = *made;
  on.by_us = true;
  on.dialled = &which;
  which.at = &on;
  on.clock.set(moment_after(on_.clock.now(), options_.first_idle_timeout()));
  return {};
}

void node_core::dial_again(dial& which) {
  const peer* const of = which.of != nullptr ? which.of : routes_.parent();
  const session* const now = of != nullptr ? of->current : nullptr;
  if (now != nullptr && (which.is_relayed() || now->is_direct))
    return;  // there is another way; when that is lost, this one's turn comes again
  const unsigned doubled = std::min(which.failures++, 20U);
  std::chrono::nanoseconds wait = options_.retry_first();
  for (unsigned i = 0; i < doubled && wait < options_.retry_longest(); ++i)
    wait = moment_after(wait, wait);
  wait = std::min(wait, options_.retry_longest());
  const auto half = static_cast<std::uint64_t>(wait.count()) / 2;
  const auto drawn = static_cast<std::int64_t>(half + on_.random.word() % (half + 1));
  which.again.set(moment_after(on_.clock.now(), std::chrono::nanoseconds{drawn}));
}

void node_core::dial_again(std::list<dial>& idle) {
  for (dial& wish : idle) {
    if (wish.at == nullptr && !wish.again.pending())
      dial_again(wish);
  }
}

void node_core::end_dials(std::list<dial>& wishes) {
  for (dial& wish : wishes) {
    if (wish.at == nullptr)
      continue;
    wish.at->dialled = nullptr;
    if (wish.at->of == nullptr)
      drop(*wish.at, false, errc::ok, {});
  }
  wishes.clear();
}

void node_core::dial_offered(peer& of, const std::vector<std::string>& addresses, relation as,
                             const std::function<bool(const address&)>& is_useful) {
  for (const std::string& text : addresses) {
    const result<address> to = address::parse(text);
    if (!to || !is_useful(*to))
      continue;
    const auto known = [&](const dial& one) { return one.to == to.value(); };
    if (&of == parent_ && std::ranges::any_of(parent_dials_, known))
      continue;
    const auto offered = [](const dial& one) { return one.offered; };
    if (std::any_of(of.dials.begin(), of.dials.end(), known) ||
        std::count_if(of.dials.begin(), of.dials.end(), offered) >=
            static_cast<std::ptrdiff_t>(offers_max))
      continue;
    if (error bad = start_dial(of.dials, &of, *to, true); bad)
      of.dials.back().as = as;
    else if (as != relation::sibling)
      log_about(of.id,
                text + ", which " + of.id.to_string() + " offers, can't be used: " + bad.text());
  }
}

void node_core::try_offers(peer& of, const std::vector<std::string>& addresses,
                           const host_identity& host) {
  if (host != on_.host || host == host_identity{} || of.current == nullptr || of.id == bus_id{})
    return;
  const relation as = of.as == relation::sibling ? of.as : relation::peer;
  dial_offered(of, addresses, as,
               [&of](const address& to) { return kind_of(to.kind()) < of.current->at.kind(); });
}

bool node_core::better(const session& left, const session& right) const noexcept {
  if (left.at.kind() != right.at.kind())
    return left.at.kind() < right.at.kind();
  if (left.as != right.as)
    return left.as != relation::peer;
  // Both ends dialled: the dial of the one with the lower id wins.
  return left.by_us != right.by_us && left.by_us == (self_.id < left.instance.id);
}

void node_core::choose(peer& of, session& fresh) {
  if (of.current == nullptr && of.left_behind == nullptr) {
    if (fresh.is_answer_final() || !of.out.is_in_doubt())
      return use(of, fresh, false);
    return drop(fresh, true, errc::ok, "the link before was lost: register again");
  }
  const auto alive = [](session* one) {
    return one != nullptr && one->stage == session_stage::registered ? one : nullptr;
  };
  const session* const second = alive(of.next);
  const session* const rival = second != nullptr ? second : alive(of.current);
  if (rival == nullptr || better(fresh, *rival))
    of.next = &fresh;
  else if (fresh.by_us && !better(*rival, fresh))
    return drop(fresh, true, errc::ok, "another link is in use");  // they are alike: the first one
  // Its turn comes when what waits there is handled, or when it is known what the old one leaves.
  if (of.left_behind != nullptr || of.current->stage == session_stage::dropped)
    return;
  list_moving(of);
  move_if_settled(of);
}

void node_core::use(peer& of, session& path, bool settled) {
  of.current = &path;
  of.next = nullptr;
  of.blocked = false;
  circuits_.writable();  // those that the link before had no room for
  if (of.sessions.size() > 1)
    list_moving(of);
  flow_position position{.session = path.answer.session, .last = path.answer.last};
  if (settled)
    position.last = std::max(position.last, of.out.last_sent());  // it was said before that
  if (!of.out.resume(path.instance, position, options_.restart(), reporter(of))) {
    of.current = nullptr;
    return violation(path,
                     {errc::protocol_error, "it has come further with our flow than we have"});
  }
  if (path.answer.superseded)
    return superseded(of, path);
  const bool moved = std::exchange(of.told_connected, true);
  const std::string id = path.instance.id.to_string();
  if (is_client(of))
    log_cause(errc::ok, "a client is here through " + path.at.peer());
  else
    log_about(of.id, (moved ? "messages to " + id + " go" : "connected to " + id) + " through " +
                         path.at.peer());
  tell_event(of, moved ? endpoint_event::moved : endpoint_event::connected);
  tell_ready(of.id, {});
  // So that the other end knows that nothing more comes on the old one, also if nothing is to be sent.
  if (!of.out.holds())
    (void)announce(of, path, of.out.accepted() + 1);
  drain(of);
}

// Another process has taken our place there, for good.
void node_core::superseded(peer& of, session& path) {
  log(of.id.to_string() + " takes nothing more from this process: another one has its bus id");
  tell_event(of, endpoint_event::superseded);
  of.current = nullptr;
  end_wishes(of);
  abandon(of, errc::superseded);
  drop(path, true, errc::superseded, {});
}

void node_core::list_moving(peer& of) {
  if (std::find(moving_.begin(), moving_.end(), &of) == moving_.end())
    moving_.push_back(&of);
}

void node_core::move_if_settled(peer& of) {
  if (of.next != nullptr && of.current != nullptr) {
    if (of.current->stage == session_stage::dropped ||
        of.next->stage != session_stage::registered || !of.current->settled())
      return;
    use(of, *of.next, true);
  }
  const bool is_used = of.current != nullptr && of.current->stage == session_stage::registered;
  // The other end's messages may be on any of the others until they have moved here too.
  if (is_used && of.in_from != of.current)
    return;
  std::erase(moving_, &of);
  if (!is_used)
    return;
  for (session* other : std::vector<session*>{of.sessions}) {
    const bool is_needed = other == link_to(of);
    if (other != of.current && !is_needed && other->by_us &&
        other->stage == session_stage::registered)
      drop(*other, true, errc::ok, "another link is in use");
  }
}

void node_core::path_ended(peer& of, session& gone) {
  std::erase(of.sessions, &gone);
  if (of.in_from == &gone)
    of.in_from = nullptr;
  const bool was_next = of.next == &gone;
  if (was_next)
    of.next = nullptr;
  if (of.current != &gone && of.left_behind != &gone) {
    if (of.current == nullptr || of.current->stage != session_stage::registered)
      return;
    for (session* other : std::vector<session*>{of.sessions}) {
      if (was_next && other != of.current && other->stage == session_stage::registered)
        choose(of, *other);
    }
    // What was held for a better link goes through the one there is; nothing else may call for it.
    return drain(of);
  }
  of.left_behind = nullptr;
  std::list<held_message> left = take_left(of, gone.at);
  if (of.current == &gone)
    of.current = nullptr;
  // Also an announcement: it may still come, and would take the flow back to the lost link.
  const bool settled = left.empty() && gone.settled();
  if (of.current != nullptr || gone.given_up) {
    // Later ones are on their way already, or nobody wants these to get there.
    const errc reason = gone.given_up ? errc::closed : errc::peer_closed;
    const auto report = reporter(of);
    for (held_message& message : left)
      report(std::move(message), reason);
    left.clear();
    if (of.current != nullptr)
      return;
  }
  // Nobody waits any more for what was answered, or whose time was over in the link.
  std::erase_if(left, [this](const held_message& message) {
    return message.flags == flag_command && find_asked(message) == nullptr;
  });
  // A link does not keep the deadlines of what it takes: they begin anew, but for commands.
  for (held_message& message : left) {
    if (message.flags == flag_command)
      message.deadline = find_asked(message)->clock->due();
    else if (message.flags == 0 && of.policy.message_deadline.count() != 0)
      message.deadline = moment_after(on_.clock.now(), of.policy.message_deadline);
  }
  of.out.path_lost(std::move(left));
  if (const auto next_deadline = of.out.earliest_deadline())
    of.expiry.set(*next_deadline);
  session* const next = std::exchange(of.next, nullptr);
  // What the other end said of our flow is of use if nothing could arrive after that.
  if (next != nullptr && next->stage == session_stage::registered &&
      (settled || next->is_answer_final()))
    return use(of, *next, settled);
  for (session* other : std::vector<session*>{of.sessions}) {
    if (other->stage == session_stage::registered)
      drop(*other, true, errc::ok, "the link before was lost: register again");
  }
}

std::list<held_message> node_core::take_left(peer& of, link& from) {
  struct jump {
    std::size_t index;     // of the first message behind it
    std::uint64_t before;  // number of the last message in front of it
  };
  std::list<held_message> left;
  std::vector<jump> jumps;
  from.take_unreleased([&](bytes_view bytes, errc fate) {
    message_head head;
    if (decode(bytes, head) != head_fault::none)
      return;
    if (head.kind == message_kind::flow) {
      if (flow_body body; decode(bytes, body))
        jumps.push_back({left.size(), body.before});
      return;
    }
    if (head.kind != message_kind::data)
      return;
    const bytes_view payload = payload_of(bytes);
    held_message& message = left.emplace_back();
    message.type = head.type;
    message.may_have_arrived = fate == errc::outcome_unknown;
    message.redelivered = (head.flags & flag_redelivered) != 0;
    message.required = (head.flags & flag_require_delivery) != 0;
    message.flags = head.flags & command_flags;
    message.bytes.assign(payload.begin(), payload.end());
  });
  for (held_message& message : left)
    message.may_be_inherited = message.may_have_arrived && from.may_be_inherited();
  std::uint64_t number = of.out.last_sent();
  std::size_t index = left.size();
  for (auto message = left.rbegin(); message != left.rend(); ++message, --index) {
    for (; !jumps.empty() && jumps.back().index >= index; jumps.pop_back()) {
      if (jumps.back().index == index && index != left.size())
        number = jumps.back().before;
    }
    message->number = number--;
  }
  return left;
}

status node_core::announce(peer& of, session& path, std::uint64_t number) {
  const flow_body body{.next = number, .before = of.out.last_sent(), .turn = last_turn_ + 1};
  if (const status said = say(path, body); !said)
    return said;
  ++last_turn_;
  path.last_data = path.committed;  // it has to be there before another link is announced on
  of.out.announced(number);
  return {};
}

void node_core::drain(peer& of) {
  while (of.out.holds() && of.current != nullptr && of.next == nullptr && !of.blocked) {
    session& path = *of.current;
    const held_message& message = of.out.front();
    if (message.bytes.size() > of.message_limit) {
      of.out.drop_oldest(errc::message_too_large, reporter(of));
      continue;
    }
    const std::size_t length = message.bytes.size();
    status why;
    const auto flags =
        static_cast<std::uint8_t>(message.flags | (message.redelivered ? flag_redelivered : 0) |
                                  (message.required ? flag_require_delivery : 0));
    std::byte* const at = begin_data(of, message.number, message.type, flags, length, why);
    if (at == nullptr && !passes(why)) {
      of.out.drop_oldest(why.code(), reporter(of));
      continue;
    }
    if (at == nullptr) {
      of.blocked = true;
      return;
    }
    if (length != 0)
      std::memcpy(at, message.bytes.data(), length);
    end_data(path, length);
    of.out.carried();
  }
  if (of.wants_room && !of.blocked && !of.out.holds()) {
    of.wants_room = false;
    tell({.kind = user_event::what::writable, .about = of.id});
  }
}

void node_core::lost(peer& of) {
  if (std::exchange(of.told_connected, false))
    tell_event(of, endpoint_event::disconnected);
  // What was offered was of the incarnation that is lost, or not: its next one offers it again.
  std::erase_if(of.dials, [](const dial& one) { return one.offered && one.at == nullptr; });
  dial_again(of.dials);
  if (of.wished && directory_ != nullptr)
    follow_directory(of);
  let_go(of);
}

// Unless somebody wants it, it is forgotten, at once or when it has not come back in time.
void node_core::let_go(peer& of) {
  if (of.wished || parent_ == &of)
    return;
  if (leaving_ || !of.out.holds() || is_client(of)) {
    abandon(of, errc::closed);
    return forget(of);
  }
  seek(of);
  of.forget.set(moment_after(on_.clock.now(), options_.first_idle_timeout()));
}

void node_core::abandon(peer& of, errc reason) {
  of.out.abandon(reason, reporter(of));
}

void node_core::give_up(peer& of, errc reason) {
  of.out.abandon_unrequired(reason, reporter(of));
  if (!of.out.holds() && of.sessions.empty())
    return forget(of);
  // What is sent there later and is not required is not to wait for ever either.
  if (of.sessions.empty())
    of.forget.set(moment_after(on_.clock.now(), options_.first_idle_timeout()));
}

void node_core::forget(peer& of) {
  end_dials(of.dials);
  if (is_client(of))
    away_.lose(of.in);
  else if (of.instance.incarnation != 0)
    away_.remember(of.instance, of.in, of.silent);
  numbers_used_ = std::max(numbers_used_, of.out.accepted());
  if (of.wants_room)
    tell({.kind = user_event::what::writable,
          .about = of.id});  // to be told that there is no such peer
  std::erase(moving_, &of);
  if (last_found_ == &of)
    last_found_ = nullptr;
  if (claimed_.in == &of || (claimed_.path != nullptr && claimed_.path->of == &of))
    claimed_ = {};
  if (parent_ == &of)
    parent_ = nullptr;
  if (is_client(of))
    std::erase_if(clients_, [&](const auto& one) { return one.get() == &of; });
  else
    peers_.erase(of.id.value());
}

}  // namespace atbus::detail
