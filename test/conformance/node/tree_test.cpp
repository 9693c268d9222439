// A parent with children, through channels of this machine.
#include <sys/wait.h>
#include <unistd.h>

#include "node_fixture.h"

namespace atbus::test {
namespace {

constexpr std::uint64_t parent_id = 0x1200;
constexpr std::uint64_t child_id = 0x1201;
constexpr std::string_view all_ids = "0x1200/56";

class NodeTree : public NodeFixture {
 protected:
  void start_parent() {
    parent.emplace(parent_id, options().children(all_ids));
    parent_log = {};
    parent_log.listen_to(*parent);
    ASSERT_TRUE(parent->listen(where.empty() ? address() : where));
    where = parent->addresses().at(0);
  }
  node& start_child(std::uint64_t id, std::string_view children = "") {
    auto& log = logs.emplace_back(std::make_unique<node_log>());
    auto& made =
        nodes.emplace_back(std::make_unique<node>(id, options().parent(where).children(children)));
    log->listen_to(*made);
    return *made;
  }
  // Then the first is connected with the second, over the parent.
  void start_two_children() {
    start_parent();
    node& from = start_child(child_id);
    start_child(child_id + 1);
    ASSERT_TRUE(all_have(parent_id));
    ASSERT_TRUE(from.send(child_id + 1, 1, "first"));
    ASSERT_TRUE(turn_all([&] { return logs[1]->messages.size() == 1; }));
    logs[1]->messages.clear();
  }
  // Its handler takes 20 us for each, and counts.
  static void slow_down(node& who, std::size_t& got) {
    who.on_message([&](const message&) {
      ++got;
      for (const auto until = now() + std::chrono::microseconds{20}; now() < until;) {
      }
    });
  }
  bool turn_all(const std::function<bool()>& done) {
    return turn({}, [&] {
      if (parent)
        parent->poll();
      for (const auto& one : nodes)
        one->poll();
      return done();
    });
  }
  bool all_have(std::uint64_t id) {
    return turn_all([&] {
      return std::ranges::all_of(nodes, [&](const auto& one) { return one->parent() == id; });
    });
  }
  static bool says(const node_log& log, std::string_view part) {
    return std::ranges::any_of(
        log.lines, [&](const std::string& line) { return line.find(part) != std::string::npos; });
  }

