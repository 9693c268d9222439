// A node that misses one allocation in each of its polls for a while, on a simulated network. What it was about
// to do is done, or told, in the end.
#include <fstream>

#include "atbus/topic.hpp"
#include "counting_allocator.h"
#include "scratch_directory.h"
#include "unit/node/simulated_party.h"

namespace atbus::detail {
namespace {

class NodeShortOfMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test::can_fail_allocations())
      GTEST_SKIP() << "this build can't let allocations fail";
  }
  static node_options quick() { return plain().first_idle_timeout(1s).retry(1ms, 10ms); }

  // The network runs for that time, and `which` misses the allocation behind the first `good` ones in each
  // poll. True: it has missed one.
  static bool run_short(simulated_network& net, party& which, std::uint64_t good,
                        std::chrono::nanoseconds time) {
    bool missed = false;
    which.node.instead_of_poll = [&](simulated_node& of) {
      const test::allocation_failure one{good, 1, &foreign_code::runs()};
      try {
        of.user().poll(of.limits);
      } catch (const std::bad_alloc&) {
      }
      missed = missed || test::allocation_failure::happened();
    };
    net.run_for(time);
    which.node.instead_of_poll = nullptr;
    which.node.wake();
    return missed;
  }
  // With one more good allocation each time, until none is missed.
  template <class Try>
  static void until_none_is_missed(Try&& once) {
    bool missed = true;
    for (std::uint64_t good = 0; missed; ++good) {
      SCOPED_TRACE(good);
      ASSERT_LT(good, 1000U);
      missed = once(good);
      if (HasFailure())
        return;
    }
  }
  static bool connect(simulated_network& net, party& from, party& to, std::uint64_t id = 2) {
    from.connect(id);
    return net.run_until([&] { return from.is_connected(id); }, 5s) &&
           net.run_until([&] { return !to.core().endpoints().empty(); }, 5s);
  }
};

TEST_F(NodeShortOfMemory, SettlesWhatALostLinkLeavesWithCommandsAmongIt) {
  until_none_is_missed([](std::uint64_t good) {
    simulated_network net{1};
    party one{net, 1, quick()};
    auto two = std::make_unique<party>(net, 2, quick());
    EXPECT_TRUE(connect(net, *two, one, 1));
    int told = 0;
    EXPECT_TRUE(one.send(2, "first"));
    EXPECT_TRUE(
        one.node.user().command(2, {"look"}, 1s, [&](status, const command_reply&) { ++told; }));
    EXPECT_TRUE(one.send(2, "second"));
    one.core().flush();
    two.reset();
    const bool missed = run_short(net, one, good, 5s);
    net.run_for(5s);
    EXPECT_EQ(told, 1);
    // The command is one of them, unless its time was over before.
    EXPECT_GE(one.core().stats().not_delivered + one.core().stats().outcome_unknown, 2U);
    return missed;
  });
}

// Whatever else is to be told: with `before` lines that wait to be told.
TEST_F(NodeShortOfMemory, TellsThatAPeerIsGone) {
  for (const std::string where : {"ipv4://10.0.0.2:7000", "shm://two"}) {
    for (int before = 0; before != 2; ++before) {
      until_none_is_missed([&](std::uint64_t good) {
        simulated_network net{1};
        party one{net, 1, quick(), host_of(7)};
        auto two = std::make_unique<party>(net, 2, quick(), host_of(7));
        EXPECT_TRUE(two->core().listen("shm://two"));
        EXPECT_TRUE(one.core().connect(2, where));
        one.node.wake();
        EXPECT_TRUE(net.run_until([&] { return one.is_connected(2); }, 5s));
        net.run_for(10ms);
        for (int i = 0; i != before; ++i)
          one.core().events().log("before");
        two.reset();
        const bool missed = run_short(net, one, good, 100ms);
        net.run_for(1s);
        EXPECT_EQ(one.count(endpoint_event::disconnected) + one.count(endpoint_event::away), 1);
        return missed;
      });
    }
  }
}

TEST_F(NodeShortOfMemory, DialsTheSuccessorOfAPeerThatIsAway) {
  for (int before = 0; before != 2; ++before) {
    until_none_is_missed([&](std::uint64_t good) {
      simulated_network net{1};
      party one{net, 1, quick(), host_of(7)};
      auto two = std::make_unique<party>(net, 2, quick(), host_of(7));
      EXPECT_TRUE(two->core().listen("shm://two"));
      EXPECT_TRUE(one.core().connect(2, "shm://two"));
      EXPECT_TRUE(one.core().connect(2, address_of(2)));
      one.node.wake();
      EXPECT_TRUE(net.run_until([&] { return one.is_connected(2); }, 5s));
      net.run_for(1s);
      two.reset();
      for (int i = 0; i != before; ++i)
        one.core().events().log("before");
      const bool missed = run_short(net, one, good, 100ms);
      // It does not open the inbox of the one before.
      two = std::make_unique<party>(net, 2, quick(), host_of(7));
      EXPECT_TRUE(net.run_until([&] { return one.is_connected(2); }, 20s));
      return missed;
    });
  }
}

