// Shards that find no memory, at their opening or later: they say so, or go on when there is some, and leave nothing.
#include <unistd.h>

#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "counting_allocator.h"
#include "scratch_directory.h"
#include "shared_memory.h"
#include "test.h"

namespace atbus {
namespace {

class ShardsOutOfMemory : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!test::can_fail_allocations())
      GTEST_SKIP() << "this build can't let allocations fail";
  }
  [[nodiscard]] static std::string fresh_address() {
    static int number = 0;
    const std::string kind = GetParam();
    if (kind == "ipv6")
      return "ipv6://[::1]:0";
    return kind + (kind == "unix" ? "://@" : "://") + "shards-without-memory-" +
           std::to_string(getpid()) + "-" + std::to_string(++number);
  }
};

INSTANTIATE_TEST_SUITE_P(Channel, ShardsOutOfMemory,
                         ::testing::Values("shm", "mem", "ipv6", "unix"),
                         [](const auto& of) { return std::string{of.param}; });

TEST_P(ShardsOutOfMemory, AtTheirOpeningSaySo) {
  {
    auto once = receiver::open_shards(fresh_address(), 3);  // what a process makes once
    ASSERT_TRUE(once);
    for (receiver& each : *once)
      (void)each.remove();
  }
  const std::size_t descriptors = test::open_descriptors();
  for (const std::uint64_t bad : {static_cast<std::uint64_t>(-1), std::uint64_t{1}}) {
    bool failed = true;
    for (std::uint64_t good = 0; failed; ++good) {
      ASSERT_LT(good, 500U);
      const std::string address = fresh_address();
      {
        std::optional<result<std::vector<receiver>>> opened;
        {
          const test::allocation_failure none{good, bad};
          opened.emplace(receiver::open_shards(address, 3));
          failed = test::allocation_failure::happened();
        }
        EXPECT_TRUE(*opened || opened->error() == errc::out_of_memory) << opened->error().text();
      }
      auto next = receiver::open(address);
      ASSERT_TRUE(next) << next.error().text();
      EXPECT_TRUE(next->remove());
      next->close();
      EXPECT_EQ(test::open_descriptors(), descriptors) << good << " good, then " << bad;
    }
  }
}

// What comes while there is none is there afterwards, or its connection has ended.
TEST_P(ShardsOutOfMemory, LaterGoOn) {
  for (const std::uint64_t bad : {static_cast<std::uint64_t>(-1), std::uint64_t{1}}) {
    bool failed = true;
    for (std::uint64_t good = 0; failed; ++good) {
      ASSERT_LT(good, 500U);
      auto shards = receiver::open_shards(fresh_address(), 2);
      ASSERT_TRUE(shards);
      const std::string address = shards->front().address();
      std::size_t came = 0;
      const auto turn = [&] {
        for (receiver& each : *shards)
          (void)each.poll([&](bytes_view) { ++came; });
      };
      std::vector<sender> outs;
      for (int i = 0; i < 4; ++i) {
        outs.push_back(*sender::open(address, {.linger = 0ns}));
        ASSERT_TRUE(outs.back().send(as_bytes("now")));
      }
      {
        const test::allocation_failure none{good, bad};
        for (int i = 0; i < 20; ++i)
          turn();
        failed = test::allocation_failure::happened();
      }
      auto last = sender::open(address, {.linger = 0ns});
      ASSERT_TRUE(last) << last.error().text();
      ASSERT_TRUE(last->send(as_bytes("last")));
      const std::size_t before = came;
      for (const auto end = now() + test::patience; came == before && now() < end;)
        turn();
      EXPECT_GT(came, before) << good << " good, then " << bad;
      last->close();
      outs.clear();
      for (receiver& each : *shards)
        (void)each.remove();
    }
  }
}

}  // namespace
}  // namespace atbus
