#include "node/core/incoming_blobs.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace atbus::detail {
namespace {

constexpr std::size_t blobs_of_one_most = 64;
constexpr std::size_t blobs_of_all_most = 1024;
constexpr std::string_view blob_handler_threw = "its handler threw";

// Why a sender breaks a blob off: never for a reason that only the receiver can know.
errc reason_of(errc said) noexcept {
  return said == errc::ok || said == errc::closed || said == errc::outcome_unknown
             ? errc::peer_closed
             : said;
}

// Whoever refused it, or was told the end, hears nothing more.
bool hears_end(const receiving_blob& which) noexcept {
  return which.receiver && (!which.is_over || which.how != errc::ok || which.said == errc::ok);
}

}  // namespace

std::size_t incoming_blobs::known_of(bus_id source) const noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(
      known_, [&](const auto& one) { return one.first.source == source.value(); }));
}

receiving_blob* incoming_blobs::find(const blob_id& which) noexcept {
  const auto found = known_.find(key{which});
  return found != known_.end() ? &*found->second : nullptr;
}

status incoming_blobs::resume(const blob_id& which) {
  if (node_.closed)
    return errc::closed;
  receiving_blob* const found = find(which);
  if (found == nullptr || found->is_over)
    return errc::not_found;
  found->flow.resume();
  if (found != in_hand_ && found->flow.is_complete())
    finish(*found);
  parties_.set_ready(*found->party);
  return {};
}

status incoming_blobs::refuse(const blob_id& which, std::string_view why) {
  if (node_.closed)
    return errc::closed;
  receiving_blob* const found = find(which);
  if (found == nullptr || found->is_over)
    return errc::not_found;
  outbox_.give_up_claim();
  break_off(*found, {}, errc::request_failed, why);
  return {};
}

void incoming_blobs::take(const node_instance& source, std::uint32_t type, const blob_head& head,
                          bytes_view payload, bool redelivered) {
  const blob_id id{source.id, source.incarnation, head.number};
  receiving_blob* const found = find(id);
  const bytes_view rest = payload.subspan(blob_head_size);
  if (found == nullptr) {
    if (head.step == blob_step::begin)
      begin(id, type, head.value, as_text(rest), redelivered);
    else if (head.step == blob_step::query)
      answer(id, type, errc::not_found);
    return;
  }
  if (found->is_over)
    return take_over(*found, head.step);
  switch (head.step) {
    case blob_step::chunk:
      return chunk(*found, head.value, rest);
    case blob_step::end:
      return break_off(*found, reason_of(head.status), errc::ok);
    case blob_step::query:
      return grant(*found);
    case blob_step::begin:
    case blob_step::grant:
      return break_off(*found, errc::protocol_error, errc::protocol_error);
  }
}

// Its sender is told, or has been; or it was taken to be gone, and is not.
void incoming_blobs::take_over(receiving_blob& which, blob_step step) {
  if (step == blob_step::query && which.said == errc::ok && !which.owes_end) {
    which.said = errc::not_found;
    which.owes_end = true;
  }
  if (step != blob_step::end || !which.is_told || !which.owes_end)
    return;
  const auto known = known_.find(key{which.id});  // nobody has to hear of it any more
  parties_.set_ready(*which.party);
  which.party->owing.erase(known->second);
  known_.erase(known);
}

