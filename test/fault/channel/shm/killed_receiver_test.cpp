// A receiver that is killed, or stopped, at each of its steps.
#include "fault/channel/drill.h"
#include "receiver_scenario.h"

namespace atbus::test::killed_receiver {
namespace {

enum role : std::uint32_t { victim, talker, mortal, predecessor, successor, newcomer };

constexpr std::uint32_t talk_messages = 40;

// What a sender does with a segment that may be full, or have no receiver, or be gone: never waits.
void send_until_refused(const drill& world, sender& out, std::uint32_t role) {
  for (std::uint32_t i = 0; i < 1000; ++i) {
    if (const status s = world.send_next(out, role); !s) {
      require(s == errc::would_block || s == errc::retired, s.text());
      return;
    }
  }
  require(false, "a lane of 4 KiB took 1000 messages");
}

// A receiver's incarnation up to the step that its scenario is about.
class receiver_stage {
 public:
  explicit receiver_stage(const receiver_scenario& s) : scenario(s), world(3) {}

  void bring_victim_to_its_step(action what) {
    if (scenario.script == receiver_script::take_over)
      leave_messages_behind();
    world.arrange(victim, scenario.at, scenario.nth, what);
    if (scenario.script == receiver_script::remove)
      victim_process = start_remover();
    else
      victim_process = world.start_receiver(victim);
    switch (scenario.script) {
      case receiver_script::run:
        ASSERT_TRUE(world.wait_opened(victim));
        start_talker();
        return;
      case receiver_script::orphan:
        ASSERT_TRUE(world.wait_opened(victim));
        let_a_sender_die();
        return;
      case receiver_script::remove:
        ASSERT_TRUE(world.wait_opened(victim));
        start_early_sender();
        world.let_go_on(victim);
        return;
      case receiver_script::none:
      case receiver_script::make:
      case receiver_script::take_over:
        return;
    }
  }

  void finish_talker() {
    if (!talker_process.running())
      start_talker();
    EXPECT_EQ(talker_process.wait_end(), "exit 0");
    EXPECT_EQ(world.memory().accepted[talker].get(), talk_messages);
    EXPECT_TRUE(world.wait_all_arrived(talker));
  }

  void end(child_process& last_receiver, std::uint32_t marks) {
    EXPECT_TRUE(world.wait_all_arrived(mortal));
    EXPECT_EQ(world.dismiss(last_receiver), "exit 0");
    EXPECT_EQ(world.account(1), "");
    EXPECT_EQ(world.marked(), marks);
    const std::vector<std::string> files = world.directory().files();
    EXPECT_TRUE(files.empty()) << files.front();
  }

  receiver_scenario scenario;
  drill world;
  child_process victim_process;
  child_process talker_process;
  child_process early_process;

 private:
  void start_talker() {
    talker_process =
        world.start_sender(talker, [this](sender& out) { world.talk(out, talker, talk_messages); });
  }

  // A sender's messages, in a segment whose receiver is dead.
  void leave_messages_behind() {
    child_process first = world.start_receiver(predecessor, true);
    ASSERT_TRUE(world.wait_opened(predecessor));
    child_process dead =
        world.start_sender(mortal, [this](sender& out) { world.talk(out, mortal, 8, 100); });
    EXPECT_EQ(dead.wait_end(), "exit 0");
    first.kill_and_wait();
  }

  void let_a_sender_die() {
    child_process dying = world.start_sender(mortal, [this](sender& out) {
      world.talk(out, mortal, 8, 100);
      require(world.memory().may_go_on[mortal].wait(), "the sender should have been killed");
    });
    EXPECT_TRUE(world.wait_arrived(mortal, 8));
    dying.kill_and_wait();
  }

  child_process start_remover() {
    return world.start(victim, [this] {
      auto inbox = required(world.open_receiver());
      world.memory().opened[victim].add();
      require(world.memory().may_go_on[victim].wait(), "not allowed to remove");
      require(static_cast<bool>(inbox->remove()), "remove");
    });
  }

