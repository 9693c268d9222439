// The proxy of the tests is tested too: one that passes everything would let them all pass.
#include "fault_proxy.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plain_socket.h"
#include "scratch_directory.h"
#include "test.h"

namespace atbus::test {
namespace {

using clock = std::chrono::steady_clock;

// Bytes that don't repeat for a while.
std::string numbers(std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<char>((i * 2654435761U) >> 13U);
  return bytes;
}

class FaultProxy : public ::testing::TestWithParam<const char*> {
 protected:
  FaultProxy()
      : listener_(listen_at()), proxy_(std::make_unique<fault_proxy>(listener_.address())) {}

  static std::string listen_at() {
    const std::string kind = GetParam();
    if (kind == "ipv4")
      return "ipv4://127.0.0.1:0";
    if (kind == "ipv6")
      return "ipv6://::1:0";
    return "unix://@fault-proxy-test-" + std::to_string(getpid());
  }
  [[nodiscard]] static bool resets() { return std::string{GetParam()} != "unix"; }

  void meet() {
    client_ = plain_socket::connect(proxy_->address());
    server_ = listener_.accept();
    ASSERT_TRUE(server_.is_open());
  }
  [[nodiscard]] bool passed_to_server(std::uint64_t bytes) const {
    return proxy_->wait([bytes](const proxy_counts& c) { return c.to_server.passed == bytes; });
  }

