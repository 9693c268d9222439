#include "system/socket.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "child_process.h"
#include "scratch_directory.h"
#include "shared_memory.h"
#include "system/kernel.h"
#include "test.h"

namespace atbus {
namespace {

using detail::dial_result;
using detail::dial_socket;
using detail::listening_socket;
using detail::to_socket_address;

address parsed(const std::string& text) {
  auto a = address::parse(text);
  EXPECT_TRUE(a) << a.error().text();
  return *a;
}

result<listening_socket> listen_on(const std::string& text) {
  return listening_socket::open(parsed(text), 16, {});
}

// Dials and waits until it is decided.
error reach(const std::string& text) {
  auto dialled = dial_socket(to_socket_address(parsed(text)), text, {});
  if (!dialled)
    return dialled.error();
  pollfd interest{.fd = dialled->fd.get(), .events = POLLOUT, .revents = 0};
  EXPECT_EQ(::poll(&interest, 1, 10'000), 1);
  return dial_result(dialled->fd.get(), text);
}

class StreamSocket : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return directory_.path() + "/" + name; }
  std::string unix_at(const std::string& name) const { return "unix://" + path(name); }
  test::scratch_directory directory_;
};

TEST_F(StreamSocket, PortZeroIsReportedAndCanBeDialled) {
  for (const char* text : {"ipv4://127.0.0.1:0", "ipv6://[::1]:0"}) {
    auto listening = listen_on(text);
    ASSERT_TRUE(listening) << listening.error().text();
    EXPECT_NE(parsed(listening->bound_to()).port(), 0) << listening->bound_to();
    EXPECT_TRUE(reach(listening->bound_to())) << text;
    listening->close();
    EXPECT_EQ(reach(listening->bound_to()), errc::not_found);
  }
}

TEST_F(StreamSocket, APortInUseIsAnError) {
  auto first = listen_on("ipv4://127.0.0.1:0");
  ASSERT_TRUE(first);
  auto second = listen_on(first->bound_to());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error(), errc::receiver_exists);
  EXPECT_NE(second.error().text().find(first->bound_to()), std::string::npos);
}

TEST_F(StreamSocket, AnAddressOfAnotherHostIsAnError) {
  auto listening = listen_on("ipv4://192.0.2.1:0");
  ASSERT_FALSE(listening);
  EXPECT_EQ(listening.error(), errc::invalid_argument);
}

TEST_F(StreamSocket, UnixNamesComeAndGo) {
  auto listening = listen_on(unix_at("bus.sock"));
  ASSERT_TRUE(listening) << listening.error().text();
  EXPECT_EQ(listening->bound_to(), unix_at("bus.sock"));
  EXPECT_TRUE(reach(unix_at("bus.sock")));
  EXPECT_EQ(directory_.files(), std::vector<std::string>{"bus.sock"});
  listening->close();
  EXPECT_TRUE(directory_.files().empty());
  EXPECT_EQ(reach(unix_at("bus.sock")), errc::not_found);
}

TEST_F(StreamSocket, ALivingUnixListenerIsNotReplaced) {
  auto first = listen_on(unix_at("bus.sock"));
  ASSERT_TRUE(first);
  auto second = listen_on(unix_at("bus.sock"));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error(), errc::receiver_exists);
  EXPECT_TRUE(reach(unix_at("bus.sock")));
  EXPECT_EQ(directory_.files().size(), 1U);
}

TEST_F(StreamSocket, ADeadUnixListenerIsReplaced) {
  test::child_process dead{[this] {
    auto listening = listen_on(unix_at("bus.sock"));
    test::require(static_cast<bool>(listening), "listen");
    _exit(0);
    return 0;
  }};
  ASSERT_EQ(dead.wait_end(), "exit 0");
  ASSERT_EQ(directory_.files().size(), 1U);
  EXPECT_EQ(reach(unix_at("bus.sock")), errc::not_found);
  auto listening = listen_on(unix_at("bus.sock"));
  ASSERT_TRUE(listening) << listening.error().text();
  EXPECT_TRUE(reach(unix_at("bus.sock")));
  EXPECT_EQ(directory_.files().size(), 1U);
}

