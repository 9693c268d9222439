// Lanes of dead senders are freed, and taken by new ones, whoever is in between.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fault/channel/drill.h"
#include "system/kernel.h"

namespace atbus::test::lane_reuse {
namespace {

enum role : std::uint32_t { dying, heir, listener = 10 };

std::uint32_t times(const drill& world, std::uint32_t role, step s) {
  return world.plan(role).passed[static_cast<std::size_t>(s)].get();
}

// Opens, sends, and waits to be killed.
child_process start_dying_sender(drill& world, std::uint32_t messages) {
  return world.start_sender(dying, [&world, messages](sender& out) {
    world.talk(out, dying, messages, 100);
    world.memory().may_go_on[dying].add();
    require(world.memory().may_go_on[dying].wait(1000), "the sender should have been killed");
  });
}

// The kernel closes a dead process's descriptors one after the other, so that the end of its bell
// may be seen before the end of its lock. Here there is much to close between the two.
void spread_descriptors() {
  detail::kernel().socket = [](int domain, int type, int protocol) {
    static bool spread = false;
    const int fd = ::socket(domain, type, protocol);
    for (int i = 0; !spread && i < 800; ++i)
      (void)::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    spread = true;
    const int above = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    close(fd);
    return above;
  };
}

class Death : public ::testing::TestWithParam<bool> {};

TEST_P(Death, IsAnEventThatFreesTheLane) {
  drill world{2};
  child_process inbox = world.start_receiver(listener);
  ASSERT_TRUE(world.wait_opened(listener));
  auto& freed = world.plan(listener).passed[static_cast<std::size_t>(step::orphan_released)];
  for (std::uint32_t i = 1; i <= 200; ++i) {
    child_process sender_process = world.start(dying, [&world] {
      if (GetParam())
        spread_descriptors();
      auto out = required(world.open_sender());
      world.talk(*out, dying, 1, 100);
      world.memory().may_go_on[dying].add();
      require(world.memory().may_go_on[dying].wait(1000), "the sender should have been killed");
    });
    ASSERT_TRUE(world.memory().may_go_on[dying].wait(i));
    sender_process.kill_and_wait();
    ASSERT_TRUE(freed.wait(i)) << "after " << i << " deaths";
  }
  EXPECT_TRUE(world.wait_all_arrived(dying));
  EXPECT_EQ(world.dismiss(inbox), "exit 0");
  EXPECT_EQ(world.account(0), "");
}

INSTANTIATE_TEST_SUITE_P(LockAndBell, Death, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool>& of) {
                           return std::string{of.param ? "FarApart" : "CloseTogether"};
                         });

TEST(LaneReuse, AReceiverHeldWhileItFreesTheOnlyLaneMakesASenderFailNotWait) {
  drill world{1};
  child_process inbox = world.start_receiver(listener);
  ASSERT_TRUE(world.wait_opened(listener));
  world.arrange(listener, step::orphan_locked, 1, action::pause);
  {
    child_process sender_process = start_dying_sender(world, 3);
    ASSERT_TRUE(world.memory().may_go_on[dying].wait());
  }
  ASSERT_TRUE(world.plan(listener).reached.wait());
  child_process early = world.start(heir, [&world] {
    auto out = world.open_sender();
    require(!out && out.error() == errc::no_free_lane, "the lane is the receiver's");
  });
  EXPECT_EQ(early.wait_end(), "exit 0");
  const std::uint32_t before = times(world, listener, step::orphan_released);
  world.plan(listener).go.add();
  ASSERT_TRUE(world.plan(listener).passed[static_cast<std::size_t>(step::orphan_released)].wait(
      before + 1));
  child_process late =
      world.start_sender(heir, [&world](sender& out) { world.talk(out, heir, 20); });
  EXPECT_EQ(late.wait_end(), "exit 0");
  EXPECT_TRUE(world.wait_all_arrived(heir));
  EXPECT_TRUE(world.wait_all_arrived(dying));
  EXPECT_EQ(world.dismiss(inbox), "exit 0");
  EXPECT_EQ(world.account(0), "");
}

class HeirStep : public ::testing::TestWithParam<step> {};

// The heir holds the lock of the dead sender's lane while the receiver would free it.
TEST_P(HeirStep, HeldThereKeepsTheReceiverFromFreeingItsLane) {
  drill world{1};
  child_process inbox = world.start_receiver(listener, true);
  ASSERT_TRUE(world.wait_opened(listener));
  {
    child_process sender_process = start_dying_sender(world, 3);
    ASSERT_TRUE(world.memory().may_go_on[dying].wait());
  }
  // Two looks: no drained lane, so the second one takes the lane behind the dead sender's records.
  world.arrange(heir, GetParam(), GetParam() == step::lane_locked ? 2 : 1, action::pause);
  child_process sender_process =
      world.start_sender(heir, [&world](sender& out) { world.talk(out, heir, 20); });
  ASSERT_TRUE(world.plan(heir).reached.wait());
  world.let_go_on(listener);
  EXPECT_TRUE(world.wait_all_arrived(dying));
  ASSERT_TRUE(world.plan(listener).asleep.wait());
  EXPECT_EQ(times(world, listener, step::orphan_locked), 0U);
  world.plan(heir).go.add();
  EXPECT_EQ(sender_process.wait_end(), "exit 0");
  EXPECT_TRUE(world.wait_arrived(heir, 20));
  EXPECT_EQ(world.dismiss(inbox), "exit 0");
  EXPECT_EQ(world.account(0), "");
}

INSTANTIATE_TEST_SUITE_P(All, HeirStep,
                         ::testing::Values(step::lane_locked, step::lane_reserved,
                                           step::open_record_published),
                         step_test_name);

TEST(LaneReuse, AsManySendersAsLanesOpenAtOnceAfterAsManyDeaths) {
  constexpr std::uint32_t senders = 6;
  constexpr std::uint32_t rounds = 15;
  drill world{senders};
  child_process inbox = world.start_receiver(listener);
  ASSERT_TRUE(world.wait_opened(listener));
  for (std::uint32_t round = 1; round <= rounds; ++round) {
    std::vector<child_process> all;
    for (std::uint32_t i = 0; i < senders; ++i) {
      all.push_back(world.start_sender(i, [&world, i](sender& out) {
        world.talk(out, i, 5, 100);
        world.memory().may_go_on[i].add();
        require(world.memory().may_go_on[i].wait(1000), "the sender should have been killed");
      }));
    }
    for (std::uint32_t i = 0; i < senders; ++i)
      ASSERT_TRUE(world.memory().may_go_on[i].wait(round)) << "round " << round;
  }
  // An incarnation's records may lie in another lane than those of the incarnation before, and lanes take turns:
  // no order holds between lives. So: every message once.
  auto& memory = world.memory();
  EXPECT_TRUE(memory.deliveries.wait_until(
      [&](std::uint32_t count) { return count >= senders * 5 * rounds; }));
  EXPECT_EQ(world.dismiss(inbox), "exit 0");
  std::map<std::pair<std::uint64_t, std::uint64_t>, int> seen;
  for (std::uint32_t i = 0; i < memory.deliveries.get(); ++i)
    ++seen[{memory.ledger[i].sender, memory.ledger[i].number}];
  for (std::uint32_t i = 0; i < senders; ++i) {
    for (std::uint32_t number = 1; number <= 5 * rounds; ++number)
      EXPECT_EQ((seen[{i, number}]), 1) << "sender " << i << " message " << number;
  }
}

}  // namespace
}  // namespace atbus::test::lane_reuse
