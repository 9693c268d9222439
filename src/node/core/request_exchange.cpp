#include "node/core/request_exchange.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "protocol/request_body.h"

namespace atbus::detail {
namespace {

constexpr std::string_view dropped_text = "the request was dropped without a response";
constexpr std::string_view thrown_text = "its handler threw";
constexpr std::string_view malformed_text = "malformed: the request is no value of its type";

}  // namespace

request_handle request_exchange::ask(bus_id to, std::uint32_t type, bytes_view bytes,
                                     std::chrono::nanoseconds timeout,
                                     const std::optional<trace_context>& trace, request_call call) {
  const auto refused = [](status why) { return request_handle{why, 0}; };
  if (timeout < std::chrono::nanoseconds{0} || !call)
    return refused(errc::invalid_argument);
  if (node_.closed || node_.leaving)
    return refused(errc::closed);
  if (!node_.fault)
    return refused(node_.fault.code());
  const std::size_t overhead = request_head_size + (trace ? trace_context::size : 0);
  if (const std::size_t limit = node_.options.message_limit(); bytes.size() + overhead > limit)
    return refused({errc::message_too_large, bytes.size(), limit - std::min(limit, overhead)});
  request_table::entry* made = nullptr;
  status why;
  try {
    request_table::asked_node& asked = table_.node_of(to);
    if (asked.waiting >= node_.options.requests() || table_.full()) {
      ++node_.stats.would_block;
      asked.wants_room = true;
      table_was_full_ = table_was_full_ || table_.full();
      return refused(errc::would_block);
    }
    made = &table_.take(asked);
    const std::chrono::nanoseconds now = node_.recent();
    // Not early, whatever the clock was behind.
    const std::chrono::nanoseconds deadline =
        moment_after(now + clock_source::recent_error, timeout);
    std::byte* const at = outbox_.claim_exchange(directory_.find_or_look_up(to), to, type,
                                                 trace ? flag_request | flag_traced : flag_request,
                                                 overhead + bytes.size(), why);
    if (at != nullptr) {
      encode_request(at, made->number, deadline, now);
      if (!bytes.empty())
        std::memcpy(at + request_head_size, bytes.data(), bytes.size());
      if (trace)
        trace->write(at + request_head_size + bytes.size());
      made->call = std::move(call);
      table_.set_deadline(*made, deadline, now);
      const std::uint64_t number = made->number;
      outbox_.commit_exchange(overhead + bytes.size(), deadline);
      return {status{}, number};
    }
  } catch (const std::bad_alloc&) {
    why = errc::out_of_memory;
  }
  if (made != nullptr)
    table_.free(*made);
  return refused(why);
}

status request_exchange::cancel(const request_handle& which) {
  if (node_.closed)
    return errc::closed;  // each gets that outcome
  request_table::entry* const found = which ? find(which.number_) : nullptr;
  if (found == nullptr)
    return errc::not_found;
  say_cancel(*found);
  end(*found, errc::cancelled);
  return {};
}

void request_exchange::forget(const request_handle& which) noexcept {
  request_table::entry* const found = which ? table_.find(which.number_) : nullptr;
  if (found == nullptr)
    return;
  if (!found->ends)
    say_cancel(*found);
  found->call = nullptr;
  free(*found);
}

// It may be lost with its link, or find no room: then the deadline does its work.
void request_exchange::say_cancel(const request_table::entry& which) noexcept {
  outbox_.give_up_claim();
  if (which.to->id == node_.self.id && !node_.is_client())
    return cancelled(node_.self, which.number);
  peer* const of = peers_.find(which.to->id);
  if (of == nullptr || node_.closed)
    return;
  const auto is_it = [&](const held_message& one) {
    request_head head;
    return (one.flags & exchange_flags) == flag_request && decode_request(one.bytes, head) &&
           head.number == which.number;
  };
  try {
    if (of->out.holds() && of->out.withdraw(is_it))
      return output_.drain(*of);  // there may be room for others
    if (of->current != nullptr && of->current->stage == session_stage::registered)
      (void)output_.say(*of->current, cancel_body{.number = which.number}, message_purpose::data);
  } catch (const std::bad_alloc&) {
  }
}

bool request_exchange::deliver(const node_instance& source, const message_head& head,
                               bytes_view payload, bool redelivered, bool same_clock) {
  if ((head.flags & exchange_flags) == flag_request)
    return !node_.is_client() && deliver_request(source, head, payload, redelivered, same_clock);
  return (head.flags & exchange_flags) == (flag_request | flag_reply) && source.id != bus_id{} &&
         deliver_response(source.id, static_cast<errc>(head.type), payload);
}

bool request_exchange::deliver_request(const node_instance& source, const message_head& outer,
                                       bytes_view payload, bool redelivered, bool same_clock) {
  const std::uint32_t type = outer.type;
  request_head head;
  if (!decode_request(payload, head))
    return false;
  ++node_.stats.requests;
  const std::chrono::nanoseconds now = node_.recent();
  const std::chrono::nanoseconds deadline = same_clock ? head.deadline
                                            : head.left == no_time_limit
                                                ? std::chrono::nanoseconds::max()
                                                : moment_after(now, head.left);
  // One of its own may have been cancelled since.
  if (deadline <= now || (source == node_.self && find(head.number) == nullptr)) {
    ++node_.stats.expired_requests;
    return true;
  }
  request received{*this,       source.id,  source.incarnation,
                   head.number, type,       payload.subspan(request_head_size),
                   deadline,    redelivered};
  if ((outer.flags & flag_traced) != 0)
    received.trace_ = trace_context::read(payload.data() + payload.size());
  if (source != node_.self && !access_.admits(source.id, message_class::request, type)) {
    (void)answer(received, errc::denied, {});
    gone(received);
    return true;
  }
  const auto* const handler = events_.handlers().request_handler(type);
  if (handler == nullptr) {
    (void)answer(received, errc::unknown_request, {});
    gone(received);
    return true;
  }
  // What was moved out keeps no bytes: they are the link's.
  struct frame {
    request_exchange& of;
    ~frame() {
      of.in_hand_ = nullptr;
      if (request* const kept = std::exchange(of.moved_out_, nullptr); kept != nullptr)
        kept->bytes_ = {};
    }
  } const at_end{*this};
  in_hand_ = &received;
  try {
    (*handler)(received);
  } catch (...) {
    if (received.exchange_ != nullptr) {
      (void)answer(received, errc::request_failed, as_bytes(thrown_text));
      gone(received);
    }
    throw;
  }
  return true;  // without an answer it fails now
}

bool request_exchange::deliver_response(bus_id source, errc how, bytes_view payload) {
  std::uint64_t number = 0;
  if (!decode_response(payload, number))
    return false;
  request_table::entry* const found = find(number);
  if (found == nullptr || found->to->id != node_.known_as(source)) {
    ++node_.stats.late_responses;
    if (found != nullptr)
      events_.log_cause(errc::protocol_error, source.to_string() + " answers what " +
                                                  found->to->id.to_string() + " was asked");
    return true;
  }
  ++node_.stats.responses;
  const request_call call = std::move(found->call);
  free(*found);
  if (how != errc::ok && how != errc::unknown_request && how != errc::outcome_unknown &&
      how != errc::denied)
    how = errc::request_failed;
  call(response{how == errc::ok ? status{} : status{how, source.value()}, source,
                payload.subspan(response_head_size)});
  return true;
}

void request_exchange::end(request_table::entry& which, status how) {
  // Without memory for the event the entry stays as it is.
  events_.tell_call([this, number = which.number](status) { tell(number); }, how);
  which.cancel();
  which.ends = true;
  which.outcome = how;
}

void request_exchange::tell(std::uint64_t number) {
  request_table::entry* const found = table_.find(number);
  if (found == nullptr)
    return;  // nobody waits any more
  const request_call call = std::exchange(found->call, nullptr);
  const response told{found->outcome, found->to->id, {}};
  free(*found);
  call(told);
}

void request_exchange::free(request_table::entry& which) noexcept {
  const request_table::asked_node& asked = *which.to;
  table_.free(which);
  if (table_was_full_)
    is_room_owed_ = is_room_owed_ || !table_.half_full();
  else
    is_room_owed_ =
        is_room_owed_ || (asked.wants_room && asked.waiting <= node_.options.requests() / 2);
}

void request_exchange::tell_room() {
  if (!is_room_owed_)
    return;
  table_was_full_ = table_was_full_ && table_.half_full();
  table_.for_each_node([this](request_table::asked_node& one) {
    if (!one.wants_room || one.waiting > node_.options.requests() / 2 || table_was_full_)
      return;
    events_.tell_writable(one.id);  // without memory it is owed still
    one.wants_room = false;
  });
  is_room_owed_ = false;
}

void request_exchange::expire(std::chrono::nanoseconds now) {
  while (request_table::entry* const late = table_.take_due(now)) {
    try {
      end(*late, errc::timed_out);
    } catch (...) {
      table_.set_deadline(*late, late->due(), now);
      throw;
    }
  }
  tell_room();
}

void request_exchange::undelivered(const held_message& what, errc reason) {
  request_head head;
  if ((what.flags & exchange_flags) != flag_request || !decode_request(what.bytes, head))
    return;
  request_table::entry* const found = find(head.number);
  if (found == nullptr)
    return;
  // The time that is over may be that of a way: the request's own says `timed_out`.
  const bool is_early = reason == errc::timed_out && node_.now() < found->due();
  end(*found, is_early ? errc::not_connected : reason);
}

std::optional<std::chrono::nanoseconds> request_exchange::deadline_of(
    const held_message& sent) noexcept {
  request_head head;
  const request_table::entry* const found =
      decode_request(sent.bytes, head) ? find(head.number) : nullptr;
  return found != nullptr ? std::optional{found->due()} : std::nullopt;
}

// A predecessor may have handled them, or this process may have, before it registered: only it knows. What it
// has answered so far comes before what it says now, because both are messages of one flow. A process that had
// registered before is asked again: the question may have been lost with its link, or a response given up.
void request_exchange::registered(peer& of, session& through) {
  // Those that were cancelled while they were in doubt.
  of.out.drop_if([this](const held_message& one) noexcept {
    return (one.flags & exchange_flags) == flag_request && !deadline_of(one);
  });
  if (node_.is_client(of) || !table_.waits_for(of.id))
    return;
  std::vector<std::uint64_t> safe;
  try {
    safe = unhandled_requests(of);
  } catch (const std::bad_alloc&) {
    return;  // as without room for the questions: the deadlines do their work
  }
  table_.for_each([&](const request_table::entry& one) {
    if (is_about(one, of) && !one.ends && !std::ranges::binary_search(safe, one.number))
      (void)output_.say(through, in_hand_body{.number = one.number}, message_purpose::data);
  });
}

std::vector<std::uint64_t> request_exchange::unhandled_requests(const peer& of) {
  std::vector<std::uint64_t> found;
  const auto note = [&found](std::uint8_t flags, bytes_view payload) {
    request_head head;
    if ((flags & exchange_flags) == flag_request && decode_request(payload, head))
      found.push_back(head.number);
  };
  of.out.for_each([&](const held_message& one) { note(one.flags, one.bytes); });
  for (const session* one : of.sessions) {
    one->at.visit_unhandled([&](bytes_view message) {
      message_head head;
      if (decode(message, head) == head_fault::none && head.kind == message_kind::data)
        note(head.flags, payload_of(message));
    });
  }
  std::ranges::sort(found);
  return found;
}

void request_exchange::asked_about(const node_instance& source, std::uint64_t number) {
  if (node_.is_client() || kept_.find(source, number) != nullptr)
    return;
  request unknown{*this, source.id, source.incarnation, number, 0, {}, {}, false};
  (void)answer(unknown, errc::outcome_unknown, {});
  gone(unknown);
}

void request_exchange::cancelled(const node_instance& source, std::uint64_t number) noexcept {
  if (request* const found = kept_.find(source, number); found != nullptr)
    found->cancelled_ = true;
}

std::byte* request_exchange::claim_for(const request& which, errc how, std::size_t length,
                                       status& why) {
  const node_instance to{which.source_, which.incarnation_};
  peer* in = nullptr;
  if (to.id == bus_id{}) {
    in = peers_.find(to);
    if (in == nullptr || in->current == nullptr) {
      why = errc::peer_closed;
      return nullptr;
    }
  } else if (to.id != node_.self.id) {
    in = &peers_.find_or_make(to.id);
    if (in->instance.incarnation != 0 && in->instance != to) {
      why = {errc::peer_closed, to.id.value()};
      return nullptr;
    }
    // The peer may be back soon, for what its link or an earlier incarnation of this node has left.
    if (in->sessions.empty() && !retention_.is_wanted(*in) && !in->forget.pending())
      in->forget.set(node_.idle_deadline());
  }
  // Refused later, the asking node would wait in vain.
  if (in != nullptr && length > in->message_limit) {
    why = {errc::message_too_large, length - response_head_size,
           in->message_limit - std::min(in->message_limit, response_head_size)};
    return nullptr;
  }
  return outbox_.claim_exchange(in, to.id, static_cast<std::uint32_t>(how),
                                flag_request | flag_reply, length, why);
}

std::byte* request_exchange::claim_response(request& which, errc how, std::size_t bytes,
                                            status& why) noexcept {
  if (node_.closed || node_.leaving) {
    why = errc::closed;
    return nullptr;
  }
  const bool is_kept = which.at_ != nullptr;
  if (which.cancelled_ || (is_kept && which.deadline_ <= node_.recent())) {
    why = which.cancelled_ ? errc::cancelled : errc::timed_out;
    gone(which);
    return nullptr;
  }
  // Before the head is added: the sum of a length that is absurd would be a small one.
  if (const std::size_t limit = node_.options.message_limit(); bytes > limit) {
    ++node_.stats.refused;
    why = {errc::message_too_large, bytes, limit - std::min(limit, response_head_size)};
    return nullptr;
  }
  try {
    std::byte* const at = claim_for(which, how, response_head_size + bytes, why);
    if (at == nullptr)
      return nullptr;
    store_little_endian(at, which.number_);
    return at + response_head_size;
  } catch (const std::bad_alloc&) {
    why = errc::out_of_memory;
    return nullptr;
  }
}

status request_exchange::answer(request& which, errc how, bytes_view bytes) noexcept {
  status why;
  std::byte* const at = claim_response(which, how, bytes.size(), why);
  if (at == nullptr)
    return why;
  if (!bytes.empty())
    std::memcpy(at, bytes.data(), bytes.size());
  outbox_.commit_exchange(response_head_size + bytes.size(), which.deadline_);
  gone(which);
  return {};
}

response_slot request_exchange::claim(request& which, std::size_t length) noexcept {
  status why;
  std::byte* const at = claim_response(which, errc::ok, length, why);
  if (at == nullptr)
    return {nullptr, 0, {}, why};
  return {&which, outbox_.last_claim(), {at, length}, {}};
}

void request_exchange::commit(request& which, std::uint64_t claim, std::size_t length) noexcept {
  if (outbox_.last_claim() != claim)
    return;
  if (outbox_.commit_exchange(response_head_size + length, which.deadline_))
    gone(which);
}

void request_exchange::give_up_claim(std::uint64_t claim) noexcept {
  if (outbox_.last_claim() == claim)
    outbox_.give_up_claim();
}

bool request_exchange::is_wanted(const request& which) const noexcept {
  return !which.cancelled_ && !node_.closed && node_.now() < which.deadline_;
}

void request_exchange::moved(request& from, request& to) noexcept {
  if (from.at_ != nullptr)
    kept_requests::move(from, to);
  else
    kept_.add(to);
  if (in_hand_ == &from) {
    in_hand_ = nullptr;
    moved_out_ = &to;
  } else if (moved_out_ == &from) {
    moved_out_ = &to;
  }
}

// It is answered, or nobody can answer it any more.
void request_exchange::gone(request& which) noexcept {
  which.exchange_ = nullptr;
  if (which.at_ != nullptr)
    kept_.remove(which);
  if (in_hand_ == &which)
    in_hand_ = nullptr;
  if (moved_out_ == &which) {
    moved_out_ = nullptr;
    which.bytes_ = {};
  }
}

void request_exchange::refuse_malformed(request& which) noexcept {
  events_.count_malformed(which.source_, which.type_);
  (void)answer(which, errc::request_failed, as_bytes(malformed_text));
}

void request_exchange::close() noexcept {
  const auto end = [](request& one) {
    one.exchange_ = nullptr;
    one.closed_ = true;
  };
  if (request* const in_hand = std::exchange(in_hand_, nullptr); in_hand != nullptr)
    end(*in_hand);
  if (request* const kept = std::exchange(moved_out_, nullptr); kept != nullptr)
    kept->bytes_ = {};  // it may be gone when its handler returns
  kept_.remove_all(end);
  table_.for_each([this](request_table::entry& one) {
    const request_call call = std::exchange(one.call, nullptr);
    const response told{one.ends ? one.outcome : status{errc::closed}, one.to->id, {}};
    table_.free(one);
    if (!node_.is_forked())
      call(told);
  });
  *open_ = false;
}

}  // namespace atbus::detail

