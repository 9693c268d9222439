// The connections of a receiver's bell, and the lanes they belong to.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "atbus/receiver.hpp"
#include "channel/handover/handed_lanes.h"
#include "channel/lane_handles.h"
#include "channel/shm/doorbell.h"
#include "shared_memory.h"
#include "system/fork_guard.h"
#include "system/kernel.h"
#include "system/passed_descriptors.h"
#include "test.h"

namespace atbus::detail {
namespace {

class BellServer : public ::testing::Test {
 protected:
  BellServer() {
    segment_name name;
    name.handed = true;
    name.name = "bells";
    auto built = build_segment(name, {.lane_count = 4, .lane_size = 4096, .message_limit = 1000});
    EXPECT_TRUE(built) << built.error().text();
    segment_ = std::move(*built);
    EXPECT_TRUE(bell.open(segment_));
  }
  // The sender's end of a new connection.
  file connect(std::uint32_t lane) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    EXPECT_TRUE(bell.adopt(file{ends[0]}, lane));
    return file{ends[1]};
  }
  static bool hears(const file& end) {
    char byte = 0;
    return ::recv(end.get(), &byte, 1, MSG_DONTWAIT) == 1;
  }

  segment segment_;
  bell_server bell;
};

TEST_F(BellServer, RingsTheConnectionsOfOneLane) {
  const file one = connect(1);
  const file other = connect(2);
  const file second_of_one = connect(1);
  EXPECT_TRUE(bell.ring(1));
  EXPECT_TRUE(hears(one) && hears(second_of_one));
  EXPECT_FALSE(hears(other));
  EXPECT_FALSE(bell.ring(0));
}

TEST_F(BellServer, KnowsALaneAsLongAsOneOfItsConnectionsLives) {
  std::vector<file> ends;
  for (int i = 0; i < 3; ++i)
    ends.push_back(connect(3));
  // From the middle, from the front, the last one.
  for (const std::size_t next : {std::size_t{1}, std::size_t{1}, std::size_t{0}}) {
    EXPECT_TRUE(bell.has_connection(3));
    ends.erase(ends.begin() + static_cast<std::ptrdiff_t>(next));
    EXPECT_TRUE(bell.take_events(0).look_everywhere);
    EXPECT_TRUE(bell.take_ended(3));
  }
  EXPECT_FALSE(bell.has_connection(3));
  EXPECT_FALSE(bell.ring(3));
}

TEST_F(BellServer, UsesThePlacesOfEndedConnectionsAgain) {
  // Many more than it keeps at a time.
  for (std::uint32_t i = 0; i < 200; ++i) {
    file stays = connect(i % 4);
    { const file goes = connect((i + 1) % 4); }
    EXPECT_TRUE(bell.take_events(0).look_everywhere);
    EXPECT_TRUE(bell.has_connection(i % 4));
    EXPECT_FALSE(bell.has_connection((i + 1) % 4));
    EXPECT_TRUE(bell.ring(i % 4));
    EXPECT_TRUE(hears(stays));
    stays.reset();
    EXPECT_TRUE(bell.take_events(0).look_everywhere);
  }
}

// A sender that rings often, and what the kernel is asked meanwhile.
class BellEvent : public BellServer {
 protected:
  void SetUp() override {
    client.adopt(connect(1));
    sends = 0;
    kernel().send = [](int fd, const void* data, std::size_t size, int flags) {
      ++sends;
      return usual_.send(fd, data, size, flags);
    };
  }
  void TearDown() override { kernel() = usual_; }

  // How many of `count` rings went through the socket. Each wakes once.
  int ring(int count) {
    const int before = sends;
    for (int i = 0; i != count; ++i) {
      EXPECT_TRUE(client.ring());
      client.look_for_event();
      EXPECT_TRUE(bell.take_events(0).rung) << i;
      (void)bell.take_events(0);  // where an eventfd was made meanwhile
      EXPECT_FALSE(bell.take_events(0).rung) << i;
    }
    return sends - before;
  }

  bell_client client;
  inline static int sends = 0;

