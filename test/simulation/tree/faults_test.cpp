// What a tree has to withstand, one thing at a time.
#include "routed_message.h"
#include "simulated_runs.h"
#include "simulation/tree/tree_world.h"
#include "testing/simulated_link.h"

namespace atbus::detail {
namespace {

// A root with two relays, 1 and 2, each with two children: 3 and 4, 5 and 6.
topology two_relays() {
  topology all(7);
  const auto set = [&](std::size_t index, std::size_t parent, std::uint64_t id,
                       std::optional<id_range> range) {
    tree_node& node = all[index];
    node.parent = parent;
    node.id = bus_id{id};
    node.range = range;
    node.host = static_cast<unsigned>(index);
    node.addresses = {"ipv4://10.0.0." + std::to_string(index + 1) + ":7000"};
    node.dials = all[parent].addresses[0];
    if (index != 0)
      all[parent].children.push_back(index);
  };
  set(0, 0, 0x1000, *id_range::make(bus_id{0x1000}, 52));
  set(1, 0, 0x1100, *id_range::make(bus_id{0x1100}, 56));
  set(2, 0, 0x1200, *id_range::make(bus_id{0x1200}, 56));
  set(3, 1, 0x1101, std::nullopt);
  set(4, 1, 0x1102, std::nullopt);
  set(5, 2, 0x1201, std::nullopt);
  set(6, 2, 0x1202, std::nullopt);
  return all;
}

// As deep as it can be with one level.
topology star(std::size_t nodes) {
  test::dice draw{nodes};
  return make_topology(draw, {.nodes = nodes, .depth_max = 1});
}

class tree_of : public tree_world {
 public:
  explicit tree_of(const topology& nodes, const node_options& options = usual())
      : tree_world(nodes, std::vector<node_options>(nodes.size(), options), 1, nullptr) {
    start_all();
    EXPECT_LT(run_until_quiet(30s), 30s);
  }
  static node_options usual() {
    return node_options{}.allow_unauthenticated().send_buffer_size(64 * 1024);
  }

  // Each of these sends one to each other one, again and again.
  void talk(const std::vector<std::size_t>& who, std::chrono::nanoseconds time) {
    const std::chrono::nanoseconds end = net.now() + time;
    while (net.now() < end && book.fault().empty()) {
      for (const std::size_t from : who) {
        for (const std::size_t to : who) {
          if (from != to)
            send(from, to, 100, 1);
        }
      }
      run_until(net.now() + 50ms);
    }
  }

