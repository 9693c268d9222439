// The two hosts of the tests can talk, and can't while their cable is cut.
#include "network_namespace.h"

#include "plain_socket.h"
#include "shared_memory.h"
#include "test.h"

namespace atbus::test {
namespace {

struct meeting {
  shared_counter listening;
  shared_counter arrived;  // bytes
  shared_counter to_send;  // of all bytes, how many may leave so far
  shared_counter sent;
  std::array<char, 96> server{};
  std::array<char, 96> client{};
};

class NetworkPair : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!net_.refused().empty())
      GTEST_SKIP() << net_.refused();
  }

  [[nodiscard]] std::string address(host at) const {
    return four() ? "ipv4://" + net_.ipv4(at) : "ipv6://" + net_.ipv6(at);
  }
  [[nodiscard]] static bool four() { return std::string{GetParam()} == "ipv4"; }

  [[nodiscard]] child_process start_server() const {
    return net_.start(host::left, [this] {
      const plain_listener listener{address(host::left) + ":0"};
      std::strncpy(meeting_->server.data(), listener.address().c_str(), 95);
      meeting_->listening.add();
      plain_socket from = listener.accept();
      require(from.is_open(), "nobody came");
      socket_address peer;
      peer.size = sizeof peer.storage;
      require(getpeername(from.fd(), peer.get(), &peer.size) == 0, "getpeername");
      std::strncpy(meeting_->client.data(), peer.text().c_str(), 95);
      for (std::string some = from.receive_some(); !some.empty(); some = from.receive_some())
        meeting_->arrived.add(static_cast<std::uint32_t>(some.size()));
      require(from.ended() == "end of file", from.ended());
      return 0;
    });
  }
  // Sends a byte whenever it may, `bytes` in all.
  [[nodiscard]] child_process start_client(std::uint32_t bytes) const {
    return net_.start(host::right, [this, bytes] {
      require(meeting_->listening.wait(), "nobody listens");
      const plain_socket to = plain_socket::connect(meeting_->server.data());
      for (std::uint32_t i = 1; i <= bytes; ++i) {
        require(meeting_->to_send.wait(i), "not told to send");
        require(to.send("x"), "send");
        meeting_->sent.add();
      }
      return 0;
    });
  }

  network_pair net_;
  shared<meeting> meeting_;
};

TEST_P(NetworkPair, TalksUntilTheCableIsCutAndAfterItIsMended) {
  child_process server = start_server();
  child_process client = start_client(2);
  meeting_->to_send.set(1);
  ASSERT_TRUE(meeting_->arrived.wait(1));
  ASSERT_EQ(net_.cut(), "");
  meeting_->to_send.set(2);
  ASSERT_TRUE(meeting_->sent.wait(2));
  EXPECT_FALSE(meeting_->arrived.wait(2, 300ms)) << "through a cut cable";
  ASSERT_EQ(net_.mend(), "");
  EXPECT_TRUE(meeting_->arrived.wait(2));
  EXPECT_EQ(client.wait_end(), "exit 0");
  EXPECT_EQ(server.wait_end(), "exit 0");
}

TEST_P(NetworkPair, ChangesAnAddress) {
  ASSERT_EQ(net_.change_address(host::right, four() ? "10.77.0.9" : "fd77::9"), "");
  child_process server = start_server();
  child_process client = start_client(1);
  meeting_->to_send.set(1);
  EXPECT_EQ(client.wait_end(), "exit 0");
  EXPECT_EQ(server.wait_end(), "exit 0");
  EXPECT_EQ(std::string{meeting_->client.data()}.rfind(address(host::right) + ":", 0), 0U)
      << meeting_->client.data();
}

TEST_P(NetworkPair, IsApartFromTheTestsOwnNetwork) {
  const plain_listener listener{four() ? "ipv4://127.0.0.1:0" : "ipv6://::1:0"};
  child_process unproven = net_.start(host::left, [&listener] {
    try {
      (void)plain_socket::connect(listener.address());
    } catch (const std::system_error& e) {
      return e.code().value() == ECONNREFUSED ? 0 : 1;
    }
    return 2;
  });
  EXPECT_EQ(unproven.wait_end(), "exit 0");
}

INSTANTIATE_TEST_SUITE_P(Kinds, NetworkPair, ::testing::Values("ipv4", "ipv6"),
                         [](const auto& kind) { return std::string{kind.param}; });

}  // namespace
}  // namespace atbus::test