TEST_F(NodeShortOfMemory, TellsWhoWaitsForRoomThatThePeerIsForgotten) {
  for (int before = 0; before != 2; ++before) {
    until_none_is_missed([&](std::uint64_t good) {
      simulated_network net{1};
      party one{net, 1, quick().send_buffer_size(2000)};
      auto two = std::make_unique<party>(net, 2, quick());
      EXPECT_TRUE(connect(net, *two, one, 1));
      two->node.stop_until(net.now() + 1h);
      while (one.send(2, std::string(500, 'x'))) {
      }
      two.reset();
      EXPECT_TRUE(net.run_until([&] { return !one.is_connected(2); }, 5s));
      net.run_for(900ms);
      const int had = one.writable;
      for (int i = 0; i != before; ++i)
        one.core().events().log("before");
      const bool missed = run_short(net, one, good, 300ms);
      net.run_for(5s);
      EXPECT_EQ(one.writable, had + 1);
      EXPECT_TRUE(one.core().endpoints().empty());
      return missed;
    });
  }
}

TEST_F(NodeShortOfMemory, GivesUpWhatNewAccessRulesForbid) {
  const test::scratch_directory scratch;
  const std::string path = scratch.path() + "/access.toml";
  until_none_is_missed([&](std::uint64_t good) {
    std::ofstream{path} << "register = \"any\"\nsend = \"any\"\n";
    simulated_network net{1};
    party one{net, 1, quick().access(path)};
    party three{net, 3, quick()};
    EXPECT_TRUE(connect(net, one, three, 3));
    one.connect(2);  // which is not there
    int told = 0;
    EXPECT_TRUE(one.send(2, "first"));
    EXPECT_TRUE(one.node.user().command(2, {"stop"}, 10s, [&](status how, const command_reply&) {
      EXPECT_TRUE(how == errc::denied || how == errc::timed_out);
      ++told;
    }));
    EXPECT_TRUE(one.send(2, "second"));
    std::ofstream{path} << "send = []\n[[register]]\nids = [2]\nfrom = [\"fd00::/8\"]\n";
    net.run_for(1s);
    const bool missed = run_short(net, one, good, 12s);
    net.run_for(12s);
    EXPECT_EQ(told, 1);
    EXPECT_EQ(one.core().stats().not_delivered, 3U);
    EXPECT_GE(one.reports.size(), 1U);  // one may be counted alone
    EXPECT_FALSE(one.is_connected(3));
    EXPECT_EQ(one.send(2, "third"), errc::denied);
    return missed;
  });
}

TEST_F(NodeShortOfMemory, ResumesACoroutineThatWaitsForAnAnswer) {
  until_none_is_missed([](std::uint64_t good) {
    simulated_network net{1};
    party one{net, 1, quick()};
    party two{net, 2, quick()};
    EXPECT_TRUE(connect(net, one, two));
    two.node.user().on_command([](command& asked) {
      asked.reply({std::string(100, 'a'), std::string(100, 'b')});
    });
    int ended = 0;
    const auto ask = [&]() -> atbus::task<> {
      const result<command_reply> reply = co_await one.node.user().command(2, {"look"}, 1s);
      EXPECT_TRUE(reply || reply.error() == errc::out_of_memory || reply.error() == errc::timed_out)
          << reply.error().text();
      ++ended;
    };
    one.node.user().spawn(ask());
    one.node.wake();
    const bool missed = run_short(net, one, good, 100ms);
    net.run_for(5s);
    EXPECT_EQ(ended, 1);
    return missed;
  });
}

TEST_F(NodeShortOfMemory, TellsWhomABroadcastHasReached) {
  until_none_is_missed([](std::uint64_t good) {
    simulated_network net{1};
    party one{net, 1, quick()};
    party two{net, 2, quick()};
    EXPECT_TRUE(connect(net, one, two));
    int told = 0;
    EXPECT_TRUE(one.node.user().broadcast(id_range{}, 7, as_bytes("all"), 100ms,
                                          [&](const std::vector<bus_id>&) { ++told; }));
    one.node.wake();
    net.run_for(50ms);
    const bool missed = run_short(net, one, good, 100ms);
    net.run_for(1s);
    EXPECT_EQ(told, 1);
    return missed;
  });
}

TEST_F(NodeShortOfMemory, TellsAllNeighboursWhatItWants) {
  until_none_is_missed([](std::uint64_t good) {
    simulated_network net{1};
    party one{net, 1, quick()};
    party two{net, 2, quick()};
    party three{net, 3, quick()};
    EXPECT_TRUE(connect(net, one, two) && connect(net, one, three, 3));
    // Longer names than a string holds without memory.
    const std::vector<std::string> names{std::string(60, 'a'), std::string(60, 'b')};
    const topic there{two.node.user(), names[0]};
    const topic too{two.node.user(), names[1]};
    const topic elsewhere{three.node.user(), names[0]};
    for (const std::string& name : names)
      EXPECT_TRUE(one.node.user().subscribe(name, [](const topic_message&) {}));
    one.node.wake();
    const bool missed = run_short(net, one, good, 100ms);
    net.run_for(1s);
    EXPECT_EQ(there.links(), 1U);
    EXPECT_EQ(too.links(), 1U);
    EXPECT_EQ(elsewhere.links(), 1U);
    return missed;
  });
}

