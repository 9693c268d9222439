// Channels whose kernel refuses what they need, for longer than a moment: nothing is lost, and nothing spins.
#include <fcntl.h>
#include <sys/socket.h>

#include "atbus/clock.hpp"
#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "system/kernel.h"
#include "test.h"

namespace atbus {
namespace {

class ShortOfKernelMemory : public ::testing::Test {
 protected:
  void TearDown() override { detail::kernel() = saved; }

  static inline int calls = 0;
  static inline bool refuses = false;
  detail::kernel_calls saved = detail::kernel();
};

TEST_F(ShortOfKernelMemory, AReceiverReadsALaneOnceItHasItsMemory) {
  const std::string name = "shm://no-lane-memory-" + std::to_string(getpid());
  auto in = receiver::open(name);
  ASSERT_TRUE(in) << in.error().text();
  std::vector<std::string> problems;
  in->on_problem([&](const error& what) { problems.push_back(what.text()); });
  constexpr std::size_t count = 100;
  {
    auto out = sender::open(name);
    ASSERT_TRUE(out) << out.error().text();
    for (std::size_t i = 0; i != count; ++i)
      ASSERT_TRUE(out->send(as_bytes(std::to_string(i))));
  }
  calls = 0;
  refuses = true;
  detail::kernel().fallocate = [](int fd, int mode, off_t offset, off_t length) {
    if (refuses && (mode & FALLOC_FL_PUNCH_HOLE) == 0) {
      ++calls;
      errno = ENOMEM;
      return -1;
    }
    return ::fallocate(fd, mode, offset, length);
  };
  std::size_t read = 0;
  const auto turn = [&] {
    (void)in->wait(5ms);
    in->poll([&](bytes_view message) { EXPECT_EQ(as_text(message), std::to_string(read++)); });
  };
  for (const auto end = now() + 30s; calls < 5 && now() < end;)
    turn();
  EXPECT_EQ(read, 0);
  EXPECT_EQ(in->stats().quarantined, 0);
  EXPECT_EQ(problems.size(), 1U);
  refuses = false;
  for (const auto end = now() + 30s; read != count && now() < end;)
    turn();
  EXPECT_EQ(read, count);
  EXPECT_TRUE(in->remove());
}

TEST_F(ShortOfKernelMemory, APollThatNeverWaitsReadsThatLaneToo) {
  const std::string name = "shm://no-lane-memory-" + std::to_string(getpid());
  auto in = receiver::open(name);
  ASSERT_TRUE(in) << in.error().text();
  auto out = sender::open(name);
  ASSERT_TRUE(out) << out.error().text();
  calls = 0;
  detail::kernel().fallocate = [](int fd, int mode, off_t offset, off_t length) {
    if ((mode & FALLOC_FL_PUNCH_HOLE) == 0 && ++calls == 1) {
      errno = ENOMEM;
      return -1;
    }
    return ::fallocate(fd, mode, offset, length);
  };
  ASSERT_TRUE(out->send(as_bytes("waits")));
  std::size_t read = 0;
  for (const auto end = now() + 30s; read == 0 && now() < end;)
    read += in->poll([](bytes_view) {});
  EXPECT_EQ(read, 1U);
  EXPECT_GE(calls, 2);
  EXPECT_TRUE(in->remove());
}

TEST_F(ShortOfKernelMemory, ASenderWithoutUnixSocketsDoesNotOpen) {
  const std::string name = "shm://no-unix-sockets-" + std::to_string(getpid());
  auto in = receiver::open(name);
  ASSERT_TRUE(in) << in.error().text();
  for (const int code :
       {EAFNOSUPPORT, EPERM, EACCES, ENOSYS, EPROTONOSUPPORT, ESOCKTNOSUPPORT, EINVAL}) {
    static int refusal = 0;
    refusal = code;
    detail::kernel().socket = [](int, int, int) {
      errno = refusal;
      return -1;
    };
    const auto out = sender::open(name);
    ASSERT_FALSE(out) << code;
    EXPECT_EQ(out.error(), errc::system_error) << out.error().text();
    EXPECT_NE(out.error().text().find("doorbell"), std::string::npos) << out.error().text();
  }
  detail::kernel().socket = saved.socket;
  EXPECT_TRUE(sender::open(name));
  EXPECT_TRUE(in->remove());
}

TEST_F(ShortOfKernelMemory, AnAcceptingEndOfTlsSleepsBetweenItsTries) {
  const socket_options encrypted{
      .tls = *tls_credentials::from_token("a secret of the test, long enough")};
  auto in = receiver::open("ipv4://127.0.0.1:0", {.socket = encrypted});
  ASSERT_TRUE(in) << in.error().text();
  auto out = sender::open(in->address(), {.socket = encrypted, .connect_timeout = 0ns});
  ASSERT_TRUE(out) << out.error().text();
  (void)out->poll_writable();  // the first flight
  calls = 0;
  refuses = true;
  detail::kernel().send = [](int fd, const void* data, std::size_t length, int flags) -> ssize_t {
    if (refuses) {
      ++calls;
      errno = ENOBUFS;
      return -1;
    }
    return ::send(fd, data, length, flags);
  };
  const auto begin = now();
  while (calls == 0 || now() - begin < 100ms) {
    ASSERT_LT(now() - begin, 30s);
    (void)in->wait(100ms);
    in->poll([](bytes_view) {});
  }
  // A try a millisecond, from each of what looks.
  EXPECT_LE(calls, 10 + 4 * ((now() - begin) / 1ms));
  refuses = false;
  ASSERT_TRUE(out->send(as_bytes("through")));
  std::size_t read = 0;
  for (const auto end = now() + 30s; read == 0 && now() < end;) {
    (void)out->flush();
    (void)in->wait(1ms);
    read += in->poll([](bytes_view) {});
  }
  EXPECT_EQ(read, 1U);
}

}  // namespace
}  // namespace atbus
