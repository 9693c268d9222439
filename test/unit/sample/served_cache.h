// A cache server and its clients on a simulated bus.
#pragma once

#include "atbus/clock.hpp"
#include "atbus/testing.hpp"
#include "cache_client.h"
#include "cache_service.h"
#include "cache_values.h"

namespace atbus::test {

// Quick in builds that are not optimized, too.
inline bool are_same(bytes_view one, bytes_view other) {
  return one.size() == other.size() &&
         (one.empty() || std::memcmp(one.data(), other.data(), one.size()) == 0);
}

// What a server's process holds.
struct cache_process {
  explicit cache_process(node& at, const cache::store_options& options, std::size_t message_limit)
      : store{opened(options)}, service{at, *store, message_limit} {
    at.spawn(service.sweep());
  }

  std::unique_ptr<cache::cache_store> store;
  cache::cache_service service;
};

class ServedCache : public ::testing::Test {
 protected:
  static constexpr std::size_t message_limit = 8 * mebibyte + 4096;
  static constexpr std::uint64_t server = 1;
  static constexpr std::uint64_t client = 2;
  static constexpr std::uint64_t other = 3;

  [[nodiscard]] static testing::process_options with_limit(std::size_t bytes) {
    testing::process_options options;
    options.node.message_limit(bytes).send_buffer_size(2 * bytes);
    return options;
  }

  void start(const std::string& address, std::size_t memory_bytes = 16 * mebibyte,
             std::size_t client_limit = message_limit) {
    sim_.start(
        server,
        [this, address, memory_bytes](node& at) {
          EXPECT_TRUE(at.listen(address));
          return std::make_unique<cache_process>(
              at, cache::store_options{.memory_bytes = memory_bytes, .clock = &clock_},
              message_limit);
        },
        with_limit(message_limit));
    for (const std::uint64_t id : {client, other}) {
      sim_.start(
          id, [address](node& at) { EXPECT_TRUE(at.connect(server, address)); },
          with_limit(client_limit));
    }
  }

  // Asks, and waits for the outcome.
  kept_response ask(cache::request_type type, bytes_view body, std::uint64_t by = client) {
    std::optional<kept_response> outcome;
    const request_handle sent =
        sim_.node(by).request(server, type, body, 30s, [&outcome](const response& r) {
          EXPECT_FALSE(outcome);
          outcome.emplace(r);
        });
    EXPECT_TRUE(sent) << sent.why().text();
    EXPECT_TRUE(sim_.run_until([&] { return outcome.has_value(); }));
    return outcome ? std::move(*outcome) : kept_response{};
  }
  kept_response get(std::string_view key, std::uint64_t by = client) {
    return ask(cache::get, as_bytes(key), by);
  }
  kept_response set(std::string_view key, bytes_view value, std::int64_t milliseconds = 0) {
    return ask(cache::set, set_body(key, value, milliseconds));
  }

  static std::vector<std::byte> set_body(std::string_view key, bytes_view value,
                                         std::int64_t milliseconds = 0) {
    std::vector<std::byte> body(sizeof(cache::set_head) + key.size() + value.size());
    mutable_bytes to{body};
    cache::put(to, cache::set_head{.key_bytes = static_cast<std::uint32_t>(key.size()),
                                   .time_to_live_ms = milliseconds});
    cache::put(to, as_bytes(key));
    cache::put(to, value);
    return body;
  }

  // -1: it is none.
  static int found(const kept_response& r) {
    bytes_view rest = r.bytes();
    cache::answer_head head;
    return r && cache::take(rest, head) ? static_cast<int>(head.found) : -1;
  }
  static bool is(const kept_response& r, bytes_view value) {
    return found(r) == 1 && are_same(r.bytes().subspan(sizeof(cache::answer_head)), value);
  }

  // A line of the stats.
  std::uint64_t counter(const std::string& name) {
    const kept_response r = ask(cache::stats, {}, other);
    const std::string text = "\n" + std::string{r.text()};
    const std::size_t at = text.find("\n" + name + " ");
    EXPECT_NE(at, text.npos) << text;
    return at == text.npos ? 0 : std::stoull(text.substr(at + name.size() + 2));
  }

  manual_clock clock_{1h};
  testing::simulation sim_{1};
};

}  // namespace atbus::test
