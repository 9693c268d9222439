// Streams between two hosts: a cable that is cut and mended, an address that changes.
#include "atbus/atbus.hpp"
#include "network_namespace.h"
#include "shared_memory.h"
#include "test.h"

namespace atbus::test {
namespace {

struct hosts_state {
  shared_counter listening;
  shared_counter received;
  shared_counter may_send;  // of all messages, how many may leave so far
  shared_counter accepted;  // by the sender
  shared_counter over;
  std::array<char, 96> port{};
};

class TwoHosts : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!net_.refused().empty())
      GTEST_SKIP() << net_.refused();
  }
  [[nodiscard]] static bool four() { return std::string{GetParam()} == "ipv4"; }
  [[nodiscard]] std::string address_of(host at) const {
    return four() ? "ipv4://" + net_.ipv4(at) : "ipv6://[" + net_.ipv6(at) + "]";
  }

  // Receives numbers in order from whoever sends, until told that it is over.
  [[nodiscard]] child_process start_receiver() const {
    return net_.start(host::left, [this] {
      auto inbox = receiver::open(four() ? "ipv4://0.0.0.0:0" : "ipv6://[::]:0");
      require(static_cast<bool>(inbox), "open");
      const std::string bound = inbox->address();
      std::strncpy(state_->port.data(), bound.substr(bound.rfind(':')).c_str(), 95);
      state_->listening.add();
      while (state_->over.get() == 0) {
        inbox->poll([this](bytes_view m) {
          require(as_text(m) == std::to_string(state_->received.get()), "out of order");
          state_->received.add();
        });
        (void)inbox->wait(20ms);
      }
      return 0;
    });
  }
  // Sends the numbers from `first` up to `end`, each when it may.
  [[nodiscard]] child_process start_sender(std::uint32_t first, std::uint32_t end) const {
    return net_.start(host::right, [this, first, end] {
      require(state_->listening.wait(), "nobody listens");
      const auto open = [this] {
        return sender::open(address_of(host::left) + state_->port.data(),
                            {.connect_timeout = patience, .linger = patience});
      };
      // On a busy machine the question who has that address can be lost on a cable that is just plugged in.
      auto opened = open();
      for (const auto late = now() + patience; !opened && now() < late;)
        opened = open();
      auto out = required(std::move(opened));
      for (std::uint32_t i = first; i < end; ++i) {
        require(state_->may_send.wait(i + 1), "not told to send");
        require(static_cast<bool>(out->send(as_bytes(std::to_string(i)))), "send");
        state_->accepted.add();
      }
      out->close();
      return 0;
    });
  }

  network_pair net_;
  shared<hosts_state> state_;
};

TEST_P(TwoHosts, MessagesWaitForACutCableAndArriveInOrder) {
  child_process inbox = start_receiver();
  child_process out = start_sender(0, 2000);
  state_->may_send.set(1000);
  ASSERT_TRUE(state_->received.wait(1000));
  ASSERT_EQ(net_.cut(), "");
  state_->may_send.set(2000);
  ASSERT_TRUE(state_->accepted.wait(2000)) << "a cut cable is no reason to block";
  EXPECT_FALSE(state_->received.wait(1001, 300ms)) << "through a cut cable";
  ASSERT_EQ(net_.mend(), "");
  EXPECT_TRUE(state_->received.wait(2000));
  EXPECT_EQ(out.wait_end(), "exit 0");
  state_->over.add();
  EXPECT_EQ(inbox.wait_end(), "exit 0");
}

TEST_P(TwoHosts, ReceiverIsFoundAtItsNewAddress) {
  child_process inbox = start_receiver();
  state_->may_send.set(200);
  child_process first = start_sender(0, 100);
  EXPECT_EQ(first.wait_end(), "exit 0");
  ASSERT_TRUE(state_->received.wait(100));
  ASSERT_EQ(net_.change_address(host::left, four() ? "10.77.0.9" : "fd77::9"), "");
  child_process second = start_sender(100, 200);
  EXPECT_EQ(second.wait_end(), "exit 0");
  EXPECT_TRUE(state_->received.wait(200));
  state_->over.add();
  EXPECT_EQ(inbox.wait_end(), "exit 0");
}

INSTANTIATE_TEST_SUITE_P(Kinds, TwoHosts, ::testing::Values("ipv4", "ipv6"),
                         [](const auto& kind) { return std::string{kind.param}; });

}  // namespace
}  // namespace atbus::test
