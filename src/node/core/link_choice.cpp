#include "node/core/link_choice.h"

#include <algorithm>
#include <functional>
#include <new>
#include <string>
#include <utility>

#include "node/core/refusals.h"
#include "protocol/blob_body.h"

namespace atbus::detail {
namespace {

// A word for which there is no memory is lost with its link.
void add_word(std::vector<refused_word>& in, bytes_view message) noexcept {
  try {
    if (turned_away_body body; decode(message, body))
      in.push_back({.number = body.number,
                    .type = static_cast<std::uint32_t>(body.type),
                    .redelivered = body.redelivered});
  } catch (const std::bad_alloc&) {
  }
}

// Words go through the link that has brought the messages, which may be any of those to that node.
void keep_words(peer& of, session& gone) {
  std::vector<refused_word> words;
  const auto take = [&](bytes_view bytes, errc) {
    message_head head;
    if (decode(bytes, head) == head_fault::none && head.kind == message_kind::turned_away)
      add_word(words, bytes);
  };
  if (gone.instance != of.instance)
    return;
  gone.at.take_unreleased(std::ref(take));  // as a function of its own it would take memory
  refusals::keep(of, words);
}

// How often a peer whose messages move from a lane to another link is looked at.
constexpr std::chrono::nanoseconds move_interval = std::chrono::milliseconds{1};

}  // namespace

std::chrono::nanoseconds link_choice::next_look() const noexcept {
  // Only a lane doesn't tell when all that was sent is handled.
  const auto is_silent = [](const peer* of) {
    return of->next != nullptr && of->current != nullptr && !of->current->keeps;
  };
  return std::ranges::any_of(moving_, is_silent) ? node_.now() + move_interval : timer_queue::never;
}

void link_choice::move_settled() {
  for (peer* moving : std::vector<peer*>{moving_})
    move_if_settled(*moving);
}

void link_choice::choose(peer& of, session& fresh) {
  if (of.current == nullptr && of.left_behind == nullptr) {
    if (fresh.is_answer_final() || !of.out.is_in_doubt())
      return use(of, fresh, false);
    return sessions_.drop(fresh, true, errc::ok, "the link before was lost: register again");
  }
  const auto alive = [](session* one) {
    return one != nullptr && one->stage == session_stage::registered ? one : nullptr;
  };
  const session* const second = alive(of.next);
  const session* const rival = second != nullptr ? second : alive(of.current);
  if (rival == nullptr || reach_.better(fresh, *rival))
    of.next = &fresh;
  else if (fresh.by_us && !reach_.better(*rival, fresh))
    return sessions_.drop(fresh, true, errc::ok,
                          "another link is in use");  // they are alike: the first one
  // Its turn comes when what waits there is handled, or when it is known what the old one leaves.
  if (of.left_behind != nullptr || of.current->stage == session_stage::dropped)
    return;
  list_moving(of);
  move_if_settled(of);
}

// Half in use, a link could keep messages for ever: without memory it ends, and another one registers.
void link_choice::use(peer& of, session& path, bool settled) {
  try {
    begin_use(of, path, settled);
  } catch (const std::bad_alloc&) {
    sessions_.drop(path, false, errc::out_of_memory, {});
    throw;
  }
}

void link_choice::begin_use(peer& of, session& path, bool settled) {
  of.current = &path;
  of.next = nullptr;
  of.blocked = false;
  circuits_.writable();  // those that the link before had no room for
  if (of.sessions.size() > 1)
    list_moving(of);
  flow_position position{.session = path.answer.session, .last = path.answer.last};
  if (settled)
    position.last = std::max(position.last, of.out.last_sent());  // it was said before that
  if (!of.out.resume(path.instance, position, node_.options.restart(), events_.reporter(of.id))) {
    of.current = nullptr;
    return sessions_.violation(
        path, {errc::protocol_error, "it has come further with our flow than we have"});
  }
  if (path.answer.superseded)
    return superseded(of, path);
  requests_.registered(of, path);
  blobs_.registered(of, path.knows_blobs);
  const bool moved = of.told_connected;
  const std::string id = path.instance.id.to_string();
  if (node_.is_client(of))
    events_.log_cause(errc::ok, "a client is here through " + path.at.peer());
  else
    events_.log_about(of.id, (moved ? "messages to " + id + " go" : "connected to " + id) +
                                 " through " + path.at.peer());
  events_.tell_endpoint(of.id, moved ? endpoint_event::moved : endpoint_event::connected);
  of.told_connected = true;
  ready_.tell(of.id, {});
  // So that the other end knows that nothing more comes on the old one, also if nothing is to be sent.
  if (!of.out.holds())
    (void)output_.announce(of, path, of.out.accepted() + 1);
  output_.drain(of);
}

// Another process has registered there with this node's id, for good.
void link_choice::superseded(peer& of, session& path) {
  events_.log(of.id.to_string() +
              " takes nothing more from this process: another one has its bus id");
  events_.tell_endpoint(of.id, endpoint_event::superseded);
  of.current = nullptr;
  retention_.end_wanted(of);
  retention_.abandon(of, errc::superseded);
  sessions_.drop(path, true, errc::superseded, {});
}

void link_choice::list_moving(peer& of) {
  if (std::find(moving_.begin(), moving_.end(), &of) == moving_.end())
    moving_.push_back(&of);
}

void link_choice::move_if_settled(peer& of) {
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
    const bool is_needed = other == reach_.link_to(of);
    if (other != of.current && !is_needed && other->by_us &&
        other->stage == session_stage::registered)
      sessions_.drop(*other, true, errc::ok, "another link is in use");
  }
}

