#include "node/core/command_exchange.h"

#include <algorithm>
#include <new>
#include <utility>

namespace atbus {

command& command::operator=(command&& other) noexcept {
  if (this != &other) {
    give_up();
    node_ = std::move(other.node_);
    source_ = other.source_;
    incarnation_ = other.incarnation_;
    number_ = other.number_;
    words_ = std::move(other.words_);
    redelivered_ = other.redelivered_;
  }
  return *this;
}

status command::answer(errc how, const command_words& values) {
  if (node_ == nullptr)
    return errc::invalid_argument;
  if (*node_ == nullptr)
    return errc::closed;
  const status sent = (*node_)->answer({source_, incarnation_}, number_, how, values.all());
  if (sent)
    node_.reset();
  return sent;
}

void command::give_up() noexcept {
  if (node_ == nullptr || *node_ == nullptr)
    return;
  try {
    (void)fail("the command was given up without an answer");
  } catch (const std::bad_alloc&) {  // the asking node is told when its deadline passes
  }
}

}  // namespace atbus

namespace atbus::detail {
namespace {

// Commands of this node that wait for a reply.
constexpr std::size_t asked_max = 4096;

}  // namespace

status command_exchange::ask(bus_id to, const std::vector<std::string>& words,
                             std::chrono::nanoseconds timeout, command_call call) {
  if (words.empty() || words.size() > command_words_max || timeout < std::chrono::nanoseconds{0} ||
      !call)
    return errc::invalid_argument;
  if (node_.closed || node_.leaving)
    return errc::closed;
  if (!node_.fault)
    return node_.fault.code();
  if (const status allowed =
          to == node_.self.id ? status{} : access_.check_command_sent(to, words.front());
      !allowed) {
    ++node_.stats.refused;
    return allowed;
  }
  if (asked_.size() == asked_max) {
    ++node_.stats.would_block;
    asked_in_vain_.insert(to);
    return errc::would_block;
  }
  outbox_.give_up_claim();
  // Begins at random: commands of an earlier incarnation may still be answered.
  if (last_asked_ == 0)
    last_asked_ = node_.on.random.word();
  const std::uint64_t number = ++last_asked_;
  status sent;
  try {
    sent = send_question(to, number, words, moment_after(node_.now(), timeout), std::move(call));
  } catch (const std::bad_alloc&) {
    sent = errc::out_of_memory;
  }
  if (!sent)
    asked_.erase(number);
  return sent;
}

status command_exchange::send_question(bus_id to, std::uint64_t number,
                                       const std::vector<std::string>& words,
                                       std::chrono::nanoseconds deadline, command_call call) {
  peer* const in = directory_.find_or_look_up(to);
  byte_buffer payload;
  encode(number, words, payload, deadline);
  auto clock =
      std::make_unique<timer>(node_.timers, [this, number] { end(number, errc::timed_out); });
  clock->set(deadline);
  asked_.emplace(number, asked{to, std::move(call), std::move(clock)});
  return outbox_.send_command(in, to, 0, flag_command, payload, deadline);
}

status command_exchange::answer(const node_instance& to, std::uint64_t number, errc how,
                                const std::vector<std::string>& values) {
  if (values.size() > command_words_max)
    return errc::invalid_argument;
  if (node_.closed || node_.leaving)
    return errc::closed;
  outbox_.give_up_claim();
  peer* in = nullptr;
  if (to.id == bus_id{}) {
    in = peers_.find(to);
    if (in == nullptr || in->current == nullptr)
      return errc::peer_closed;
  } else if (to.id != node_.self.id) {
    in = &peers_.find_or_make(to.id);
    if (in->instance.incarnation != 0 && in->instance != to)
      return {errc::peer_closed, to.id.value()};
    // The peer may be back soon, for what its link or an earlier incarnation of this node has left.
    if (in->sessions.empty() && !retention_.is_wanted(*in) && !in->forget.pending())
      in->forget.set(node_.idle_deadline());
  }
  byte_buffer payload;
  encode(number, values, payload);
  // Refused later, no call would be made.
  if (in != nullptr && payload.size() > in->message_limit)
    return {errc::message_too_large, payload.size(), in->message_limit};
  return outbox_.send_command(in, to.id, static_cast<std::uint32_t>(how), flag_reply, payload, {});
}

bool command_exchange::deliver(const node_instance& source, const message_head& head,
                               bytes_view payload, bool redelivered) {
  const unsigned kind = head.flags & command_flags;
  const bool may_be =
      kind == flag_command ? !node_.is_client() : kind == flag_reply && source.id != bus_id{};
  command_body body;
  if (!may_be || !decode(payload, body))
    return false;
  if (kind == flag_reply) {
    deliver_reply(source.id, static_cast<errc>(head.type), body.number, std::move(body.words));
    return true;
  }
  if (head.type != 0 || body.words.empty())
    return false;
  ++node_.stats.commands;
  command received{answers_,   source.id, source.incarnation, body.number, std::move(body.words),
                   redelivered};
  if (source != node_.self && !access_.admits_command(source.id, received.name())) {
    (void)received.answer(errc::denied, {});
    return true;
  }
  if (built_in_ && built_in_(received))
    return true;
  const auto named = events_.handlers().on_command_named.find(received.name());
  const bool has_name = named != events_.handlers().on_command_named.end() && named->second;
  if (const auto& handler = has_name ? named->second : events_.handlers().on_command)
    handler(received);
  else
    (void)received.answer(errc::unknown_command, {});
  return true;
}

void command_exchange::deliver_reply(bus_id source, errc how, std::uint64_t number,
                                     std::vector<std::string> values) {
  const auto found = asked_.find(number);
  if (found == asked_.end() || found->second.to != node_.known_as(source)) {
    ++node_.stats.stray_replies;
    if (found != asked_.end())
      events_.log_cause(errc::protocol_error, source.to_string() + " answers what " +
                                                  found->second.to.to_string() + " was asked");
    return;
  }
  ++node_.stats.replies;
  const command_call call = std::move(found->second.call);
  asked_.erase(found);
  if (how != errc::ok && how != errc::unknown_command && how != errc::denied)
    how = errc::command_failed;
  call(how == errc::ok ? status{} : status{how, source.value()}, command_reply{std::move(values)});
}

bool command_exchange::has_expired(const message_head& head, bytes_view payload) const {
  command_body body;
  return (head.flags & exchange_flags) == flag_command && decode(payload, body) &&
         body.deadline <= node_.now();
}

void command_exchange::undelivered(const held_message& what, errc reason) {
  if (what.flags == flag_command)
    end(command_number(what.bytes), reason);
}

void command_exchange::end(std::uint64_t number, status how) {
  const auto found = asked_.find(number);
  if (found == asked_.end())
    return;
  // Without memory for the event the command still waits: its call is copied, and its clock, if that has
  // just run, runs again.
  if (timer& clock = *found->second.clock; !clock.pending())
    clock.set(node_.now());
  events_.tell_call([call = found->second.call](status told) { call(told, {}); }, how);
  asked_.erase(found);
}

std::optional<std::chrono::nanoseconds> command_exchange::deadline_of(
    const held_message& sent) const noexcept {
  const auto found = asked_.find(command_number(sent.bytes));
  return found != asked_.end() ? std::optional{found->second.clock->due()} : std::nullopt;
}

bool command_exchange::is_room_owed() const noexcept {
  return !asked_in_vain_.empty() && asked_.size() <= asked_max / 2;
}

void command_exchange::tell_room() {
  while (is_room_owed()) {
    events_.tell_writable(*asked_in_vain_.begin());  // without memory it is owed still
    asked_in_vain_.erase(asked_in_vain_.begin());
  }
}

void command_exchange::close() noexcept {
  *answers_ = nullptr;
  for (auto all = std::exchange(asked_, {}); const auto& [number, one] : all) {
    if (!node_.is_forked())
      one.call(errc::closed, {});
  }
}

}  // namespace atbus::detail
