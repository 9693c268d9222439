// The connections of a receiver's bell, and the lanes they belong to.
#include <sys/socket.h>
#include <sys/stat.h>

#include "atbus/receiver.hpp"
#include "channel/handover/handed_lanes.h"
#include "channel/lane_handles.h"
#include "channel/shm/doorbell.h"
#include "shared_memory.h"
#include "system/fork_guard.h"
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
