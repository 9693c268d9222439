// What becomes of a slot whose link lets go of it, or that its handler keeps: it is accepted and arrives, or it is
// not accepted.
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "system/kernel.h"
#include "unit/node/route/tree_of_six.h"

namespace atbus::detail {
namespace {

void fill(node_slot& slot, std::string_view text) {
  ASSERT_EQ(slot.bytes().size(), text.size());
  std::memcpy(slot.bytes().data(), text.data(), text.size());
}

// Over TCP.
class NodeSlots : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    two.on_message([this](const message& what) {
      got.push_back(std::string{what.text()} + (what.redelivered() ? " again" : ""));
    });
    ASSERT_TRUE(two.listen("ipv4://127.0.0.1:0"));
    ASSERT_TRUE(one.connect(2, two.addresses().at(0)));
  }
  void TearDown() override { kernel() = saved_; }
  bool until(const std::function<bool()>& holds) {
    for (const auto end = now() + 20s; now() < end; one.poll(), two.poll()) {
      if (holds())
        return true;
    }
    return false;
  }
  // The next write fails, and its link ends.
  static void break_write() {
    kernel().sendmsg = [](int fd, const msghdr*, int) -> ssize_t {
      kernel().sendmsg = saved_.sendmsg;
      ::shutdown(fd, SHUT_RDWR);
      errno = ETIMEDOUT;
      return -1;
    };
  }

  static inline kernel_calls saved_ = kernel();
  node one{1, plain()};
  node two{2, plain()};
  std::vector<std::string> got;
};

TEST_P(NodeSlots, AreNotAcceptedOnceAFlushHasFoundTheEndOfTheirLink) {
  std::vector<std::string> expected;
  for (int i = 1; i != 11; ++i) {
    expected.push_back("m" + std::to_string(i));
    ASSERT_TRUE(one.send(2, 0, expected.back()));
  }
  ASSERT_TRUE(until([&] { return got.size() == 10; }));  // most are not acknowledged yet
  ASSERT_TRUE(one.send(2, 0, "m11"));
  ASSERT_TRUE(one.send(2, 0, "m12"));
  if (GetParam()) {
    EXPECT_EQ(one.disconnect(99), errc::not_found);  // closes the direct path
  }
  {
    node_slot slot = one.claim(2, 0, 4);
    ASSERT_TRUE(slot);
    fill(slot, "gone");
    EXPECT_TRUE(slot.is_open());
    break_write();
    one.flush();
    EXPECT_FALSE(slot.is_open());
    slot.commit();
  }
  EXPECT_EQ(one.stats().accepted, 12U);
  ASSERT_TRUE(one.send(2, 0, "m13"));
  for (const char* one_more : {"m11", "m12", "m13"})
    expected.emplace_back(one_more);
  ASSERT_TRUE(until([&] { return got.size() >= expected.size() && got.back() == "m13"; }));
  EXPECT_EQ(got, expected);
  EXPECT_EQ(one.stats().accepted, 13U);
}

INSTANTIATE_TEST_SUITE_P(DirectAndThroughTheCore, NodeSlots, ::testing::Bool());

class KeptSlots : public tree_of_six {};

// A circuit is flushed at the end of the poll, before the last events are told.
TEST_F(KeptSlots, OfACircuitAreNotAcceptedBehindItsFlush) {
  std::optional<node_slot> slot;
  int commits = 0;
  node& by = one->node.user();
  one->on_message = [&](const message& what) {
    if (what.text() != "go")
      return;
    slot.emplace(by.claim(97, 0, 4));
    ASSERT_TRUE(*slot);
    fill(*slot, "slot");
    ASSERT_TRUE(by.on_ready(80, 1s, [&](status) {
      const bool is_open = slot->is_open();
      const std::uint64_t before = by.stats().accepted;
      slot->commit();
      EXPECT_EQ(by.stats().accepted - before, is_open ? 1U : 0U);
      ++commits;
    }));
  };
  for (int i = 0; i != 3; ++i)
    EXPECT_TRUE(one->send(97, "m" + std::to_string(i)));
  ASSERT_TRUE(until([&] { return far->got.size() == 3 && one->core().settled(); }));
  EXPECT_TRUE(relay_a->send(81, "go"));
  ASSERT_TRUE(until([&] { return commits == 1; }));
  EXPECT_TRUE(one->send(97, "later"));
  ASSERT_TRUE(until([&] { return !far->got.empty() && far->got.back() == "later"; }));
  EXPECT_TRUE(until([&] { return one->core().settled(); }));
  EXPECT_EQ(one->core().stats().accepted, far->got.size());
  slot.reset();
}

// Claimed while there is no link, and committed when there is one.
TEST_F(KeptSlots, DoNotStopAFlowThatAQuietLinkHasBegun) {
  const auto options = plain();
  party ten{net, 10, options, host_of(10)};
  party eleven{net, 11, options, host_of(10)};
  EXPECT_TRUE(eleven.core().listen("shm://eleven"));
  eleven.node.wake();
  std::optional<node_slot> slot;
  bool committed = false;
  node& by = ten.node.user();
  ten.on_message = [&](const message&) {
    if (committed)
      return;
    EXPECT_TRUE(ten.send(10, "again"));
    slot.reset();
    slot.emplace(by.claim(11, 0, 4));
    ASSERT_TRUE(*slot);
    fill(*slot, "slot");
  };
  ten.core().handlers().on_endpoint = [&](const endpoint&, endpoint_event what) {
    if (what != endpoint_event::connected || committed)
      return;
    slot->commit();
    committed = true;
  };
  EXPECT_TRUE(ten.core().connect(11, "shm://eleven"));
  EXPECT_TRUE(ten.send(10, "go"));
  ASSERT_TRUE(until([&] { return committed; }));
  net.run_for(100ms);
  for (int i = 0; i != 3; ++i)
    EXPECT_TRUE(ten.send(11, "later"));
  EXPECT_TRUE(until([&] { return !eleven.got.empty() && ten.core().settled(); }));
  const std::uint64_t to_itself = ten.got.size();
  EXPECT_EQ(ten.core().stats().accepted, eleven.got.size() + to_itself);
  slot.reset();
}

}  // namespace
}  // namespace atbus::detail
