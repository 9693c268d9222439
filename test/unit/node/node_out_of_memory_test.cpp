// A send for which there is no memory is refused, whatever would have become of the message.
#include <unistd.h>

#include <memory>
#include <new>
#include <vector>

#include "atbus/clock.hpp"
#include "atbus/directory.hpp"
#include "atbus/node.hpp"
#include "counting_allocator.h"
#include "test.h"

namespace atbus {
namespace {

class NodeOutOfMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test::can_fail_allocations())
      GTEST_SKIP() << "this build can't let allocations fail";
  }
  static std::string where() { return "mem://memory-test-" + std::to_string(getpid()); }
  static void listen_to(node& to, std::uint64_t& reported) {
    to.on_undelivered([&reported](const undelivered& what) { reported += what.count(); });
    to.on_log([](std::string_view) {});
    to.on_endpoint([](const endpoint&, endpoint_event) {});
  }
  // Sends with one more allocation that succeeds each time, until none fails. Counts what is accepted.
  static void send_in_vain(node& from, bus_id to, std::size_t length,
                           delivery_policy policy = delivery_policy::report) {
    const std::string text(length, 'x');
    bool failed = true;
    for (std::uint64_t good = 0; failed; ++good) {
      ASSERT_LT(good, 1000U);
      status how;
      {
        const test::allocation_failure none{good};
        how = from.send(to, 1, as_bytes(text), policy);
        failed = test::allocation_failure::happened();
      }
      EXPECT_TRUE(how || how == errc::out_of_memory || how == errc::no_route ||
                  how == errc::would_block || how == errc::not_connected)
          << how.text();
    }
  }
  // All that was accepted is delivered or reported.
  static void expect_outcomes(node& from, const std::uint64_t& reported, node* to) {
    for (const auto end = now() + 20s;
         reported + (to != nullptr ? to->stats().delivered : 0) != from.stats().accepted &&
         now() < end;) {
      from.poll();
      if (to != nullptr)
        to->poll();
    }
    EXPECT_EQ(reported + (to != nullptr ? to->stats().delivered : 0), from.stats().accepted);
  }
};

// Knows every node, at an address where nothing listens.
struct full_directory final : directory {
  std::vector<std::string> lookup(bus_id) override {
    return {"mem://memory-test-directory-" + std::to_string(getpid())};
  }
  watch_id watch(std::function<void(bus_id)>) override { return 1; }
  void unwatch(watch_id) override {}
  error announce(const directory_record&) override { return errc::not_supported; }
  error poll() override { return {}; }
};

TEST_F(NodeOutOfMemory, IsSurvivedByTheEndOfANodeThatListens) {
  for (const std::string& at : {std::string{"shm://"}, where()}) {
    bool failed = true;
    for (std::uint64_t good = 0; failed; ++good) {
      ASSERT_LT(good, 1000U);
      auto ending = std::make_unique<node>(2);
      ending->on_log([](std::string_view) {});
      ASSERT_TRUE(ending->listen(at));
      ending->poll();
      {
        const test::allocation_failure none{good};
        ending.reset();
        failed = test::allocation_failure::happened();
      }
    }
  }
}

TEST_F(NodeOutOfMemory, IsSaidOfACommandThatIsNotSent) {
  bool failed = true;
  for (std::uint64_t good = 0; failed; ++good) {
    ASSERT_LT(good, 1000U);
    node one{1, node_options{}.directory(std::make_shared<full_directory>())};
    one.on_log([](std::string_view) {});
    int told = 0;
    std::function<void(status, const command_reply&)> call = [&](status, const command_reply&) {
      ++told;
    };
    const command_words words{"look"};
    status how;
    {
      const test::allocation_failure none{good};
      how = one.command(2, words, 1ms, std::move(call));
      failed = test::allocation_failure::happened();
    }
    for (const auto end = now() + 10ms; now() < end;)
      one.poll();
    EXPECT_EQ(told, how ? 1 : 0) << good << ": " << how.text();
  }
}

TEST_F(NodeOutOfMemory, IsSaidOfWhatIsHeld) {
  node from{1};
  std::uint64_t reported = 0;
  listen_to(from, reported);
  ASSERT_TRUE(from.connect(2, where()));
  for (int i = 0; i != 50; ++i)
    ASSERT_NO_FATAL_FAILURE(send_in_vain(from, 2, 100));
  node to{2};
  to.on_message([](const message&) {});
  ASSERT_TRUE(to.listen(where()));
  expect_outcomes(from, reported, &to);
  EXPECT_EQ(reported, 0U);
  EXPECT_GE(to.stats().delivered, 50U);
}

TEST_F(NodeOutOfMemory, IsSaidOfWhatWaitsWithADeadline) {
  node from{1, node_options{}.message_deadline(1h)};
  std::uint64_t reported = 0;
  listen_to(from, reported);
  ASSERT_TRUE(from.connect(2, where()));
  ASSERT_NO_FATAL_FAILURE(send_in_vain(from, 2, 100));
  ASSERT_TRUE(from.disconnect(2));
  expect_outcomes(from, reported, nullptr);
}

