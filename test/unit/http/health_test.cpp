// What /healthz and /readyz say of a report.
#include "http/health.h"

#include "http/report/node_life.h"
#include "test.h"

namespace atbus::detail {
namespace {

constexpr std::uint64_t reported_at = 1'000'000'000'000;

node_report_file live_file() {
  node_report_file file;
  file.alive = true;
  file.path = "/dev/shm/atbus-node.x";
  file.report.id = bus_id{7};
  file.report.updated_at = reported_at;
  return file;
}

peer_report wanted(std::uint64_t id, peer_channel channel = peer_channel::none) {
  peer_report peer;
  peer.id = bus_id{id};
  peer.wanted = true;
  peer.channel = channel;
  return peer;
}

TEST(Health, IsGoodWhileTheNodeIsPolled) {
  const health now = health_of(live_file(), reported_at + 15'000'000'000);
  EXPECT_TRUE(now.good);
  EXPECT_EQ(now.text, "node 7 is polled\n");
}

TEST(Health, NamesTheReasonInWords) {
  node_report_file file = live_file();
  health now = health_of(file, reported_at + 42'000'000'000);
  EXPECT_FALSE(now.good);
  EXPECT_NE(now.text.find("node 7 has not reported for 42 s"), std::string::npos) << now.text;
  file.alive = false;
  now = health_of(file, reported_at);
  EXPECT_FALSE(now.good);
  EXPECT_NE(now.text.find("node 7 is dead"), std::string::npos) << now.text;
  file.problem = {errc::not_a_segment, "it is torn"};
  now = health_of(file, reported_at);
  EXPECT_FALSE(now.good);
  EXPECT_NE(now.text.find("it is torn"), std::string::npos) << now.text;
}

TEST(Readiness, NeedsEachWantedPeer) {
  node_report_file file = live_file();
  EXPECT_TRUE(readiness_of(file, false, reported_at).good);
  file.report.peers = {wanted(1, peer_channel::tcp), wanted(2), wanted(3), wanted(4)};
  file.report.peers[2].wanted = false;  // it may come and go
  file.report.peers[3].channel = peer_channel::shared_memory;
  file.report.peers[3].away = true;
  const health now = readiness_of(file, false, reported_at);
  EXPECT_FALSE(now.good);
  EXPECT_EQ(now.text, "node 7 has no link to 2, 4\n");
}

TEST(Readiness, NamesTheFirstOfManyMissingPeers) {
  node_report_file file = live_file();
  for (std::uint64_t id = 1; id <= 4096; ++id)
    file.report.peers.push_back(wanted(id));
  const health now = readiness_of(file, false, reported_at);
  EXPECT_FALSE(now.good);
  EXPECT_NE(now.text.find("19, 20 and 4076 more"), std::string::npos) << now.text;
}

TEST(Readiness, NeedsAParentIfOneIsAskedFor) {
  node_report_file file = live_file();
  EXPECT_TRUE(readiness_of(file, false, reported_at).good);
  const health now = readiness_of(file, true, reported_at);
  EXPECT_FALSE(now.good);
  EXPECT_EQ(now.text, "node 7 has no link to a parent\n");
  file.report.parent = bus_id{1};
  EXPECT_TRUE(readiness_of(file, true, reported_at).good);
}

TEST(Readiness, NeedsALiveNode) {
  node_report_file file = live_file();
  file.alive = false;
  EXPECT_FALSE(readiness_of(file, false, reported_at).good);
}

}  // namespace
}  // namespace atbus::detail
