// Segments between the threads of one process, mem://, whose name changes hands.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "system/kernel.h"

namespace atbus {
namespace {

class InProcess : public ::testing::Test {
 protected:
  void TearDown() override { detail::kernel() = saved_; }
  // Nothing lies behind a mapping that is made from now on.
  static void* map_alone(void*, std::size_t size, int protection, int flags, int fd, off_t offset) {
    constexpr std::size_t behind = std::size_t{16} << 20;
    void* const place =
        ::mmap(nullptr, size + behind, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return place == MAP_FAILED ? place
                               : ::mmap(place, size, protection, flags | MAP_FIXED, fd, offset);
  }
  // Does something while the next file is looked at.
  void at_next_look(std::function<void()> deed) {
    deed_ = std::move(deed);
    detail::kernel().fstat = [](int fd, struct stat* to) {
      if (const auto now = std::exchange(deed_, nullptr))
        now();
      return ::fstat(fd, to);
    };
  }

  static inline std::function<void()> deed_;
  detail::kernel_calls saved_ = detail::kernel();
  std::string address_ = "mem://in-process-" + std::to_string(getpid());
};

TEST_F(InProcess, ASenderFindsTheNextSegmentOfTheNameThoughThatHasFewerLanes) {
  auto first = receiver::open(address_, {.lanes = 4096, .lane_size = 4096, .message_limit = 1024});
  ASSERT_TRUE(first) << first.error().text();
  std::vector<sender> others;  // whose lanes are passed over
  while (others.size() != 200) {
    auto one = sender::open(address_);
    ASSERT_TRUE(one) << one.error().text();
    others.push_back(std::move(*one));
  }
  std::optional<receiver> second;
  at_next_look([&] {
    EXPECT_TRUE(first->remove());
    detail::kernel().mmap = map_alone;
    auto made = receiver::open(address_, {.lanes = 1, .lane_size = 4096, .message_limit = 1024});
    ASSERT_TRUE(made) << made.error().text();
    second.emplace(std::move(*made));
  });
  auto out = sender::open(address_);
  ASSERT_TRUE(out) << out.error().text();
  ASSERT_TRUE(second.has_value());
  EXPECT_TRUE(out->send({}));
  EXPECT_EQ(second->poll([](bytes_view) {}), 1U);
  EXPECT_TRUE(second->remove());
}

}  // namespace
}  // namespace atbus
