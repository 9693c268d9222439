#include "node/core/outgoing_blobs.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

namespace atbus::detail {
namespace {

using stage = outgoing_blob::stage;

constexpr std::size_t blobs_most = 4096;       // of all nodes together
constexpr std::size_t active_blobs_most = 16;  // to one node
constexpr std::size_t chunk_most = std::size_t{32} * 1024;
constexpr std::size_t relayed_chunk_most = std::size_t{15} * 1024;  // of one batch of a circuit
// Of chunks to one node in one poll: others wait that long for the rest of it.
constexpr std::size_t poll_most = std::size_t{128} * 1024;
// Answers to one node about blobs that are unknown here: it has begun to take no more of them.
constexpr std::size_t answers_most = 64;

// What a receiver may say of a blob that it has not taken.
errc outcome_of(errc said) noexcept {
  switch (said) {
    case errc::unknown_request:
    case errc::would_block:
    case errc::denied:
    case errc::message_too_large:
    case errc::protocol_error:
      return said;
    case errc::closed:
      return errc::peer_closed;
    default:
      return errc::request_failed;
  }
}

bool is_of_sender(const held_message& what, blob_step step, blob_head& head) noexcept {
  return (what.flags & exchange_flags) == flags_blob && decode_blob(what.bytes, head) &&
         head.step == step;
}

bool is_begin(const held_message& what, const outgoing_blob& of) noexcept {
  blob_head head;
  return is_of_sender(what, blob_step::begin, head) && head.number == of.number;
}

bool is_chunk(const held_message& what) noexcept {
  blob_head head;
  return is_of_sender(what, blob_step::chunk, head);
}

}  // namespace

outgoing_blob* outgoing_blobs::find(std::uint64_t number) noexcept {
  const auto found = known_.find(number);
  return found != known_.end() && found->second->now != stage::over ? &*found->second : nullptr;
}

blob_handle outgoing_blobs::send(bus_id to, std::uint32_t type, blob_source source,
                                 std::function<void(const blob_outcome&)> call,
                                 const blob_options& options) {
  const auto refused = [](status why) { return blob_handle{why, 0}; };
  const std::uint64_t size = source.size();
  if (!call || options.note.size() > blob_note_max ||
      (!source.next_ && source.bytes_.size() != size) ||
      size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return refused(errc::invalid_argument);
  if (node_.closed || node_.leaving)
    return refused(errc::closed);
  if (node_.is_forked())
    return refused(errc::used_after_fork);
  if (!node_.fault)
    return refused(node_.fault.code());
  if (node_.is_client())
    return refused(errc::not_supported);
  if (known_.size() + farewells_ >= blobs_most) {
    ++node_.stats.would_block;
    return refused(errc::would_block);
  }
  try {
    blob_party& party = parties_.find_or_make(to);
    parties_.set_ready(party);
    while (last_ == 0)
      last_ = node_.on.random.word();
    const bool waits = !party.waiting.empty() || party.active.size() >= active_blobs_most;
    blob_list made;
    made.push_back({.party = &party,
                    .number = ++last_,
                    .type = type,
                    .source = std::move(source),
                    .call = std::move(call),
                    .note = std::string{options.note},
                    .flow = blob_sending{size}});
    const auto at = made.begin();
    known_.emplace(at->number, at);
    party.waiting.splice(party.waiting.end(), made);
    status why;
    try {
      why = waits ? status{errc::would_block} : begin(*at);
    } catch (const std::bad_alloc&) {
      why = errc::out_of_memory;
    }
    if (why || why == errc::would_block)
      return {status{}, at->number};
    known_.erase(at->number);
    party.waiting.erase(at);
    return refused(why);
  } catch (const std::bad_alloc&) {
    return refused(errc::out_of_memory);
  }
}

status outgoing_blobs::cancel(const blob_handle& which) {
  if (node_.closed)
    return errc::closed;
  outgoing_blob* const found = which ? find(which.number_) : nullptr;
  if (found == nullptr)
    return errc::not_found;
  outbox_.give_up_claim();
  end_there_too(*found, errc::cancelled);
  return {};
}

void outgoing_blobs::end(outgoing_blob& which, status how, std::string_view text) {
  if (which.now == stage::over)
    return;
  blob_party& party = *which.party;
  keep_text(which.text, text);
  which.how = how;
  blob_list& in = which.now == stage::waiting ? party.waiting : party.active;
  which.now = stage::over;
  over_.splice(over_.end(), in, known_.find(which.number)->second);
  ++party.untold;
  parties_.set_ready(party);  // another one may begin
}

void outgoing_blobs::end_there_too(outgoing_blob& which, errc how) {
  const bool is_known_there = which.now != stage::waiting && !withdraw_begin(which);
  if (which.now == stage::over)  // what was drained has ended it
    return;
  end(which, how);
  if (!is_known_there)
    return;
  try {
    which.party->farewells.push_back({which.number, which.type, how});
    ++farewells_;
  } catch (const std::bad_alloc&) {  // the other node asks at the next registration
  }
}

errc outgoing_blobs::lost_outcome(const outgoing_blob& which) noexcept {
  return which.flow.is_all_sent() ? errc::outcome_unknown : errc::peer_closed;
}

// Its successor may yet get the beginning again, and then has to hear of the end.
void outgoing_blobs::end_lost(outgoing_blob& which) {
  end_there_too(which, lost_outcome(which));
}

// Its beginning still waits here for a link: nobody has to hear of it.
bool outgoing_blobs::withdraw_begin(const outgoing_blob& which) {
  peer* const of = peers_.find(which.party->id);
  if (of == nullptr || which.now != stage::begun || !of->out.holds())
    return false;
  if (!of->out.withdraw([&](const held_message& one) noexcept { return is_begin(one, which); }))
    return false;
  output_.drain(*of);  // there may be room for others
  return true;
}

std::byte* outgoing_blobs::claim(bus_id to, std::uint32_t type, std::size_t size, status& why) {
  return outbox_.claim_blob(directory_.find_or_look_up(to), to, type, flags_blob, size, why);
}

status outgoing_blobs::begin(outgoing_blob& which) {
  blob_party& party = *which.party;
  const peer* const of = peers_.find(party.id);
  if (of != nullptr && of->current != nullptr && !of->current->knows_blobs)
    return errc::not_supported;
  status why = outbox_.check_blob(party.id, which.type);
  if (!why)
    return why;
  if (const std::size_t most = outbox_.longest_message(party.id); most < blob_grant_size)
    return {errc::message_too_large, blob_grant_size, most};
  const std::size_t size = blob_head_size + which.note.size();
  std::byte* const at = claim(party.id, which.type, size, why);
  if (at == nullptr)
    return why;
  which.now = stage::begun;
  party.active.splice(party.active.end(), party.waiting, known_.find(which.number)->second);
  encode_blob(at, {.number = which.number, .step = blob_step::begin, .value = which.flow.size()});
  if (!which.note.empty())
    std::memcpy(at + blob_head_size, which.note.data(), which.note.size());
  outbox_.commit_exchange(size, {});
  return {};
}

status outgoing_blobs::say(bus_id to, std::uint32_t type, const blob_head& head) {
  status why;
  std::byte* const at = claim(to, type, blob_head_size, why);
  if (at == nullptr)
    return why;
  encode_blob(at, head);
  outbox_.commit_exchange(blob_head_size, {});
  return {};
}

void outgoing_blobs::take(const node_instance& source, std::uint32_t type, const blob_head& head,
                          bytes_view payload) {
  outgoing_blob* const found = find(head.number);
  const bool is_there = found != nullptr && found->party->id == source.id &&
                        found->now != stage::waiting &&
                        (found->holder == 0 || found->holder == source.incarnation);
  if (!is_there) {
    if (head.step == blob_step::query && peers_.find(source.id) != nullptr)
      answer_unknown(source.id, type, head.number);
    return;
  }
  found->holder = source.incarnation;
  switch (head.step) {
    case blob_step::query:
      return;
    case blob_step::grant:
      found->now = stage::granted;
      if (!found->flow.granted(head.value,
                               load_little_endian<std::uint64_t>(payload.data() + blob_head_size)))
        return end_there_too(*found, errc::protocol_error);
      return parties_.set_ready(*found->party);
    case blob_step::end:
      if (head.status == errc::not_found)
        return end(*found, lost_outcome(*found));
      if (head.status != errc::ok)
        return end(*found, outcome_of(head.status), as_text(payload.subspan(blob_head_size)));
      if (!found->flow.is_all_sent() || head.value != found->flow.size())
        return end_there_too(*found, errc::protocol_error);
      (void)found->flow.granted(head.value, head.value);
      return end(*found, errc::ok);
    case blob_step::begin:
    case blob_step::chunk:
      return end_there_too(*found, errc::protocol_error);
  }
}

void outgoing_blobs::answer_unknown(bus_id to, std::uint32_t type, std::uint64_t number) {
  const status said =
      say(to, type, {.number = number, .step = blob_step::end, .status = errc::peer_closed});
  if (!waits_for_room(said))
    return;
  blob_party& party = parties_.find_or_make(to);
  parties_.set_ready(party);
  if (party.farewells.size() >= answers_most)
    return;
  party.farewells.push_back({number, type, errc::peer_closed});
  ++farewells_;
}

void outgoing_blobs::undelivered(bus_id to, const held_message& what, errc reason) {
  blob_head head;
  if (!decode_blob(what.bytes, head))
    return;
  outgoing_blob* const found = find(head.number);
  if (found == nullptr || found->party->id != to)
    return;
  const bool is_unknown = what.outcome() == errc::outcome_unknown && found->flow.is_all_sent();
  const peer* const of = peers_.find(to);
  if (head.step != blob_step::begin && of != nullptr && of->current != nullptr)
    return end_there_too(*found, is_unknown ? errc::outcome_unknown : reason);
  end(*found, is_unknown ? status{errc::outcome_unknown} : status{reason, to.value()});
}

// What ends with one may end others.
template <class Is>
void outgoing_blobs::end_lost_if(blob_party& of, Is&& is_it) {
  for (auto one = of.active.end();
       (one = std::ranges::find_if(of.active, is_it)) != of.active.end();)
    end_lost(*one);
}

void outgoing_blobs::registered(blob_party& of, const node_instance& as) {
  end_lost_if(of, [&](const outgoing_blob& one) {
    return one.holder != 0 && one.holder != as.incarnation;
  });
  ask(of);
}

void outgoing_blobs::ask(blob_party& of) noexcept {
  for (outgoing_blob& one : of.active)
    one.owes_query = true;
  parties_.set_ready(of);
}

// A beginning that no process has taken waits for the next one, as messages do.
void outgoing_blobs::lost(blob_party& of) {
  peer* const at_peer = peers_.find(of.id);
  const auto is_held = [&](const outgoing_blob& one) {
    bool found = at_peer != nullptr && !at_peer->sessions.empty();
    if (at_peer != nullptr && !found)
      at_peer->out.for_each(
          [&](const held_message& what) { found = found || is_begin(what, one); });
    return found;
  };
  end_lost_if(of, [&](const outgoing_blob& one) { return one.holder != 0 || !is_held(one); });
  if (at_peer != nullptr)
    at_peer->out.drop_if(is_chunk);  // of those that are over
  parties_.set_ready(of);            // there may be room for their ends now
}

bool outgoing_blobs::settled() const noexcept {
  if (!known_.empty())
    return false;
  bool waits = false;
  if (farewells_ != 0) {
    parties_.for_each([&](const blob_party& of) {
      const peer* const at = peers_.find(of.id);
      const bool has_link =
          at != nullptr && at->current != nullptr && at->current->stage != session_stage::away;
      waits = waits || (!of.farewells.empty() && (has_link || of.id == node_.self.id));
    });
  }
  return !waits;
}

void outgoing_blobs::give_up(blob_party& of) {
  while (!of.active.empty())
    end(of.active.front(), errc::not_supported);
  farewells_ -= of.farewells.size();
  of.farewells.clear();
}

void outgoing_blobs::leave(blob_party& of) {
  while (!of.active.empty())
    end_there_too(of.active.front(), errc::closed);
  while (!of.waiting.empty())
    end(of.waiting.front(), errc::closed);
  (void)say_farewells(of);
  farewells_ -= of.farewells.size();
  of.farewells.clear();
}

bool outgoing_blobs::say_farewells(blob_party& to) {
  while (!to.farewells.empty()) {
    const blob_party::farewell& first = to.farewells.front();
    const status said = say(to.id, first.type,
                            {.number = first.number, .step = blob_step::end, .status = first.how});
    if (waits_for_room(said))
      return false;
    to.farewells.pop_front();
    --farewells_;
  }
  return true;
}

bool outgoing_blobs::say_queries(blob_party& to) {
  for (auto one = to.active.end();
       (one = std::ranges::find_if(to.active, &outgoing_blob::owes_query)) != to.active.end();) {
    outgoing_blob& which = *one;  // it may be over when its question has found its place
    const status said = say(to.id, which.type, {.number = which.number, .step = blob_step::query});
    if (waits_for_room(said))
      return false;
    which.owes_query = false;
  }
  return true;
}

bool outgoing_blobs::begin_waiting(blob_party& to) {
  while (!to.waiting.empty() && to.active.size() < active_blobs_most) {
    outgoing_blob& first = to.waiting.front();
    const status begun = begin(first);
    if (waits_for_room(begun))
      return false;
    if (!begun)
      end(first, begun);
  }
  return true;
}

bool outgoing_blobs::work(blob_party& to) {
  if (!say_farewells(to) || !say_queries(to) || !begin_waiting(to))
    return to.id == node_.self.id;  // it has room when it is polled next
  return send_chunks(to);
}

bool outgoing_blobs::has_open_link(const peer* of) const noexcept {
  return of != nullptr && of->current != nullptr && of->next == nullptr && !of->blocked &&
         !of->out.holds() && !node_.closed && !node_.leaving &&
         of->current->stage == session_stage::registered;
}

std::size_t outgoing_blobs::longest_chunk(const peer* of) const noexcept {
  const std::size_t most =
      of != nullptr ? outbox_.longest_message(of->id) : node_.options.message_limit();
  const bool is_relayed = of != nullptr && of->current->at.kind() == link_kind::relayed;
  const std::size_t chunk = is_relayed ? relayed_chunk_most : chunk_most;
  return std::min(chunk, most - std::min(most, blob_head_size));
}

// One of each blob in turn. Others than blobs are never kept waiting by more than a window of it.
bool outgoing_blobs::send_chunks(blob_party& to) {
  const bool is_self = to.id == node_.self.id;
  std::uint64_t under_way = 0;
  for (const outgoing_blob& one : to.active)
    under_way += one.flow.under_way();
  std::size_t left = poll_most;
  for (std::size_t idle = 0; idle < to.active.size();) {
    peer* const of = is_self ? nullptr : peers_.find(to.id);
    if (!is_self && !has_open_link(of))
      return false;
    if (left == 0)
      return true;
    outgoing_blob& one = to.active.front();
    to.active.splice(to.active.end(), to.active, to.active.begin());
    if (one.now != stage::granted || one.flow.sendable() == 0) {
      ++idle;
      continue;
    }
    const std::size_t longest = longest_chunk(of);
    if (longest == 0) {
      end_there_too(one, errc::message_too_large);
      continue;
    }
    const auto length =
        static_cast<std::size_t>(std::min<std::uint64_t>(longest, one.flow.sendable()));
    if (under_way + length > node_.options.blob_window()) {
      to.active.splice(to.active.begin(), to.active, std::prev(to.active.end()));  // it is next
      return false;
    }
    // Who was told to wait for room goes first.
    const bool yields = of != nullptr && (of->wants_room || of->owes_writable);
    const put_result done = put(of, one, length);
    if (done == put_result::blocked || node_.closed)
      return is_self && !node_.closed;
    idle = 0;
    if (done != put_result::sent)
      continue;
    under_way += length;
    left = yields ? 0 : left - std::min(left, length);
  }
  return false;
}

bool outgoing_blobs::fill(outgoing_blob& which, std::byte* at, std::size_t length) {
  const std::uint64_t position = which.flow.position();
  encode_blob(at, {.number = which.number, .step = blob_step::chunk, .value = position});
  at += blob_head_size;
  if (!which.source.next_) {
    std::memcpy(at, which.source.bytes_.data() + position, length);
    return true;
  }
  const std::uint64_t claims = output_.path().claims;
  status made;
  in_source_ = &which;
  try {
    made = which.source.next_({at, length});
  } catch (...) {
    in_source_ = nullptr;
    if (node_.closed)
      call_closed(which);
    else if (which.now != stage::over)
      end_there_too(which, errc::cancelled);
    throw;
  }
  in_source_ = nullptr;
  if (node_.closed) {
    call_closed(which);
    return false;
  }
  if (which.now == stage::over)
    return false;  // it was cancelled there
  if (made && output_.path().claims != claims)
    made = errc::invalid_argument;
  if (!made) {
    end_there_too(which, errc::cancelled);
    which.how = made;
  }
  return static_cast<bool>(made);
}

outgoing_blobs::put_result outgoing_blobs::put(peer* to, outgoing_blob& which, std::size_t length) {
  const std::size_t size = blob_head_size + length;
  status why;
  if (to == nullptr) {
    std::byte* const at =
        outbox_.claim_blob(nullptr, node_.self.id, which.type, flags_blob, size, why);
    if (at == nullptr)
      return put_result::blocked;
    if (!fill(which, at, length))
      return put_result::ended;
    outbox_.commit_exchange(size, {});
    which.flow.send(length);
    return put_result::sent;
  }
  session& path = *to->current;
  output_.close_path();
  if (output_.claimed.path == &path)
    output_.claimed = {};
  std::byte* const at =
      output_.begin_data(*to, to->out.accepted() + 1, which.type, flags_blob, size, why);
  if (at == nullptr && why == errc::out_of_memory)
    output_.try_again(*to);
  else if (at == nullptr && (why == errc::would_block || why == errc::closed))
    to->blocked = true;
  else if (at == nullptr) {
    end_there_too(which, why.code());
    return put_result::ended;
  }
  if (at == nullptr)
    return put_result::blocked;
  if (!fill(which, at, length))
    return put_result::ended;
  if (peers_.find(which.party->id) != to || !link_output::end_data(path, size)) {
    end_there_too(which, errc::invalid_argument);  // its source has used the node
    return put_result::ended;
  }
  which.flow.send(length);
  to->out.sent(to->out.accept());
  to->counts.sent_bytes += size;
  ++node_.stats.accepted;
  node_.stats.accepted_bytes += size;
  return put_result::sent;
}

// Those that are over now: what a call ends has its turn at the next poll.
void outgoing_blobs::tell() {
  for (std::size_t left = over_.size(); left != 0 && !over_.empty() && !node_.closed; --left) {
    blob_list one;
    one.splice(one.end(), over_, over_.begin());
    outgoing_blob& which = one.front();
    known_.erase(which.number);
    --which.party->untold;
    parties_.set_ready(*which.party);  // it may be of no use any more
    ++(which.how ? node_.stats.blobs_sent : node_.stats.blobs_failed);
    which.call(blob_outcome{which.how, which.party->id, which.flow.taken(), which.text});
  }
}

void outgoing_blobs::call_closed(outgoing_blob& which) noexcept {
  if (node_.is_forked())
    return;
  const status how = which.now == stage::over ? which.how : status{errc::closed};
  which.call(blob_outcome{how, which.party->id, which.flow.taken(), which.text});
}

// What is in use stays until this object goes: a source may have closed the node.
void outgoing_blobs::close() noexcept {
  for (const auto& [number, one] : known_) {
    if (&*one != in_source_)
      call_closed(*one);
  }
  known_.clear();
}

}  // namespace atbus::detail