errc incoming_blobs::check_begin(const blob_id& id, std::uint32_t type,
                                 std::uint64_t size) noexcept {
  if (id.source != node_.self.id && !access_.admits(id.source, message_class::message, type))
    return errc::denied;
  if (size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return errc::protocol_error;
  if (known_.size() >= blobs_of_all_most || known_of(id.source) >= blobs_of_one_most)
    return errc::would_block;
  return events_.handlers().on_blob.contains(type) ? errc::ok : errc::unknown_request;
}

receiving_blob* incoming_blobs::make(const blob_id& id, std::uint32_t type,
                                     std::uint64_t size) noexcept {
  try {
    blob_party& party = parties_.find_or_make(id.source);
    parties_.set_ready(party);
    blob_list made;
    made.push_back({.party = &party,
                    .id = id,
                    .type = type,
                    .flow = blob_receiving{size, node_.options.blob_window()},
                    .receiver = nullptr});
    known_.emplace(key{id}, made.begin());
    party.receiving.splice(party.receiving.end(), made);
    return &party.receiving.back();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

// What takes memory is done before the handler: what it accepts has an end.
void incoming_blobs::begin(const blob_id& id, std::uint32_t type, std::uint64_t size,
                           std::string_view note, bool redelivered) {
  const errc bad = check_begin(id, type, size);
  receiving_blob* const made = bad == errc::ok ? make(id, type, size) : nullptr;
  if (made == nullptr) {
    ++node_.stats.blobs_refused;
    return answer(id, type, bad == errc::ok ? errc::would_block : bad);
  }
  incoming_blob told{id, type, size, note, redelivered};
  const auto& handler = events_.handlers().on_blob.find(type)->second;
  in_hand_ = made;
  try {
    handler(told);
  } catch (...) {
    in_hand_ = nullptr;
    if (!node_.closed)
      break_off(*made, {}, errc::request_failed, blob_handler_threw);
    throw;
  }
  in_hand_ = nullptr;
  made->receiver = std::move(told.receiver_);
  if (node_.closed)
    return tell_of_close(*made);
  if (!made->receiver) {
    return break_off(*made, {}, errc::request_failed,
                     told.refusal_.empty() ? "the handler did not accept the blob"
                                           : std::string_view{told.refusal_});
  }
  if (made->is_over)  // the handler has disconnected its sender
    return;
  if (size == 0)
    return finish(*made);
  grant(*made);
}

void incoming_blobs::chunk(receiving_blob& which, std::uint64_t position, bytes_view bytes) {
  if (!which.flow.arrived(position, bytes.size()))
    return break_off(which, errc::protocol_error, errc::protocol_error);
  const blob_part part{which.id, which.flow.size(), position, bytes};
  in_hand_ = &which;
  try {
    which.receiver(part);
  } catch (...) {
    in_hand_ = nullptr;
    if (!node_.closed)
      give_up(which, blob_handler_threw);
    throw;
  }
  in_hand_ = nullptr;
  if (node_.closed) {
    which.flow.take();
    if (!part.refused_)
      tell_of_close(which);
    return;
  }
  if (part.refused_)
    return give_up(which, part.why_);
  if (which.is_over)
    return;
  which.flow.take();
  if (part.paused_)
    which.flow.pause();
  if (which.flow.is_complete())
    return finish(which);
  if (which.flow.is_urgent())
    grant(which);
  else
    parties_.set_ready(*which.party);
}

// Its receiver hears nothing more, whatever else it has done within this part.
void incoming_blobs::give_up(receiving_blob& which, std::string_view why) {
  break_off(which, {}, errc::request_failed, why);
  which.how = {};
  which.said = errc::request_failed;
  keep_text(which.said_text, why.substr(0, blob_text_max));
}

void incoming_blobs::finish(receiving_blob& which) {
  which.owes_end = true;
  which.said = errc::ok;
  move_over(which);
}

void incoming_blobs::break_off(receiving_blob& which, status how, errc said,
                               std::string_view text) {
  if (which.is_over)
    return;
  which.how = how;
  which.said = said;
  keep_text(which.said_text, text.substr(0, blob_text_max));
  move_over(which);
  which.owes_end = said != errc::ok && !say_end(which);
}

void incoming_blobs::move_over(receiving_blob& which) noexcept {
  which.is_over = true;
  over_.splice(over_.end(), which.party->receiving, known_.find(key{which.id})->second);
  ++which.party->untold;
}

// The receiver goes before its sender hears of the end: a file is closed by then.
void incoming_blobs::tell_first() {
  blob_list one;
  one.splice(one.end(), over_, over_.begin());
  receiving_blob& which = one.front();
  blob_party& party = *which.party;
  const bool is_whole = which.said == errc::ok && which.owes_end;
  const bool is_accepted = which.receiver != nullptr;
  ++(is_whole      ? node_.stats.blobs_received
     : is_accepted ? node_.stats.blobs_broken
                   : node_.stats.blobs_refused);
  struct frame {
    incoming_blobs& of;
    blob_list& one;
    blob_party& party;
    ~frame() {
      if (of.node_.closed)
        return;
      receiving_blob& told = one.front();
      --party.untold;
      of.parties_.set_ready(party);
      told.receiver = nullptr;
      told.is_told = true;
      if (told.owes_end && !of.say_end(told)) {
        party.owing.splice(party.owing.end(), one);
        return;
      }
      of.known_.erase(key{told.id});
    }
  } const at_end{*this, one, party};
  const bool hears = hears_end(which);
  auto receiver = std::move(which.receiver);
  if (!hears)
    return;
  try {
    receiver(blob_part{which.id, which.flow.size(), which.flow.taken(), which.how});
    receiver = nullptr;
  } catch (...) {
    which.said = is_whole ? errc::request_failed : which.said;
    if (is_whole)
      keep_text(which.said_text, blob_handler_threw);
    throw;
  }
}

void incoming_blobs::tell() {
  while (!over_.empty() && !node_.closed)
    tell_first();
}

void incoming_blobs::undelivered(bus_id to, const held_message& what, errc reason) {
  blob_head head;
  if (!decode_blob(what.bytes, head))
    return;
  // Its number tells it from others of that node well enough: it begins at random.
  const auto found = std::ranges::find_if(known_, [&](const auto& one) {
    return one.first.source == to.value() && one.first.number == head.number &&
           !one.second->is_over;
  });
  const peer* const of = peers_.find(to);
  const bool is_there = reason != errc::closed && of != nullptr && of->current != nullptr;
  if (found != known_.end()) {
    receiving_blob& which = *found->second;
    break_off(which, {reason == errc::closed ? errc::closed : errc::peer_closed}, errc::ok);
    if (is_there) {  // no message is sent while another one is reported
      which.said = errc::peer_closed;
      which.owes_end = true;
    }
  } else if (is_there && head.step == blob_step::end && what.bytes.size() > blob_head_size) {
    // Its text was too long for a link that came later.
    owe({to, of->instance.incarnation, head.number}, what.type, head.status);
  }
}

void incoming_blobs::registered(blob_party& of, const node_instance& as) {
  for (auto at = of.receiving.begin(); at != of.receiving.end();) {
    receiving_blob& one = *at++;
    if (one.id.incarnation != as.incarnation)
      break_off(one, errc::peer_closed, errc::ok);
  }
  ask(of);
}

void incoming_blobs::ask(blob_party& of) noexcept {
  for (receiving_blob& one : of.receiving)
    one.owes_query = true;
  parties_.set_ready(of);
}

void incoming_blobs::lost(blob_party& of) {
  while (!of.receiving.empty())
    break_off(of.receiving.front(), errc::peer_closed, errc::ok);
}

void incoming_blobs::leave(blob_party& of) {
  while (!of.receiving.empty())
    break_off(of.receiving.front(), errc::closed, errc::closed);
}

bool incoming_blobs::waits(const blob_party& to) noexcept {
  return !to.owing.empty() || std::ranges::any_of(to.receiving, [](const receiving_blob& one) {
    return one.owes_query || one.flow.has_news();
  });
}

void incoming_blobs::work(blob_party& to) {
  while (!to.owing.empty() && say_end(to.owing.front())) {
    known_.erase(key{to.owing.front().id});
    to.owing.pop_front();
  }
  // What is said may find that the sender is gone, which ends some.
  std::vector<blob_id> due;
  for (const receiving_blob& one : to.receiving) {
    if (one.owes_query || one.flow.has_news())
      due.push_back(one.id);
  }
  for (const blob_id& id : due) {
    receiving_blob* const one = find(id);
    if (one == nullptr || one->is_over)
      continue;
    if (one->owes_query)
      one->owes_query =
          waits_for_room(say(id, one->type, {.number = id.number, .step = blob_step::query}));
    if (!one->is_over && one->flow.has_news())
      (void)say_grant(*one);
  }
}

// The sender hears that end once there is room, if not too many wait for that.
void incoming_blobs::owe(const blob_id& id, std::uint32_t type, errc said, std::string_view text) {
  if (find(id) != nullptr || known_of(id.source) >= blobs_of_one_most)
    return;
  receiving_blob* const made = make(id, type, 0);
  if (made == nullptr)
    return unsaid_(id, type);
  made->is_over = made->is_told = true;
  made->owes_end = true;
  made->said = said;
  keep_text(made->said_text, text);
  blob_party& party = *made->party;
  party.owing.splice(party.owing.end(), party.receiving, known_.find(key{id})->second);
}

void incoming_blobs::answer(const blob_id& id, std::uint32_t type, errc said,
                            std::string_view text) {
  const blob_head head{.number = id.number, .step = blob_step::end, .status = said};
  if (waits_for_room(say(id, type, head, text)))
    owe(id, type, said, text);
}

bool incoming_blobs::say_end(receiving_blob& which) {
  return !waits_for_room(say(which.id, which.type,
                             {.number = which.id.number,
                              .step = blob_step::end,
                              .status = which.said,
                              .value = which.flow.taken()},
                             which.said_text));
}

bool incoming_blobs::say_grant(receiving_blob& which) {
  const blob_receiving before = which.flow;
  const blob_receiving::grant what = which.flow.next_grant();
  const status said = say(
      which.id, which.type,
      {.number = which.id.number, .step = blob_step::grant, .value = what.taken}, {}, what.limit);
  if (waits_for_room(said)) {
    which.flow = before;
    return false;
  }
  if (said == errc::message_too_large)
    break_off(which, said, errc::message_too_large);
  return true;
}

void incoming_blobs::grant(receiving_blob& which) {
  if (!say_grant(which))
    parties_.set_ready(*which.party);
}

status incoming_blobs::say(const blob_id& to, std::uint32_t type, const blob_head& head,
                           std::string_view text, std::uint64_t limit) {
  const std::size_t most = outbox_.longest_message(to.source);
  text = text.substr(0, most - std::min(most, blob_head_size));
  const std::size_t size =
      head.step == blob_step::grant ? blob_grant_size : blob_head_size + text.size();
  status why;
  std::byte* at = nullptr;
  try {
    at = claim(to, type, size, why);
  } catch (const std::bad_alloc&) {
    return errc::out_of_memory;
  }
  if (at == nullptr)
    return why;
  encode_blob(at, head);
  if (head.step == blob_step::grant)
    store_little_endian(at + blob_head_size, limit);
  else if (!text.empty())
    std::memcpy(at + blob_head_size, text.data(), text.size());
  outbox_.commit_exchange(size, {});
  return {};
}

std::byte* incoming_blobs::claim(const blob_id& to, std::uint32_t type, std::size_t size,
                                 status& why) {
  peer* in = nullptr;
  if (to.source != node_.self.id) {
    in = &peers_.find_or_make(to.source);
    if (in->instance.incarnation != 0 && in->instance.incarnation != to.incarnation) {
      why = {errc::peer_closed, to.source.value()};
      return nullptr;
    }
    // It may be back soon.
    if (in->sessions.empty() && !retention_.is_wanted(*in) && !in->forget.pending())
      in->forget.set(node_.idle_deadline());
  }
  return outbox_.claim_blob(in, to.source, type, flags_blob | flag_reply, size, why);
}

void incoming_blobs::tell_of_close(const receiving_blob& which) {
  if (!hears_end(which))
    return;
  const status how = which.is_over ? which.how : status{errc::closed};
  which.receiver(blob_part{which.id, which.flow.size(), which.flow.taken(), how});
}

void incoming_blobs::close() noexcept {
  for (const auto& [id, one] : known_) {
    if (&*one != in_hand_ && !node_.is_forked())
      tell_of_close(*one);
  }
  known_.clear();
}

}  // namespace atbus::detail

namespace atbus {

void incoming_blob::collect(std::uint64_t limit,
                            std::function<void(status how, std::vector<std::byte> bytes)> call) {
  if (size_ > limit) {
    return refuse("the blob has " + std::to_string(size_) + " bytes, and " + std::to_string(limit) +
                  " are taken here at most");
  }
  accept([all = std::vector<std::byte>{}, call = std::move(call)](const blob_part& part) mutable {
    if (part.ended()) {
      if (!part.how())
        all = {};
      return call(part.how(), std::move(all));
    }
    try {
      if (all.empty())
        all.reserve(
            static_cast<std::size_t>(part.size()));  // a page of it takes memory when it is written
      all.insert(all.end(), part.bytes().begin(), part.bytes().end());
    } catch (const std::bad_alloc&) {
      all = {};
      part.refuse("there is no memory for the blob");
      call(errc::out_of_memory, {});
    }
  });
}

}  // namespace atbus
