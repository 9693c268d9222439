// Access rules see where a node is, over real channels.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <optional>
#include <thread>

#include "atbus/node.hpp"
#include "named_inbox.h"
#include "scratch_directory.h"
#include "test.h"

namespace atbus {
namespace {

using namespace std::chrono_literals;

class NodeAccessLinks : public ::testing::Test {
 protected:
  // Whether node 1 registers with node 2, which listens there and lets it register from there.
  bool registers(const std::string& address, const std::string& from) {
    std::ofstream{path} << "send = \"any\"\n[[register]]\nids = [1]\nfrom = [\"" << from << "\"]\n";
    node two{2, options().access(path)};
    node one{1, options()};
    std::optional<bool> outcome;
    const auto listens = two.listen(address);
    EXPECT_TRUE(listens) << listens.text();
    one.on_endpoint([&](const endpoint&, endpoint_event what) {
      if (what == endpoint_event::connected || what == endpoint_event::refused)
        outcome = what == endpoint_event::connected;
    });
    EXPECT_TRUE(one.connect(2, two.addresses().at(0)));
    for (const auto until = std::chrono::steady_clock::now() + 20s;
         !outcome && std::chrono::steady_clock::now() < until;) {
      one.poll();
      two.poll();
    }
    EXPECT_TRUE(outcome);
    EXPECT_EQ(two.stats().registrations_failed != 0, !outcome.value_or(true));
    return outcome.value_or(false);
  }
  [[nodiscard]] static node_options options() {
    return node_options{}.token("the token of these two nodes");
  }
  [[nodiscard]] std::string here() const { return "user:" + std::to_string(geteuid()); }

