// Sending through a node from other threads.
#include "atbus/node_sender.hpp"

#include <unistd.h>

#include <filesystem>
#include <stdexcept>

#include "atbus/node.hpp"
#include "test.h"

namespace atbus {
namespace {

std::string mem_address(const char* name) {
  return std::string{"mem://node-sender-test-"} + name;
}

// Polls both until it is so, or a long time has passed.
template <class Condition>
bool poll_until(node& one, node& two, Condition&& condition) {
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end)
      return false;
    one.poll();
    two.poll();
  }
  return true;
}

bool is_connected(const node& one) {
  const auto all = one.endpoints();
  return !all.empty() && all[0].connected();
}

class NodeSender : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(two.listen(mem_address("two")));
    ASSERT_TRUE(one.connect(2, mem_address("two")));
    two.on_message([this](const message& what) { got.emplace_back(what.text()); });
    one.on_undelivered([this](const undelivered& what) {
      reports.push_back({what.destination(), what.reason()});
      EXPECT_EQ(what.outcome(), errc::not_delivered);
    });
  }

  struct report {
    bus_id to;
    errc reason;
  };
  node one{1, node_options{}.send_buffer_size(64 * 1024)};
  node two{2};
  std::vector<std::string> got;
  std::vector<report> reports;
};

TEST_F(NodeSender, SendsFromAnyNumberOfThreadsInTheOrderOfEach) {
  constexpr std::size_t threads = 4;
  constexpr std::size_t messages = 20'000;
  std::vector<std::thread> workers;
  for (std::size_t i = 0; i < threads; ++i) {
    workers.emplace_back([i, sender = one.sender()]() mutable {
      for (std::size_t n = 0; n < messages;) {
        const status how = sender.send(2, static_cast<std::uint32_t>(i), std::to_string(n));
        if (how == errc::would_block)
          EXPECT_TRUE(sender.wait_writable(60s));
        else if (how)
          ++n;
        else
          return ADD_FAILURE() << how.text();
      }
    });
  }
  std::array<std::size_t, threads> next{};
  std::size_t all = 0;
  two.on_message([&](const message& what) {
    EXPECT_EQ(what.text(), std::to_string(next.at(what.type())++));
    ++all;
  });
  EXPECT_TRUE(poll_until(one, two, [&] { return all == threads * messages; }));
  for (std::thread& worker : workers)
    worker.join();
  EXPECT_TRUE(poll_until(one, two, [&] { return one.stats().accepted == all; }));
  EXPECT_EQ(one.stats().refused, 0U);
}

TEST_F(NodeSender, ReportsWhatTheNodeWouldHaveRefused) {
  node_sender sender = one.sender();
  EXPECT_TRUE(sender.send(99, 0, "to nobody"));
  EXPECT_TRUE(sender.send(2, 0, "to somebody"));
  ASSERT_TRUE(poll_until(one, two, [&] { return got.size() == 1 && reports.size() == 1; }));
  EXPECT_EQ(reports[0].to, bus_id{99});
  EXPECT_EQ(reports[0].reason, errc::no_route);
  EXPECT_EQ(one.stats().accepted, 2U);
  EXPECT_EQ(one.stats().not_delivered, 1U);
  const std::string long_one(node_options{}.message_limit() + 1, 'x');
  const status refused = sender.send(2, 0, long_one);
  EXPECT_EQ(refused, errc::message_too_large);
}

TEST_F(NodeSender, HoldsUpOnlyTheLaneWhoseDestinationHasNoRoom) {
  ASSERT_TRUE(one.connect(3, mem_address("absent")));
  node_sender stuck = one.sender();
  node_sender free = one.sender();
  const std::string text(1000, 'x');
  std::size_t accepted = 0;
  for (int quiet = 0; quiet < 100; ++quiet) {
    while (stuck.send(3, 0, text)) {
      ++accepted;
      quiet = 0;
    }
    one.poll();
  }
  EXPECT_EQ(stuck.wait_writable(1ms), errc::timed_out);
  EXPECT_TRUE(free.send(2, 0, "passes"));
  ASSERT_TRUE(poll_until(one, two, [&] { return got.size() == 1; }));
  // What is stuck goes on, in order and whole, when its destination is there.
  node three{3};
  std::size_t came = 0;
  three.on_message([&](const message& what) { came += what.text() == text ? 1 : 0; });
  ASSERT_TRUE(three.listen(mem_address("absent")));
  EXPECT_TRUE(poll_until(one, three, [&] { return came == accepted; }));
  EXPECT_TRUE(stuck.send(3, 0, "again"));
}

TEST_F(NodeSender, GoesOnAsSoonAsThereIsRoomForWhatIsSentToItsOwnNode) {
  std::size_t came = 0;
  one.on_message([&](const message&) { ++came; });
  node_sender own = one.sender();
  const std::string text(1000, 'x');
  std::size_t accepted = 0;
  while (own.send(1, 0, text))
    ++accepted;
  EXPECT_EQ(own.wait_writable(1ms), errc::timed_out);
  for (one.poll(); came != accepted; one.poll())
    ASSERT_TRUE(one.wait(200ms)) << came << " of " << accepted;
}

