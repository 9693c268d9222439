#include "delivery/blob_flow.h"

#include <deque>
#include <limits>
#include <random>

#include "test.h"

namespace atbus::detail {
namespace {

constexpr std::uint64_t window = 100;

TEST(BlobSending, SendsNothingBeforeItIsGranted) {
  blob_sending blob{1000};
  EXPECT_EQ(blob.sendable(), 0U);
  ASSERT_TRUE(blob.granted(0, window));
  EXPECT_EQ(blob.sendable(), window);
}

TEST(BlobSending, RefusesAGrantBeyondTheSize) {
  blob_sending blob{1000};
  EXPECT_FALSE(blob.granted(0, 1001));
  EXPECT_FALSE(blob.granted(0, std::numeric_limits<std::uint64_t>::max()));
  EXPECT_EQ(blob.sendable(), 0U);
}

TEST(BlobSending, RefusesThatMoreWasTakenThanWasSent) {
  blob_sending blob{1000};
  ASSERT_TRUE(blob.granted(0, window));
  blob.send(10);
  EXPECT_FALSE(blob.granted(11, window));
  EXPECT_TRUE(blob.granted(10, window));
  EXPECT_EQ(blob.under_way(), 0U);
}

TEST(BlobSending, ALateGrantChangesNothing) {
  blob_sending blob{1000};
  ASSERT_TRUE(blob.granted(0, window));
  blob.send(50);
  ASSERT_TRUE(blob.granted(50, window + 50));
  ASSERT_TRUE(blob.granted(0, window));
  EXPECT_EQ(blob.sendable(), window);
  EXPECT_EQ(blob.taken(), 50U);
}

TEST(BlobSending, AnEmptyBlobIsAllSent) {
  EXPECT_TRUE(blob_sending{0}.is_all_sent());
}

TEST(BlobReceiving, GrantsAWindowButNotMoreThanTheSize) {
  EXPECT_EQ((blob_receiving{1000, window}.next_grant().limit), window);
  EXPECT_EQ((blob_receiving{7, window}.next_grant().limit), 7U);
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ((blob_receiving{most, window}.next_grant().limit), window);
}

TEST(BlobReceiving, TakesOnlyTheNextBytes) {
  blob_receiving blob{1000, window};
  (void)blob.next_grant();
  EXPECT_TRUE(blob.arrived(0, 10));
  EXPECT_FALSE(blob.arrived(0, 10)) << "again";
  EXPECT_FALSE(blob.arrived(11, 10)) << "with a gap";
  EXPECT_FALSE(blob.arrived(10, 0)) << "none";
  EXPECT_TRUE(blob.arrived(10, 10));
}

TEST(BlobReceiving, TakesNothingBeyondWhatItGranted) {
  blob_receiving blob{1000, window};
  EXPECT_FALSE(blob.arrived(0, 1));
  (void)blob.next_grant();
  EXPECT_FALSE(blob.arrived(0, window + 1));
  EXPECT_TRUE(blob.arrived(0, window));
  EXPECT_FALSE(blob.arrived(window, std::numeric_limits<std::uint64_t>::max()));
}

TEST(BlobReceiving, GrantsNothingMoreWhileItIsPaused) {
  blob_receiving blob{1000, window};
  (void)blob.next_grant();
  ASSERT_TRUE(blob.arrived(0, 60));
  blob.take();
  blob.pause();
  EXPECT_TRUE(blob.has_news()) << "that it has taken them";
  const auto paused = blob.next_grant();
  EXPECT_EQ(paused.taken, 60U);
  EXPECT_EQ(paused.limit, window);
  EXPECT_FALSE(blob.has_news());
  blob.resume();
  ASSERT_TRUE(blob.has_news());
  EXPECT_EQ(blob.next_grant().limit, window + 60);
}

TEST(BlobReceiving, APauseInTheLastPartHoldsTheEndBack) {
  blob_receiving blob{10, window};
  (void)blob.next_grant();
  ASSERT_TRUE(blob.arrived(0, 10));
  EXPECT_FALSE(blob.is_complete());
  blob.take();
  blob.pause();
  EXPECT_FALSE(blob.is_complete());
  blob.resume();
  EXPECT_TRUE(blob.is_complete());
}

// Both ends, with chunks and grants that are under way for a while and pauses: never more than the window is
// under way, and all of it arrives.
TEST(BlobFlow, KeepsItsWindowInEveryOrderOfSteps) {
  for (std::uint64_t seed = 1; seed != 2001; ++seed) {
    std::mt19937_64 random{seed};
    const auto below = [&](std::uint64_t limit) { return random() % limit; };
    const std::uint64_t size = below(2000);
    const std::uint64_t most = 1 + below(200);
    blob_sending sender{size};
    blob_receiving receiver{size, most};
    struct chunk {
      std::uint64_t position;
      std::uint64_t bytes;
    };
    std::deque<chunk> chunks;
    std::deque<blob_receiving::grant> grants{receiver.next_grant()};
    bool is_paused = false;
    for (int step = 0; !receiver.is_complete(); ++step) {
      ASSERT_LT(step, 200000) << "seed " << seed << " stands still";
      switch (below(5)) {
        case 0:
          if (sender.sendable() != 0) {
            const chunk next{sender.position(), 1 + below(sender.sendable())};
            sender.send(next.bytes);
            chunks.push_back(next);
          }
          break;
        case 1:
          if (!chunks.empty()) {
            ASSERT_TRUE(receiver.arrived(chunks.front().position, chunks.front().bytes)) << seed;
            chunks.pop_front();
            receiver.take();
          }
          break;
        case 2:
          if (receiver.has_news())
            grants.push_back(receiver.next_grant());
          break;
        case 3:
          if (!grants.empty()) {
            ASSERT_TRUE(sender.granted(grants.front().taken, grants.front().limit)) << seed;
            grants.pop_front();
          }
          break;
        case 4:
          is_paused = !is_paused;
          is_paused ? receiver.pause() : receiver.resume();
          break;
      }
      ASSERT_LE(sender.under_way(), most) << "seed " << seed;
      ASSERT_LE(sender.position() - receiver.taken(), most) << "seed " << seed;
    }
    EXPECT_TRUE(sender.is_all_sent()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace atbus::detail