  plain_listener listener_;
  std::unique_ptr<fault_proxy> proxy_;
  plain_socket client_;
  plain_socket server_;
};

TEST_P(FaultProxy, PassesBothWaysAndCounts) {
  meet();
  const std::string there = numbers(100'000);
  ASSERT_TRUE(client_.send(there));
  EXPECT_EQ(server_.receive(there.size()), there);
  ASSERT_TRUE(server_.send("and back"));
  EXPECT_EQ(client_.receive(8), "and back");
  EXPECT_TRUE(proxy_->wait([](const proxy_counts& c) { return c.to_client.passed == 8; }));
  const proxy_counts counts = proxy_->counts();
  EXPECT_EQ(counts.to_server.passed, 100'000U);
  EXPECT_EQ(counts.to_client, (proxy_counts::one_way{8, 8, 0, 1}));
  EXPECT_EQ(counts.accepted, 1U);
  EXPECT_EQ(counts.open, 1U);
}

TEST_P(FaultProxy, PassesOnTheEndOfEachDirection) {
  meet();
  ASSERT_TRUE(client_.send("all there is"));
  client_.finish();
  EXPECT_EQ(server_.receive_all(), "all there is");
  EXPECT_EQ(server_.ended(), "end of file");
  // The other half still works.
  ASSERT_TRUE(server_.send("heard"));
  server_.finish();
  EXPECT_EQ(client_.receive_all(), "heard");
  EXPECT_EQ(client_.ended(), "end of file");
  EXPECT_TRUE(proxy_->wait([](const proxy_counts& c) { return c.open == 0; }));
}

TEST_P(FaultProxy, PassesOnAReset) {
  if (!resets())
    GTEST_SKIP() << "a Unix socket knows no reset";
  meet();
  ASSERT_TRUE(client_.send("x"));
  EXPECT_EQ(server_.receive(1), "x");
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ASSERT_EQ(setsockopt(client_.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
  client_.close();
  EXPECT_EQ(server_.receive_all(), "");
  EXPECT_EQ(server_.ended(), "reset");
}

TEST_P(FaultProxy, SplitsIntoPieces) {
  proxy_->set(direction::to_server, {.piece = 3, .pause = 1h});
  meet();
  ASSERT_TRUE(client_.send("0123456789"));
  EXPECT_EQ(server_.receive_some(), "012");
  proxy_->set(direction::to_server, {.piece = 3});
  EXPECT_EQ(server_.receive(7), "3456789");
  ASSERT_TRUE(passed_to_server(10));
  EXPECT_EQ(proxy_->counts().to_server.sends, 4U);
}

TEST_P(FaultProxy, Dribbles) {
  proxy_->set(direction::to_server, {.piece = 1, .pause = 5ms});
  meet();
  const auto begin = clock::now();
  ASSERT_TRUE(client_.send("0123456789"));
  EXPECT_EQ(server_.receive(10), "0123456789");
  EXPECT_GE(clock::now() - begin, 45ms);  // nine pauses
}

TEST_P(FaultProxy, Delays) {
  proxy_->set(direction::to_server, {.delay = 50ms});
  meet();
  const auto begin = clock::now();
  ASSERT_TRUE(client_.send("late"));
  EXPECT_EQ(server_.receive(4), "late");
  EXPECT_GE(clock::now() - begin, 50ms);
  // The other direction is not delayed: answers overtake.
  ASSERT_TRUE(client_.send("later"));
  ASSERT_TRUE(server_.send("now"));
  EXPECT_EQ(client_.receive(3), "now");
  EXPECT_EQ(server_.receive(5), "later");
}

TEST_P(FaultProxy, StallsAtAByteUntilReleased) {
  proxy_->set(direction::to_server, {.stall_at = 4});
  meet();
  ASSERT_TRUE(client_.send("0123456789"));
  EXPECT_EQ(server_.receive(4), "0123");
  ASSERT_TRUE(proxy_->wait([](const proxy_counts& c) { return c.to_server.arrived == 10; }));
  // What comes back shows that the proxy has had its turns and held on.
  ASSERT_TRUE(server_.send("turn"));
  EXPECT_EQ(client_.receive(4), "turn");
  EXPECT_EQ(proxy_->counts().to_server.passed, 4U);
  proxy_->set(direction::to_server, {});
  EXPECT_EQ(server_.receive(6), "456789");
}

TEST_P(FaultProxy, HoldsBoundedMemoryWhileItStalls) {
  proxy_->set(direction::to_server, {.stall_at = 0});
  meet();
  const std::string all = numbers(32U << 20U);
  std::size_t sent = 0;
  // Until neither the proxy nor the kernel takes any more.
  while (sent < all.size()) {
    const ssize_t n =
        ::send(client_.fd(), all.data() + sent, all.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) {
      sent += static_cast<std::size_t>(n);
      continue;
    }
    pollfd room{.fd = client_.fd(), .events = POLLOUT, .revents = 0};
    if (poll(&room, 1, 20) == 0 && proxy_->counts().to_server.arrived >= 256 * 1024)
      break;
  }
  EXPECT_LT(sent, all.size());
  EXPECT_EQ(proxy_->counts().to_server.arrived, 256U * 1024U);
  proxy_->set(direction::to_server, {});
  EXPECT_EQ(server_.receive(256 * 1024), all.substr(0, 256 * 1024));
}

TEST_P(FaultProxy, CorruptsOneBit) {
  proxy_->set(direction::to_server, {.corrupt_at = 5, .corrupt_bit = 3});
  meet();
  ASSERT_TRUE(client_.send("0123456789"));
  EXPECT_EQ(server_.receive(10), std::string{"01234"} + static_cast<char>('5' ^ 8) + "6789");
  // In pieces too, and on another connection.
  proxy_->set(direction::to_server, {.piece = 2, .corrupt_at = 5, .corrupt_bit = 0});
  meet();
  ASSERT_TRUE(client_.send("0123456789"));
  EXPECT_EQ(server_.receive(10), "0123446789");
}

TEST_P(FaultProxy, CutsInFrontOfAByte) {
  proxy_->set(direction::to_server, {.cut_at = 7});
  meet();
  ASSERT_TRUE(client_.send("0123456789"));
  EXPECT_EQ(server_.receive_all(), "0123456");
  EXPECT_EQ(server_.ended(), "end of file");
  EXPECT_EQ(client_.receive_all(), "");
  EXPECT_EQ(client_.ended(), "end of file");
  // What the client sends now is read and dropped: it must not turn into a reset.
  ASSERT_TRUE(client_.send("more"));
  ASSERT_TRUE(proxy_->wait([](const proxy_counts& c) { return c.to_server.dropped == 3 + 4; }));
}

TEST_P(FaultProxy, ResetsInFrontOfAByte) {
  proxy_->set(direction::to_server, {.reset_at = 7});
  meet();
  ASSERT_TRUE(client_.send("0123456789"));
  EXPECT_EQ(server_.receive_all(), "0123456");
  EXPECT_EQ(server_.ended(), resets() ? "reset" : "end of file");
  EXPECT_EQ(client_.receive_all(), "");
  EXPECT_EQ(client_.ended(), resets() ? "reset" : "end of file");
}

TEST_P(FaultProxy, CutsAndResetsAtOnce) {
  meet();
  proxy_->cut();
  EXPECT_EQ(server_.receive_all(), "");
  EXPECT_EQ(server_.ended(), "end of file");
  meet();
  proxy_->reset();
  EXPECT_EQ(server_.receive_all(), "");
  EXPECT_EQ(server_.ended(), resets() ? "reset" : "end of file");
}

TEST_P(FaultProxy, RefusesAndAcceptsAgainAtTheSameAddress) {
  meet();
  const std::string before = proxy_->address();
  for (int round = 0; round < 3; ++round) {
    proxy_->refuse();
    int code = 0;
    try {
      (void)plain_socket::connect(before);
    } catch (const std::system_error& e) {
      code = e.code().value();
    }
    EXPECT_EQ(code, ECONNREFUSED);
    // The connection of before is not touched.
    ASSERT_TRUE(client_.send("x"));
    EXPECT_EQ(server_.receive(1), "x");
    proxy_->accept();
    meet();
  }
  EXPECT_EQ(proxy_->address(), before);
  EXPECT_EQ(proxy_->counts().accepted, 4U);
}

TEST_P(FaultProxy, DiscardsWithoutATrace) {
  proxy_->set(direction::to_server, {.discard = true});
  meet();
  ASSERT_TRUE(client_.send("lost"));
  client_.finish();
  ASSERT_TRUE(proxy_->wait([](const proxy_counts& c) { return c.to_server.dropped == 4; }));
  ASSERT_TRUE(server_.send("still here"));
  EXPECT_EQ(client_.receive(10), "still here");
  EXPECT_EQ(proxy_->counts().to_server.passed, 0U);
  proxy_->set(direction::to_server, {});
  EXPECT_EQ(server_.receive_all(), "");
  EXPECT_EQ(server_.ended(), "end of file");
}

TEST_P(FaultProxy, TellsTheClientWhenTheServerIsNotThere) {
  listener_.close();
  client_ = plain_socket::connect(proxy_->address());
  EXPECT_EQ(client_.receive_all(), "");
  EXPECT_EQ(client_.ended(), resets() ? "reset" : "end of file");
  EXPECT_TRUE(proxy_->wait([](const proxy_counts& c) { return c.unreachable == 1; }));
}

TEST_P(FaultProxy, CanBeDestroyedAtAnyMoment) {
  const std::size_t before = open_descriptors();
  for (int round = 0; round < 20; ++round) {
    auto proxy = std::make_unique<fault_proxy>(listener_.address());
    proxy->set({.delay = 1h, .piece = 5});
    std::vector<plain_socket> clients;
    for (int i = 0; i < round; ++i) {
      clients.push_back(plain_socket::connect(proxy->address()));
      ASSERT_TRUE(clients.back().send("held back"));
    }
    proxy.reset();
    for (plain_socket& client : clients) {
      EXPECT_EQ(client.receive_all(), "");
      EXPECT_NE(client.ended(), "silence");
    }
    clients.clear();
    // Empties the queue of the listener.
    for (plain_socket left = listener_.accept(0ns); left.is_open(); left = listener_.accept(0ns)) {
    }
  }
  EXPECT_EQ(open_descriptors(), before);
}

INSTANTIATE_TEST_SUITE_P(Kinds, FaultProxy, ::testing::Values("ipv4", "ipv6", "unix"),
                         [](const auto& kind) { return std::string{kind.param}; });

TEST(FaultProxyOfFiles, MakesAndRemovesItsSocketFile) {
  const scratch_directory directory;
  const plain_listener listener{"unix://" + directory.path() + "/server"};
  {
    fault_proxy proxy{listener.address(), "unix://" + directory.path() + "/proxy"};
    EXPECT_EQ(directory.files(), (std::vector<std::string>{"proxy", "server"}));
    proxy.refuse();
    EXPECT_THROW((void)plain_socket::connect(proxy.address()), std::system_error);
    proxy.accept();
    const plain_socket client = plain_socket::connect(proxy.address());
    ASSERT_TRUE(client.send("through files"));
    EXPECT_EQ(listener.accept().receive(13), "through files");
  }
  EXPECT_EQ(directory.files(), (std::vector<std::string>{"server"}));
}

}  // namespace
}  // namespace atbus::test