TEST_F(NodeSender, GoesOnThoughAHandlerThrowsInThePollThatMakesRoom) {
  std::size_t came = 0;
  one.on_message([&](const message&) {
    ++came;
    throw std::runtime_error{"of the handler"};
  });
  node_sender own = one.sender();
  const std::string text(1000, 'x');
  std::size_t accepted = 0;
  while (own.send(1, 0, text))
    ++accepted;
  EXPECT_EQ(own.wait_writable(1ms), errc::timed_out);
  for (one.flush(); came != accepted;) {
    EXPECT_TRUE(one.wait(200ms)) << came << " of " << accepted;
    if (::testing::Test::HasFailure())
      break;
    try {
      one.poll();
    } catch (const std::runtime_error&) {
    }
  }
}

TEST_F(NodeSender, OutlivesTheNodeAndGivesBackWhatThatHasNotTaken) {
  std::optional<node> brief{std::in_place, 7};
  node_sender sender = brief->sender();
  EXPECT_TRUE(sender.send(2, 5, "a"));
  EXPECT_TRUE(sender.send(2, 6, "b"));
  EXPECT_EQ(sender.take_back([](bus_id, std::uint32_t, bytes_view) { FAIL(); }), 0U);
  brief.reset();
  EXPECT_EQ(sender.send(2, 7, "c"), errc::closed);
  EXPECT_EQ(sender.wait_writable(1s), errc::closed);
  std::string all;
  EXPECT_EQ(sender.take_back([&](bus_id to, std::uint32_t type, bytes_view bytes) {
    all += to.to_string() + ":" + std::to_string(type) + ":" + std::string{as_text(bytes)} + " ";
  }),
            2U);
  EXPECT_EQ(all, bus_id{2}.to_string() + ":5:a " + bus_id{2}.to_string() + ":6:b ");
  EXPECT_EQ(sender.take_back([](bus_id, std::uint32_t, bytes_view) { FAIL(); }), 0U);
}

// One was taken from the lane and had no room in the node: it is in neither.
TEST(NodeSenderAlone, HasAnOutcomeForEachMessageWhenTheNodeShutsDown) {
  constexpr std::size_t count = 100;
  std::size_t outcomes = 0;
  node alone{1, node_options{}.send_buffer_size(64 * 1024)};
  alone.on_undelivered([&](const undelivered&) { ++outcomes; });
  ASSERT_TRUE(alone.connect(2, "unix://@node-sender-test-nobody-" + std::to_string(getpid())));
  node_sender out = alone.sender();
  for (std::size_t i = 0; i != count; ++i)
    ASSERT_TRUE(out.send(2, 0, std::string(2000, 'x')));
  for (int i = 0; i != 20; ++i) {
    alone.poll();
    (void)alone.wait(1ms);
  }
  EXPECT_EQ(alone.shutdown(10ms), errc::timed_out);
  out.take_back([&](bus_id, std::uint32_t, bytes_view) { ++outcomes; });
  EXPECT_EQ(outcomes, count);
}

TEST_F(NodeSender, OfANodeThatHasEndedSaysSo) {
  one.close();
  node_sender sender = one.sender();
  EXPECT_EQ(sender.send(2, 0, "a"), errc::closed);
  EXPECT_EQ(sender.wait_writable(1s), errc::closed);
}

TEST_F(NodeSender, IsHeardBeforeTheNodeEnds) {
  ASSERT_TRUE(poll_until(one, two, [&] { return is_connected(one); }));
  node_sender sender = one.sender();
  std::thread receiving([&] {
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (got.size() != 100 && std::chrono::steady_clock::now() < end)
      two.poll();
  });
  for (int i = 0; i < 100; ++i)
    EXPECT_TRUE(sender.send(2, 0, "before the end"));
  EXPECT_TRUE(one.shutdown(60s));
  receiving.join();
  EXPECT_EQ(got.size(), 100U);
  EXPECT_TRUE(reports.empty());
  EXPECT_EQ(sender.send(2, 0, "after it"), errc::closed);
}

TEST_F(NodeSender, WakesANodeThatSleeps) {
  ASSERT_TRUE(poll_until(one, two, [&] { return is_connected(one); }));
  while (one.wait(0ms))
    one.poll();
  std::thread later([sender = one.sender()]() mutable {
    std::this_thread::sleep_for(20ms);
    EXPECT_TRUE(sender.send(2, 0, "wake up"));
  });
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (got.empty() && std::chrono::steady_clock::now() < end) {
    EXPECT_TRUE(one.wait(60s));
    one.poll();
    two.poll();
  }
  EXPECT_EQ(got.size(), 1U);
  later.join();
}

TEST_F(NodeSender, LeavesNothingInTheNodeWhenItEnds) {
  const auto open_files = [] {
    const std::filesystem::directory_iterator all{"/proc/self/fd"};
    return std::distance(begin(all), end(all));
  };
  ASSERT_TRUE(poll_until(one, two, [&] { return is_connected(one); }));
  // A bell of the link may be accepted later; a lane that is left behind costs several files.
  constexpr std::ptrdiff_t of_the_link = 4;
  const std::ptrdiff_t before = open_files() + of_the_link;
  for (std::size_t sent = 0; sent < 10; ++sent) {
    const node_sender unused = one.sender();
    EXPECT_TRUE(one.sender().send(2, 0, "one"));
    ASSERT_TRUE(poll_until(one, two, [&] { return got.size() == sent + 1; }));
  }
  EXPECT_TRUE(poll_until(one, two, [&] { return open_files() <= before; }))
      << open_files() << " instead of " << before;
}

}  // namespace
}  // namespace atbus