  test::scratch_directory scratch;
  std::string path = scratch.path() + "/access.toml";
};

// Over lanes too: they show that a message is handled before the word that it was refused is read.
TEST_F(NodeAccessLinks, TellOfARefusedMessageBeforeShutdownEnds) {
  std::ofstream{path} << "register = \"any\"\nsend = []\n";
  const test::named_inbox inbox{"refuses"};
  for (const std::string& address : {inbox.address(), std::string{"unix://@atbus-refuses-test"}}) {
    for (int round = 0; round != 20; ++round) {
      std::atomic<bool> listens = false;
      std::atomic<bool> over = false;
      std::thread other{[&] {
        node two{2, options().access(path)};
        EXPECT_TRUE(two.listen(address));
        listens = true;
        while (!over) {
          two.poll();
          (void)two.wait(1ms);
        }
      }};
      while (!listens)
        std::this_thread::yield();
      node one{1, options()};
      int told = 0;
      one.on_undelivered([&](const undelivered& what) {
        EXPECT_EQ(what.reason(), errc::denied);
        ++told;
      });
      EXPECT_TRUE(one.connect(2, address));
      bool ready = false;
      EXPECT_TRUE(one.on_ready(2, 20s, [&](status how) { ready = static_cast<bool>(how); }));
      for (const auto until = std::chrono::steady_clock::now() + 20s;
           !ready && std::chrono::steady_clock::now() < until;)
        one.poll();
      for (int i = 0; i != 5; ++i)
        EXPECT_TRUE(one.send(2, 8, "no"));
      EXPECT_TRUE(one.shutdown(20s));
      EXPECT_EQ(told, 5) << address;
      over = true;
      other.join();
    }
  }
}

// More words than one poll reads.
TEST_F(NodeAccessLinks, TellOfThousandsOfRefusedMessagesBeforeShutdownEnds) {
  std::ofstream{path} << "register = \"any\"\nsend = []\n";
  const test::named_inbox inbox{"thousands"};
  node two{2, options().access(path)};
  ASSERT_TRUE(two.listen(inbox.address()));
  node one{1, options()};
  std::uint64_t told = 0;
  one.on_undelivered([&](const undelivered& what) { told += what.count(); });
  ASSERT_TRUE(one.connect(2, inbox.address()));
  bool ready = false;
  ASSERT_TRUE(one.on_ready(2, 20s, [&](status how) { ready = static_cast<bool>(how); }));
  const auto until = std::chrono::steady_clock::now() + 20s;
  for (; !ready && std::chrono::steady_clock::now() < until; two.poll())
    one.poll();
  constexpr std::uint64_t count = 10'000;
  for (std::uint64_t i = 0; i != count; ++i)
    ASSERT_TRUE(one.send(2, 8, "no"));
  one.flush();
  while (two.stats().access_denied != count && std::chrono::steady_clock::now() < until)
    two.poll();
  for (int i = 0; i != 10; ++i)
    two.poll();  // all words are written
  std::atomic<bool> over = false;
  std::thread other{[&] {
    while (!over)
      two.poll();
  }};
  EXPECT_TRUE(one.shutdown(20s));
  over = true;
  other.join();
  EXPECT_EQ(told, count);
}

// The other end does not poll for a while, and its way is full.
TEST_F(NodeAccessLinks, TellOfEachRefusedMessageThoughTheWordHasNoRoom) {
  std::ofstream{path} << "register = \"any\"\n[[send]]\nfrom = [2]\nto = [1]\nmessages = \"any\"\n";
  const test::named_inbox inbox{"full"};
  // Of 600 all words wait; of 3,000 too many do, and the link ends in between.
  for (const int count : {600, 3000}) {
    for (const std::string& address :
         {inbox.address(), std::string{"unix://@atbus-full-way-test"},
          "unix://" + scratch.path() + "/socket", std::string{"ipv4://127.0.0.1:0"}}) {
      node one{1, options().retry(1ms, 20ms)};
      node two{2, options().access(path)};
      int told = 0;
      one.on_undelivered([&](const undelivered& what) {
        EXPECT_EQ(what.reason(), errc::denied);
        ++told;
      });
      std::size_t sent_back = 0;
      std::size_t received = 0;
      one.on_message([&](const message&) { ++received; });
      const auto poll_until = [&](const std::function<bool()>& over) {
        for (const auto until = std::chrono::steady_clock::now() + 20s;
             !over() && std::chrono::steady_clock::now() < until;) {
          one.poll();
          two.poll();
        }
        return over();
      };
      ASSERT_TRUE(two.listen(address));
      ASSERT_TRUE(one.connect(2, two.addresses().at(0)));
      const auto are_connected = [&] {
        return !one.endpoints().empty() && one.endpoints()[0].connected() &&
               !two.endpoints().empty() && two.endpoints()[0].connected();
      };
      ASSERT_TRUE(poll_until(are_connected)) << address;
      for (int i = 0; i != 20; ++i) {  // a Unix socket's lanes are there
        one.poll();
        two.poll();
      }
      for (const std::size_t size : {1000U, 0U}) {
        while (two.send(1, 0, std::string(size, 'x')))
          ++sent_back;
      }
      for (int i = 0; i != count; ++i)
        ASSERT_TRUE(one.send(2, 3, "no"));
      one.flush();
      for (int i = 0; i != 20; ++i) {
        two.poll();
        one.flush();
      }
      EXPECT_TRUE(poll_until([&] { return told == count && received == sent_back; }))
          << address << ": " << told << " of " << count << ", " << received << " of " << sent_back;
      EXPECT_EQ(one.stats().not_delivered, static_cast<std::uint64_t>(count));
      EXPECT_EQ(one.stats().outcome_unknown, 0U);
    }
  }
}

// Each way is full of messages that the other end refuses: each word makes room for the next one.
TEST_F(NodeAccessLinks, TellOfEachMessageThoughBothEndsRefuseAll) {
  std::ofstream{path} << "register = \"any\"\n[[send]]\nfrom = [1]\nto = [2]\nmessages = \"any\"\n";
  const std::string other_path = scratch.path() + "/other.toml";
  std::ofstream{other_path}
      << "register = \"any\"\n[[send]]\nfrom = [2]\nto = [1]\nmessages = \"any\"\n";
  node one{1, options().access(path)};
  node two{2, options().access(other_path)};
  std::size_t told = 0;
  for (node* const each : {&one, &two}) {
    each->on_undelivered([&](const undelivered& what) {
      EXPECT_EQ(what.reason(), errc::denied);
      ++told;
    });
  }
  const auto poll_until = [&](const std::function<bool()>& over) {
    for (const auto until = std::chrono::steady_clock::now() + 20s;
         !over() && std::chrono::steady_clock::now() < until;) {
      one.poll();
      two.poll();
    }
    return over();
  };
  ASSERT_TRUE(two.listen("ipv4://127.0.0.1:0"));
  ASSERT_TRUE(one.connect(2, two.addresses().at(0)));
  ASSERT_TRUE(poll_until([&] {
    return one.endpoints()[0].connected() && !two.endpoints().empty() &&
           two.endpoints()[0].connected();
  }));
  const std::string text(2900, 'x');  // so that fewer than 1,024 words wait, or the link would end
  std::size_t sent = 0;
  while (one.send(2, 3, text))
    ++sent;
  while (two.send(1, 3, text))
    ++sent;
  EXPECT_TRUE(poll_until([&] { return told == sent; })) << told << " of " << sent;
  EXPECT_EQ(one.stats().links_lost, 0U);
}

TEST_F(NodeAccessLinks, SeeTheNetworkOfATcpLink) {
  EXPECT_TRUE(registers("ipv4://127.0.0.1:0", "127.0.0.0/8"));
  EXPECT_FALSE(registers("ipv4://127.0.0.1:0", "127.0.0.2/32"));
  EXPECT_FALSE(registers("ipv4://127.0.0.1:0", here()));
  EXPECT_TRUE(registers("ipv6://[::1]:0", "::1"));
  EXPECT_FALSE(registers("ipv6://[::1]:0", "fd00::/8"));
}

TEST_F(NodeAccessLinks, SeeTheUserOfAProcessOnThisHost) {
  const std::string socket = "unix://" + scratch.path() + "/two.sock";
  EXPECT_TRUE(registers(socket, here()));
  EXPECT_FALSE(registers(socket, "user:" + std::to_string(geteuid() + 1)));
  EXPECT_FALSE(registers(socket, "127.0.0.0/8"));
  const test::named_inbox segment{"access"};
  EXPECT_TRUE(registers(segment.address(), here()));
  EXPECT_FALSE(registers(segment.address(), "user:" + std::to_string(geteuid() + 1)));
}

}  // namespace
}  // namespace atbus
