// Keys that somebody else has written, and servers that are none.
#include <string>
#include <vector>

#include "etcd_party.h"
#include "fake_etcd.h"

namespace atbus::test {
namespace {

using nlohmann::json;

using EtcdHostile = EtcdDirectories;

// Many keys below the prefix, all with that value.
void flood(const etcd_server& into, std::size_t first, std::size_t count, std::string_view value,
           const std::function<std::string(std::size_t)>& name) {
  const std::string text = detail::to_base64(value);
  constexpr std::size_t at_once = 128;
  for (std::size_t at = first; at < first + count;) {
    json puts = json::array();
    for (; puts.size() != at_once && at < first + count; ++at)
      puts.push_back(
          {{"request_put", {{"key", detail::to_base64("/atbus/" + name(at))}, {"value", text}}}});
    (void)into.answer("/v3/kv/txn", {{"success", puts}});
  }
}

TEST_F(EtcdHostile, KeysAreCountedAndLeftOutByType) {
  etcd_server etcd;
  etcd.start();
  put(etcd, record_of(7, {"unix://@one"}));
  etcd.put("/atbus/something", "else");
  etcd.put("/atbus/", "");
  etcd.put(key_of(8), R"({"version":2})");
  etcd.put(key_of(9), "no record");
  etcd.put(key_of(10), std::string(70'000, 'x'));
  etcd.put(key_of(11), R"({"version":1,"addresses":["nowhere","unix://@eleven"]})");
  const auto nodes = open_directory({.endpoints = {etcd.url()}});
  ASSERT_TRUE(knows(nodes, 7, {"unix://@one"}));
  EXPECT_EQ(nodes->lookup(11), texts{"unix://@eleven"});
  etcd_stats stats = nodes->stats();
  EXPECT_EQ(stats.records, 2);
  EXPECT_EQ(stats.keys_left_out, 5);
  EXPECT_EQ(stats.unknown_keys, 2);
  EXPECT_EQ(stats.other_versions, 1);
  EXPECT_EQ(stats.malformed, 1);
  EXPECT_EQ(stats.too_large, 1);
  EXPECT_EQ(stats.wrong_addresses, 1);
  EXPECT_EQ(nodes->poll(), errc::malformed);
  EXPECT_NE(nodes->poll().text().find("'/atbus/'"), std::string::npos) << nodes->poll().text();

  // And while they are watched.
  etcd.put(key_of(7), "no record any more");
  ASSERT_TRUE(knows(nodes, 7, {}));
  EXPECT_EQ(nodes->stats().malformed, 2);
  put(etcd, record_of(7, {"unix://@two"}));
  ASSERT_TRUE(knows(nodes, 7, {"unix://@two"}));
  for (const std::string& key : {std::string{"/atbus/something"}, std::string{"/atbus/"}, key_of(8),
                                 key_of(9), key_of(10), key_of(11)})
    etcd.remove(key);
  EXPECT_TRUE(until({nodes}, [&] { return static_cast<bool>(nodes->poll()); }));
  EXPECT_EQ(nodes->stats().keys_left_out, 0);
  EXPECT_EQ(nodes->stats().records, 1);
}

TEST_F(EtcdHostile, KeysInAnyNumberTakeNoRecordAway) {
  etcd_server etcd;
  etcd.start();
  const bus_id known = 0xffff;
  put(etcd, record_of(known, {"unix://@one"}));
  const auto nodes = open_directory({.endpoints = {etcd.url()}, .max_records = 500});
  ASSERT_TRUE(knows(nodes, known, {"unix://@one"}));
  flood(etcd, 1, 3000, R"({"version":1,"addresses":["unix://@flood"]})",
        [](std::size_t i) { return detail::to_key(i); });
  flood(etcd, 1, 3000, "no record", [](std::size_t i) { return "junk" + std::to_string(i); });
  ASSERT_TRUE(until({nodes}, [&] { return nodes->stats().unknown_keys >= 3000; }));
  EXPECT_EQ(nodes->stats().records, 500);
  EXPECT_GE(nodes->stats().beyond_limit, 2500);
  EXPECT_EQ(nodes->lookup(known), texts{"unix://@one"});
  EXPECT_FALSE(nodes->poll());
  // Lists them all again.
  etcd.kill();
  etcd.start();
  etcd.put("/atbus/junk0", "");
  etcd.put("/atbus/junk0", "again");
  etcd.compact();
  ASSERT_TRUE(until({nodes}, [&] { return nodes->stats().lists == 2; }));
  EXPECT_EQ(nodes->lookup(known), texts{"unix://@one"});
  EXPECT_LE(nodes->stats().records, 1000);
  // It is still followed.
  put(etcd, record_of(known, {"unix://@two"}));
  EXPECT_TRUE(knows(nodes, known, {"unix://@two"}));
  etcd.remove(key_of(known));
  EXPECT_TRUE(knows(nodes, known, {}));
}

TEST_F(EtcdHostile, KeysBehindTheLastThatIsTakenAreNotMissed) {
  etcd_server etcd;
  etcd.start();
  put(etcd, record_of(1, {"unix://@one"}));
  put(etcd, record_of(2, {"unix://@two"}));
  for (const char* const name : {"a", "b", "c"})
    etcd.put("/atbus/" + std::string{name}, "");
  const auto nodes =
      open_directory({.endpoints = {etcd.url()}, .lease_time = 2s, .max_records = 2});
  ASSERT_TRUE(until({nodes}, [&] { return nodes->stats().checks >= 2; }));
  EXPECT_EQ(nodes->stats().lists, 1);
  EXPECT_EQ(nodes->stats().records, 2);
}

TEST_F(EtcdHostile, ValuesOfAnySizeAreReadInSmallerPages) {
  etcd_server etcd{{.arguments = {"--max-request-bytes", "8000000"}}};
  etcd.start();
  put(etcd, record_of(0xffff, {"unix://@one"}));
  for (std::uint64_t id = 1; id != 9; ++id)
    etcd.put(key_of(id), std::string(1'200'000, 'x'));
  etcd.put(key_of(9), std::string(4'000'000, 'x'));  // more than is ever taken
  const auto nodes = open_directory({.endpoints = {etcd.url()}});
  ASSERT_TRUE(knows(nodes, 0xffff, {"unix://@one"}));
  EXPECT_EQ(nodes->stats().too_large, 9);
  EXPECT_EQ(nodes->stats().failures, 0);
  // A line that is too long ends the stream, and the keys are listed.
  etcd.put(key_of(10), std::string(4'000'000, 'x'));
  put(etcd, record_of(0xffff, {"unix://@two"}));
  EXPECT_TRUE(knows(nodes, 0xffff, {"unix://@two"}));
  EXPECT_EQ(nodes->stats().lists, 2);
}

constexpr std::string_view header =
    R"("header":{"cluster_id":"1","member_id":"2","revision":"10","raft_term":"2"})";

std::string with_header(std::string_view rest) {
  return '{' + std::string{header} + std::string{rest} + '}';
}
std::string pair_of(std::string_view key, std::string_view value, int revision = 5) {
  return R"({"key":")" + detail::to_base64(key) + R"(","mod_revision":")" +
         std::to_string(revision) + R"(","value":")" + detail::to_base64(value) + "\"}";
}
std::string page_of_7() {
  return with_header(R"(,"count":"1","kvs":[)" +
                     pair_of(key_of(7), R"({"version":1,"addresses":["unix://@one"]})") + "]");
}
std::string event_line(std::string_view events) {
  return R"({"result":)" + with_header(events) + "}\n";
}

struct wrong_answer {
  const char* name;
  std::string page;
};
void PrintTo(const wrong_answer& one, std::ostream* to) {
  *to << one.name;
}

class EtcdWrongPage : public ::testing::TestWithParam<wrong_answer> {};

TEST_P(EtcdWrongPage, IsAnErrorOfTheServer) {
  const fake_etcd server{[](std::string_view path, const std::string&) {
    return path == "/v3/kv/range" ? GetParam().page : fake_etcd::ok("{}");
  }};
  const auto nodes = open_directory({.endpoints = {server.url()}, .start_jitter = 0ms});
  ASSERT_TRUE(until({nodes}, [&] { return nodes->stats().failures >= 3; }));
  const error why = nodes->poll();
  EXPECT_TRUE(why == errc::protocol_error || why == errc::not_connected) << why.text();
  EXPECT_NE(why.text().find("until then what was known before is used"), std::string::npos)
      << why.text();
  EXPECT_EQ(nodes->stats().lists, 0);
  EXPECT_EQ(nodes->stats().records, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Of, EtcdWrongPage,
    ::testing::Values(
        wrong_answer{"nothing", fake_etcd::last("")},
        wrong_answer{"no_http", fake_etcd::last("SSH-2.0-OpenSSH_9.2\r\n")},
        wrong_answer{"a_page_for_people", fake_etcd::ok("<html><body>It works!</body></html>")},
        wrong_answer{"not_found", "HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nnot found"},
        wrong_answer{
            "a_redirection",
            "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"},
        wrong_answer{
            "half_of_it",
            fake_etcd::last("HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n" + page_of_7())},
        wrong_answer{"no_header", fake_etcd::ok(R"({"count":"0"})")},
        wrong_answer{"no_revision", fake_etcd::ok(R"({"header":{"cluster_id":"1"}})")},
        wrong_answer{"the_last_revision",
                     fake_etcd::ok(R"({"header":{"revision":"9223372036854775807"}})")},
        wrong_answer{"a_number_beyond_64_bits",
                     fake_etcd::ok(R"({"header":{"revision":"99999999999999999999"}})")},
        wrong_answer{"a_list_of_lists", fake_etcd::ok(std::string(2'000'000, '['))},
        wrong_answer{"more_without_keys", fake_etcd::ok(with_header(R"(,"more":true)"))},
        wrong_answer{"keys_that_are_numbers", fake_etcd::ok(with_header(R"(,"kvs":[1,2,3])"))},
        wrong_answer{"a_key_that_is_no_base64",
                     fake_etcd::ok(with_header(R"(,"kvs":[{"key":"***"}])"))},
        wrong_answer{"a_key_below_another_prefix",
                     fake_etcd::ok(with_header(R"(,"kvs":[)" + pair_of("/btbus/7", "") + "]"))},
        wrong_answer{"keys_out_of_order",
                     fake_etcd::ok(with_header(R"(,"kvs":[)" + pair_of(key_of(8), "") + ',' +
                                               pair_of(key_of(7), "") + "]"))},
        wrong_answer{"the_same_key_twice",
                     fake_etcd::ok(with_header(R"(,"kvs":[)" + pair_of(key_of(7), "") + ',' +
                                               pair_of(key_of(7), "") + "]"))},
        wrong_answer{
            "the_same_page_for_ever",
            fake_etcd::ok(with_header(R"(,"more":true,"kvs":[)" + pair_of(key_of(7), "") + "]"))},
        wrong_answer{"more_than_4_MiB", fake_etcd::ok(std::string(5'000'000, ' '))}),
    [](const auto& of) { return std::string{of.param.name}; });

class EtcdWrongStream : public ::testing::TestWithParam<wrong_answer> {};

TEST_P(EtcdWrongStream, TakesNothingAwayThatWasListed) {
  const fake_etcd server{[](std::string_view path, const std::string&) {
    return path == "/v3/watch" ? GetParam().page : fake_etcd::ok(page_of_7());
  }};
  const auto nodes = open_directory({.endpoints = {server.url()}, .start_jitter = 0ms});
  std::vector<texts> heard;
  nodes->watch([&](bus_id id) { heard.push_back(nodes->lookup(id)); });
  ASSERT_TRUE(until({nodes}, [&] { return nodes->stats().watches >= 3; }));
  EXPECT_EQ(heard, (std::vector<texts>{{"unix://@one"}}));
  EXPECT_EQ(nodes->stats().records, 1);
}

INSTANTIATE_TEST_SUITE_P(
    Of, EtcdWrongStream,
    ::testing::Values(
        wrong_answer{"nothing", fake_etcd::last("")},
        wrong_answer{"an_end_at_once",
                     fake_etcd::last(fake_etcd::stream(event_line(R"(,"created":true)")))},
        wrong_answer{"no_json", fake_etcd::stream("hello\n")},
        wrong_answer{
            "an_error",
            fake_etcd::stream("{\"error\":{\"grpc_code\":14,\"message\":\"no leader\"}}\n")},
        wrong_answer{"a_cancellation", fake_etcd::stream(event_line(R"(,"canceled":true)"))},
        wrong_answer{"a_compaction",
                     fake_etcd::stream(event_line(R"(,"canceled":true,"compact_revision":"10")"))},
        wrong_answer{"another_cluster",
                     fake_etcd::stream("{\"result\":{\"header\":{\"cluster_id\":\"9\",\"revision\":"
                                       "\"99\"},\"created\":true}}\n")},
        wrong_answer{"an_older_revision",
                     fake_etcd::stream("{\"result\":{\"header\":{\"cluster_id\":\"1\",\"revision\":"
                                       "\"3\"},\"created\":true}}\n")},
        wrong_answer{"events_of_the_future",
                     fake_etcd::stream(event_line(R"(,"created":true)") +
                                       event_line(R"(,"events":[{"type":"DELETE","kv":)" +
                                                  pair_of(key_of(7), "", 11) + "}]"))},
        wrong_answer{"events_without_keys",
                     fake_etcd::stream(event_line(R"(,"created":true)") +
                                       event_line(R"(,"events":[{"type":"DELETE"}])"))},
        wrong_answer{"a_line_without_end", fake_etcd::stream(std::string(6'000'000, ' '))}),
    [](const auto& of) { return std::string{of.param.name}; });

TEST(EtcdStranger, ThatSendsKeysOfOthersChangesNothing) {
  const fake_etcd server{[](std::string_view path, const std::string&) {
    if (path != "/v3/watch")
      return fake_etcd::ok(page_of_7());
    return fake_etcd::stream(
        event_line(R"(,"created":true)") +
        event_line(R"(,"events":[{"kv":)" + pair_of("/other/x", "x", 10) + "}]"));
  }};
  const auto nodes = open_directory({.endpoints = {server.url()}, .start_jitter = 0ms});
  ASSERT_TRUE(knows(nodes, 7, {"unix://@one"}));
  ASSERT_TRUE(until({nodes}, [&] { return nodes->stats().watches == 1; }));
  EXPECT_TRUE(nodes->poll());
  EXPECT_EQ(nodes->stats().keys_left_out, 0);
}

// Cut off from its cluster, a server keeps a stream open and says nothing.
TEST(EtcdStranger, ThatSaysNothingIsFoundOut) {
  std::atomic<bool> is_changed{false};
  const fake_etcd server{[&](std::string_view path, const std::string&) {
    if (path == "/v3/watch")
      return fake_etcd::stream(event_line(R"(,"created":true)"));
    if (!is_changed)
      return fake_etcd::ok(page_of_7());
    return fake_etcd::ok(
        with_header(R"(,"count":"2","kvs":[)" +
                    pair_of(key_of(7), R"({"version":1,"addresses":["unix://@one"]})") + ',' +
                    pair_of(key_of(8), R"({"version":1,"addresses":["unix://@two"]})") + "]"));
  }};
  const auto nodes =
      open_directory({.endpoints = {server.url()}, .lease_time = 2s, .start_jitter = 0ms});
  ASSERT_TRUE(knows(nodes, 7, {"unix://@one"}));
  is_changed = true;
  EXPECT_TRUE(knows(nodes, 8, {"unix://@two"}));
}

// The put and what keeps the lease alive are under way at a time, and both find that it is gone.
TEST(EtcdLease, IsLostOnceThoughTwoAnswersSaySo) {
  std::atomic<int> leases{0};
  std::atomic<bool> keeps{false};
  const fake_etcd server{[&](std::string_view path, const std::string&) {
    if (path == "/v3/watch")
      return fake_etcd::stream(event_line(R"(,"created":true)"));
    if (path == "/v3/kv/range")
      return fake_etcd::ok(page_of_7());
    if (path == "/v3/lease/grant")
      return fake_etcd::ok(R"({"ID":")" + std::to_string(++leases) + R"(","TTL":"2"})");
    if (path == "/v3/lease/keepalive") {
      keeps = true;
      return fake_etcd::later(fake_etcd::ok(R"({"result":{"ID":"1"}})"));
    }
    if (!keeps || leases > 1)
      return fake_etcd::ok(with_header(""));
    const std::string gone = R"({"code":5,"message":"etcdserver: requested lease not found"})";
    return "HTTP/1.1 404 Not Found\r\nContent-Length: " + std::to_string(gone.size()) + "\r\n\r\n" +
           gone;
  }};
  const auto nodes =
      open_directory({.endpoints = {server.url()}, .lease_time = 2s, .start_jitter = 0ms});
  ASSERT_TRUE(nodes->announce(record_of(7, {"unix://@one"})));
  ASSERT_TRUE(until({nodes}, [&] { return nodes->stats().puts == 1 && keeps; }));
  ASSERT_TRUE(nodes->announce(record_of(7, {"unix://@two"})));
  ASSERT_TRUE(until({nodes}, [&] { return nodes->stats().leases == 2; }));
  EXPECT_EQ(nodes->stats().leases_lost, 1);
}

TEST(EtcdStranger, ThatGrantsNoLeaseIsAnError) {
  const fake_etcd server{[](std::string_view path, const std::string&) {
    if (path == "/v3/watch")
      return fake_etcd::stream(event_line(R"(,"created":true)"));
    return path == "/v3/kv/range" ? fake_etcd::ok(page_of_7())
                                  : fake_etcd::ok(R"({"ID":"0","TTL":"15"})");
  }};
  const auto nodes = open_directory({.endpoints = {server.url()}, .start_jitter = 0ms});
  ASSERT_TRUE(nodes->announce(record_of(8, {"unix://@two"})));
  ASSERT_TRUE(until({nodes}, [&] { return nodes->stats().failures >= 3; }));
  EXPECT_EQ(nodes->lookup(7), texts{"unix://@one"});
}

}  // namespace
}  // namespace atbus::test
