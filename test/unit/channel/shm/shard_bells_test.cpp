// The doorbell that several shards share: connections that it can't take, and those that never say whose they are.
#include <fcntl.h>
#include <sys/un.h>
#include <unistd.h>

#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "plain_socket.h"
#include "scratch_directory.h"
#include "shared_memory.h"
#include "system/kernel.h"
#include "test.h"

namespace atbus {
namespace {

using test::patience;

class ShardBells : public ::testing::Test {
 protected:
  void SetUp() override {
    receiver_options options;
    options.spin = 0ns;
    options.directory = directory_.path();
    auto opened = receiver::open_shards("shm://bells?lanes=4", 2, options);
    ASSERT_TRUE(opened) << opened.error().text();
    shards = std::move(*opened);
  }
  ~ShardBells() override {
    detail::kernel() = usual_;
    for (receiver& each : shards)
      (void)each.remove();
  }
  [[nodiscard]] sender open_sender() const {
    sender_options options;
    options.directory = directory_.path();
    auto opened = sender::open("shm://bells", options);
    EXPECT_TRUE(opened) << opened.error().text();
    return std::move(*opened);
  }
  // What a process of this user may do with the bell.
  [[nodiscard]] test::plain_socket knock() const {
    test::plain_socket made{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
    sockaddr_un at{.sun_family = AF_UNIX, .sun_path = {}};
    const std::string path = directory_.path() + "/atbus-bell.bells";
    std::memcpy(at.sun_path, path.c_str(), path.size() + 1);
    EXPECT_EQ(::connect(made.fd(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
    return made;
  }
  bool turn_until(const std::function<bool()>& done) {
    for (const auto end = now() + patience; !done();) {
      if (now() > end)
        return false;
      for (receiver& each : shards) {
        (void)each.wait(100us);
        (void)each.poll([this](bytes_view) { ++came; });
      }
    }
    return true;
  }

  std::vector<receiver> shards;
  std::size_t came = 0;

 private:
  test::scratch_directory directory_;
  detail::kernel_calls usual_ = detail::kernel();
};

int accepts_refused = 0;

// The front, where another shard looked, could not take the connection: that of its lane hears of it all the same, and
// sees its end.
TEST_F(ShardBells, AConnectionThatCantBeTakenIsHeardOfByTheShardOfItsLane) {
  sender first = open_sender();
  ASSERT_TRUE(first.send(as_bytes("x")));
  ASSERT_TRUE(turn_until([&] { return came == 1; }));
  accepts_refused = 0;
  detail::kernel().accept = [](int, int) {
    ++accepts_refused;
    errno = EMFILE;
    return -1;
  };
  sender second = open_sender();
  ASSERT_EQ(second.lane(), 1U);
  ASSERT_TRUE(second.send(as_bytes("y")));
  for (int i = 0; i < 1000 && accepts_refused == 0; ++i) {
    (void)shards[0].wait(1ms);
    (void)shards[0].poll([](bytes_view) {});
  }
  EXPECT_GT(accepts_refused, 0);
  // It is closed without having been taken.
  detail::kernel().accept = [](int fd, int flags) {
    const int made = ::accept4(fd, nullptr, nullptr, flags);
    if (made >= 0)
      (void)::close(made);
    errno = made >= 0 ? EMFILE : errno;
    return -1;
  };
  ASSERT_TRUE(turn_until([&] { return came == 2; }));
  second.close();
  EXPECT_TRUE(turn_until([&] { return shards[1].session(1) == 0; }));
}

TEST_F(ShardBells, SilentAndLyingConnectionsKeepNobodyOut) {
  std::vector<test::plain_socket> strangers;
  const std::uint32_t no_lane = 77;
  const std::uint32_t of_another = 1;
  for (int i = 0; i < 60; ++i) {  // more than the bell keeps
    strangers.push_back(knock());
    if (i % 3 == 1) {
      ASSERT_EQ(::send(strangers.back().fd(), &no_lane, sizeof no_lane, MSG_NOSIGNAL), 4);
    }
    if (i % 3 == 2) {
      ASSERT_EQ(::send(strangers.back().fd(), &of_another, sizeof of_another, MSG_NOSIGNAL), 4);
    }
    if (i % 10 == 0) {
      ASSERT_TRUE(turn_until([] { return true; }));
    }
  }
  std::vector<sender> outs;
  for (std::size_t i = 1; i <= 4; ++i) {
    outs.push_back(open_sender());
    ASSERT_TRUE(outs.back().send(as_bytes("heard")));
    ASSERT_TRUE(turn_until([&] { return came == i; }));
  }
  // Asleep without a limit, each is still woken by its own.
  for (std::size_t i = 0; i < 2; ++i) {
    std::thread sleeping{[&] { EXPECT_TRUE(shards[i].wait(patience)); }};
    ASSERT_TRUE(outs[i].send(as_bytes("wake up")));
    sleeping.join();
    (void)shards[i].poll([](bytes_view) {});
  }
}

}  // namespace
}  // namespace atbus