  // Was there before the segment is removed; sends after that.
  void start_early_sender() {
    early_process = world.start_sender(newcomer, [this](sender& out) {
      require(world.memory().may_go_on[newcomer].wait(), "not allowed to send");
      // The one that finds out may still be accepted: it is in the lane, and can be taken back.
      (void)out.send(std::span<const std::byte>{});
      const status s = out.send(std::span<const std::byte>{});
      require(s == errc::retired, s.text());
    });
    ASSERT_TRUE(world.wait_opened(newcomer));
  }
};

class ReceiverStep : public ::testing::TestWithParam<receiver_scenario> {};

TEST_P(ReceiverStep, KilledThereLosesNothingForASuccessor) {
  const receiver_scenario& s = GetParam();
  ASSERT_NE(s.script, receiver_script::none) << "no scenario reaches this step";
  receiver_stage on{s};
  on.bring_victim_to_its_step(action::kill);
  EXPECT_EQ(on.victim_process.wait_end(), "signal 9");
  ASSERT_EQ(on.world.plan(victim).reached.get(), 1U) << "the scenario missed its step";
  if (s.script == receiver_script::remove) {
    on.world.let_go_on(newcomer);
    EXPECT_EQ(on.early_process.wait_end(), "exit 0");
  }
  child_process next = on.world.start_receiver(successor);
  ASSERT_TRUE(on.world.wait_opened(successor));
  on.finish_talker();
  on.end(next, s.marks);
}

// What others can do while the receiver is stopped.
void live_on(receiver_stage& on) {
  child_process quick = on.world.start(newcomer, [&on] {
    auto out = on.world.open_sender();
    if (!out) {
      require(out.error() == errc::not_found || out.error() == errc::retired, out.error().text());
      return;
    }
    send_until_refused(on.world, *out, newcomer);
  });
  EXPECT_EQ(quick.wait_end(), "exit 0") << "a sender is held up by a stopped receiver";
}

using ReceiverStopStep = ReceiverStep;

TEST_P(ReceiverStopStep, StoppedThereDelaysNobodyAndThenGoesOn) {
  const receiver_scenario& s = GetParam();
  ASSERT_NE(s.script, receiver_script::none) << "no scenario reaches this step";
  receiver_stage on{s};
  on.bring_victim_to_its_step(action::stop);
  ASSERT_TRUE(on.victim_process.wait_stopped());
  live_on(on);
  child_process rival = on.world.start(successor, [&on, &s] {
    auto inbox = on.world.open_receiver();
    const bool nameless = s.script == receiver_script::make &&
                          (s.at == step::segment_built || s.at == step::receiver_locked);
    require(static_cast<bool>(inbox) == nameless, "the segment has an owner, or none");
    if (inbox) {
      on.world.memory().receiver_role.set(successor);
      on.world.memory().opened[successor].add();
      on.world.run_receiver(*inbox, successor);
    } else {
      require(inbox.error() == errc::receiver_exists, inbox.error().text());
    }
  });
  const bool replaced = s.script == receiver_script::make &&
                        (s.at == step::segment_built || s.at == step::receiver_locked);
  if (replaced) {
    ASSERT_TRUE(on.world.wait_opened(successor));
  } else {
    EXPECT_EQ(rival.wait_end(), "exit 0");
  }
  on.victim_process.resume();
  if (replaced) {
    // It finds the name taken, and says so by failing to open.
    EXPECT_EQ(on.victim_process.wait_end(), "exit 99");
  } else {
    ASSERT_TRUE(on.world.wait_opened(victim));
  }
  on.finish_talker();
  EXPECT_TRUE(on.world.wait_all_arrived(newcomer));
  on.end(replaced ? rival : on.victim_process, 0);
}

INSTANTIATE_TEST_SUITE_P(All, ReceiverStep, ::testing::ValuesIn(receiver_scenarios()),
                         scenario_name);

// A receiver that is held while it removes its segment is in lifecycle_race_test.cpp.
std::vector<receiver_scenario> scenarios_without_removal() {
  auto all = receiver_scenarios();
  std::erase_if(all, [](const auto& s) { return s.script == receiver_script::remove; });
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, ReceiverStopStep, ::testing::ValuesIn(scenarios_without_removal()),
                         scenario_name);

}  // namespace
}  // namespace atbus::test::killed_receiver
