// A sender that was idle while its receiver was killed and restarted knows nothing of the new one,
// and the new one has no connection to it. Its next message, and its death, are noticed all the
// same.
#include "fault/channel/drill.h"
#include "system/kernel.h"

namespace atbus::test::receiver_restart {
namespace {

enum role : std::uint32_t { idle, first_receiver, second_receiver, newcomer };
constexpr std::uint32_t before_restart = 3;

void refuse_inotify() {
  detail::kernel().inotify_init = [](int) {
    errno = EMFILE;
    return -1;
  };
}

void refuse_sockets() {
  detail::kernel().socket = [](int, int, int) {
    errno = EMFILE;
    return -1;
  };
}

class Restart {
 public:
  // The sender has sent, been heard, and is idle.
  explicit Restart(void (*in_sender)() = nullptr) {
    inbox = world.start_receiver(first_receiver);
    EXPECT_TRUE(world.wait_opened(first_receiver));
    out = world.start_sender(idle, [this, in_sender](sender& s) {
      world.talk(s, idle, before_restart, 100);
      require(world.memory().may_go_on[idle].wait(), "never told to go on");
      if (in_sender != nullptr)
        in_sender();
      world.talk(s, idle, 1, 100);
      require(world.memory().may_go_on[idle].wait(2), "never told to end");
    });
    EXPECT_TRUE(world.wait_arrived(idle, before_restart));
  }

  void replace_receiver(bool without_inotify) {
    EXPECT_TRUE(world.plan(first_receiver).asleep.wait(1));
    inbox.kill_and_wait();
    inbox = world.start(second_receiver, [this, without_inotify] {
      if (without_inotify)
        refuse_inotify();
      auto in = required(world.open_receiver());
      world.memory().receiver_role.set(second_receiver);
      world.memory().opened[second_receiver].add();
      world.run_receiver(*in, second_receiver);
    });
    EXPECT_TRUE(world.wait_opened(second_receiver));
    EXPECT_TRUE(world.plan(second_receiver).asleep.wait(1));
  }

  void kill_sender_at(step s) {
    crash_plan& plan = world.plan(idle);
    const std::uint32_t so_far = plan.passed[static_cast<std::size_t>(s)].get();
    world.arrange(idle, s, so_far + 1, action::kill);
    world.let_go_on(idle);
    EXPECT_EQ(out.wait_end(), "signal 9");
    EXPECT_EQ(plan.reached.get(), 1U) << "the sender missed the step";
  }

  void lane_is_freed() {
    EXPECT_TRUE(
        world.plan(second_receiver).passed[static_cast<std::size_t>(step::orphan_released)].wait());
    child_process next =
        world.start_sender(newcomer, [this](sender& s) { world.talk(s, newcomer, 5); });
    EXPECT_EQ(next.wait_end(), "exit 0");
  }

  void end() {
    EXPECT_EQ(world.dismiss(inbox), "exit 0");
    EXPECT_EQ(world.account(1), "");
    EXPECT_EQ(world.marked(), 0U);
  }

  drill world{1};
  child_process inbox;
  child_process out;
};

struct death {
  step at;
  bool without_inotify;
};

class DeathAfterRestart : public ::testing::TestWithParam<death> {};

TEST_P(DeathAfterRestart, LosesNothingAndFreesTheLane) {
  Restart on;
  on.replace_receiver(GetParam().without_inotify);
  on.kill_sender_at(GetParam().at);
  const bool published = GetParam().at >= step::after_tail;
  EXPECT_TRUE(on.world.wait_arrived(idle, before_restart + (published ? 1 : 0)));
  on.lane_is_freed();
  on.end();
}

INSTANTIATE_TEST_SUITE_P(
    All, DeathAfterRestart,
    ::testing::Values(death{step::record_written, false}, death{step::before_tail, false},
                      death{step::after_tail, false}, death{step::ready_bit_set, false},
                      death{step::before_ring, false}, death{step::after_ring, false},
                      death{step::before_tail, true}, death{step::after_tail, true},
                      death{step::before_ring, true}),
    [](const ::testing::TestParamInfo<death>& of) {
      return std::string{name_of(of.param.at)} +
             (of.param.without_inotify ? "_without_inotify" : "");
    });

TEST(ReceiverRestart, IsFollowedByANewConnectionAtTheNextMessage) {
  Restart on;
  on.replace_receiver(false);
  on.world.let_go_on(idle);
  EXPECT_TRUE(on.world.wait_arrived(idle, before_restart + 1));
  // Now its death is an ordinary one.
  on.out.kill_and_wait();
  on.lane_is_freed();
  on.end();
}

TEST(ReceiverRestart, ASenderWithoutDescriptorsRingsAllTheSame) {
  Restart on{refuse_sockets};
  on.replace_receiver(false);
  on.world.let_go_on(idle);
  EXPECT_TRUE(on.world.wait_arrived(idle, before_restart + 1));
  on.world.let_go_on(idle);
  EXPECT_EQ(on.out.wait_end(), "exit 0");
  on.lane_is_freed();
  on.end();
}

// Nobody would hear it: a receiver that has not met it does not watch the file.
TEST(ReceiverRestart, ANewSenderWithoutDescriptorsIsRefused) {
  drill world{1};
  child_process inbox = world.start_receiver(first_receiver);
  ASSERT_TRUE(world.wait_opened(first_receiver));
  child_process out = world.start(newcomer, [&world] {
    const auto socket = detail::kernel().socket;
    refuse_sockets();
    auto s = world.open_sender();
    require(!s && s.error() == errc::system_error, "its messages would wait for ever");
    detail::kernel().socket = socket;
    s = world.open_sender();
    require(static_cast<bool>(s), "the lane was not given back");
    world.talk(*s, newcomer, 3, 100);
  });
  EXPECT_EQ(out.wait_end(), "exit 0");
  EXPECT_TRUE(world.wait_arrived(newcomer, 3));
  EXPECT_EQ(world.dismiss(inbox), "exit 0");
}

// Whoever closes the file might be the idle sender, so its lock is looked for; but not a thousand
// times.
TEST(ReceiverRestart, AnIdleSenderDoesNotKeepItsNewReceiverAwakeWhenAnotherClosesTheFile) {
  Restart on;
  on.replace_receiver(false);
  child_process other = on.world.start(newcomer, [&on] {
    auto s = on.world.open_sender();
    require(!s && s.error() == errc::no_free_lane, "there was only one lane");
  });
  EXPECT_EQ(other.wait_end(), "exit 0");
  // As long as it looks, and more: a look each millisecond would be a thousand.
  shared_counter& sleeps =
      on.world.plan(second_receiver).passed[static_cast<std::size_t>(step::sleeping_stored)];
  EXPECT_FALSE(sleeps.wait(sleeps.get() + 60, std::chrono::milliseconds{1500}));
  on.world.let_go_on(idle, 2);
  EXPECT_EQ(on.out.wait_end(), "exit 0");
  on.lane_is_freed();
  on.end();
}

}  // namespace
}  // namespace atbus::test::receiver_restart
