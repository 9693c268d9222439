// What a node says of itself, to its program and to operators.
#include <sys/stat.h>
#include <unistd.h>

#include "atbus/node.hpp"
#include "atbus/node_report.hpp"
#include "child_process.h"
#include "conformance/node/node_fixture.h"
#include "scratch_directory.h"
#include "test.h"

namespace atbus::test {
namespace {

class NodeReport : public NodeFixture {
 protected:
  [[nodiscard]] node_options reporting() const {
    return options().report_directory(directory_.path());
  }
  void connect_reporting() { connect_both(reporting(), reporting()); }
  void exchange(int messages) {
    const std::size_t before = second_log.messages.size();
    for (int i = 0; i != messages; ++i)
      ASSERT_TRUE(first->send(2, 1, "12345678"));
    ASSERT_TRUE(turn({&*first, &*second}, [&] {
      return second_log.messages.size() == before + static_cast<std::size_t>(messages);
    }));
  }
  [[nodiscard]] static const peer_report& peer_of(const node_report& report, std::uint64_t id) {
    static const peer_report none;
    const auto found = std::ranges::find(report.peers, bus_id{id}, &peer_report::id);
    return found != report.peers.end() ? *found : none;
  }
  // The report of that node in the directory; nothing without one.
  [[nodiscard]] std::optional<node_report_file> find(std::uint64_t id) const {
    const auto all = list_node_reports(directory_.path());
    if (!all)
      return std::nullopt;
    const auto found = std::ranges::find_if(
        *all, [&](const node_report_file& one) { return one.report.id == bus_id{id}; });
    return found != all->end() ? std::optional{*found} : std::nullopt;
  }
};

INSTANTIATE_TEST_SUITE_P(Over, NodeReport, ::testing::ValuesIn(node_kinds()),
                         [](const auto& kind) { return std::string{kind.param.name}; });

TEST_P(NodeReport, CountsWhatGoesToAPeerAndComesFromIt) {
  connect_reporting();
  exchange(100);
  const node_report of_first = first->report();
  EXPECT_EQ(of_first.id, bus_id{1});
  EXPECT_EQ(of_first.incarnation, first->incarnation());
  EXPECT_EQ(of_first.pid, static_cast<std::uint32_t>(getpid()));
  EXPECT_EQ(of_first.stats.accepted, 100U);
  const peer_report& to = peer_of(of_first, 2);
  EXPECT_EQ(to.sent, 100U);
  EXPECT_EQ(to.sent_bytes, 800U);
  EXPECT_EQ(to.received, 0U);
  EXPECT_EQ(to.links, 1U);
  EXPECT_EQ(to.links_lost, 0U);
  EXPECT_TRUE(to.wanted);
  EXPECT_NE(to.channel, peer_channel::none);
  EXPECT_FALSE(to.address.empty());
  const node_report of_second = second->report();
  const peer_report& from = peer_of(of_second, 1);
  EXPECT_EQ(from.received, 100U);
  EXPECT_EQ(from.received_bytes, 800U);
  EXPECT_EQ(from.sent, 0U);
  EXPECT_GE(of_second.handling.total(), 1U);
  EXPECT_EQ(of_second.addresses, second->addresses());
}

// Also those that have gone straight into the link since the last poll.
TEST_P(NodeReport, CountsMessagesThatNoPollHasSeen) {
  connect_reporting();
  for (int i = 0; i != 5; ++i)
    ASSERT_TRUE(first->send(2, 1, "12345678"));
  EXPECT_EQ(peer_of(first->report(), 2).sent, 5U);
  EXPECT_EQ(peer_of(first->report(), 2).sent_bytes, 40U);
  // A report takes no claim away.
  node_slot slot = first->claim(2, 1, 8);
  ASSERT_TRUE(slot);
  EXPECT_EQ(peer_of(first->report(), 2).sent, 5U);
  std::memcpy(slot.bytes().data(), "abcdefgh", 8);
  slot.commit();
  EXPECT_EQ(peer_of(first->report(), 2).sent, 6U);
}

TEST_P(NodeReport, IsTheSameInAHandler) {
  connect_reporting();
  std::vector<std::uint64_t> seen;
  second->on_message(
      [&](const message&) { seen.push_back(peer_of(second->report(), 1).received); });
  for (int i = 0; i != 4; ++i)
    ASSERT_TRUE(first->send(2, 1, "x"));
  ASSERT_TRUE(turn({&*first, &*second}, [&] { return seen.size() == 4; }));
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{1, 2, 3, 4}));
}