TEST_F(NodeOutOfMemory, IsSaidOfWhatDropsAnother) {
  for (const auto policy : {overflow_policy::drop_oldest, overflow_policy::drop_newest}) {
    node from{1, node_options{}.overflow(policy).send_buffer_size(2000)};
    std::uint64_t reported = 0;
    listen_to(from, reported);
    ASSERT_TRUE(from.connect(2, where()));
    for (int i = 0; i != 100; ++i)
      ASSERT_NO_FATAL_FAILURE(send_in_vain(from, 2, 100));
    ASSERT_TRUE(from.disconnect(2));
    expect_outcomes(from, reported, nullptr);
  }
}

TEST_F(NodeOutOfMemory, IsSaidOfWhatBreaksTheLinkOff) {
  node from{1, node_options{}.overflow(overflow_policy::disconnect)};
  node to{2};
  std::uint64_t reported = 0;
  listen_to(from, reported);
  to.on_message([](const message&) {});
  ASSERT_TRUE(to.listen(where()));
  ASSERT_TRUE(from.connect(2, where()));
  for (const auto end = now() + 20s;
       from.endpoints().front().connected() == false && now() < end;) {
    from.poll();
    to.poll();
  }
  const std::string text(60'000, 'x');
  for (int i = 0; i != 30; ++i)
    ASSERT_NO_FATAL_FAILURE(send_in_vain(from, 2, 60'000));
  expect_outcomes(from, reported, &to);
}

TEST_F(NodeOutOfMemory, IsSaidOfWhatItSendsToItself) {
  node alone{1};
  std::uint64_t got = 0;
  alone.on_message([&](const message&) { ++got; });
  for (int i = 0; i != 100; ++i)
    ASSERT_NO_FATAL_FAILURE(send_in_vain(alone, 1, 100));
  alone.poll();
  EXPECT_EQ(got, alone.stats().accepted);
}

TEST_F(NodeOutOfMemory, IsSaidOfWhatIsSentOverOtherNodes) {
  const node_options tree = node_options{}.children("64/58");
  node parent{64, tree};
  ASSERT_TRUE(parent.listen(where()));
  node from{65, node_options{}.parent(where())};
  node to{66, node_options{}.parent(where())};
  std::uint64_t reported = 0;
  listen_to(from, reported);
  to.on_message([](const message&) {});
  const auto turn = [&] {
    from.poll();
    parent.poll();
    to.poll();
  };
  for (const auto end = now() + 20s; (from.parent() == 0 || to.parent() == 0) && now() < end;)
    turn();
  ASSERT_NO_FATAL_FAILURE(send_in_vain(from, 66, 100));
  ASSERT_NO_FATAL_FAILURE(send_in_vain(from, 67, 100, delivery_policy::require));
  for (const auto end = now() + 20s; to.stats().delivered == 0 && now() < end;)
    turn();
  for (int i = 0; i != 30; ++i)
    ASSERT_NO_FATAL_FAILURE(send_in_vain(from, 66, 100));
  for (const auto end = now() + 20s;
       to.stats().delivered + reported + 1 < from.stats().accepted && now() < end;)
    turn();
  EXPECT_GE(to.stats().delivered, 31U);
}

TEST_F(NodeOutOfMemory, LosesCountOfNothingWhenALinkEnds) {
  bool failed = true;
  for (std::uint64_t good = 0; failed; ++good) {
    SCOPED_TRACE(good);
    ASSERT_LT(good, 1000U);
    node from{1, node_options{}.allow_unauthenticated()};
    std::uint64_t reported = 0;
    listen_to(from, reported);
    auto to = std::make_unique<node>(2, node_options{}.allow_unauthenticated());
    ASSERT_TRUE(to->listen("ipv4://127.0.0.1:0"));
    ASSERT_TRUE(from.connect(2, to->addresses().front()));
    for (const auto end = now() + 20s; !from.endpoints().front().connected() && now() < end;) {
      from.poll();
      to->poll();
    }
    ASSERT_TRUE(from.endpoints().front().connected());
    for (int i = 0; i != 20; ++i) {
      const std::string text(static_cast<std::size_t>(100 * i), 'x');
      ASSERT_TRUE(from.send(2, 1, as_bytes(text)));
    }
    from.flush();
    to.reset();
    failed = false;
    for (int i = 0; i != 5; ++i) {
      const test::allocation_failure none{good};
      try {
        from.poll();
      } catch (const std::bad_alloc&) {
      }
      failed = failed || test::allocation_failure::happened();
    }
    ASSERT_TRUE(from.send(2, 1, "later"));
    ASSERT_TRUE(from.disconnect(2));
    const auto settled = [&from] {
      return from.stats().not_delivered + from.stats().outcome_unknown;
    };
    for (const auto end = now() + 5s; settled() != from.stats().accepted && now() < end;)
      from.poll();
    from.poll();  // which tells what is settled
    const node_stats counted = from.stats();
    EXPECT_EQ(counted.accepted, settled());
    EXPECT_LE(reported, counted.accepted);
    EXPECT_TRUE(failed || reported == counted.accepted) << reported;
    EXPECT_TRUE(failed || good > 20) << "nothing was to be kept";
  }
}

// Two peers over a relay leave at once: their circuits end in one poll.
TEST_F(NodeOutOfMemory, LetsAllCircuitsGoThatEnd) {
  node parent{64, node_options{}.children("64/58")};
  ASSERT_TRUE(parent.listen(where()));
  bool failed = true;
  for (std::uint64_t good = 0; failed; ++good) {
    SCOPED_TRACE(good);
    ASSERT_LT(good, 1000U);
    const node_options child = node_options{}.parent(where());
    node asked{65, child};
    node one{66, child};
    node two{67, child};
    std::uint64_t reported = 0;
    listen_to(asked, reported);
    asked.on_message([](const message&) {});
    const auto run_until = [&](auto&& is_done) {
      for (const auto end = now() + 20s; !is_done() && now() < end;) {
        for (node* each : {&asked, &parent, &one, &two})
          each->poll();
      }
      return is_done();
    };
    ASSERT_TRUE(
        run_until([&] { return asked.parent() != 0 && one.parent() != 0 && two.parent() != 0; }));
    ASSERT_TRUE(one.send(65, 1, "x"));
    ASSERT_TRUE(two.send(65, 1, "x"));
    ASSERT_TRUE(run_until([&] { return asked.stats().delivered == 2; }));
    ASSERT_TRUE(one.disconnect(65));
    ASSERT_TRUE(two.disconnect(65));
    for (int i = 0; i != 5; ++i) {
      one.poll();
      two.poll();
      parent.poll();
    }
    {
      const test::allocation_failure none{good};
      try {
        asked.poll();
      } catch (const std::bad_alloc&) {
      }
      failed = test::allocation_failure::happened();
    }
    EXPECT_TRUE(run_until([&] { return asked.endpoints().size() == 1; }))
        << "only the parent stays";
  }
}

// Calls whose time is over while there is no memory are made once there is some.
class CallsOutOfMemory : public NodeOutOfMemory {
 protected:
  void connect() {
    two.on_command([this](command& asked) { unanswered.push_back(asked.detach()); });
    ASSERT_TRUE(two.listen(where()));
    ASSERT_TRUE(one->connect(2, where()));
    for (const auto end = now() + 20s; !one->endpoints().front().connected() && now() < end;)
      turn();
    ASSERT_TRUE(one->endpoints().front().connected());
  }
  void turn() {
    one->poll();
    two.poll();
  }
  // The time of what was begun is over when it has gone.
  void poll_without_memory(std::chrono::nanoseconds time) {
    for (const auto end = now() + time + 1ms; now() < end;) {
    }
    const test::allocation_failure none;
    EXPECT_THROW(one->poll(), std::bad_alloc);
    EXPECT_EQ(told, 0);
  }
  void expect_calls(int count) {
    for (const auto end = now() + 20s; told != count && now() < end;)
      one->poll();
    EXPECT_EQ(told, count);
    one.reset();  // which makes what calls there are left
    EXPECT_EQ(told, count);
  }

  std::unique_ptr<node> one = std::make_unique<node>(1);
  node two{2};
  std::vector<command> unanswered;
  int told = 0;
};

TEST_F(CallsOutOfMemory, OfACommandIsMadeWhenThereIsMemory) {
  connect();
  ASSERT_TRUE(one->command(2, {"x"}, 20ms, [this](status how, const command_reply&) {
    ++told;
    EXPECT_EQ(how, errc::timed_out);
  }));
  poll_without_memory(20ms);
  expect_calls(1);
}

TEST_F(CallsOutOfMemory, OfABroadcastIsMadeWhenThereIsMemory) {
  connect();
  ASSERT_TRUE(one->broadcast(id_range{}, 1, as_bytes("x"), 500ms, [this](const auto& whom) {
    ++told;
    EXPECT_EQ(whom, std::vector<bus_id>{2});
  }));
  for (int i = 0; i != 50; ++i)
    turn();
  ASSERT_EQ(told, 0);
  poll_without_memory(500ms);
  expect_calls(1);
}

// So many that there is no room for all of their events.
TEST_F(CallsOutOfMemory, OfWaitsForANodeAreMadeWhenThereIsMemory) {
  constexpr int count = 200;
  for (int i = 0; i != count; ++i) {
    ASSERT_TRUE(one->on_ready(2, 20ms, [this](status how) {
      ++told;
      EXPECT_EQ(how, errc::timed_out);
    }));
  }
  poll_without_memory(20ms);
  expect_calls(count);
}

}  // namespace
}  // namespace atbus
