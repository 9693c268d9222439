#include "simulation/node/delivery_trace.h"

#include "protocol/message_head.h"

namespace atbus::detail {

void delivery_trace::born(simulated_node& process, restart_policy policy) {
  lives_[*book_.find_life(process.core().self())] = {&process.channels(), policy};
}

std::optional<std::size_t> delivery_trace::life_at(const place& at) const {
  const auto index = book_.find_life(at.by);
  return index && lives_.at(*index).process == at.process ? index : std::nullopt;
}

void delivery_trace::look_at(const flow_key& which, const flow& of) {
  if (!of.model.fault().empty())
    book_.fail("not a step of the model: life " + std::to_string(which.first) + " to node " +
               bus_id{which.second}.to_string() + ": " + of.model.fault());
}

void delivery_trace::offers(const node_instance& from, bus_id to) {
  (void)flows_[{*book_.find_life(from), to.value()}].model.accept();
}

void delivery_trace::refused(const node_instance& from, bus_id to) {
  const flow_key which{*book_.find_life(from), to.value()};
  flow& of = flows_[which];
  of.model.refuse();
  look_at(which, of);
}

void delivery_trace::handled(const node_instance& by, const message& what) {
  const auto stamp = book_.stamp_of(what.bytes(), what.type());
  if (!stamp || stamp->to == 0)
    return;
  const flow_key which{stamp->from, stamp->to};
  flow& of = flows_[which];
  of.model.handle(stamp->number, {.by = by, .marked = what.redelivered()});
  look_at(which, of);
}

// Those that are told together are not told one by one: to the model they stay where they were.
void delivery_trace::told(const node_instance& whom, const undelivered& what) {
  const auto stamp = book_.stamp_of(what.bytes(), what.type());
  if (what.count() > 1 || !stamp || stamp->from != book_.find_life(whom))
    return;
  const flow_key which{stamp->from, stamp->to};
  flow& of = flows_[which];
  if (of.last_word && what.reason() == errc::superseded)
    open(which, *std::exchange(of.last_word, std::nullopt));
  of.model.tell(stamp->number, what.outcome());
  look_at(which, of);
}

template <class Step>
void delivery_trace::follow(const place& at, bytes_view message, Step&& step) {
  message_head head;
  if (decode(message, head) != head_fault::none || head.kind != message_kind::data ||
      (head.flags & exchange_flags) != 0)
    return;
  const auto stamp = book_.stamp_of(payload_of(message), head.type);
  if (!stamp || stamp->from != life_at(at) || stamp->to != at.other.id.value())
    return;
  const flow_key which{stamp->from, stamp->to};
  flow& of = flows_[which];
  step(of.model, stamp->number, (head.flags & flag_redelivered) != 0);
  look_at(which, of);
}

// The first announcement on a link: a node uses it from now on, as far as the other end has said it is.
void delivery_trace::announced(const place& at) {
  const auto index = life_at(at);
  if (!index)
    return;
  const flow_key which{*index, at.other.id.value()};
  if (flows_[which].path != at.link)
    open(which, at);
}

void delivery_trace::open(const flow_key& which, const place& at) {
  flow& of = flows_[which];
  of.path = at.link;
  of.model.open(at.link, at.other, sessions_[{at.link, 1 - at.end}], lives_.at(which.first).policy);
  look_at(which, of);
}

void delivery_trace::answered(const place& at, const resume_point& answer) {
  sessions_[{at.link, at.end}] = answer.session;
  const auto whose = book_.find_life(at.other);
  if (!answer.superseded || !whose || !life_at(at))
    return;
  place sender = at;
  sender.end = 1 - at.end;
  std::swap(sender.by, sender.other);
  flows_[{*whose, at.by.id.value()}].last_word = sender;
}

void delivery_trace::committed(const place& at, bytes_view message) {
  message_head head;
  if (decode(message, head) != head_fault::none)
    return;
  if (head.kind == message_kind::flow)
    return announced(at);
  if (proof_body proof; head.kind == message_kind::proof && decode(message, proof))
    answered(at, proof.resume);
  if (accept_body accept; head.kind == message_kind::accept && decode(message, accept))
    answered(at, accept.resume);
  follow(at, message, [&](test::delivery_model& of, std::uint64_t number, bool marked) {
    of.put(number, at.link, marked, at.is_inherited);
  });
}

void delivery_trace::released(const place& at, bytes_view message) {
  follow(at, message,
         [&](test::delivery_model& of, std::uint64_t number, bool) { of.release(number); });
}

void delivery_trace::taken_back(const place& at, bytes_view message, errc fate) {
  follow(at, message, [&](test::delivery_model& of, std::uint64_t number, bool marked) {
    of.take_back(number, marked, fate == errc::outcome_unknown, at.is_inherited);
  });
}

void delivery_trace::left_behind(const place& at) {
  if (const auto index = life_at(at))
    flows_[{*index, at.other.id.value()}].model.leave_behind(at.link);
}

}  // namespace atbus::detail