TEST_P(NodeReport, SaysWhatWaitsForAPeer) {
  connect_reporting();
  while (first->send(2, 1, std::string(1000, 'x'))) {
  }
  const node_report full = first->report();
  EXPECT_GE(peer_of(full, 2).would_block, 1U);
  EXPECT_GT(peer_of(full, 2).queued_bytes, 1000U);
  EXPECT_EQ(peer_of(full, 2).queued_bytes_most, peer_of(full, 2).queued_bytes);
  ASSERT_TRUE(turn({&*first, &*second},
                   [&] { return second_log.messages.size() == first->stats().accepted; }));
  ASSERT_TRUE(
      turn({&*first, &*second}, [&] { return peer_of(first->report(), 2).queued_bytes == 0; }));
  EXPECT_GE(peer_of(first->report(), 2).queued_bytes_most, peer_of(full, 2).queued_bytes);
}

TEST_P(NodeReport, SaysWhyTheLastLinkWasLost) {
  connect_reporting();
  second.reset();
  const auto of_second = [&] { return peer_of(first->report(), 2); };
  ASSERT_TRUE(turn({&*first}, [&] { return of_second().links_lost == 1 || of_second().away; }));
  EXPECT_EQ(of_second().links, 1U);
  // A named segment waits for the successor: that link is not lost.
  EXPECT_EQ(of_second().away, std::string{GetParam().name} == "shm");
  EXPECT_EQ(of_second().last_loss_at == 0, of_second().away);
}

TEST_P(NodeReport, IsInAFileWhileTheNodeLives) {
  connect_reporting();
  exchange(10);
  // Until the next one is due, which is soon.
  const auto is_there = [&] {
    const auto file = find(2);
    return file && file->alive && peer_of(file->report, 1).received == 10;
  };
  ASSERT_TRUE(turn({&*first, &*second}, is_there));
  EXPECT_EQ(find(1)->report.stats.accepted, 10U);
  first.reset();
  EXPECT_FALSE(find(1));
  ASSERT_TRUE(second->shutdown(1s));
  EXPECT_FALSE(find(2));
}

TEST_P(NodeReport, OfANodeThatSleepsIsNotLate) {
  connect_reporting();
  ASSERT_TRUE(turn({&*first, &*second}, [&] {
    return find(1)->report.stats.registrations == 1 && find(2)->report.stats.registrations == 1;
  }));
  exchange(3);
  const auto end = now() + 10s;
  while (find(2)->report.stats.delivered != 3 && now() < end) {
    first->poll();
    (void)second->wait(10s);
    second->poll();
  }
  EXPECT_EQ(find(2)->report.stats.delivered, 3U);
}

class NodeWithoutReports : public ::testing::Test {
 protected:
  scratch_directory directory_;
};

TEST_F(NodeWithoutReports, MakesNoFile) {
  node quiet{1, node_options{}.report_directory("")};
  quiet.poll();
  const auto all = list_node_reports();
  ASSERT_TRUE(all);
  for (const auto& one : *all)
    EXPECT_NE(one.report.incarnation, quiet.incarnation());
}

TEST_F(NodeWithoutReports, WorksAndSaysWhy) {
  node_log log;
  node one{1, node_options{}.report_directory("/nonexistent")};
  log.listen_to(one);
  EXPECT_TRUE(one.fault());
  EXPECT_TRUE(one.listen("mem://without-reports-" + std::to_string(getpid())));
  one.poll();
  ASSERT_EQ(log.lines.size(), 1U);
  EXPECT_NE(log.lines[0].find("/nonexistent"), std::string::npos) << log.lines[0];
}

TEST_F(NodeWithoutReports, OfAClientThereIsNoFile) {
  const node client{0, node_options{}.report_directory(directory_.path())};
  EXPECT_TRUE(directory_.files().empty());
}

}  // namespace
}  // namespace atbus::test