 private:
  inline static const kernel_calls usual_ = kernel();
};

TEST_F(BellEvent, WakesLikeTheSocketButWithoutIt) {
  EXPECT_GT(ring(40), 0);
  EXPECT_EQ(ring(1000), 0);
  // Two rings before a look are one, and none is lost behind it.
  EXPECT_TRUE(client.ring() && client.ring());
  EXPECT_TRUE(bell.take_events(0).rung);
  EXPECT_EQ(ring(1), 0);
}

TEST_F(BellEvent, TheEndOfItsSenderIsSeen) {
  ring(40);
  EXPECT_TRUE(client.ring());
  client.close();
  EXPECT_TRUE(bell.take_events(0).look_everywhere);
  EXPECT_FALSE(bell.has_connection(1));
}

TEST_F(BellEvent, IsDoneWithoutIfTheKernelRefuses) {
  kernel().eventfd = [](unsigned, int) {
    errno = EMFILE;
    return -1;
  };
  EXPECT_EQ(ring(100), 100);
}

TEST_F(BellEvent, IsDoneWithoutIfItCantBePassed) {
  kernel().sendmsg = [](int, const msghdr*, int) {
    errno = ETOOMANYREFS;
    return ssize_t{-1};
  };
  EXPECT_EQ(ring(100), 100);
}

TEST_F(BellEvent, IsDoneWithoutOnceHalfOfTheDescriptorsAreUsed) {
  rlimit usual{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  const file next{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
  rlimit low = usual;
  low.rlim_cur = 2 * static_cast<rlim_t>(next.get());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(ring(100), 100);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
  EXPECT_LT(ring(200), 200);
}

// What another program of this user may do with the two ends.
class ForeignBell : public BellServer {
 protected:
  static void pass(const file& through, int fd, std::size_t size = 1) {
    char byte = 1;
    iovec piece{.iov_base = &byte, .iov_len = size};
    msghdr packet{};
    packet.msg_iov = &piece;
    packet.msg_iovlen = 1;
    passed_descriptors<1> with;
    with.attach(packet, {fd});
    ASSERT_EQ(::sendmsg(through.get(), &packet, 0), static_cast<ssize_t>(size));
  }
  static file take(const file& through) {
    std::array<file, 1> taken;
    char byte = 0;
    iovec piece{.iov_base = &byte, .iov_len = 1};
    msghdr packet{};
    packet.msg_iov = &piece;
    packet.msg_iovlen = 1;
    arriving_descriptors<1> arriving;
    arriving.attach(packet);
    if (::recvmsg(through.get(), &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) == 1)
      arriving.take(packet, taken);
    return std::move(taken[0]);
  }
};

TEST_F(ForeignBell, ItsSenderDoesNotWakeAnybodyAfterItsEnd) {
  file end = connect(2);
  file kept;
  for (int i = 0; i != 100 && !kept; ++i) {
    ASSERT_EQ(::send(end.get(), "", 1, 0), 1);
    (void)bell.take_events(0);
    kept = take(end);
  }
  ASSERT_TRUE(kept);
  (void)bell.take_events(0);
  EXPECT_EQ(eventfd_write(kept.get(), 1), 0);
  EXPECT_TRUE(bell.take_events(0).rung);
  end.reset();
  EXPECT_TRUE(bell.take_events(0).look_everywhere);
  EXPECT_EQ(eventfd_write(kept.get(), 1), 0);
  EXPECT_FALSE(bell.take_events(0).rung);
}

TEST_F(ForeignBell, ItsReceiverLeavesNoDescriptorInItsSender) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  file receiver_end{ends[0]};
  bell_client client;
  client.adopt(file{ends[1]});
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const file read_end{ends[0]};
  file write_end{ends[1]};
  // An empty packet, which looks like the end of the connection, and others.
  for (const std::size_t size : {1U, 1U, 0U})
    pass(receiver_end, write_end.get(), size);
  EXPECT_FALSE(client.drain());
  write_end.reset();
  receiver_end.reset();
  char byte = 0;
  EXPECT_EQ(::read(read_end.get(), &byte, 1), 0) << "there is another end of the pipe";
}

TEST_F(ForeignBell, ItsReceiverGetsNothingWrittenToAnotherDescriptor) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  const file receiver_end{ends[0]};
  bell_client client;
  client.adopt(file{ends[1]});
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const file read_end{ends[0]};
  const file write_end{ends[1]};
  pass(receiver_end, write_end.get());
  ASSERT_TRUE(client.drain());
  ASSERT_TRUE(client.ring());
  char byte = 0;
  EXPECT_EQ(::read(read_end.get(), &byte, 1), -1);
  EXPECT_TRUE(hears(receiver_end));
}

TEST(HandedLanes, GiveBackTheMemoryOfALaneThatNobodyTakes) {
  auto made = [] {
    const fork_pause no_fork;
    return make_handed_receiver("handed",
                                {.lanes = 2, .lane_size = 64 * 1024, .message_limit = 4096});
  }();
  ASSERT_TRUE(made) << made.error().text();
  receiver in = lane_handles::to_receiver(*made);
  receiver_state& state = lane_handles::state_of(in);
  auto kept = state.hand_out(1);
  ASSERT_TRUE(kept) << kept.error().text();
  const auto memory = [&] {
    struct stat st {};
    EXPECT_EQ(fstat(kept->segment.get(), &st), 0);
    return static_cast<std::uint64_t>(st.st_blocks) * 512;
  };
  const std::uint64_t before = memory();
  for (int round = 0; round < 3; ++round) {
    {
      auto never_taken = state.hand_out(0);
      ASSERT_TRUE(never_taken) << never_taken.error().text();
      EXPECT_EQ(memory(), before + 64 * 1024);
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{30};
    while (memory() != before && std::chrono::steady_clock::now() < end)
      (void)in.wait(std::chrono::milliseconds{1});
    ASSERT_EQ(memory(), before);
  }
}

}  // namespace
}  // namespace atbus::detail
