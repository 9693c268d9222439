// Requests whose links are lost while they are in hand, many at a time, and over relays.
#include <string>
#include <vector>

#include "atbus/atbus.hpp"
#include "atbus/testing.hpp"
#include "test.h"

namespace atbus {
namespace {

constexpr bus_id root{0x10000};

// Two children of one parent, or two nodes with one link, that have thousands of requests in hand.
class ManyRequests : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr bus_id ids[] = {bus_id{0x10001}, bus_id{0x10002}};

  ManyRequests() {
    if (relayed) {
      testing::process_options parent;
      parent.host = 9;
      parent.node.children("0x10000/48");
      sim.start(
          root, [](node& n) { EXPECT_TRUE(n.listen("ipv4://10.0.0.9:7000")); }, parent);
    }
    start(0);
    start(1);
    sim.run_for(1s);
  }

  void start(std::size_t index) {
    testing::process_options process;
    process.host = static_cast<unsigned>(index + 1);
    process.node.allow_unauthenticated().send_buffer_size(64 * 1024);
    if (relayed)
      process.node.parent("ipv4://10.0.0.9:7000");
    sim.start(
        ids[index],
        [this, index](node& n) {
          if (!relayed) {
            EXPECT_TRUE(n.listen("ipv4://10.0.0." + std::to_string(index + 1) + ":7000"));
            if (index == 0) {
              EXPECT_TRUE(n.connect(ids[1], "ipv4://10.0.0.2:7000"));
            }
          }
          n.on_request(7, [this](request& r) { kept.push_back(r.detach()); });
          n.on_message([this, index](const message&) { ++got[index]; });
        },
        process);
  }
  node& at(std::size_t index) { return sim.node(ids[index]); }

  // Each asks the other one so many times.
  void ask(std::size_t times) {
    for (std::size_t asked[] = {0, 0}; asked[0] + asked[1] != 2 * times; sim.run_for(10ms)) {
      for (const std::size_t i : {0U, 1U}) {
        while (asked[i] != times) {
          const request_handle sent =
              at(i).request(ids[1 - i], 7, "x", 1h, [this](const response&) { ++told; });
          if (!sent)
            break;
          handles[i].push_back(sent);
          ++asked[i];
        }
      }
    }
    sim.run_for(10s);
    ASSERT_EQ(kept.size(), 2 * times);
  }
  void lose_links() {
    if (relayed)
      sim.stop_for(root, 50s);
    else
      sim.cut(ids[0], ids[1]);
    sim.run_for(2min);
  }
  void expect_that_messages_arrive() {
    EXPECT_TRUE(at(0).send(ids[1], 0, "hello"));
    EXPECT_TRUE(at(1).send(ids[0], 0, "hello"));
    sim.run_for(10s);
    EXPECT_EQ(got[0], 1);
    EXPECT_EQ(got[1], 1);
  }

