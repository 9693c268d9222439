// A sender that is killed, or stopped, at each of its steps.
#include <ostream>
#include <tuple>

#include "fault/channel/drill.h"
#include "sender_scenario.h"

namespace atbus::test::killed_sender {
namespace {

enum role : std::uint32_t { victim, witness, newcomer, first_receiver, second_receiver };

class SenderStep : public ::testing::TestWithParam<sender_scenario> {};

// Everything before the victim: a receiver, and a sender that must not notice anything.
struct stage {
  explicit stage(const sender_scenario& s) : world(3), held(s.script == sender_script::fill) {
    inbox = world.start_receiver(first_receiver, held);
    EXPECT_TRUE(world.wait_opened(first_receiver));
    bystander = world.start_sender(witness, [this](sender& out) {
      // Goes on by five messages each time the test says so.
      for (std::uint32_t round = 1; round <= 3; ++round) {
        require(world.memory().may_go_on[witness].wait(round), "no more rounds");
        world.talk(out, witness, 5, 100);
      }
    });
    EXPECT_TRUE(world.wait_opened(witness));
  }

  void bystander_goes_on() {
    const std::uint32_t before = world.memory().accepted[witness].get();
    world.let_go_on(witness);
    EXPECT_TRUE(world.wait_arrived(witness, before + 5)) << "the bystander is held up";
  }

  void newcomer_is_heard() {
    const std::uint32_t before = world.memory().accepted[newcomer].get();
    child_process process =
        world.start_sender(newcomer, [this](sender& out) { world.talk(out, newcomer, 5, 100); });
    EXPECT_EQ(process.wait_end(), "exit 0");
    EXPECT_TRUE(world.wait_arrived(newcomer, before + 5)) << "a new sender is held up";
  }

  void restart_receiver() {
    EXPECT_TRUE(world.plan(first_receiver).asleep.wait(1)) << "the receiver does not come to rest";
    inbox.kill_and_wait();
    inbox = world.start_receiver(second_receiver);
    EXPECT_TRUE(world.wait_opened(second_receiver));
  }

  void end(std::uint32_t marks) {
    bystander_goes_on();
    EXPECT_EQ(bystander.wait_end(), "exit 0");
    EXPECT_EQ(world.dismiss(inbox), "exit 0");
    EXPECT_EQ(world.account(1), "");
    EXPECT_EQ(world.marked(), marks);
    EXPECT_TRUE(world.directory().files().empty()) << world.directory().files().front();
  }

  drill world;
  bool held;
  child_process inbox;
  child_process bystander;
};

TEST_P(SenderStep, KilledThereLeavesAllThatItSentAndAFreeLane) {
  const sender_scenario& s = GetParam();
  ASSERT_NE(s.script, sender_script::none) << "no scenario reaches this step";
  stage on{s};
  if (!on.held)
    on.bystander_goes_on();
  on.world.arrange(victim, s.at, s.nth, action::kill);
  child_process sender_process = start_victim(on.world, victim, s);
  EXPECT_EQ(sender_process.wait_end(), "signal 9");
  ASSERT_EQ(on.world.plan(victim).reached.get(), 1U) << "the scenario missed its step";
  if (on.held) {
    on.world.let_go_on(first_receiver);
    on.bystander_goes_on();
  }
  // No other event may be needed.
  EXPECT_TRUE(on.world.wait_all_arrived(victim));
  on.newcomer_is_heard();
  on.bystander_goes_on();
  on.restart_receiver();
  on.newcomer_is_heard();
  on.end(0);
}

TEST_P(SenderStep, StoppedThereDelaysNobodyAndThenGoesOn) {
  const sender_scenario& s = GetParam();
  ASSERT_NE(s.script, sender_script::none) << "no scenario reaches this step";
  stage on{s};
  if (!on.held)
    on.bystander_goes_on();
  on.world.arrange(victim, s.at, s.nth, action::stop);
  child_process sender_process = start_victim(on.world, victim, s);
  ASSERT_TRUE(sender_process.wait_stopped());
  if (on.held) {
    on.world.let_go_on(first_receiver);
    on.bystander_goes_on();
  }
  EXPECT_TRUE(on.world.wait_all_arrived(victim));
  on.newcomer_is_heard();
  on.bystander_goes_on();
  if (s.restart)
    on.restart_receiver();
  else
    on.newcomer_is_heard();
  sender_process.resume();
  EXPECT_EQ(sender_process.wait_end(), "exit 0");
  EXPECT_EQ(on.world.memory().accepted[victim].get(), s.messages);
  EXPECT_TRUE(on.world.wait_all_arrived(victim));
  if (!s.restart)
    on.restart_receiver();
  on.end(0);
}

INSTANTIATE_TEST_SUITE_P(All, SenderStep, ::testing::ValuesIn(sender_scenarios()),
                         sender_scenario_name);

}  // namespace
}  // namespace atbus::test::killed_sender
