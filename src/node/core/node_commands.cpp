// Commands: those that this node has asked others, and the answers that it gives.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "node/core/node_core.h"
#include "protocol/command_body.h"

namespace atbus {

command& command::operator=(command&& other) noexcept {
  if (this != &other) {
    give_up();
    node_ = std::move(other.node_);
    source_ = other.source_;
    life_ = other.life_;
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
  const status sent = (*node_)->answer({source_, life_}, number_, how, values.all());
  if (sent)
    node_.reset();
  return sent;
}

void command::give_up() noexcept {
  if (node_ == nullptr || *node_ == nullptr)
    return;
  try {
    (void)fail("the command was given up without an answer");
  } catch (const std::bad_alloc&) {  // who asks is told when its time is over
  }
}

}  // namespace atbus

namespace atbus::detail {
namespace {

// Commands of this node's that are not answered.
constexpr std::size_t asked_max = 4096;

}  // namespace

status node_core::ask(bus_id to, const std::vector<std::string>& words,
                      std::chrono::nanoseconds timeout, command_call call) {
  if (words.empty() || words.size() > command_words_max || timeout < std::chrono::nanoseconds{0})
    return errc::invalid_argument;
  if (closed_ || leaving_)
    return errc::closed;
  if (!fault_)
    return fault_.code();
  if (asked_.size() == asked_max) {
    ++stats_.would_block;
    asked_in_vain_.insert(to);
    return errc::would_block;
  }
  give_up_claim();
  // Unlike those of an earlier incarnation of this node's, which may still be answered.
  if (last_asked_ == 0)
    last_asked_ = on_.random.word();
  const std::uint64_t number = ++last_asked_;
  const std::chrono::nanoseconds deadline = moment_after(on_.clock.now(), timeout);
  byte_buffer payload;
  encode(number, words, payload, deadline);
  auto clock =
      std::make_unique<timer>(timers_, [this, number] { end_command(number, errc::timed_out); });
  clock->set(deadline);
  asked_.emplace(number, asked_command{to, std::move(call), std::move(clock)});
  const status sent = send_command(find_or_look_up(to), to, 0, flag_command, payload, deadline);
  if (!sent)
    asked_.erase(number);
  return sent;
}

status node_core::answer(const node_instance& to, std::uint64_t number, errc how,
                         const std::vector<std::string>& values) {
  if (values.size() > command_words_max)
    return errc::invalid_argument;
  if (closed_ || leaving_)
    return errc::closed;
  give_up_claim();
  peer* in = nullptr;
  if (to.id == bus_id{}) {
    in = find(to);
    if (in == nullptr || in->current == nullptr)
      return errc::peer_closed;
  } else if (to.id != self_.id) {
    in = &find_or_make(to.id);
    if (in->instance.incarnation != 0 && in->instance != to)
      return {errc::peer_closed, to.id.value()};
    // It may be back soon, for what its link or an earlier incarnation of this node has left.
    if (in->sessions.empty() && !in->wished && parent_ != in && !in->forget.pending())
      in->forget.set(moment_after(on_.clock.now(), options_.first_idle_timeout()));
  }
  byte_buffer payload;
  encode(number, values, payload);
  // Found out later it would end with nobody being told.
  if (in != nullptr && payload.size() > in->message_limit)
    return {errc::message_too_large, payload.size(), in->message_limit};
  return send_command(in, to.id, static_cast<std::uint32_t>(how), flag_reply, payload, {});
}

status node_core::send_command(peer* in, bus_id to, std::uint32_t type, std::uint8_t flags,
                               bytes_view payload, std::chrono::nanoseconds deadline) {
  status why;
  std::byte* at = nullptr;
  try {
    at = claim_for(in, to, type, flags, payload.size(), why);
  } catch (const std::bad_alloc&) {
    why = take_back_claim(to, payload.size());
  }
  if (at == nullptr)
    return why;
  std::memcpy(at, payload.data(), payload.size());
  if (claimed_.in != nullptr)
    claimed_.held.front().deadline = deadline;
  commit(payload.size());
  return {};
}

bool node_core::deliver_any(const node_instance& source, const message_head& head,
                            bytes_view payload, bool redelivered) {
  if ((head.flags & command_flags) == 0 && source.id != bus_id{}) {
    deliver(source, head.type, payload, redelivered);
    return true;
  }
  count_delivered(payload.size(), redelivered);
  return deliver_command(source, head, payload, redelivered);
}

bool node_core::deliver_command(const node_instance& source, const message_head& head,
                                bytes_view payload, bool redelivered) {
  const unsigned kind = head.flags & command_flags;
  const bool may_be =
      kind == flag_command ? !is_client() : kind == flag_reply && source.id != bus_id{};
  command_body body;
  if (!may_be || !decode(payload, body))
    return false;
  if (kind == flag_reply) {
    deliver_reply(source.id, static_cast<errc>(head.type), body.number, std::move(body.words));
    return true;
  }
  if (head.type != 0 || body.words.empty())
    return false;
  ++stats_.commands;
  command asked{for_commands_,         source.id,  source.incarnation, body.number,
                std::move(body.words), redelivered};
  const auto named = handlers_.on_command_named.find(asked.name());
  const bool has_name = named != handlers_.on_command_named.end() && named->second;
  if (const auto& handler = has_name ? named->second : handlers_.on_command)
    handler(asked);
  else
    (void)asked.answer(errc::unknown_command, {});
  return true;
}

void node_core::deliver_reply(bus_id source, errc how, std::uint64_t number,
                              std::vector<std::string> values) {
  const auto found = asked_.find(number);
  if (found == asked_.end() || found->second.to != known_as(source)) {
    ++stats_.stray_replies;
    if (found != asked_.end())
      log_cause(errc::protocol_error, source.to_string() + " answers what " +
                                          found->second.to.to_string() + " was asked");
    return;
  }
  ++stats_.replies;
  const command_call call = std::move(found->second.call);
  forget_command(found);
  if (how != errc::ok && how != errc::unknown_command)
    how = errc::command_failed;
  call(how == errc::ok ? status{} : status{how, source.value()}, command_reply{std::move(values)});
}

// Its sender has been told that its time is over.
bool node_core::has_expired(const message_head& head, bytes_view payload) const {
  command_body body;
  return (head.flags & command_flags) == flag_command && decode(payload, body) &&
         body.deadline <= on_.clock.now();
}

void node_core::command_undelivered(const held_message& what, errc reason) {
  command_body body;
  if (what.flags == flag_command && decode(what.bytes, body))
    end_command(body.number, reason);
}

void node_core::end_command(std::uint64_t number, status how) {
  const auto found = asked_.find(number);
  if (found == asked_.end())
    return;
  tell({.kind = user_event::what::ready,
        .call = [call = std::move(found->second.call)](status told) { call(told, {}); },
        .result = how});
  forget_command(found);
}

const node_core::asked_command* node_core::find_asked(const held_message& sent) const {
  command_body body;
  const auto found = decode(sent.bytes, body) ? asked_.find(body.number) : asked_.end();
  return found != asked_.end() ? &found->second : nullptr;
}

void node_core::forget_command(std::map<std::uint64_t, asked_command>::iterator which) {
  asked_.erase(which);
  if (asked_.size() > asked_max / 2)
    return;
  for (const bus_id to : std::exchange(asked_in_vain_, {}))
    tell({.kind = user_event::what::writable, .about = to});
}

void node_core::close_commands() noexcept {
  *for_commands_ = nullptr;
  for (auto all = std::exchange(asked_, {}); const auto& [number, one] : all)
    one.call(errc::closed, {});
}

}  // namespace atbus::detail
