// What becomes of directories when etcd is killed, stands still, forgets, is full, or loses its leader.
#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "etcd_party.h"

namespace atbus::test {
namespace {

using EtcdFaults = EtcdDirectories;

TEST_F(EtcdFaults, WatchOnWhereTheyWereWhenEtcdWasKilled) {
  etcd_server etcd;
  etcd.start();
  put(etcd, record_of(7, {"unix://@one"}));
  const auto nodes = open_directory({.endpoints = {etcd.url()}});
  ASSERT_TRUE(knows(nodes, 7, {"unix://@one"}));
  for (int times = 1; times != 3; ++times) {
    etcd.kill();
    ASSERT_TRUE(until({nodes}, [&] { return !nodes->poll(); }));
    EXPECT_EQ(nodes->poll(), errc::not_connected);
    EXPECT_EQ(nodes->lookup(7), texts{"unix://@one"});
    etcd.start();
    put(etcd, record_of(7 + times, {"unix://@next"}));
    ASSERT_TRUE(knows(nodes, 7 + times, {"unix://@next"}));
    EXPECT_TRUE(nodes->poll()) << nodes->poll().text();
  }
  EXPECT_EQ(nodes->stats().lists, 1);
  EXPECT_GE(nodes->stats().watches, 3);
}

TEST_F(EtcdFaults, KeepTheirRecordsWhileEtcdIsAwayForLongerThanALease) {
  etcd_server etcd;
  etcd.start();
  const auto nodes = open_directory({.endpoints = {etcd.url()}, .lease_time = 2s});
  ASSERT_TRUE(nodes->announce(record_of(7, {"unix://@one"})));
  ASSERT_TRUE(knows(nodes, 7, {"unix://@one"}));
  etcd.kill();
  const auto until_then = now() + 2500ms;
  ASSERT_TRUE(until({nodes}, [&] { return now() > until_then; }));
  EXPECT_EQ(nodes->lookup(7), texts{"unix://@one"});
  EXPECT_GT(nodes->find(7)->age, 2s);
  etcd.start();
  ASSERT_TRUE(until({nodes}, [&] { return nodes->find(7) && nodes->find(7)->age < 1s; }));
  const auto checks = nodes->stats().checks;
  ASSERT_TRUE(until({nodes}, [&] { return nodes->stats().checks > checks; }));
  EXPECT_EQ(etcd.count("/atbus/"), 1);
}

TEST_F(EtcdFaults, GetANewLeaseWhenTheOldOneIsOver) {
  etcd_server etcd;
  etcd.start();
  const auto nodes = open_directory({.endpoints = {etcd.url()}, .lease_time = 2s});
  ASSERT_TRUE(nodes->announce(record_of(7, {"unix://@one"})));
  ASSERT_TRUE(nodes->announce(record_of(8, {"unix://@two"})));
  ASSERT_TRUE(until({nodes}, [&] { return etcd.count("/atbus/") == 2; }));
  const std::string before = lease_of(etcd, 7);
  EXPECT_EQ(lease_of(etcd, 8), before);
  (void)etcd.answer("/v3/lease/revoke", {{"ID", before}});
  ASSERT_TRUE(
      until({nodes}, [&] { return nodes->stats().leases == 2 && etcd.count("/atbus/") == 2; }));
  EXPECT_EQ(nodes->stats().leases_lost, 1);
  EXPECT_NE(lease_of(etcd, 7), before);
  EXPECT_EQ(lease_of(etcd, 7), lease_of(etcd, 8));
}

TEST_F(EtcdFaults, PutARecordAgainThatSomebodyHasRemoved) {
  etcd_server etcd;
  etcd.start();
  const auto nodes = open_directory({.endpoints = {etcd.url()}});
  ASSERT_TRUE(nodes->announce(record_of(7, {"unix://@one"})));
  ASSERT_TRUE(knows(nodes, 7, {"unix://@one"}));
  etcd.remove(key_of(7));
  EXPECT_TRUE(until({nodes}, [&] { return nodes->stats().puts == 2; }));
  EXPECT_TRUE(knows(nodes, 7, {"unix://@one"}));
}

TEST_F(EtcdFaults, LeaveTheRecordOfTheirSuccessorAlone) {
  etcd_server etcd;
  etcd.start();
  const auto before = open_directory({.endpoints = {etcd.url()}});
  const auto after = open_directory({.endpoints = {etcd.url()}});
  ASSERT_TRUE(before->announce(record_of(7, {"unix://@one"})));
  ASSERT_TRUE(before->announce(record_of(8, {"unix://@one"})));
  ASSERT_TRUE(until({before, after}, [&] {
    return before->stats().puts == 2 && after->lookup(8) == texts{"unix://@one"};
  }));
  ASSERT_TRUE(after->announce(record_of(7, {"unix://@two"})));
  const auto both_know = [&] {
    return before->lookup(7) == texts{"unix://@two"} && after->lookup(7) == texts{"unix://@two"};
  };
  ASSERT_TRUE(until({before, after}, both_know));
  ASSERT_TRUE(before->withdraw(7));
  ASSERT_TRUE(before->announce(record_of(8, {"unix://@three"})));
  ASSERT_TRUE(until({before, after}, [&] { return after->lookup(8) == texts{"unix://@three"}; }));
  EXPECT_TRUE(both_know());
  EXPECT_EQ(etcd.count("/atbus/"), 2);
}

TEST_F(EtcdFaults, ListTheKeysAgainWhenWhatTheyMissedWasCompacted) {
  etcd_server etcd;
  etcd.start();
  put(etcd, record_of(7, {"unix://@one"}));
  put(etcd, record_of(8, {"unix://@two"}));
  const auto nodes = open_directory({.endpoints = {etcd.url()}});
  ASSERT_TRUE(knows(nodes, 7, {"unix://@one"}));
  std::vector<bus_id> changed;
  nodes->watch([&](bus_id id) { changed.push_back(id); });
  etcd.kill();
  etcd.start();
  etcd.remove(key_of(7));
  put(etcd, record_of(9, {"unix://@three"}));
  etcd.compact();
  ASSERT_TRUE(knows(nodes, 9, {"unix://@three"}));
  EXPECT_TRUE(nodes->lookup(7).empty());
  EXPECT_EQ(nodes->lookup(8), texts{"unix://@two"});
  EXPECT_EQ(nodes->stats().compactions, 1);
  std::ranges::sort(changed);
  EXPECT_EQ(changed, (std::vector<bus_id>{7, 9}));
}

TEST_F(EtcdFaults, ListTheKeysOfAnEtcdThatHasForgottenEverything) {
  const auto before = std::make_unique<etcd_server>();
  before->start();
  put(*before, record_of(7, {"unix://@one"}));
  put(*before, record_of(7, {"unix://@two"}));
  etcd_server after;
  const auto nodes = open_directory({.endpoints = {before->url(), after.url()}});
  ASSERT_TRUE(nodes->announce(record_of(8, {"unix://@eight"})));
  ASSERT_TRUE(knows(nodes, 7, {"unix://@two"}));
  ASSERT_TRUE(knows(nodes, 8, {"unix://@eight"}));
  before->kill();
  after.start();
  put(after, record_of(9, {"unix://@nine"}));
  ASSERT_TRUE(knows(nodes, 9, {"unix://@nine"}));
  EXPECT_TRUE(nodes->lookup(7).empty());
  EXPECT_TRUE(knows(nodes, 8, {"unix://@eight"}));
  EXPECT_EQ(after.count(key_of(8)), 1);
}

TEST_F(EtcdFaults, KeepWhatTheyKnowWhileEtcdStandsStill) {
  etcd_server etcd;
  etcd.start();
  put(etcd, record_of(7, {"unix://@one"}));
  const auto nodes = open_directory({.endpoints = {etcd.url()}, .lease_time = 2s});
  ASSERT_TRUE(knows(nodes, 7, {"unix://@one"}));
  etcd.stop();
  ASSERT_TRUE(until({nodes}, [&] { return !nodes->poll(); }));
  EXPECT_EQ(nodes->poll(), errc::not_connected);
  EXPECT_EQ(nodes->lookup(7), texts{"unix://@one"});
  EXPECT_GT(nodes->find(7)->age, 4s);
  etcd.resume();
  put(etcd, record_of(8, {"unix://@two"}));
  ASSERT_TRUE(knows(nodes, 8, {"unix://@two"}));
  EXPECT_TRUE(until({nodes}, [&] { return static_cast<bool>(nodes->poll()); }));
}

// A program that polls once per frame gets what the stream brings before the answer to a check that is older.
TEST_F(EtcdFaults, TakeNoEtcdForAnotherWhoseAnswerIsOlderThanAChange) {
  etcd_server server;
  server.start();
  const auto nodes = open_directory({.endpoints = {server.url()},
                                     .lease_time = 2s,
                                     .start_jitter = 0ms,
                                     .announce = announcing::never});
  ASSERT_TRUE(until({nodes}, [&] { return nodes->stats().watches == 1; }));
  for (std::uint64_t id = 1; id != 4; ++id) {
    const auto asked = nodes->stats().requests;
    ASSERT_TRUE(until({nodes}, [&] { return nodes->stats().requests != asked; }));
    // The directory must not look until both are there, so it can't tell; too short a time hides the fault, and
    // makes no failure.
    std::this_thread::sleep_for(50ms);  // etcd answers
    put(server, record_of(bus_id{id}, {"unix://@one"}));
    std::this_thread::sleep_for(50ms);  // and the stream has it
    ASSERT_TRUE(knows(nodes, bus_id{id}, {"unix://@one"}));
  }
  EXPECT_EQ(nodes->stats().lists, 1U);
}

TEST_F(EtcdFaults, SayThatEtcdIsFullAndGoOnReading) {
  etcd_server etcd{{.arguments = {"--quota-backend-bytes", "1000000"}}};
  etcd.start();
  const auto nodes = open_directory({.endpoints = {etcd.url()}});
  put(etcd, record_of(7, {"unix://@one"}));
  ASSERT_TRUE(knows(nodes, 7, {"unix://@one"}));
  const std::string much = detail::to_base64(std::string(200'000, 'x'));
  const std::string key = detail::to_base64("much");
  bool is_full = false;
  for (int i = 0; i != 100 && !is_full; ++i)
    is_full = etcd.ask("/v3/kv/put", {{"key", key}, {"value", much}}).code != 200;
  ASSERT_TRUE(is_full);
  ASSERT_TRUE(nodes->announce(record_of(8, {"unix://@two"})));
  ASSERT_TRUE(until({nodes}, [&] { return !nodes->poll(); }));
  EXPECT_EQ(nodes->poll(), errc::no_space);
  EXPECT_NE(nodes->poll().text().find("space exceeded"), std::string::npos) << nodes->poll().text();
  etcd.remove(key_of(7));
  ASSERT_TRUE(knows(nodes, 7, {}));
  etcd.remove("much");
  etcd.compact();
  (void)etcd.answer("/v3/maintenance/defragment", nlohmann::json::object());
  const auto status = etcd.answer("/v3/maintenance/status", nlohmann::json::object());
  (void)etcd.answer("/v3/maintenance/alarm", {{"action", "DEACTIVATE"},
                                              {"alarm", "NOSPACE"},
                                              {"memberID", status["header"]["member_id"]}});
  ASSERT_TRUE(knows(nodes, 8, {"unix://@two"})) << nodes->poll().text();
  // The stream may be ahead of the answer to the put.
  EXPECT_TRUE(until({nodes}, [&] { return static_cast<bool>(nodes->poll()); }));
}

TEST_F(EtcdFaults, KeepTheirLeaseWhileEtcdIsFull) {
  etcd_server etcd{{.arguments = {"--quota-backend-bytes", "1000000"}}};
  etcd.start();
  const auto nodes = open_directory({.endpoints = {etcd.url()}, .lease_time = 2s});
  ASSERT_TRUE(nodes->announce(record_of(7, {"unix://@one"})));
  ASSERT_TRUE(knows(nodes, 7, {"unix://@one"}));
  const std::string much = detail::to_base64(std::string(200'000, 'x'));
  const std::string key = detail::to_base64("much");
  bool is_full = false;
  for (int i = 0; i != 100 && !is_full; ++i)
    is_full = etcd.ask("/v3/kv/put", {{"key", key}, {"value", much}}).code != 200;
  ASSERT_TRUE(is_full);
  ASSERT_TRUE(nodes->announce(record_of(8, {"unix://@two"})));
  // Then the pause between two of them is longer than the lease.
  ASSERT_TRUE(until(
      {nodes}, [&] { return nodes->stats().refused_writes >= 9; }, 60s));
  EXPECT_EQ(nodes->stats().leases_lost, 0);
  EXPECT_EQ(etcd.count(key_of(7)), 1);
  EXPECT_EQ(nodes->poll(), errc::no_space);
  // Nothing is refused any more of a program that has no records.
  ASSERT_TRUE(nodes->withdraw(7));
  ASSERT_TRUE(nodes->withdraw(8));
  EXPECT_TRUE(until({nodes}, [&] { return static_cast<bool>(nodes->poll()); }));
  EXPECT_EQ(etcd.count("/atbus/"), 0);
}

TEST_F(EtcdFaults, GoOnWithTheOthersOfAClusterThatLosesItsLeader) {
  etcd_server one{{}, "one"};
  etcd_server two{{}, "two"};
  etcd_server three{{}, "three"};
  const std::array<etcd_server*, 3> all{&one, &two, &three};
  for (etcd_server* const each : all) {
    each->join(one.member() + ',' + two.member() + ',' + three.member());
    each->launch();
  }
  for (etcd_server* const each : all)
    each->wait();
  const auto is_leader = [](const etcd_server* of) {
    const auto says = of->answer("/v3/maintenance/status", nlohmann::json::object());
    return says["leader"] == says["header"]["member_id"];
  };
  const auto leader = std::ranges::find_if(all, is_leader);
  ASSERT_NE(leader, all.end());
  etcd_options options{.lease_time = 2s};
  options.endpoints.push_back((*leader)->url());
  for (etcd_server* const each : all) {
    if (each != *leader)
      options.endpoints.push_back(each->url());
  }
  const auto nodes = open_directory(options);
  std::rotate(options.endpoints.begin(), options.endpoints.begin() + 1, options.endpoints.end());
  const auto others = open_directory(options);
  ASSERT_TRUE(nodes->announce(record_of(7, {"unix://@one"})));
  ASSERT_TRUE(until({nodes, others}, [&] { return !others->lookup(7).empty(); }));
  (*leader)->kill();
  ASSERT_TRUE(nodes->announce(record_of(7, {"unix://@two"})));
  ASSERT_TRUE(others->announce(record_of(8, {"unix://@three"})));
  const auto both_know = [&] {
    return nodes->lookup(8) == texts{"unix://@three"} && others->lookup(7) == texts{"unix://@two"};
  };
  ASSERT_TRUE(until({nodes, others}, both_know));
  EXPECT_TRUE(until({nodes, others}, [&] { return nodes->poll() && others->poll(); }));
  EXPECT_EQ(nodes->stats().lists, 1);
}

}  // namespace
}  // namespace atbus::test
