// Directories that find no memory for something: they go on with everything as soon as they have some.
#include <optional>
#include <string>

#include "counting_allocator.h"
#include "etcd_party.h"

namespace atbus::test {
namespace {

class EtcdWithoutMemory : public EtcdDirectories {
 protected:
  void SetUp() override {
    if (!can_fail_allocations())
      GTEST_SKIP() << "this build can't let allocations fail";
  }
  // Polls until an allocation has failed behind `good` ones; false: none has before `done`.
  template <class Done>
  static bool poll_and_fail(const shared_directory& nodes, std::uint64_t good, const Done& done) {
    pollfd ready{.fd = nodes->descriptor(), .events = POLLIN, .revents = 0};
    const allocation_failure one{good, 1};
    while (!allocation_failure::happened() && !done()) {
      (void)nodes->poll();
      (void)::poll(&ready, 1, 10);
    }
    return allocation_failure::happened();
  }
};

TEST_F(EtcdWithoutMemory, LogInAgain) {
  std::uint64_t good = 0;
  for (bool has_failed = true; has_failed; ++good) {
    SCOPED_TRACE(good);
    const auto nodes = open_directory({.endpoints = {"http://127.0.0.1:1"},
                                       .start_jitter = 0ms,
                                       .user = "fleet",
                                       .password = "of fleet"});
    has_failed = poll_and_fail(nodes, good, [&] { return nodes->stats().failures >= 1; });
    const auto asked = nodes->stats().requests;
    ASSERT_TRUE(until(
        {nodes}, [&] { return nodes->stats().requests > asked; }, 10s));
  }
  EXPECT_GT(good, 10);
}

TEST_F(EtcdWithoutMemory, WithdrawARecordInTheEnd) {
  EtcdDirectories::SetUp();
  if (IsSkipped())
    return;
  etcd_server etcd;
  etcd.start();
  std::uint64_t good = 0;
  for (bool has_failed = true; has_failed; ++good) {
    SCOPED_TRACE(good);
    const auto nodes = open_directory({.endpoints = {etcd.url()}, .start_jitter = 0ms});
    ASSERT_TRUE(nodes->announce(record_of(7, {"unix://@one"})));
    ASSERT_TRUE(nodes->announce(record_of(8, {"unix://@two"})));
    ASSERT_TRUE(until({nodes}, [&] { return nodes->stats().puts == 2; }));
    {
      const allocation_failure one{good, 1};
      const error why = nodes->withdraw(8);
      has_failed = allocation_failure::happened();
      EXPECT_TRUE(why || (has_failed && why == errc::out_of_memory)) << why.text();
    }
    ASSERT_TRUE(until(
        {nodes}, [&] { return etcd.count(key_of(8)) == 0; }, 10s));
    ASSERT_EQ(etcd.count(key_of(7)), 1);
  }
  EXPECT_GT(good, 10);
}

}  // namespace
}  // namespace atbus::test