// Makes every file look an hour older than it is, while it lives.
class older_files {
 public:
  older_files() {
    detail::kernel().fstatat = [](int directory, const char* name, struct stat* about, int flags) {
      const int answer = ::fstatat(directory, name, about, flags);
      about->st_ctime -= 3600;
      return answer;
    };
  }
  older_files(const older_files&) = delete;
  older_files& operator=(const older_files&) = delete;
  ~older_files() { detail::kernel() = saved_; }

 private:
  detail::kernel_calls saved_ = detail::kernel();
};

TEST_F(StreamSocket, FirstNamesOfListenersThatWereKilledAreRemovedOnceTheyAreOld) {
  const auto bind_at = [this](const std::string& name) {
    const auto at = to_socket_address(parsed(unix_at(name)));
    detail::file bound{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    EXPECT_EQ(::bind(bound.get(), at.get(), at.length), 0);
    return bound;
  };
  for (const char* name : {".atbus-17", ".atbus-184467", ".atbus-x1", "other"})
    bind_at(name).reset();
  const detail::file living = bind_at(".atbus-18");
  ASSERT_EQ(::listen(living.get(), 1), 0);
  std::ofstream{path(".atbus-19")} << "no socket";
  ASSERT_TRUE(listen_on(unix_at("young.sock")));
  EXPECT_EQ(directory_.files().size(), 6U);  // they may be about to listen
  {
    const older_files an_hour_later;
    ASSERT_TRUE(listen_on(unix_at("bus.sock")));
  }
  auto left = directory_.files();
  std::sort(left.begin(), left.end());
  EXPECT_EQ(left, (std::vector<std::string>{".atbus-18", ".atbus-19", ".atbus-x1", "other"}));
}

// Any user may hold the lock of a directory that it may read.
TEST_F(StreamSocket, ALockThatAnotherUserMayHoldIsNotWaitedFor) {
  test::child_process dead{[this] {
    auto listening = listen_on(unix_at("bus.sock"));
    test::require(static_cast<bool>(listening), "listen");
    _exit(0);
    return 0;
  }};
  ASSERT_EQ(dead.wait_end(), "exit 0");
  ASSERT_EQ(chmod(directory_.path().c_str(), 0755), 0);
  const detail::kernel_calls saved = detail::kernel();
  static int tries;
  tries = 0;
  detail::kernel().flock = [](int, int) {
    ++tries;
    errno = EWOULDBLOCK;
    return -1;
  };
  auto listening = listen_on(unix_at("bus.sock"));
  detail::kernel() = saved;
  ASSERT_TRUE(listening) << listening.error().text();
  EXPECT_GE(tries, 1);
  EXPECT_LE(tries, 25);
  EXPECT_TRUE(reach(unix_at("bus.sock")));
}

TEST_F(StreamSocket, AFileSystemWithoutHardLinksIsNamedAsTheReason) {
  const detail::kernel_calls saved = detail::kernel();
  static int code;
  for (const int one : {EPERM, EOPNOTSUPP, ENOSYS}) {
    code = one;
    detail::kernel().linkat = [](int, const char*, int, const char*, int) {
      errno = code;
      return -1;
    };
    const auto listening = listen_on(unix_at("bus.sock"));
    detail::kernel() = saved;
    ASSERT_FALSE(listening);
    EXPECT_EQ(listening.error(), errc::not_supported);
    EXPECT_NE(listening.error().text().find("no hard links"), std::string::npos);
    EXPECT_TRUE(directory_.files().empty());
  }
}

TEST_F(StreamSocket, WhatIsNoSocketIsLeftAlone) {
  std::ofstream{path("bus.sock")} << "precious";
  auto listening = listen_on(unix_at("bus.sock"));
  ASSERT_FALSE(listening);
  EXPECT_EQ(listening.error(), errc::receiver_exists);
  EXPECT_EQ(directory_.files(), std::vector<std::string>{"bus.sock"});
}

TEST_F(StreamSocket, ANameThatWasTakenOverIsNotRemoved) {
  auto first = listen_on(unix_at("bus.sock"));
  ASSERT_TRUE(first);
  ASSERT_EQ(unlink(path("bus.sock").c_str()), 0);
  auto second = listen_on(unix_at("bus.sock"));
  ASSERT_TRUE(second);
  first->close();
  EXPECT_TRUE(reach(unix_at("bus.sock")));
}

TEST_F(StreamSocket, AMissingDirectoryIsAnError) {
  auto listening = listen_on(unix_at("missing/bus.sock"));
  ASSERT_FALSE(listening);
  EXPECT_EQ(listening.error(), errc::not_found);
}

TEST_F(StreamSocket, TheLongestPathWorks) {
  const std::string name(unix_name_length_max - directory_.path().size() - 1, 'x');
  auto listening = listen_on(unix_at(name));
  ASSERT_TRUE(listening) << listening.error().text();
  EXPECT_TRUE(reach(unix_at(name)));
}

// The last part of a path may take nearly all of it.
TEST_F(StreamSocket, ALivingUnixListenerWithALongNameIsNotReplaced) {
  char short_path[] = "/tmp/XXXXXX";
  ASSERT_NE(mkdtemp(short_path), nullptr);
  const std::string text = std::string{"unix://"} + short_path + "/" +
                           std::string(unix_name_length_max - sizeof short_path, 'x');
  {
    auto first = listen_on(text);
    ASSERT_TRUE(first) << first.error().text();
    auto second = listen_on(text);
    EXPECT_FALSE(second);
    EXPECT_EQ(second.error(), errc::receiver_exists);
    EXPECT_TRUE(reach(text));
  }
  EXPECT_EQ(rmdir(short_path), 0);
}

TEST_F(StreamSocket, AbstractNamesNeedNoFile) {
  const std::string text = "unix://@atbus-test-" + std::to_string(getpid());
  auto listening = listen_on(text);
  ASSERT_TRUE(listening) << listening.error().text();
  EXPECT_TRUE(reach(text));
  EXPECT_EQ(listen_on(text).error(), errc::receiver_exists);
  listening->close();
  EXPECT_EQ(reach(text), errc::not_found);
}

// Many come upon a dead one's name at once: one of them gets it, the others are told so, and who got
// it can be reached.
TEST_F(StreamSocket, OneOfManyReplacesADeadListener) {
  constexpr std::uint32_t racers = 6;
  struct board {
    test::shared_counter ready;
    test::shared_counter go;
    test::shared_counter listening;
    test::shared_counter refused;
    test::shared_counter end;
  };
  for (int round = 0; round < 20; ++round) {
    test::child_process dead{[this] {
      auto listening = listen_on(unix_at("bus.sock"));
      test::require(static_cast<bool>(listening), "listen");
      _exit(0);
      return 0;
    }};
    ASSERT_EQ(dead.wait_end(), "exit 0");
    test::shared<board> shared;
    std::vector<test::child_process> processes;
    for (std::uint32_t i = 0; i < racers; ++i) {
      processes.emplace_back([this, &shared] {
        shared->ready.add();
        test::require(shared->go.wait(), "no start");
        auto listening = listen_on(unix_at("bus.sock"));
        if (listening) {
          shared->listening.add();
        } else {
          test::require(listening.error() == errc::receiver_exists, listening.error().text());
          shared->refused.add();
        }
        test::require(shared->end.wait(), "no end");
        return 0;
      });
    }
    ASSERT_TRUE(shared->ready.wait(racers));
    shared->go.add();
    ASSERT_TRUE(shared->refused.wait(racers - 1));
    ASSERT_TRUE(shared->listening.wait(1));
    EXPECT_EQ(shared->listening.get(), 1U);
    EXPECT_TRUE(reach(unix_at("bus.sock")));
    EXPECT_EQ(directory_.files().size(), 1U);
    shared->end.add();
    for (auto& p : processes)
      EXPECT_EQ(p.wait_end(), "exit 0");
    EXPECT_TRUE(directory_.files().empty());
  }
}

TEST_F(StreamSocket, BufferSizesAreBestEffortAndTheGrantedSizeIsReported) {
  const detail::stream_options wanted{.send_buffer = 64 * 1024, .receive_buffer = 128 * 1024};
  auto listening = listening_socket::open(parsed("ipv4://127.0.0.1:0"), 4, wanted);
  ASSERT_TRUE(listening);
  EXPECT_EQ(detail::granted_buffer(listening->get(), SO_SNDBUF), 64U * 1024);
  EXPECT_EQ(detail::granted_buffer(listening->get(), SO_RCVBUF), 128U * 1024);
}

}  // namespace
}  // namespace atbus
