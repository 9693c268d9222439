// The service of sample/cache on a simulated bus.
#include <malloc.h>

#include "served_cache.h"

namespace atbus::test {
namespace {

using cache::request_type;

const std::string by_memory = "shm://cache";
const std::string by_tcp = "ipv4://10.0.0.1:7000";

struct client_results {
  bool has_ended = false;
  std::string got;
  bool found_before = false;
  bool found_after = false;
};

task<> use_cache(cache::cache_client& cache, client_results& results) {
  const cache::got_value before = co_await cache.get("key");
  results.found_before = before.found || !before.how();
  const kept_response set = co_await cache.set("key", as_bytes("value"));
  EXPECT_TRUE(set) << set.text();
  const cache::got_value got = co_await cache.get("key");
  results.got = std::string{as_text(got.value())};
  const kept_response erased = co_await cache.erase("key");
  EXPECT_TRUE(erased);
  const cache::got_value after = co_await cache.get("key");
  results.found_after = after.found || !after.how();
  results.has_ended = true;
}

TEST_F(ServedCache, GivesAClientWhatItSetAndErased) {
  start(by_memory);
  cache::cache_client cache{sim_.node(client), bus_id{server}, 5s};
  client_results results;
  sim_.node(client).spawn(use_cache(cache, results));
  ASSERT_TRUE(sim_.run_until([&] { return results.has_ended; }));
  EXPECT_FALSE(results.found_before);
  EXPECT_EQ(results.got, "value");
  EXPECT_FALSE(results.found_after);
}

TEST_F(ServedCache, TellsWhetherAnErasedKeyWasThere) {
  start(by_memory);
  EXPECT_TRUE(set("key", as_bytes("value")));
  EXPECT_EQ(found(ask(cache::erase, as_bytes("key"))), 1);
  EXPECT_EQ(found(ask(cache::erase, as_bytes("key"))), 0);
  EXPECT_EQ(found(get("key")), 0);
}

TEST_F(ServedCache, SharesItsItemsBetweenClients) {
  start(by_tcp);
  EXPECT_TRUE(set("key", as_bytes("value")));
  EXPECT_TRUE(is(get("key", other), as_bytes("value")));
}

std::vector<std::byte> get_many_body(const std::vector<std::string>& keys) {
  std::vector<std::byte> body(4096 + 64 * keys.size());
  mutable_bytes to{body};
  cache::put(to, static_cast<std::uint32_t>(keys.size()));
  for (const std::string& key : keys) {
    cache::put(to, static_cast<std::uint32_t>(key.size()));
    cache::put(to, as_bytes(key));
  }
  body.resize(body.size() - to.size());
  return body;
}

TEST_F(ServedCache, TellsTheFateOfEachOfManyKeys) {
  start(by_memory);
  const std::vector<std::byte> large = value_bytes(1, 1, 5 * mebibyte);  // over half a message
  EXPECT_TRUE(set("one", as_bytes("first")));
  EXPECT_TRUE(set("large", large));
  EXPECT_TRUE(set("two", as_bytes("second")));
  const kept_response r =
      ask(cache::get_many, get_many_body({"one", "none", "large", "two", "one"}));
  ASSERT_TRUE(r) << r.text();
  bytes_view rest = r.bytes();
  cache::answer_head head;
  std::array<std::uint32_t, 5> lengths{};
  ASSERT_TRUE(cache::take(rest, head) && cache::take(rest, lengths));
  EXPECT_EQ(head.found, 4U);
  EXPECT_EQ(head.count, 5U);
  EXPECT_EQ(lengths, (std::array<std::uint32_t, 5>{5, cache::not_found, cache::ask_again, 6, 5}));
  EXPECT_EQ(as_text(rest), "firstsecondfirst");
  EXPECT_TRUE(is(get("large"), large));
}

TEST_F(ServedCache, CountsWhatItDid) {
  start(by_memory);
  EXPECT_TRUE(set("key", as_bytes("value")));
  EXPECT_EQ(found(get("key")), 1);
  EXPECT_EQ(found(get("none")), 0);
  EXPECT_EQ(counter("items"), 1U);
  EXPECT_EQ(counter("item_bytes"), 8U);
  EXPECT_EQ(counter("memory_bytes"), 16 * mebibyte);
  EXPECT_EQ(counter("hits"), 1U);
  EXPECT_EQ(counter("misses"), 1U);
  EXPECT_EQ(counter("waiting"), 0U);
}

TEST_F(ServedCache, FailsMalformedBodiesWithAText) {
  start(by_memory);
  const auto words = [](std::vector<std::uint32_t> numbers) {
    const bytes_view bytes = std::as_bytes(std::span{numbers});
    return std::vector<std::byte>{bytes.begin(), bytes.end()};
  };
  const std::vector<std::pair<request_type, std::vector<std::byte>>> wrong{
      {cache::set, {}},
      {cache::set, words({1, 0, 0})},                 // a part of the head
      {cache::set, words({1, 0, 0, 0})},              // no key
      {cache::set, words({0xffffffff, 0, 0, 0, 7})},  // a longer key than the body
      {cache::set, words({0, 0, 0, 0, 7})},           // an empty key
      {cache::set, words({4, 0, 0, 0x80000000, 7})},  // time runs backwards
      {cache::get_many, {}},
      {cache::get_many, words({1025})},           // too many
      {cache::get_many, words({0xffffffff})},     // far too many
      {cache::get_many, words({2, 4, 7})},        // the second is missing
      {cache::get_many, words({1, 0xffffffff})},  // the key is longer than the body
  };
  for (std::size_t at = 0; at != wrong.size(); ++at) {
    const kept_response r = ask(wrong[at].first, wrong[at].second);
    EXPECT_EQ(r.how(), errc::request_failed) << at;
    EXPECT_FALSE(r.text().empty()) << at;
  }
  const kept_response unknown = ask(static_cast<request_type>(99), {});
  EXPECT_EQ(unknown.how(), errc::unknown_request);
  EXPECT_EQ(found(get("")), 0);
  EXPECT_EQ(found(get(std::string(100'000, 'k'))), 0);
  EXPECT_TRUE(set("key", as_bytes("value")));
  EXPECT_TRUE(is(get("key"), as_bytes("value")));
}

TEST_F(ServedCache, ForgetsItemsWhoseTimeIsOver) {
  start(by_memory);
  EXPECT_TRUE(set("short", as_bytes("value"), 1000));
  EXPECT_TRUE(set("longest", as_bytes("value"), std::numeric_limits<std::int64_t>::max()));
  EXPECT_TRUE(set("for ever", as_bytes("value")));
  clock_.advance(999ms);
  EXPECT_EQ(found(get("short")), 1);
  clock_.advance(2ms);
  EXPECT_EQ(found(get("short")), 0);
  EXPECT_EQ(found(get("longest")), 1);
  EXPECT_EQ(found(get("for ever")), 1);
}

// Without a get: the sweep finds them.
TEST_F(ServedCache, FreesWhatNobodyAsksForAgain) {
  start(by_memory);
  for (std::uint64_t key = 0; key != 100; ++key) {
    EXPECT_TRUE(set(key_text(key), as_bytes("value"), 1000));
  }
  clock_.advance(2s);
  sim_.run_for(10s);
  EXPECT_EQ(counter("items"), 0U);
}

class ServedCacheOver : public ServedCache, public ::testing::WithParamInterface<std::string> {};

TEST_P(ServedCacheOver, CarriesValuesOfSeveralMebibytes) {
  start(GetParam(), 64 * mebibyte);
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{65'536}, 3 * mebibyte, 8 * mebibyte - 1}) {
    const std::vector<std::byte> value = value_bytes(1, 1, bytes);
    const kept_response done = set("key", value);
    EXPECT_TRUE(done) << bytes << ": " << done.how().text() << done.text();
    EXPECT_TRUE(is(get("key"), value)) << bytes;
  }
}
INSTANTIATE_TEST_SUITE_P(Memory, ServedCacheOver, ::testing::Values(by_memory));
INSTANTIATE_TEST_SUITE_P(Tcp, ServedCacheOver, ::testing::Values(by_tcp));

TEST_F(ServedCache, TellsAClientThatAValueIsTooLongForIt) {
  start(by_tcp, 16 * mebibyte);
  sim_.start(
      4, [](node& at) { EXPECT_TRUE(at.connect(server, by_tcp)); }, with_limit(64 * 1024));
  EXPECT_TRUE(set("key", value_bytes(1, 1, mebibyte)));
  const kept_response r = get("key", 4);
  EXPECT_EQ(r.how(), errc::request_failed);
  EXPECT_FALSE(r.text().empty());
}

// Bytes of the heap that are in use.
std::size_t heap_bytes() {
  const struct mallinfo2 all = mallinfo2();
  return all.uordblks + all.hblkhd;
}

// The client of the next tests: counts how each of its requests ends.
struct counted_requests {
  void ask(node& by, request_type type, bytes_view body, bytes_view expected = {}) {
    const std::size_t number = outcomes.size();
    outcomes.push_back(0);
    const request_handle sent =
        by.request(bus_id{1}, type, body, 60s, [this, number, expected](const response& r) {
          ++outcomes[number];
          const bool is_right =
              r && (expected.empty() ||
                    are_same(r.bytes().subspan(sizeof(cache::answer_head)), expected));
          right += is_right ? 1 : 0;
        });
    ASSERT_TRUE(sent) << sent.why().text();
  }
  [[nodiscard]] bool have_all() const {
    return std::ranges::all_of(outcomes, [](int one) { return one == 1; });
  }

  std::vector<int> outcomes;
  std::size_t right = 0;
};

class ServedCacheOfAStoppedClient : public ServedCache {
 protected:
  // The client asks so many times for a value of 1 MiB, and then stops for so long.
  void ask_and_stop(counted_requests& asked, std::size_t gets, std::chrono::nanoseconds stopped) {
    EXPECT_TRUE(set("key", value));
    for (std::size_t i = 0; i != gets; ++i)
      asked.ask(sim_.node(client), cache::get, as_bytes("key"), value);
    sim_.run_for(100us);
    sim_.stop_for(client, stopped);
  }
  const std::vector<std::byte> value = value_bytes(1, 1, mebibyte);
};

// Its answers wait as keys: in the server there is at most what its send buffer holds.
TEST_F(ServedCacheOfAStoppedClient, GetsItsAnswersLater) {
  constexpr std::size_t gets = 200;
  start(by_tcp);
  counted_requests asked;
  ask_and_stop(asked, gets, 20s);
  const std::size_t before = heap_bytes();
  sim_.run_for(10s);
  EXPECT_LT(heap_bytes(), before + 64 * mebibyte);
  EXPECT_GT(counter("waiting"), gets / 2);
  EXPECT_TRUE(is(get("key", other), value));
  ASSERT_TRUE(sim_.run_until([&] { return asked.have_all(); }));
  EXPECT_EQ(asked.right, gets);
  EXPECT_EQ(counter("waiting"), 0U);
}

TEST_F(ServedCache, KeepsShortAnswersToo) {
  start(by_tcp);
  const std::vector<std::byte> value = value_bytes(1, 1, mebibyte);
  EXPECT_TRUE(set("key", value));
  counted_requests asked;
  for (std::size_t i = 0; i != 100; ++i) {
    asked.ask(sim_.node(client), cache::get, as_bytes("key"), value);
    asked.ask(sim_.node(client), cache::set, set_body(key_text(i), as_bytes("value")));
    asked.ask(sim_.node(client), cache::get_many, get_many_body({"key", "none"}));
    asked.ask(sim_.node(client), cache::erase, as_bytes(key_text(i)));
    asked.ask(sim_.node(client), cache::stats, {});
    asked.ask(sim_.node(client), cache::get_many, {});
  }
  sim_.run_for(100us);
  sim_.stop_for(client, 20s);
  ASSERT_TRUE(sim_.run_until([&] { return asked.have_all(); }));
  EXPECT_EQ(asked.right, 500U);  // all but the malformed ones
  EXPECT_EQ(counter("items"), 1U);
}

// It stays connected, so nothing makes room.
TEST_F(ServedCacheOfAStoppedClient, ForgetsRequestsWhoseTimeIsOver) {
  start("unix:///cache");
  counted_requests asked;
  ask_and_stop(asked, 60, 100s);
  sim_.run_for(2s);
  EXPECT_GT(counter("waiting"), 20U);
  sim_.run_for(70s);
  EXPECT_EQ(counter("waiting"), 0U);
  ASSERT_TRUE(sim_.run_until([&] { return asked.have_all(); }));
}

TEST_F(ServedCacheOfAStoppedClient, ForgetsRequestsOfAClientThatDied) {
  start(by_tcp);
  {
    counted_requests asked;
    ask_and_stop(asked, 200, 5s);
    sim_.run_for(2s);
    EXPECT_GT(counter("waiting"), 100U);
    sim_.kill(client);
  }
  sim_.run_for(70s);
  EXPECT_EQ(counter("waiting"), 0U);
}

}  // namespace
}  // namespace atbus::test
