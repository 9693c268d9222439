// A node's process is stopped while another one comes with its id: on one host the kernel says that the
// first one lives, however long it is silent.
#include "node_core_fixture.h"

namespace atbus::detail {
namespace {

class StoppedHolder : public ::testing::TestWithParam<const char*> {};

TEST_P(StoppedHolder, KeepsItsIdOnItsHost) {
  simulated_network net{1};
  party one{net, 1};
  ASSERT_TRUE(one.core().listen(GetParam()));
  const auto dial = [&](party& from) {
    EXPECT_TRUE(from.core().connect(1, GetParam()));
    from.node.wake();
  };
  party two{net, 2, plain(), host_of(1)};
  dial(two);
  ASSERT_TRUE(net.run_until([&] { return two.is_connected(1); }, 5s));
  net.run_for(1s);
  const std::ptrdiff_t ended = one.count(endpoint_event::disconnected);
  two.node.stop_until(net.now() + 60s);
  party successor{net, 2, plain(), host_of(1)};
  dial(successor);
  net.run_for(59s);
  EXPECT_FALSE(successor.is_connected(1));
  EXPECT_GT(one.core().stats().registrations_failed, 2U);
  net.run_for(10s);
  EXPECT_EQ(one.count(endpoint_event::disconnected), ended);
  EXPECT_EQ(two.count(endpoint_event::superseded), 0);
  ASSERT_TRUE(two.send(1, "still here"));
  net.run_for(1s);
  EXPECT_EQ(one.got, std::vector<std::string>{"still here"});
}

INSTANTIATE_TEST_SUITE_P(Through, StoppedHolder, ::testing::Values("shm://one", "unix:///one"),
                         [](const auto& of) {
                           return std::string{of.param}.substr(0, 1) == "s" ? "shm" : "unix";
                         });

}  // namespace
}  // namespace atbus::detail