  const bool relayed = GetParam();
  std::vector<request> kept;
  std::vector<request_handle> handles[2];
  std::size_t told = 0;
  int got[2] = {};
  testing::simulation sim{3};
};

TEST_P(ManyRequests, LeaveRoomForAllElseWhenTheyAreAskedAbout) {
  ask(8000);
  lose_links();
  expect_that_messages_arrive();
  for (request& one : kept) {
    while (one.reply("done") == errc::would_block)
      sim.run_for(10ms);
  }
  sim.run_for(10s);
  EXPECT_EQ(told, 16'000U);
}

TEST_P(ManyRequests, LeaveRoomForAllElseWhenTheyAreCancelled) {
  ask(8000);
  for (const std::size_t i : {0U, 1U}) {
    for (const request_handle& one : handles[i])
      EXPECT_TRUE(at(i).cancel(one));
  }
  sim.run_for(1s);
  expect_that_messages_arrive();
  EXPECT_EQ(at(0).stats().links_lost + at(1).stats().links_lost, 0U);
}

INSTANTIATE_TEST_SUITE_P(Ways, ManyRequests, ::testing::Bool(),
                         [](const auto& way) { return way.param ? "relayed" : "direct"; });

// A leaf asks the root over a node between them.
class RelayedRequest : public ::testing::Test {
 protected:
  static constexpr bus_id middle{0x10100};
  static constexpr bus_id leaf{0x10101};

  RelayedRequest() {
    testing::process_options above;
    above.host = 1;
    above.node.children("0x10000/48").ping_interval(5min);
    sim.start(
        root,
        [this](node& n) {
          EXPECT_TRUE(n.listen("ipv4://10.0.0.1:7000"));
          n.on_request(7, [this](request& r) { asked.push_back(r.detach()); });
          n.on_command([this](command& c) { commanded.push_back(c.detach()); });
        },
        above);
    testing::process_options between;
    between.host = 2;
    between.node.allow_unauthenticated().children("0x10100/56").parent("ipv4://10.0.0.1:7000");
    between.node.ping_interval(5min);
    sim.start(
        middle, [](node& n) { EXPECT_TRUE(n.listen("ipv4://10.0.0.2:7000")); }, between);
    testing::process_options below;
    below.host = 3;
    below.node.allow_unauthenticated().parent("ipv4://10.0.0.2:7000");
    sim.start(
        leaf, [](node&) {}, below);
    sim.run_for(2s);
  }

  // The leaf takes longer than the node between to come back, and the root answers meanwhile.
  template <class Reply>
  void answer_without_a_way(Reply&& reply) {
    sim.run_for(1s);
    sim.kill(middle);
    sim.run_for(500ms);
    sim.separate(middle, leaf);
    sim.restart(middle);
    sim.run_for(15s);
    reply();
    sim.run_for(5s);
    sim.join(middle, leaf);
    sim.run_for(30s);
  }

  std::vector<request> asked;
  std::vector<command> commanded;
  std::string told;
  testing::simulation sim{5};
};

TEST_F(RelayedRequest, KeepsAReplyUntilThereIsAWay) {
  ASSERT_TRUE(sim.node(leaf).request(root, 7, "x", 2min, [this](const response& r) {
    told = r.how() ? std::string{r.text()} : std::string{name(r.how().code())};
  }));
  answer_without_a_way([this] { EXPECT_TRUE(asked.at(0).reply("done")); });
  EXPECT_EQ(told, "done");
}

TEST_F(RelayedRequest, KeepsAReplyToACommandUntilThereIsAWay) {
  ASSERT_TRUE(sim.node(leaf).command(root, {"x"}, 2min, [this](status how, const command_reply& r) {
    told = how ? std::string{r.text()} : std::string{name(how.code())};
  }));
  answer_without_a_way([this] { EXPECT_TRUE(commanded.at(0).reply("done")); });
  EXPECT_EQ(told, "done");
}

// The handshake of its circuit ends after half a minute.
TEST_F(RelayedRequest, IsNotSaidToBeTimedOutLongBeforeItsDeadline) {
  sim.stop_for(root, 3min);
  ASSERT_TRUE(sim.node(leaf).request(root, 7, "x", 10min, [this](const response& r) {
    told = r.how() ? std::string{r.text()} : std::string{name(r.how().code())};
  }));
  sim.run_for(2min);
  EXPECT_EQ(told, "not_connected");
}

// Its link has ended, and what was in it may have arrived.
TEST(RequestInDoubt, IsNotSentAfterItWasCancelled) {
  int cancelled = 0;
  int handled = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    testing::simulation sim{seed};
    bool is_cancelled = false;
    testing::process_options there;
    there.host = 2;
    sim.start(
        2,
        [&](node& n) {
          EXPECT_TRUE(n.listen("ipv4://10.0.0.2:7000"));
          n.on_request(7, [&](request&) { handled += is_cancelled ? 1 : 0; });
        },
        there);
    testing::process_options here;
    here.host = 1;
    sim.start(
        1, [](node& n) { EXPECT_TRUE(n.connect(2, "ipv4://10.0.0.2:7000")); }, here);
    sim.run_for(1s);
    const request_handle sent = sim.node(1).request(2, 7, "x", 1min, [](const response&) {});
    sim.node(1).flush();
    sim.cut(1, 2);
    sim.run_for(1ms);  // the end of the link is known now
    is_cancelled = static_cast<bool>(sim.node(1).cancel(sent));
    cancelled += is_cancelled ? 1 : 0;
    sim.run_for(10s);
  }
  EXPECT_GT(cancelled, 30);
  EXPECT_EQ(handled, 0);
}

}  // namespace
}  // namespace atbus