TEST_F(NodeShortOfMemory, TellsWhatItWantsToOneThatRegistersMeanwhile) {
  until_none_is_missed([](std::uint64_t good) {
    simulated_network net{1};
    party one{net, 1, quick()};
    party two{net, 2, quick()};
    const topic early{two.node.user(), "early"};
    const topic late{two.node.user(), "late"};
    EXPECT_TRUE(one.node.user().subscribe("early", [](const topic_message&) {}));
    one.connect(2);
    const bool missed = run_short(net, one, good, 100ms);
    net.run_for(5s);
    EXPECT_TRUE(one.node.user().subscribe("late", [](const topic_message&) {}));
    one.node.wake();
    net.run_for(1s);
    EXPECT_EQ(early.links(), 1U);
    EXPECT_EQ(late.links(), 1U);
    return missed;
  });
}

// subscribe() itself may fail, and is called again. What it leaves behind is nothing.
TEST_F(NodeShortOfMemory, SubscribesAgainIfItCouldNot) {
  until_none_is_missed([](std::uint64_t good) {
    simulated_network net{1};
    party one{net, 1, quick()};
    party two{net, 2, quick()};
    EXPECT_TRUE(connect(net, one, two));
    EXPECT_TRUE(one.node.user().subscribe("another", [](const topic_message&) {}));
    one.node.wake();
    net.run_for(1s);
    const std::string name(60, 'a');
    const topic there{two.node.user(), name};
    topic own{one.node.user(), name};
    own.publish(0, "before");
    int handled = 0;
    const auto subscribe = [&] {
      return bool{one.node.user().subscribe(name, [&](const topic_message&) { ++handled; })};
    };
    bool missed = false;
    bool done = false;
    try {
      const test::allocation_failure once{good, 1, &foreign_code::runs()};
      done = subscribe();
      missed = test::allocation_failure::happened();
    } catch (const std::bad_alloc&) {
      missed = true;
    }
    one.node.wake();
    if (!done)
      net.run_for(100ms);
    EXPECT_TRUE(done || subscribe());
    one.node.wake();
    net.run_for(1s);
    EXPECT_EQ(there.links(), 1U);
    EXPECT_EQ(own.publish(0, "own").links(), 1U);
    one.node.wake();
    net.run_for(1s);
    EXPECT_EQ(handled, 1);
    return missed;
  });
}

// The last of a stream, so that no later one tells.
TEST_F(NodeShortOfMemory, TellsSubscribersThatACopyFoundNone) {
  until_none_is_missed([](std::uint64_t good) {
    simulated_network net{1};
    party one{net, 1, quick().message_limit(1024).send_buffer_size(4096)};
    party two{net, 2, quick()};
    EXPECT_TRUE(connect(net, one, two));
    std::uint64_t had = 0;
    std::uint64_t missing = 0;
    EXPECT_TRUE(two.node.user().subscribe(
        "news", [&](const topic_message&) { ++had; },
        {.on_missed = [&](bus_id, std::uint64_t messages) { missing += messages; }}));
    two.node.wake();
    net.run_for(1s);
    topic news{one.node.user(), "news"};
    two.node.stop_until(net.now() + 500ms);
    const auto publish = [&] { return bool{news.publish(0, std::string(500, 'x'))}; };
    std::uint64_t published = 0;
    while (one.core().stats().topic_drops == 0)
      published += publish() ? 1 : 0;
    bool missed = false;
    {
      const std::string text(500, 'x');
      const test::allocation_failure once{good, 1, &foreign_code::runs()};
      published += news.publish(0, text) ? 1 : 0;
      missed = test::allocation_failure::happened();
    }
    one.node.wake();
    net.run_for(5s);
    EXPECT_EQ(had + missing, published);
    EXPECT_NE(missing, 0U);
    return missed;
  });
}

// What a neighbour wants, and that a copy finds no room in its link for want of memory.
TEST_F(NodeShortOfMemory, AnswersInterestAndSendsCopiesLater) {
  until_none_is_missed([](std::uint64_t good) {
    simulated_network net{1};
    party one{net, 1, quick()};
    party two{net, 2, quick()};
    EXPECT_TRUE(connect(net, two, one, 1));
    const std::string name(60, 'a');
    topic news{one.node.user(), name};
    std::uint64_t had = 0;
    std::uint64_t missing = 0;
    EXPECT_TRUE(two.node.user().subscribe(
        name, [&](const topic_message&) { ++had; },
        {.on_missed = [&](bus_id, std::uint64_t messages) { missing += messages; }}));
    two.node.wake();
    const bool missed = run_short(net, one, good, 100ms);
    net.run_for(5s);
    EXPECT_EQ(news.publish(0, "x").links(), 1U);
    one.node.wake();
    net.run_for(1s);
    EXPECT_EQ(had, 1U);
    EXPECT_EQ(missing, 0U);
    return missed;
  });
}

}  // namespace
}  // namespace atbus::detail
