// Directories in an etcd that works.
#include <algorithm>
#include <string>

#include "child_process.h"
#include "etcd_party.h"

namespace atbus::test {
namespace {

TEST_F(EtcdDirectories, ShareALeaseAmongTheNodesOfAProgram) {
  etcd_server etcd;
  etcd.start();
  const auto nodes = open_directory({.endpoints = {etcd.url()}});
  for (std::uint64_t id = 1; id != 21; ++id)
    ASSERT_TRUE(nodes->announce(record_of(id, {"unix://@node"})));
  ASSERT_TRUE(until({nodes}, [&] { return nodes->stats().records == 20; }));
  ASSERT_TRUE(until({nodes}, [&] { return nodes->stats().puts >= 20; }));
  EXPECT_EQ(nodes->stats().leases, 1);
  EXPECT_EQ(nodes->stats().puts, 20);
  EXPECT_EQ(nodes->stats().lists, 1);
}

TEST_F(EtcdDirectories, AnnounceNoLeafButForItsServices) {
  etcd_server etcd;
  etcd.start();
  const auto nodes = open_directory({.endpoints = {etcd.url()}});
  directory_record leaf = record_of(7, {"unix://@leaf"});
  leaf.place = tree_place::leaf;
  directory_record relay = record_of(8, {"unix://@relay"});
  relay.place = tree_place::relay;
  ASSERT_TRUE(nodes->announce(leaf));
  ASSERT_TRUE(nodes->announce(relay));
  ASSERT_TRUE(knows(nodes, 8, relay.addresses));
  EXPECT_EQ(etcd.count("/atbus/"), 1);
  leaf.services = {"chat"};
  ASSERT_TRUE(nodes->announce(leaf));
  ASSERT_TRUE(knows(nodes, 7, leaf.addresses));
  leaf.services.clear();
  ASSERT_TRUE(nodes->announce(leaf));
  EXPECT_TRUE(knows(nodes, 7, {}));
  EXPECT_EQ(etcd.count("/atbus/"), 1);

  const auto all = open_directory({.endpoints = {etcd.url()}, .announce = announcing::always});
  ASSERT_TRUE(all->announce(leaf));
  EXPECT_TRUE(knows(all, 7, leaf.addresses));
  const auto none = open_directory({.endpoints = {etcd.url()}, .announce = announcing::never});
  EXPECT_EQ(none->announce(relay), errc::not_supported);
  EXPECT_EQ(none->withdraw(8), errc::not_supported);
  EXPECT_TRUE(knows(none, 8, relay.addresses));
}

TEST_F(EtcdDirectories, RemoveTheirRecordsAtOnceWhenTheyEnd) {
  etcd_server etcd;
  etcd.start();
  auto nodes = open_directory({.endpoints = {etcd.url()}});
  ASSERT_TRUE(nodes->announce(record_of(7, {"unix://@one"})));
  ASSERT_TRUE(nodes->announce(record_of(8, {"unix://@two"})));
  ASSERT_TRUE(knows(nodes, 7, {"unix://@one"}));
  ASSERT_TRUE(knows(nodes, 8, {"unix://@two"}));
  nodes.reset();
  EXPECT_EQ(etcd.count("/atbus/"), 0);
}

TEST_F(EtcdDirectories, LeaveTheRecordOfAKilledProgramUntilItsLeaseIsOver) {
  etcd_server etcd;
  etcd.start();
  child_process other{[&] {
    const auto nodes = open_directory({.endpoints = {etcd.url()}, .lease_time = 2s});
    require(static_cast<bool>(nodes->announce(record_of(7, {"unix://@one"}))), "announced");
    return until({nodes}, [] { return false; }) ? 0 : 1;
  }};
  const auto nodes = open_directory({.endpoints = {etcd.url()}});
  ASSERT_TRUE(knows(nodes, 7, {"unix://@one"}));
  other.kill_and_wait();
  EXPECT_EQ(nodes->lookup(7), texts{"unix://@one"});
  EXPECT_TRUE(knows(nodes, 7, {}));
}

TEST_F(EtcdDirectories, LeaveTheirRecordsToTheParentOfAFork) {
  etcd_server etcd;
  etcd.start();
  auto nodes = open_directory({.endpoints = {etcd.url()}});
  ASSERT_TRUE(nodes->announce(record_of(7, {"unix://@one"})));
  ASSERT_TRUE(knows(nodes, 7, {"unix://@one"}));
  child_process child{[&] {
    require(nodes->poll() == errc::used_after_fork, "polls");
    require(nodes->announce(record_of(8, {"unix://@two"})) == errc::used_after_fork, "announces");
    require(nodes->withdraw(7) == errc::used_after_fork, "withdraws");
    require(nodes->lookup(7) == texts{"unix://@one"}, "looks up");
    require(nodes->descriptor() < 0, "has descriptors");
    nodes.reset();
    return 0;
  }};
  EXPECT_EQ(child.wait_end(), "exit 0");
  put(etcd, record_of(9, {"unix://@nine"}));
  EXPECT_TRUE(knows(nodes, 9, {"unix://@nine"}));
  EXPECT_EQ(etcd.count(key_of(7)), 1);
  EXPECT_EQ(nodes->stats().failures, 0);
}

TEST_F(EtcdDirectories, KeepTheirLease) {
  etcd_server etcd;
  etcd.start();
  const auto nodes = open_directory({.endpoints = {etcd.url()}, .lease_time = 2s});
  ASSERT_TRUE(nodes->announce(record_of(7, {"unix://@one"})));
  ASSERT_TRUE(knows(nodes, 7, {"unix://@one"}));
  const auto end = now() + 3500ms;
  ASSERT_TRUE(until({nodes}, [&] { return now() > end; }));
  EXPECT_EQ(nodes->stats().leases, 1);
  EXPECT_EQ(nodes->stats().puts, 1);
  EXPECT_EQ(etcd.count(key_of(7)), 1);
}

TEST_F(EtcdDirectories, LookUpTheNamesOfServers) {
  etcd_server etcd;
  etcd.start();
  const auto nodes = open_directory(
      {.endpoints = {"http://no-such-host.invalid:1", "http://localhost:" + etcd.port()}});
  ASSERT_TRUE(nodes->announce(record_of(7, {"unix://@one"})));
  EXPECT_TRUE(knows(nodes, 7, {"unix://@one"}));
}

TEST_F(EtcdDirectories, NameAPlaceToDialWhereANodeListensOnAllInterfaces) {
  etcd_server etcd;
  etcd.start();
  const auto nodes = open_directory({.endpoints = {etcd.url()}});
  ASSERT_TRUE(nodes->announce(record_of(7, {"ipv4://0.0.0.0:7000", "unix://@seven"})));
  EXPECT_TRUE(knows(nodes, 7, {"ipv4://127.0.0.1:7000", "unix://@seven"}));
  const auto named = open_directory({.endpoints = {etcd.url()}, .host = "zone-8.example"});
  ASSERT_TRUE(named->announce(record_of(8, {"ipv4://0.0.0.0:7000"})));
  EXPECT_TRUE(knows(named, 8, {"dns://zone-8.example:7000"}));
}

TEST_F(EtcdDirectories, SleepWhileNothingHappens) {
  etcd_server etcd;
  etcd.start();
  const auto nodes = open_directory({.endpoints = {etcd.url()}});
  ASSERT_TRUE(nodes->announce(record_of(7, {"unix://@one"})));
  ASSERT_TRUE(knows(nodes, 7, {"unix://@one"}));
  pollfd ready{.fd = nodes->descriptor(), .events = POLLIN, .revents = 0};
  bool slept = false;
  for (const auto limit = now() + 30s; !slept && now() < limit;) {
    EXPECT_TRUE(nodes->poll());
    slept = ::poll(&ready, 1, 1000) == 0;
  }
  EXPECT_TRUE(slept);
}

TEST_F(EtcdDirectories, SleepWhileEtcdIsLost) {
  etcd_server etcd;
  const auto nodes = open_directory({.endpoints = {etcd.url()}});
  ASSERT_TRUE(nodes->announce(record_of(7, {"unix://@one"})));
  pollfd ready{.fd = nodes->descriptor(), .events = POLLIN, .revents = 0};
  bool slept = false;
  for (const auto limit = now() + 30s; !slept && now() < limit;) {
    (void)nodes->poll();
    slept = ::poll(&ready, 1, 500) == 0;
  }
  EXPECT_TRUE(slept);
}

TEST(EtcdOptions, AreRefusedWithTheirName) {
  const etcd_options good{.endpoints = {"http://127.0.0.1:2379", "https://[::1]:2379/"}};
  EXPECT_TRUE(etcd_directory::open(good));
  const auto is_refused = [&](std::string_view name, auto change) {
    etcd_options bad = good;
    change(bad);
    const auto made = etcd_directory::open(bad);
    return !made && made.error() == errc::invalid_argument &&
           made.error().text().starts_with("etcd_options::" + std::string{name} + ' ');
  };
  using options = etcd_options;
  for (const char* const wrong :
       {"127.0.0.1:2379", "ftp://a:1", "http://", "http://a/b", "http://u@a"})
    EXPECT_TRUE(is_refused("endpoints", [&](options& o) { o.endpoints = {wrong}; })) << wrong;
  EXPECT_TRUE(is_refused("endpoints", [](options& o) { o.endpoints.clear(); }));
  EXPECT_TRUE(is_refused("prefix", [](options& o) { o.prefix.clear(); }));
  EXPECT_TRUE(is_refused("prefix", [](options& o) { o.prefix = "/\n/"; }));
  EXPECT_TRUE(is_refused("lease_time", [](options& o) { o.lease_time = 1s; }));
  EXPECT_TRUE(is_refused("start_jitter", [](options& o) { o.start_jitter = 2min; }));
  EXPECT_TRUE(is_refused("password", [](options& o) { o.password = "of nobody"; }));
  EXPECT_TRUE(is_refused("certificate", [](options& o) { o.key = "key.pem"; }));
  for (const char* const wrong : {"0.0.0.0", "::", "10.0.0.7:7000", "a host"})
    EXPECT_TRUE(is_refused("host", [&](options& o) { o.host = wrong; })) << wrong;
  EXPECT_TRUE(is_refused("max_records", [](options& o) { o.max_records = 0; }));
}

TEST(EtcdOptions, LeaveWhatCanNotBeAnnouncedOut) {
  const auto nodes = open_directory({.endpoints = {"http://127.0.0.1:1"}});
  EXPECT_EQ(nodes->announce(record_of(0, {"unix://@one"})), errc::invalid_argument);
  EXPECT_EQ(nodes->announce(record_of(7, {"nowhere"})), errc::invalid_argument);
  EXPECT_EQ(nodes->announce(record_of(7, texts(17, "unix://@one"))), errc::invalid_argument);
  EXPECT_EQ(nodes->announce(record_of(7, {"unix://@one"}, {""})), errc::invalid_argument);
  EXPECT_TRUE(nodes->withdraw(7));
}

}  // namespace
}  // namespace atbus::test
