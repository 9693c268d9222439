// Trees whose nodes have a directory, over a simulated network: parents are found there, and siblings stay siblings.
#include "tree_of_six.h"
#include "unit/node/listed_nodes.h"

namespace atbus::detail {
namespace {

class TreeDirectory : public tree_of_six {
 protected:
  void SetUp() override {
    for (const std::uint64_t id : {64U, 80U, 96U})
      nodes->list(id, {address_of(id)});
    tree_of_six::SetUp();
    root.reset();
    root.emplace(net, 64, plain().children("64/58").directory(nodes));
    one.reset();
    one.emplace(net, 81, leaf_options(80).directory(nodes));
    ASSERT_TRUE(until([&] {
      return relay_a->core().parent() == 64 && relay_b->core().parent() == 64 &&
             one->core().parent() == 80;
    }));
    net.run_for(5s);
  }
  node_options relay_options(std::string_view range) override {
    return tree_of_six::relay_options(range).directory(nodes);
  }
  // 81 to 97, and back.
  void expect_passing() {
    const std::size_t there = far->got.size() + 1;
    const std::size_t back = one->got.size() + 1;
    EXPECT_TRUE(one->send(97, "there"));
    EXPECT_TRUE(far->send(81, "back"));
    ASSERT_TRUE(until([&] { return far->got.size() == there && one->got.size() == back; }));
  }
  [[nodiscard]] static std::string elsewhere() { return "ipv4://10.0.1.80:7000"; }

  std::shared_ptr<listed_nodes> nodes = std::make_shared<listed_nodes>();
};

TEST_F(TreeDirectory, NamesTheParentThatIsNowElsewhere) {
  relay_a.reset();
  net.run_for(10s);
  EXPECT_EQ(one->core().parent(), 0);
  nodes->list(80, {});  // its lease is over
  net.run_for(10s);
  simulated_node moved{net, bus_id{80}, tree_of_six::relay_options("80/60"), host_of(80)};
  ASSERT_TRUE(moved.user().listen(elsewhere()));
  nodes->list(80, {elsewhere()});
  ASSERT_TRUE(until([&] { return one->core().parent() == 80 && moved.user().parent() == 64; }));
  expect_passing();
}

// Its lane waits for a successor without end: the link is not lost.
TEST_F(TreeDirectory, NamesAParentBehindSharedMemoryThatIsNowElsewhere) {
  auto parent =
      std::make_unique<simulated_node>(net, bus_id{112}, relay_options("112/60"), host_of(113));
  ASSERT_TRUE(parent->core().listen("shm://parent"));
  nodes->list(112, {"shm://parent"});
  party leaf{net, 113, plain().parent("shm://parent").directory(nodes), host_of(113)};
  ASSERT_TRUE(until([&] { return leaf.core().parent() == 112; }));
  net.run_for(5s);
  parent.reset();
  net.run_for(10s);
  nodes->list(112, {});
  net.run_for(10s);
  simulated_node moved{net, bus_id{112}, tree_of_six::relay_options("112/60"), host_of(112)};
  ASSERT_TRUE(moved.core().listen(elsewhere()));
  nodes->list(112, {elsewhere()});
  net.run_for(10s);
  EXPECT_TRUE(leaf.send(97, "there"));
  EXPECT_TRUE(until([&] { return far->got == std::vector<std::string>{"there"}; }));
}

TEST_F(TreeDirectory, HasNamedTheParentsNewPlaceBeforeItWasLost) {
  nodes->list(80, {elsewhere()});
  net.run_for(5s);
  EXPECT_EQ(one->core().parent(), 80) << "a directory takes no link away";
  relay_a.reset();
  simulated_node moved{net, bus_id{80}, tree_of_six::relay_options("80/60"), host_of(80)};
  ASSERT_TRUE(moved.user().listen(elsewhere()));
  ASSERT_TRUE(until([&] { return one->core().parent() == 80 && moved.user().parent() == 64; }));
  expect_passing();
}

TEST_F(TreeDirectory, NamesAParentOnlyForAsLongAsItListsIt) {
  relay_a.reset();
  nodes->list(80, {elsewhere()});
  net.run_for(10s);
  nodes->list(80, {});
  net.run_for(10s);
  simulated_node moved{net, bus_id{80}, tree_of_six::relay_options("80/60"), host_of(80)};
  ASSERT_TRUE(moved.user().listen(elsewhere()));
  net.run_for(60s);
  EXPECT_EQ(one->core().parent(), 0);
}

TEST_F(TreeDirectory, LeavesSiblingsToTheirParent) {
  expect_passing();
  ASSERT_TRUE(until([&] { return relay_a->is_connected(96); }));
  nodes->list(96, {address_of(96), elsewhere()});
  net.run_for(5s);
  relay_b.reset();
  net.run_for(1s);
  relay_b.emplace(net, 96, relay_options("96/60"));
  ASSERT_TRUE(until([&] { return far->core().parent() == 96; }));
  for (int batch = 0; batch != 16; ++batch)  // each 16th asks for a nearer way
    expect_passing();
  net.run_for(5s);
  const std::uint64_t before = relayed(root);
  expect_passing();
  EXPECT_EQ(relayed(root), before);
  EXPECT_EQ(root->core().stats().dials, 0U) << "children are not dialled";
}

}  // namespace
}  // namespace atbus::detail
