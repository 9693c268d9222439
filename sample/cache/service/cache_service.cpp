#include "cache_service.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "cache_protocol.h"

using namespace std::chrono_literals;

namespace cache {

cache_service::cache_service(atbus::node& node, cache_store& store, std::size_t message_limit)
    : node_(node), store_(store), message_limit_(message_limit) {
  node.on_request(request_type::get, [this](atbus::request& r) { get(r); });
  node.on_request(request_type::get_many, [this](atbus::request& r) { get_many(r); });
  node.on_request(request_type::set, [this](atbus::request& r) { set(r); });
  node.on_request(request_type::erase, [this](atbus::request& r) { erase(r); });
  node.on_request(request_type::stats, [this](atbus::request& r) { stats(r); });
  node.on_writable([this](atbus::bus_id) { answer_waiting(); });
}

atbus::task<> cache_service::sweep() {
  for (;;) {
    const atbus::status slept = co_await node_.sleep(100ms);
    if (!slept)
      co_return;
    store_.sweep(256);
    drop_unwanted();
  }
}

void cache_service::answer(atbus::request& r, from kind, atbus::bytes_view bytes) {
  if (try_answer(r, kind, bytes))
    return;
  constexpr std::string_view too_much = "too many answers wait for clients that do not read them";
  if (bytes.size() > waiting_bytes_max - std::min(waiting_bytes_, waiting_bytes_max)) {
    kind = from::reason;
    bytes = atbus::as_bytes(too_much);
  }
  std::vector<std::byte> kept{bytes.begin(), bytes.end()};  // a request that is moved has none
  waiting_bytes_ += kept.size();
  waiting_.push_back({.what = r.detach(), .kind = kind, .bytes = std::move(kept)});
}

void cache_service::answer_waiting() {
  // Those that find no room go to the end: another client may have some.
  for (std::size_t left = waiting_.size(); left != 0; --left) {
    waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    if (try_answer(next.what, next.kind, next.bytes))
      waiting_bytes_ -= next.bytes.size();
    else
      waiting_.push_back(std::move(next));
  }
}

void cache_service::drop_unwanted() {
  std::erase_if(waiting_, [this](const waiting& one) {
    const bool is_unwanted = !one.what.is_wanted();
    waiting_bytes_ -= is_unwanted ? one.bytes.size() : 0;
    return is_unwanted;
  });
}

bool cache_service::try_answer(atbus::request& r, from kind, atbus::bytes_view bytes) {
  switch (kind) {
    case from::key:
      return try_value(r, bytes);
    case from::keys:
      return try_values(r, bytes);
    case from::reply:
      return r.reply(bytes) != atbus::errc::would_block;
    case from::reason:
      break;
  }
  return r.fail(atbus::as_text(bytes)) != atbus::errc::would_block;
}

bool cache_service::try_value(atbus::request& r, atbus::bytes_view key) {
  const std::optional<value_pieces> value = store_.get(key);
  auto slot = r.claim(sizeof(answer_head) + (value ? value->size() : 0));
  if (!slot) {
    // Too long for the client, or nobody waits.
    return slot.why() != atbus::errc::would_block &&
           r.fail(slot.why().text()) != atbus::errc::would_block;
  }
  atbus::mutable_bytes to = slot->bytes();
  put(to, answer_head{.found = value ? 1U : 0U, .count = 1});
  if (value) {
    for (const atbus::bytes_view piece : *value)
      put(to, piece);
  }
  slot.commit();
  return true;
}

bool cache_service::try_values(atbus::request& r, atbus::bytes_view rest) {
  const auto failed = [&r](std::string_view why) {
    return r.fail(why) != atbus::errc::would_block;
  };
  std::uint32_t count = 0;
  if (!take(rest, count) || count > keys_max)
    return failed("a get_many is malformed, or has more than 1024 keys");
  std::vector<std::optional<value_pieces>> values;
  std::vector<std::uint32_t> lengths;
  // Half of a message at most, so that many small values never fail for their sum.
  std::size_t room = message_limit_ / 2;
  std::size_t size = sizeof(answer_head) + count * sizeof(std::uint32_t);
  answer_head head{.found = 0, .count = count};
  for (std::uint32_t at = 0; at != count; ++at) {
    std::uint32_t length = 0;
    atbus::bytes_view key;
    if (!take(rest, length) || !take(rest, length, key))
      return failed("a get_many is malformed");
    values.push_back(store_.get(key));
    lengths.push_back(not_found);
    if (!values.back())
      continue;
    ++head.found;
    if (values.back()->size() > room) {
      lengths.back() = ask_again;
      values.back().reset();
      continue;
    }
    lengths.back() = static_cast<std::uint32_t>(values.back()->size());
    room -= lengths.back();
    size += lengths.back();
  }
  auto slot = r.claim(size);
  if (!slot)
    return slot.why() != atbus::errc::would_block && failed(slot.why().text());
  atbus::mutable_bytes to = slot->bytes();
  put(to, head);
  for (const std::uint32_t length : lengths)
    put(to, length);
  for (const auto& value : values) {
    if (!value)
      continue;
    for (const atbus::bytes_view piece : *value)
      put(to, piece);
  }
  slot.commit();
  return true;
}

void cache_service::set(atbus::request& r) {
  atbus::bytes_view value = r.bytes();
  set_head head;
  atbus::bytes_view key;
  if (!take(value, head) || !take(value, head.key_bytes, key))
    return fail(r, "a set is malformed");
  const std::chrono::milliseconds time{head.time_to_live_ms};
  const std::array pieces{value};
  const atbus::status done = store_.set(key, pieces, time == 0ms ? cache_store::forever : time);
  if (!done)
    return fail(r, done.text());
  const answer_head head_of_answer{.found = 1, .count = 1};
  answer(r, from::reply, std::as_bytes(std::span{&head_of_answer, 1}));
}

void cache_service::erase(atbus::request& r) {
  const answer_head head{.found = store_.erase(r.bytes()) ? 1U : 0U, .count = 1};
  answer(r, from::reply, std::as_bytes(std::span{&head, 1}));
}

void cache_service::stats(atbus::request& r) {
  const store_stats all = store_.stats();
  std::string text;
  const auto line = [&text](std::string_view name, std::uint64_t value) {
    text += std::string{name} + ' ' + std::to_string(value) + '\n';
  };
  line("items", all.items);
  line("item_bytes", all.item_bytes);
  line("memory_bytes", all.memory_bytes);
  line("index_bytes", all.index_bytes);
  line("free_bytes", all.free_bytes);
  line("hits", all.hits);
  line("misses", all.misses);
  line("evictions", all.evictions);
  line("expired", all.expired);
  line("damaged", all.damaged);
  line("waiting", waiting_.size());
  answer(r, from::reply, atbus::as_bytes(text));
}

}  // namespace cache
