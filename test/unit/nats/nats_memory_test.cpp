// The carrier's thread finds no memory for something: it goes on with everything as soon as it has some.
#include <pthread.h>

#include <array>
#include <atomic>
#include <optional>

#include "counting_allocator.h"
#include "nats_party.h"
#include "system/kernel.h"

namespace atbus::test {
namespace {

std::atomic<int> good_allocations{
    -1};  // of the next turn of a carrier's thread; negative: all of them
std::atomic<bool> has_failed{false};

// The kernel's epoll_wait, behind which one allocation of this turn fails.
int wait_and_fail(int epoll, epoll_event* events, int count, std::int64_t timeout_ns) {
  thread_local std::optional<allocation_failure> none;
  if (none) {
    if (allocation_failure::happened())
      has_failed = true;
    none.reset();
  }
  const int got = detail::kernel().epoll_wait_in_ms(epoll, events, count,
                                                    static_cast<int>(timeout_ns / 1'000'000));
  std::array<char, 16> name{};
  (void)pthread_getname_np(pthread_self(), name.data(), name.size());
  const int good =
      std::string_view{name.data()} == "atbus-nats" ? good_allocations.exchange(-1) : -1;
  if (good >= 0)
    none.emplace(static_cast<std::uint64_t>(good), 1);
  return got;
}

class NatsWithoutMemory : public NatsNodes {
 protected:
  void SetUp() override {
    if (!can_fail_allocations())
      GTEST_SKIP() << "this build can't let allocations fail";
    before_ = std::exchange(detail::kernel().epoll_wait, wait_and_fail);
  }
  void TearDown() override {
    NatsNodes::TearDown();
    if (before_ != nullptr)
      detail::kernel().epoll_wait = before_;
  }

 private:
  int (*before_)(int, epoll_event*, int, std::int64_t) = nullptr;
};

TEST_F(NatsWithoutMemory, ListenInTheEnd) {
  const nats_server server;
  nats_side b{2, with_carrier(make_carrier())};
  ASSERT_TRUE(b.self.listen(server.address("fleet.first")));
  int failures = 0;
  for (int good = 0; good != 8; ++good) {
    SCOPED_TRACE(good);
    const std::string address = server.address("fleet.b" + std::to_string(good));
    has_failed = false;
    good_allocations = good;
    ASSERT_TRUE(b.self.listen(address));
    nats_side a{1, with_carrier(make_carrier())};
    ASSERT_TRUE(a.self.connect(2, address));
    ASSERT_TRUE(reaches(a, b, "hello"));
    failures += has_failed ? 1 : 0;
    EXPECT_EQ(b.log.find("the carrier has ended"), b.log.npos) << b.log;
  }
  EXPECT_GT(failures, 0);
}

TEST_F(NatsWithoutMemory, GoOnWithLinksThatEndBecauseOfIt) {
  const nats_server server;
  nats_side a{1, with_carrier(make_carrier())};
  nats_side b{2, with_carrier(make_carrier())};
  ASSERT_TRUE(b.self.listen(server.address("fleet.b")));
  ASSERT_TRUE(a.self.connect(2, server.address("fleet.b")));
  ASSERT_TRUE(reaches(a, b, "first"));
  int failures = 0;
  for (int good = 0; good != 8; ++good) {
    SCOPED_TRACE(good);
    has_failed = false;
    good_allocations = good;
    ASSERT_TRUE(reaches(a, b, "one"));
    ASSERT_TRUE(reaches(a, b, "two"));
    failures += has_failed ? 1 : 0;
  }
  EXPECT_GT(failures, 0);
}

}  // namespace
}  // namespace atbus::test