namespace atbus {

kept_response::kept_response(const response& from) noexcept
    : how_(from.how()), source_(from.source()), size_(from.bytes().size()) {
  if (size_ > small_.size()) {
    large_.reset(new (std::nothrow) std::byte[size_]);
    if (large_ == nullptr) {
      how_ = {errc::out_of_memory, std::exchange(size_, 0)};
      return;
    }
  }
  if (size_ != 0)
    std::memcpy(large_ != nullptr ? large_.get() : small_.data(), from.bytes().data(), size_);
}

kept_response& kept_response::operator=(kept_response&& other) noexcept {
  if (this == &other)
    return *this;
  how_ = other.how_;
  source_ = other.source_;
  size_ = std::exchange(other.size_, 0);
  large_ = std::move(other.large_);
  if (large_ == nullptr && size_ != 0)
    std::memcpy(small_.data(), other.small_.data(), size_);
  return *this;
}

void response_slot::commit(std::size_t length) noexcept {
  if (of_ == nullptr || length > bytes_.size())
    return;
  request& of = *std::exchange(of_, nullptr);
  if (of.exchange_ != nullptr)
    of.exchange_->commit(of, claim_, length);
}

void response_slot::give_up() noexcept {
  if (of_->exchange_ != nullptr)
    of_->exchange_->give_up_claim(claim_);
}

void request::take(request& other) noexcept {
  exchange_ = std::exchange(other.exchange_, nullptr);
  source_ = other.source_;
  incarnation_ = other.incarnation_;
  number_ = other.number_;
  deadline_ = other.deadline_;
  bytes_ = std::exchange(other.bytes_, {});
  type_ = other.type_;
  redelivered_ = other.redelivered_;
  trace_ = other.trace_;
  cancelled_ = other.cancelled_;
  closed_ = other.closed_;
  if (exchange_ != nullptr)
    exchange_->moved(other, *this);
}

request& request::operator=(request&& other) noexcept {
  if (this != &other) {
    if (exchange_ != nullptr)
      give_up();
    take(other);
  }
  return *this;
}

bool request::is_wanted() const noexcept {
  return exchange_ != nullptr && exchange_->is_wanted(*this);
}

status request::reply(bytes_view bytes) noexcept {
  return exchange_ != nullptr ? exchange_->answer(*this, errc::ok, bytes) : why_not();
}

response_slot request::claim(std::size_t length) noexcept {
  if (exchange_ == nullptr)
    return {nullptr, 0, {}, why_not()};
  return exchange_->claim(*this, length);
}

status request::fail(std::string_view why) noexcept {
  return exchange_ != nullptr ? exchange_->answer(*this, errc::request_failed,
                                                  as_bytes(why.substr(0, detail::failure_text_max)))
                              : why_not();
}

void request::refuse_malformed() noexcept {
  if (exchange_ != nullptr)
    exchange_->refuse_malformed(*this);
}

void request::give_up() noexcept {
  (void)fail(detail::dropped_text);
  if (exchange_ != nullptr)
    exchange_->gone(*this);
}

}  // namespace atbus