  std::string where;
  std::optional<node> parent;
  node_log parent_log;
  std::vector<std::unique_ptr<node_log>> logs;
  std::vector<std::unique_ptr<node>> nodes;
};

TEST_P(NodeTree, MessagesGoUpAndDown) {
  start_parent();
  for (std::uint64_t id = child_id; id != child_id + 3; ++id)
    start_child(id);
  ASSERT_TRUE(all_have(parent_id));
  for (const auto& one : nodes)
    EXPECT_TRUE(one->send(parent_id, 0, "up"));
  ASSERT_TRUE(turn_all([&] { return parent_log.messages.size() == 3; }));
  EXPECT_TRUE(parent->send(child_id + 1, 0, "down"));
  ASSERT_TRUE(turn_all([&] { return logs[1]->messages.size() == 1; }));
}

TEST_P(NodeTree, MessagesOverTheParentKeepTheirOrderWhateverWayTheyTake) {
  ASSERT_NO_FATAL_FAILURE(start_two_children());
  node& from = *nodes[0];
  std::vector<std::string> expected;
  std::size_t to_parent = 0;
  for (int i = 0; i != 3000; ++i) {
    std::string text = std::to_string(i);
    if (i % 7 == 0)
      text.resize(static_cast<std::size_t>(i), 'x');
    if (i % 3 == 0) {
      node_slot slot = from.claim(child_id + 1, 1, text.size() + 5000);
      ASSERT_TRUE(slot);
      std::memcpy(slot.bytes().data(), text.data(), text.size());
      slot.commit(text.size());
    } else {
      ASSERT_TRUE(from.send(child_id + 1, 1, text));
    }
    expected.push_back(std::move(text));
    if (i % 50 == 17) {
      ASSERT_TRUE(from.send(parent_id, 1, "in between"));
      ++to_parent;
    }
    if (i % 70 == 19)
      from.flush();
    if (i % 100 == 99) {
      ASSERT_TRUE(turn_all([&] { return logs[1]->messages.size() == expected.size(); }));
    }
  }
  EXPECT_EQ(logs[1]->messages, expected);
  EXPECT_EQ(parent_log.messages.size(), to_parent);
  EXPECT_EQ(from.stats().accepted, expected.size() + to_parent + 1);
  EXPECT_EQ(logs[0]->undelivered.size(), 0U);
}

// Also where many come in one batch over the parent, and others beside them.
TEST_P(NodeTree, APollHandsOutNoMoreThanItMay) {
  constexpr std::size_t of_each = 300;
  constexpr std::size_t most = 7;
  ASSERT_NO_FATAL_FAILURE(start_two_children());
  node& from = *nodes[0];
  node& to = *nodes[1];
  std::vector<std::string> expected[2];
  for (std::size_t i = 0; i != of_each; ++i) {
    ASSERT_TRUE(from.send(child_id + 1, 1, expected[0].emplace_back("c" + std::to_string(i))));
    ASSERT_TRUE(parent->send(child_id + 1, 1, expected[1].emplace_back("p" + std::to_string(i))));
  }
  std::size_t polls = 0;
  ASSERT_TRUE(turn({&from, &*parent}, [&] {
    const std::size_t before = logs[1]->messages.size();
    const std::size_t told = to.poll({.messages = most});
    EXPECT_LE(told, most);
    EXPECT_EQ(logs[1]->messages.size() - before, told);
    polls += told != 0 ? 1 : 0;
    return logs[1]->messages.size() == 2 * of_each;
  }));
  EXPECT_GE(polls, 2 * of_each / most);
  std::vector<std::string> got[2];
  for (const std::string& text : logs[1]->messages)
    got[text[0] == 'p' ? 1 : 0].push_back(text);
  EXPECT_EQ(got[0], expected[0]);
  EXPECT_EQ(got[1], expected[1]);
}

// What comes while the rest of a batch waits would have to be sent again.
TEST_P(NodeTree, APollThatIsOverInABatchReadsNothingMore) {
  constexpr std::size_t count = 1500;
  ASSERT_NO_FATAL_FAILURE(start_two_children());
  node& from = *nodes[0];
  node& to = *nodes[1];
  std::size_t got = 0;
  slow_down(to, got);
  for (std::size_t i = 0; i != count; ++i)
    ASSERT_TRUE(from.send(child_id + 1, 1, "x"));
  const std::uint64_t relayed_before = parent->stats().relayed;
  ASSERT_TRUE(turn({&from, &*parent}, [&] {
    to.poll({.time = std::chrono::microseconds{100}});
    return got == count;
  }));
  EXPECT_LT(parent->stats().relayed - relayed_before, count + 200) << "and acknowledgements";
}

TEST_P(NodeTree, APollLooksAtTheClockAlsoWithinManySmallBatches) {
  constexpr std::size_t count = 600;
  ASSERT_NO_FATAL_FAILURE(start_two_children());
  node& from = *nodes[0];
  node& to = *nodes[1];
  std::size_t got = 0;
  slow_down(to, got);
  const std::uint64_t relayed_before = parent->stats().relayed;
  for (std::size_t i = 0; i != count; ++i) {
    ASSERT_TRUE(from.send(child_id + 1, 1, std::string(100, 'x')));
    if (i % 10 == 0)
      from.flush();
  }
  ASSERT_TRUE(
      turn({&from, &*parent}, [&] { return parent->stats().relayed - relayed_before >= count; }));
  std::size_t most = 0;
  ASSERT_TRUE(turn({&from, &*parent}, [&] {
    const std::size_t before = got;
    to.poll({.time = std::chrono::microseconds{100}});
    most = std::max(most, got - before);
    return got == count;
  }));
  EXPECT_LE(most, 64U);
}

// What lies in a lane is not there in the child.
TEST_P(NodeTree, AChildForkedInABatchIsToldNothingMoreOfIt) {
  constexpr std::size_t count = 100;
  ASSERT_NO_FATAL_FAILURE(start_two_children());
  node& from = *nodes[0];
  node& to = *nodes[1];
  std::size_t got = 0;
  pid_t child = -1;
  to.on_message([&](const message&) {
    if (++got == 3)
      child = fork();
  });
  for (std::size_t i = 0; i != count; ++i)
    ASSERT_TRUE(from.send(child_id + 1, 1, "x"));
  ASSERT_TRUE(turn({&from, &*parent}, [&] {
    to.poll();
    if (child == 0) {
      to.poll();
      _exit(got == 3 ? 0 : 1);
    }
    return got == count;
  }));
  int how = -1;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  EXPECT_EQ(how, 0);
}

// Both go into one link.
TEST_P(NodeTree, AnOpenSlotForTheParentIsLeftToAFlush) {
  ASSERT_NO_FATAL_FAILURE(start_two_children());
  node& from = *nodes[0];
  for (int sent_before = 0; sent_before != 4; ++sent_before) {
    ASSERT_TRUE(from.send(child_id + 1, 1, "over the parent"));
    for (int i = 0; i != sent_before; ++i)
      ASSERT_TRUE(from.send(parent_id, 1, "to the parent"));
    node_slot slot = from.claim(parent_id, 1, 4);
    ASSERT_TRUE(slot);
    std::memcpy(slot.bytes().data(), "slot", 4);
    from.flush();
    slot.commit();
    const std::size_t expected = parent_log.messages.size() + 1;
    ASSERT_TRUE(turn_all([&] {
      return !parent_log.messages.empty() && parent_log.messages.back() == "slot" &&
             parent_log.messages.size() >= expected;
    })) << sent_before;
    parent_log.messages.clear();
  }
  ASSERT_TRUE(turn_all([&] { return logs[1]->messages.size() == 4; }));
}

TEST_P(NodeTree, ReportsSoonWhatADisconnectLeavesOnItsWayOverTheParent) {
  ASSERT_NO_FATAL_FAILURE(start_two_children());
  node& from = *nodes[0];
  for (int i = 0; i != 10; ++i)
    ASSERT_TRUE(from.send(child_id + 1, 1, "before"));
  from.poll();
  ASSERT_TRUE(from.disconnect(child_id + 1));
  const auto began = now();
  // The first one may not have been acknowledged either.
  ASSERT_TRUE(turn({&from}, [&] { return logs[0]->undelivered.size() >= 10; }));
  EXPECT_LT(now() - began, std::chrono::seconds{10}) << "a goodbye takes a second";
  const std::size_t reported = logs[0]->undelivered.size();
  EXPECT_EQ(logs[0]->reasons, std::vector<errc>(reported, errc::closed));
  // What is sent later is another matter.
  ASSERT_TRUE(from.send(child_id + 1, 1, "after"));
  ASSERT_TRUE(
      turn_all([&] { return !logs[1]->messages.empty() && logs[1]->messages.back() == "after"; }));
  EXPECT_EQ(logs[0]->undelivered.size(), reported);
}

TEST_P(NodeTree, ReportsWhatADisconnectedParentHasNotGot) {
  start_parent();
  node& child = start_child(child_id);
  ASSERT_TRUE(all_have(parent_id));
  for (int i = 0; i != 10; ++i)
    ASSERT_TRUE(child.send(parent_id, 1, "up"));
  ASSERT_TRUE(child.disconnect(parent_id));
  ASSERT_TRUE(turn({&child}, [&] { return logs[0]->undelivered.size() == 10; }));
  EXPECT_EQ(logs[0]->reasons, std::vector<errc>(10, errc::closed));
}

TEST_P(NodeTree, ChildrenComeBackToAParentThatRestarts) {
  start_parent();
  start_child(child_id);
  start_child(child_id + 1);
  ASSERT_TRUE(all_have(parent_id));
  parent.reset();
  // A named inbox in shared memory keeps what is sent, so the parent counts as away there.
  ASSERT_TRUE(turn_all([&] {
    return logs[0]->saw(endpoint_event::disconnected) || logs[0]->saw(endpoint_event::away);
  }));
  EXPECT_TRUE(nodes[0]->send(parent_id, 0, "for the next one"));
  start_parent();
  ASSERT_TRUE(turn_all([&] {
    return parent_log.messages.size() == 1 && parent->endpoints().size() == 2 &&
           nodes[0]->parent() == parent_id && nodes[1]->parent() == parent_id;
  }));
}

TEST_P(NodeTree, WhoCannotBeAChildIsToldWhy) {
  start_parent();
  start_child(0x1300);
  start_child(child_id, "0x1300/60");
  start_child(child_id + 1, all_ids);
  ASSERT_TRUE(turn_all([&] {
    return std::ranges::all_of(logs,
                               [](const auto& log) { return log->saw(endpoint_event::refused); });
  }));
  EXPECT_TRUE(says(*logs[0], "the id is outside of its range"));
  EXPECT_TRUE(says(*logs[1], "the range is not within its own"));
  EXPECT_TRUE(says(*logs[2], "the range is not longer than its own"));
  EXPECT_TRUE(parent->endpoints().empty());
}

INSTANTIATE_TEST_SUITE_P(Kinds, NodeTree, ::testing::ValuesIn(node_kinds()),
                         [](const auto& kind) { return std::string{kind.param.name}; });

}  // namespace
}  // namespace atbus::test
