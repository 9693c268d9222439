#include "node/core/topic_copies.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "core/first_exception.h"

namespace atbus::detail {

void outgoing_copy::write(std::byte* to) const noexcept {
  encode(head, to);
  if (head.what == topic_part::message && !bytes.empty())
    std::memcpy(to + topic_head_size(head.name), bytes.data(), bytes.size());
}

const std::shared_ptr<const byte_buffer>& outgoing_copy::keep() {
  if (kept == nullptr) {
    auto made = std::make_shared<byte_buffer>(size());
    write(made->data());
    kept = std::move(made);
  }
  return kept;
}

topic_wish* topic_copies::find_full(const topic_entry& of, std::size_t size) noexcept {
  for (const auto& one : of.wanted_by) {
    const peer& to = one->by.of;
    const bool is_there = to.current != nullptr && to.current->is_direct &&
                          to.current->stage == session_stage::registered;
    if (one->may_block && is_there && one->waiting.is_full(size, one->by.account))
      return one.get();
  }
  return nullptr;
}

std::size_t topic_copies::spread(topic_entry& of, outgoing_copy& what, const peer* from) {
  std::size_t links = 0;
  for (const auto& one : of.wanted_by) {
    const peer& to = one->by.of;
    if (!interests::goes_on(from, to))
      continue;
    if (what.head.what == topic_part::message &&
        !access_.lets_copy(what.head.publisher, to.id, what.type))
      continue;
    try {
      copy_to(*one, what);
    } catch (const std::bad_alloc&) {
      lose(*one, what.head);
      output_.try_again(one->by.of);
    }
    ++links;
  }
  return links;
}

bool topic_copies::has_open_link(const peer& of) const noexcept {
  return of.current != nullptr && of.current->is_direct && of.next == nullptr && !of.blocked &&
         !of.copies_yield && !of.out.holds() && !node_.closed && !node_.leaving &&
         (of.current->stage == session_stage::registered ||
          of.current->stage == session_stage::away);
}

template <class Write>
status topic_copies::put(peer& to, std::uint32_t type, std::size_t size, bool redelivered,
                         const Write& write) {
  if (size > to.message_limit)
    return {errc::message_too_large, size, to.message_limit};
  session& path = *to.current;
  output_.close_path();  // a handler may have opened it since what brought this copy has come
  if (output_.claimed.path == &path)
    output_.claimed = {};
  const auto flags = static_cast<std::uint8_t>(flag_topic | (redelivered ? flag_redelivered : 0));
  status why;
  std::byte* const at = output_.begin_data(to, to.out.accepted() + 1, type, flags, size, why);
  if (at == nullptr && why == errc::out_of_memory) {
    output_.try_again(to);
    return {errc::would_block, size};
  }
  if (at == nullptr) {
    to.blocked = why == errc::would_block || why == errc::closed;
    return to.blocked ? status{errc::would_block, size} : why;
  }
  write(at);
  link_output::end_data(path, size);
  to.out.sent(to.out.accept());
  to.counts.sent_bytes += size;
  ++node_.stats.accepted;
  node_.stats.accepted_bytes += size;
  ++node_.stats.topic_copies;
  return {};
}

void topic_copies::try_to_put(peer& to, const topic_head& head) {
  const outgoing_copy word{head};
  if (has_open_link(to))
    (void)put(to, 0, word.size(), false, [&](std::byte* at) { word.write(at); });
}

void topic_copies::copy_to(topic_wish& to, outgoing_copy& what) {
  peer& whom = to.by.of;
  if ((!to.is_listed || to.waiting.empty()) && has_open_link(whom)) {
    const status sent =
        put(whom, what.type, what.size(), what.redelivered, [&](std::byte* at) { what.write(at); });
    if (sent)
      return;
    if (sent != errc::would_block) {  // it never fits there
      if (what.head.what != topic_part::message)
        return;
      lose(to, what.head);
      return drain(whom);
    }
  }
  wait_for(to, what);
}

void topic_copies::lose(topic_wish& of, const topic_head& head) noexcept {
  if (head.what == topic_part::message) {
    ++node_.stats.topic_drops;
    of.waiting.lose(head.publisher, head.stream, head.number, of.by.account);
  } else {
    of.waiting.lose({head.publisher, head.stream, head.base, head.number}, of.by.account);
  }
  list(of);
}

void topic_copies::list(topic_wish& of) noexcept {
  if (!std::exchange(of.is_listed, true))
    of.by.waiting.push_back(&of);  // there is room for all wishes
  of.by.of.copies_wait = true;
}

void topic_copies::wait_for(topic_wish& to, outgoing_copy& what) {
  const bool is_message = what.head.what == topic_part::message;
  copy_queue::copy copy{.bytes = is_message ? what.keep() : nullptr,
                        .type = what.type,
                        .redelivered = what.redelivered,
                        .what = what.head.what,
                        .publisher = what.head.publisher,
                        .stream = what.head.stream,
                        .number = what.head.number,
                        .base = what.head.base};
  if (is_message)
    node_.stats.topic_drops += to.waiting.push(std::move(copy), to.by.account);
  else
    to.waiting.push_mark(copy, to.by.account);
  list(to);
}

bool topic_copies::put_word(const topic_wish& of, topic_part what, const copy_queue::mark& said) {
  const topic_head head{.publisher = said.publisher,
                        .stream = said.stream,
                        .number = said.number,
                        .base = said.base,
                        .what = what,
                        .name = of.of.name};
  const outgoing_copy word{head};
  return put(of.by.of, 0, word.size(), false, [&](std::byte* at) { word.write(at); }) !=
         errc::would_block;
}

// A subscriber that does not know a stream was told its interest before the stream began: all of it is owed.
void topic_copies::lose_all(topic_wish& of) noexcept {
  of.waiting.begin_marks();
  for_each_stream(of, [&](bus_id publisher, std::uint64_t stream, std::uint64_t number) {
    of.waiting.lose({publisher, stream, 0, number}, of.by.account);
  });
}

bool topic_copies::put_first(topic_wish& of) {
  copy_queue& waiting = of.waiting;
  copy_queue::account& account = of.by.account;
  if (const std::optional<copy_queue::mark> lost = waiting.mark_before_front()) {
    if (!put_word(of, topic_part::mark, *lost))
      return false;
    waiting.pop_mark_before_front(account);
    return true;
  }
  if (const copy_queue::copy* const first = waiting.front(); first != nullptr) {
    if (!put_copy(of, *first))
      return false;
    waiting.pop_front(account);
    return true;
  }
  if (!put_word(of, topic_part::mark, *waiting.front_mark()))
    return false;
  waiting.pop_mark(account);
  return true;
}

bool topic_copies::put_copy(topic_wish& of, const copy_queue::copy& what) {
  if (!what.is_message())
    return put_word(of, what.what, {what.publisher, what.stream, what.base, what.number});
  status sent = errc::denied;  // other rules may hold since it waits
  if (access_.lets_copy(what.publisher, of.by.of.id, what.type)) {
    sent = put(of.by.of, what.type, what.size(), what.redelivered,
               [&](std::byte* at) { std::memcpy(at, what.bytes->data(), what.size()); });
  }
  if (sent == errc::would_block)
    return false;
  if (!sent) {
    ++node_.stats.topic_drops;
    of.waiting.lose(what.publisher, what.stream, what.number, of.by.account);
  }
  return true;
}

// One of each topic in turn, so that none waits for all of another one.
void topic_copies::drain(peer& of) {
  topic_neighbour* const to = interests_.find(of);
  if (to == nullptr) {
    of.copies_wait = false;
    return;
  }
  std::size_t idle = 0;          // topics in a row whose marks have to wait for those of others
  std::size_t& next = to->next;  // stays at one that finds no room
  while (idle < to->waiting.size() && has_open_link(of)) {
    next = next < to->waiting.size() ? next : 0;
    topic_wish& one = *to->waiting[next];
    if (!one.waiting.has_first())
      lose_all(one);
    if (one.waiting.has_first() && !put_first(one))
      break;
    idle = one.waiting.has_first() || one.waiting.empty() ? 0 : idle + 1;
    if (one.waiting.empty()) {
      one.is_listed = false;
      to->waiting.erase(to->waiting.begin() + static_cast<std::ptrdiff_t>(next));
    } else {
      ++next;
    }
  }
  of.copies_wait = !to->waiting.empty();
  if (of.copies_wait && has_open_link(of))
    output_.try_again(of);  // there is memory or room for marks, then
  tell_blocked(*to);
}

void topic_copies::go_on() {
  output_.end_yielding();
  first_exception thrown;
  for (const auto& [id, one] : interests_.neighbours()) {
    peer& of = one->of;
    if (of.copies_yield && of.owes_writable)
      output_.yield_copies(of);
    else if (std::exchange(of.copies_yield, false))
      thrown.keep([&] { output_.drain(of); });
  }
  thrown.rethrow();
}

void topic_copies::block(topic_wish& of, std::size_t size) noexcept {
  if (std::exchange(of.refused, size) == 0)
    of.by.blocking.push_back(&of);  // there is room for all wishes
}

// Whatever waits of other topics: some have copies that wait all the time.
void topic_copies::tell_blocked(topic_neighbour& of) {
  const auto has_room = [&of](topic_wish* one) {
    const bool blocks = one->may_block && (one->waiting.messages() != 0 ||
                                           one->waiting.is_full(one->refused, of.account));
    one->refused = blocks ? one->refused : 0;
    return !blocks;
  };
  of.owes_room = std::erase_if(of.blocking, has_room) != 0 || of.owes_room;
  interests_.tell_room(of);
}

void topic_copies::tell_all_blocked(topic_neighbour& of) {
  for (topic_wish* const one : of.blocking)
    one->refused = 0;
  of.owes_room = of.owes_room || !of.blocking.empty();
  of.blocking.clear();
  tell_blocked(of);
}

bool topic_copies::may_go(bus_id to, const held_message& what) noexcept {
  topic_head head;
  return !decode(what.bytes, head) || head.what != topic_part::message ||
         access_.lets_copy(head.publisher, to, what.type);
}

void topic_copies::undelivered(bus_id whom, peer* to, const held_message& what) {
  topic_head head;
  if (whom == node_.self.id || to == nullptr || !decode(what.bytes, head) ||
      head.what == topic_part::begin || head.what == topic_part::refused)
    return;
  const topic_entry* const topic = table_.find(head.name);
  topic_neighbour* const by = interests_.find(*to);
  if (topic == nullptr || by == nullptr)
    return;
  for (const auto& one : topic->wanted_by) {
    if (&one->by != by)
      continue;
    if (head.what == topic_part::message)
      one->waiting.lose(head.publisher, head.stream, head.number, by->account);
    else
      one->waiting.lose({head.publisher, head.stream, head.base, head.number}, by->account);
    list(*one);
  }
}

bool topic_copies::settled() const noexcept {
  return std::ranges::all_of(interests_.neighbours(), [](const auto& one) {
    const peer& of = one.second->of;
    return !of.copies_wait || of.current == nullptr || !of.current->is_direct ||
           of.current->stage != session_stage::registered;
  });
}

}  // namespace atbus::detail
