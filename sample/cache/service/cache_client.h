/// @class cache::cache_client
/// Asks a cache server from coroutines of a node.
///
/// ```cpp
/// cache::cache_client cache{node, 1, 200ms};
/// if (auto got = co_await cache.get("key"); got.found) use(got.value());
/// auto done = co_await cache.set("key", atbus::as_bytes("value"));
/// ```
///
/// Each call has one outcome (atbus::response::how), also if the server dies. Ownership: refers to
/// the node, which outlives it. Threads: the node's.
#pragma once

#include <atbus/node.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cache_protocol.h"

namespace cache {

/// What a get brought.
struct got_value {
  atbus::kept_response answer;
  bool found = false;
  /// The outcome of the request; ok also for a miss.
  [[nodiscard]] atbus::status how() const noexcept { return answer.how(); }
  /// The value; empty for a miss.
  [[nodiscard]] atbus::bytes_view value() const noexcept {
    return found ? answer.bytes().subspan(sizeof(answer_head)) : atbus::bytes_view{};
  }
};

class cache_client {
 public:
  /// Asks node `server`, each time for at most `timeout`.
  cache_client(atbus::node& node, atbus::bus_id server, std::chrono::nanoseconds timeout)
      : node_(node), server_(server), timeout_(timeout) {}

  /// The value of a key.
  atbus::task<got_value> get(std::string_view key) {
    got_value got{.answer = co_await node_.request(server_, request_type::get, key, timeout_)};
    atbus::bytes_view rest = got.answer.bytes();
    answer_head head;
    got.found = got.answer && take(rest, head) && head.found == 1;
    co_return got;
  }
  /// Makes `value` that of the key, for that many milliseconds; 0: for ever. Not ok: the outcome,
  /// with the server's words in text().
  atbus::task<atbus::kept_response> set(std::string_view key, atbus::bytes_view value,
                                        std::chrono::milliseconds time_to_live = {}) {
    std::vector<std::byte> body(sizeof(set_head) + key.size() + value.size());
    atbus::mutable_bytes to{body};
    put(to, set_head{static_cast<std::uint32_t>(key.size()), 0, time_to_live.count()});
    put(to, atbus::as_bytes(key));
    put(to, value);
    co_return co_await node_.request(server_, request_type::set, atbus::bytes_view{body}, timeout_);
  }
  /// Whether the key was there, in answer_head::found of the response.
  atbus::task<atbus::kept_response> erase(std::string_view key) {
    co_return co_await node_.request(server_, request_type::erase, key, timeout_);
  }
  /// The values of several keys with one request. The answer is that of get_many.
  atbus::task<atbus::kept_response> get_many(const std::vector<std::string>& keys) {
    std::size_t size = sizeof(std::uint32_t) * (1 + keys.size());
    for (const std::string& key : keys)
      size += key.size();
    std::vector<std::byte> body(size);
    atbus::mutable_bytes to{body};
    put(to, static_cast<std::uint32_t>(keys.size()));
    for (const std::string& key : keys) {
      put(to, static_cast<std::uint32_t>(key.size()));
      put(to, atbus::as_bytes(key));
    }
    co_return co_await node_.request(server_, request_type::get_many, atbus::bytes_view{body},
                                     timeout_);
  }
  /// The server's counters as text.
  atbus::task<atbus::kept_response> stats() {
    co_return co_await node_.request(server_, request_type::stats, std::string_view{}, timeout_);
  }

 private:
  atbus::node& node_;
  atbus::bus_id server_;
  std::chrono::nanoseconds timeout_;
};

}  // namespace cache