void link_choice::path_ended(peer& of, session& gone) {
  std::erase(of.sessions, &gone);
  if (of.in_from == &gone)
    of.in_from = nullptr;
  const bool was_next = of.next == &gone;
  if (was_next)
    of.next = nullptr;
  if (of.current != &gone && of.left_behind != &gone) {
    keep_words(of, gone);
    if (of.current == nullptr || of.current->stage != session_stage::registered)
      return;
    for (session* other : std::vector<session*>{of.sessions}) {
      if (was_next && other != of.current && other->stage == session_stage::registered)
        choose(of, *other);
    }
    // What was held for a better link goes through the one there is; nothing else may call for it.
    return output_.drain(of);
  }
  of.left_behind = nullptr;
  if (of.current == &gone)
    of.current = nullptr;
  std::list<held_message> left = take_left(of, gone);
  // Also an announcement: it may still come, and would take the flow back to the lost link.
  const bool settled = left.empty() && gone.settled();
  if (of.current != nullptr || gone.given_up) {
    // Later ones are on their way already, or the user has given these up.
    const errc reason = gone.given_up ? errc::closed : errc::peer_closed;
    const auto report = events_.reporter(of.id);
    for (held_message& message : left)
      report(std::move(message), reason);
    left.clear();
    if (of.current != nullptr)
      return;
  }
  // Nobody waits any more for what was answered, or whose time was over in the link. A link does not keep
  // the deadlines of what it takes: they begin anew, but for commands and requests.
  for (auto at = left.begin(); at != left.end();) {
    const auto message = at++;
    const unsigned kind = message->flags & exchange_flags;
    if (kind == flag_command || kind == flag_request) {
      const auto deadline =
          kind == flag_command ? commands_.deadline_of(*message) : requests_.deadline_of(*message);
      if (deadline)
        message->deadline = *deadline;
      else
        left.erase(message);
    } else if (kind == 0 && of.policy.message_deadline.count() != 0) {
      message->deadline = moment_after(node_.now(), of.policy.message_deadline);
    }
  }
  of.out.path_lost(std::move(left));
  if (const auto next_deadline = of.out.earliest_deadline())
    of.expiry.set(*next_deadline);
  session* const next = std::exchange(of.next, nullptr);
  // What the other end said of our flow is of use if nothing could arrive after that.
  if (next != nullptr && next->stage == session_stage::registered &&
      (settled || next->is_answer_final()))
    return use(of, *next, settled);
  for (session* other : of.sessions) {  // a drop is told later
    if (other->stage == session_stage::registered)
      sessions_.drop(*other, true, errc::ok, "the link before was lost: register again");
  }
}

// Without memory for all of them they are lost: counted, and reported as unknown.
std::list<held_message> link_choice::take_left(peer& of, session& gone) {
  link& from = gone.at;
  struct jump {
    std::size_t index;     // of the first message behind it
    std::uint64_t before;  // number of the last message in front of it
  };
  std::list<held_message> left;
  std::vector<jump> jumps;
  std::vector<refused_word> words;  // which the other end may not have heard
  std::uint64_t found = 0;
  bool is_short = false;
  const auto keep = [&](const message_head& head, bytes_view payload, errc fate) {
    held_message& message = left.emplace_back();
    message.type = head.type;
    message.may_have_arrived = fate == errc::outcome_unknown;
    message.redelivered = (head.flags & flag_redelivered) != 0;
    message.required = (head.flags & flag_require_delivery) != 0;
    message.flags = head.flags & payload_flags;
    message.exempt = is_blob(head.flags);
    message.bytes.assign(payload.begin(), payload.end());
  };
  const auto take = [&](bytes_view bytes, errc fate) {
    message_head head;
    if (decode(bytes, head) != head_fault::none)
      return;
    if (head.kind == message_kind::turned_away && gone.instance == of.instance)
      add_word(words, bytes);
    found += head.kind == message_kind::data ? 1 : 0;
    if (is_short)
      return;
    try {
      if (head.kind == message_kind::data)
        keep(head, payload_of(bytes), fate);
      else if (flow_body body; head.kind == message_kind::flow && decode(bytes, body))
        jumps.push_back({left.size(), body.before});
    } catch (const std::bad_alloc&) {
      is_short = true;
      left.clear();
    }
  };
  from.take_unreleased(std::ref(take));  // as a function of its own it would take memory
  refusals::keep(of, words);
  if (is_short) {
    if (found != 0)
      events_.tell_lost(of, found);
    return {};
  }
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
  // The word of one that was refused may be here before its lane shows that it was handled.
  left.remove_if([&of](const held_message& one) { return of.reported.has(one.number); });
  return left;
}

}  // namespace atbus::detail