  template <class Value>
  [[nodiscard]] Value sum(Value node_stats::*of) {
    Value all{};
    for (std::size_t index = 0; index < size(); ++index) {
      if (is_running(index))
        all += process(index).core().stats().*of;
    }
    return all;
  }
};

TEST(TreeFaults, AStoppedRelayHoldsUpNobodyElse) {
  tree_of tree{two_relays()};
  tree.talk({3, 4, 5, 6}, 1s);
  tree.stop(2, tree.net.now() + 60s);
  const std::uint64_t before = tree.process(4).core().stats().delivered;
  tree.talk({3, 4, 5, 6}, 60s);
  EXPECT_GT(tree.process(4).core().stats().delivered, before + 1000);  // from 3
  EXPECT_LT(tree.run_until_quiet(60s), 60s);
  tree.end_faults();
  tree.check_ways(42);
  tree.check_memory();
  EXPECT_EQ(tree.book.fault(), "");
}

TEST(TreeFaults, ARelayDiesAndAnotherTakesItsPlace) {
  tree_of tree{two_relays()};
  for (const std::chrono::nanoseconds back_after : {0ms, 500ms, 60000ms}) {
    tree.talk({3, 4, 5, 6}, 1s);
    tree.kill(2, back_after, false);
    tree.talk({3, 4, 5, 6}, 2s);
    tree.run_until(tree.net.now() + back_after);
    EXPECT_LT(tree.run_until_quiet(60s), 60s);
  }
  tree.end_faults();
  tree.check_ways(42);
  EXPECT_EQ(tree.book.fault(), "");
}

TEST(TreeFaults, AThousandChildrenComeBackAtOnceWithoutAStorm) {
  tree_of tree{star(test::has_sanitizer ? 101 : 1001)};
  for (const std::chrono::nanoseconds away : {0s, 1s, 60s}) {
    const std::uint64_t dials = tree.sum(&node_stats::dials);
    tree.kill(0, away, false);
    tree.run_until(tree.net.now() + away);
    const std::uint64_t in_vain = tree.sum(&node_stats::dials);
    const std::chrono::nanoseconds took = tree.run_until_quiet(60s);
    std::cout << "away for " << away / 1ms << " ms, all back after " << took / 1ms << " ms; "
              << in_vain - dials << " dials meanwhile, then "
              << tree.sum(&node_stats::dials) - in_vain << '\n';
    EXPECT_LE(took, 5s);
    // Ten at first, while they wait longer and longer, then one each half of the longest wait.
    EXPECT_LT(in_vain - dials, tree.size() * (10 + static_cast<std::uint64_t>(away / 2s)));
    EXPECT_LT(tree.sum(&node_stats::dials) - in_vain, 4 * tree.size());
    EXPECT_EQ(tree.book.fault(), "");
  }
}

// It had begun a circuit to its parent; that must not get in the way of the link it would go over.
TEST(TreeFaults, AChildThatHadSomethingToSayIsBackAsSoonAsItsParentListens) {
  tree_of tree{two_relays()};
  tree.net.conditions.refuses = true;
  tree.net.cut(tree.node(3).id, tree.node(1).id, seen_by::both);
  for (int i = 0; i < 10; ++i) {
    (void)tree.send(3, 1, 100, 1);
    (void)tree.send(1, 3, 100, 1);
    tree.run_until(tree.net.now() + 20ms);
  }
  tree.net.conditions.refuses = false;
  EXPECT_LT(tree.run_until_quiet(60s), 5s);
  const std::uint64_t lost = tree.sum(&node_stats::links_lost);
  tree.talk({3, 1}, 60s);
  EXPECT_EQ(tree.sum(&node_stats::links_lost), lost);
  EXPECT_LT(tree.run_until_quiet(60s), 5s);
  EXPECT_EQ(tree.book.fault(), "");
}

// Two nodes of one host with different parents. What each offers the other is there long before a
// registration over their parents has come back: it must not end that.
TEST(TreeFaults, NodesOfAHostThatHaveLostEachOtherMeetAgain) {
  topology all = two_relays();
  all[5].host = all[3].host;
  for (const std::size_t index : {3U, 5U})
    all[index].addresses.push_back("mem://node" + std::to_string(index));
  tree_of tree{all};
  tree.net.conditions.refuses = true;
  tree.talk({3, 5}, 1s);
  tree.stop(5, tree.net.now() + 60s);
  (void)tree.send(3, 5, 100, 0);
  tree.run_until(tree.net.now() + 59s);
  EXPECT_TRUE(std::ranges::none_of(tree.process(3).core().endpoints(), [&](const endpoint& one) {
    return one.id() == all[5].id && one.connected();
  }));
  tree.net.conditions.refuses = false;
  EXPECT_LT(tree.run_until_quiet(60s), 20s);
  EXPECT_EQ(tree.book.fault(), "");
}

// Another process with the id of a node that lives is refused, and nothing happens to that one.
TEST(TreeFaults, AnIdThatIsClaimedTwiceStaysWithTheFirst) {
  tree_of tree{two_relays()};
  tree.talk({3, 4, 5, 6}, 1s);
  const std::uint64_t lost = tree.sum(&node_stats::links_lost);
  simulated_node second{tree.net, tree.node(3).id, tree_of::usual().parent(tree.node(3).dials),
                        host_identity{std::byte{99}}};
  tree.talk({3, 4, 5, 6}, 10s);
  EXPECT_EQ(second.user().parent(), bus_id{});
  EXPECT_GT(second.core().stats().registrations_failed, 0U);
  EXPECT_EQ(tree.sum(&node_stats::links_lost), lost);
  EXPECT_LT(tree.run_until_quiet(60s), 60s);
  tree.end_faults();
  tree.check_ways(42);
  EXPECT_EQ(tree.book.fault(), "");
}

// A registered node that writes into its link to its parent what no node writes.
class TreeForger : public ::testing::Test {
 protected:
  // A child of 1 without children of its own.
  [[nodiscard]] static bus_id forger_id() { return bus_id{0x1155}; }

  void forge(const routed_head& head) {
    tree.talk({3, 4, 5, 6}, 1s);
    simulated_node forger{tree.net, forger_id(), tree_of::usual().parent(tree.node(1).addresses[0]),
                          host_identity{std::byte{99}}};
    ASSERT_TRUE(tree.net.run_until([&] { return forger.user().parent() == tree.node(1).id; }, 10s));
    ASSERT_EQ(tree.sum(&node_stats::violations), 0U);
    const std::uint64_t lost = tree.sum(&node_stats::links_lost);
    simulated_link& link = *forger.channels().links().front();
    status why;
    const byte_buffer empty(message_head_size);
    const byte_buffer message = routed_message(head, {empty});
    std::byte* const at = link.claim(message.size(), message_purpose::data, why);
    ASSERT_NE(at, nullptr);
    std::ranges::copy(message, at);
    link.commit(message.size());
    forger.wake();
    EXPECT_TRUE(tree.net.run_until([&] { return forger.user().parent() == bus_id{}; }, 10s));
    EXPECT_EQ(tree.process(1).core().stats().violations, 1U);
    tree.talk({3, 4, 5, 6}, 2s);
    EXPECT_EQ(tree.sum(&node_stats::links_lost), lost);  // of links that end without a violation
  }
  void TearDown() override {
    EXPECT_LT(tree.run_until_quiet(60s), 60s);
    EXPECT_EQ(tree.book.fault(), "");
    EXPECT_EQ(tree.sum(&node_stats::violations), 1U);
  }

  tree_of tree{two_relays()};
};

TEST_F(TreeForger, WithAnothersSourceLosesItsLink) {
  forge({.destination = tree.node(5).id, .source = tree.node(3).id, .circuit = 1, .number = 1});
}

TEST_F(TreeForger, WithTheSourceOfItsParentLosesItsLink) {
  forge({.destination = tree.node(5).id, .source = tree.node(1).id, .circuit = 1, .number = 1});
}

TEST_F(TreeForger, WithMoreHopsThanThereAreLosesItsLink) {
  forge({.hops_left = 17,
         .destination = tree.node(5).id,
         .source = forger_id(),
         .circuit = 1,
         .number = 1});
}

}  // namespace
}  // namespace atbus::detail
