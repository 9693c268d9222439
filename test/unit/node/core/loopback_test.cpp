#include "node/core/loopback.h"

#include "counting_allocator.h"
#include "unit/node/core/parts_fixture.h"

namespace atbus::detail {
namespace {

class Loopback : public parts_of_a_node {
 protected:
  Loopback() {
    node.progress.most = 100;
    events.handlers().on_writable = [this](bus_id id) { rooms += id == node.self.id ? 1 : 100; };
  }

  bool send(std::size_t bytes) {
    if (!loop.has_room(bytes))
      return false;
    std::list<held_message> one;
    one.push_back(of_size(bytes));
    loop.push(one);
    return true;
  }
  using numbers = std::vector<std::uint64_t>;
  // Of the messages.
  numbers poll(const std::function<void()>& each = [] {}) {
    numbers told;
    node.progress.told = 0;
    (void)loop.tell_all(node.progress.most, [&](const held_message& own) {
      told.push_back(own.number);
      ++node.progress.told;
      each();
    });
    (void)events.tell_all();
    return told;
  }

  loopback loop{node, events};
  int rooms = 0;
};

TEST_F(Loopback, TellsInOrderAndNumbersFromOne) {
  for (int i = 0; i != 3; ++i)
    EXPECT_TRUE(send(10));
  EXPECT_EQ(poll(), (numbers{1, 2, 3}));
  EXPECT_TRUE(loop.empty());
}

TEST_F(Loopback, TellsInTheNextPollWhatIsSentInOne) {
  EXPECT_TRUE(send(10));
  EXPECT_EQ(poll([&] { EXPECT_TRUE(send(10)); }), numbers{1});
  EXPECT_EQ(poll(), numbers{2});
}

// Of 64 KiB; half of it has to be free before room is told.
TEST_F(Loopback, TellsOfRoomOnce) {
  for (int i = 0; i != 4; ++i)
    EXPECT_TRUE(send(15 * 1024));
  poll();
  EXPECT_EQ(rooms, 0) << "none was wanted";
  for (int i = 0; i != 4; ++i)
    EXPECT_TRUE(send(15 * 1024));
  EXPECT_FALSE(send(15 * 1024));
  EXPECT_FALSE(send(15 * 1024));
  node.progress.most = 1;
  poll();
  EXPECT_EQ(rooms, 0) << "three quarters are full";
  poll();
  EXPECT_EQ(rooms, 1);
  poll();
  poll();
  EXPECT_EQ(rooms, 1);
}

// A frame of a game has 2 ms for its poll, whoever sends to whom.
TEST_F(Loopback, TellsNoMoreThanThePollHasTimeFor) {
  for (int i = 0; i != 100; ++i)
    EXPECT_TRUE(send(1));
  const auto for_a_while = [&] {
    node.progress.deadline = clock.now() + 2ms;
    return poll([&] { clock.advance(100us); }).size();
  };
  EXPECT_LE(for_a_while(), 20U + poll_progress::per_look);
  std::size_t told = 0;
  for (std::size_t polls = 0; !loop.empty() && polls != 100; ++polls)
    told = for_a_while();
  EXPECT_TRUE(loop.empty());
  EXPECT_GT(told, 0U);
}

TEST_F(Loopback, TellsOfRoomThoughThereIsNoMemory) {
  if (!test::can_fail_allocations())
    GTEST_SKIP() << "this build can't let allocations fail";
  for (int before = 0; before != 3; ++before) {
    for (int i = 0; i != 4; ++i)
      EXPECT_TRUE(send(15 * 1024));
    EXPECT_FALSE(send(15 * 1024));
    for (int i = 0; i != before; ++i)
      events.log("before");
    rooms = 0;
    try {
      node.progress.told = 0;
      const test::allocation_failure none;
      (void)loop.tell_all(4, [](const held_message&) {});
    } catch (const std::bad_alloc&) {
    }
    poll();
    EXPECT_EQ(rooms, 1) << before;
  }
}

TEST_F(Loopback, TakesOneMessageOfAnySizeWhileItHasNone) {
  EXPECT_TRUE(send(1024 * 1024));
  EXPECT_FALSE(send(0));
  EXPECT_EQ(loop.take_all().size(), 1U);
  EXPECT_TRUE(loop.empty());
  EXPECT_TRUE(send(1024 * 1024));
}

}  // namespace
}  // namespace atbus::detail
