// A sender that takes its messages back while a receiver takes the segment over: every order of
// their steps, and the death of the sender at each of its own.
#include <tuple>

#include "fault/channel/drill.h"
#include "numbered_message.h"

namespace atbus::test::take_back_race {
namespace {

enum role : std::uint32_t { withdrawer, witness, newcomer, first_receiver, second_receiver };

constexpr std::uint32_t message_count = 8;

// Takes everything back and notes what it got.
void take_back(const drill& world, sender& out) {
  drill_memory& memory = world.memory();
  auto back = out.take_back([&memory](bytes_view bytes, errc why) {
    message_stamp stamp;
    require(read_message(bytes, stamp), "a torn message was taken back");
    if (memory.taken_back[withdrawer].get() == 0)
      memory.first_taken_back[withdrawer].store(stamp.number);
    memory.taken_back[withdrawer].add();
    if (why == errc::outcome_unknown)
      memory.unknown[withdrawer].add();
  });
  require(static_cast<bool>(back) || back.error() == errc::receiver_alive,
          back ? "" : back.error().text());
}

// Two senders have sent, the receiver is dead; it handled nothing, or died in the third message.
class take_back_stage {
 public:
  explicit take_back_stage(bool died_handling) : world(3) {
    if (died_handling)
      world.arrange(first_receiver, step::handler_returned, 3, action::kill);
    inbox = world.start_receiver(first_receiver, true);
    EXPECT_TRUE(world.wait_opened(first_receiver));
    owner = world.start_sender(withdrawer, [this](sender& out) {
      world.talk(out, withdrawer, message_count, 100);
      require(world.memory().may_go_on[withdrawer].wait(), "not told to take back");
      take_back(world, out);
      require(world.memory().may_go_on[withdrawer].wait(2), "not told to go on");
    });
    EXPECT_TRUE(world.memory().accepted[withdrawer].wait(message_count));
    if (died_handling) {
      world.let_go_on(first_receiver);
      EXPECT_EQ(inbox.wait_end(), "signal 9");
    } else {
      inbox.kill_and_wait();
    }
    bystander = world.start_sender(witness, [this](sender& out) {
      world.talk(out, witness, 5, 100);
      require(world.memory().may_go_on[witness].wait(), "not told to go on");
      world.talk(out, witness, 5, 100);
    });
    EXPECT_TRUE(world.memory().accepted[witness].wait(5));
  }

  void open_successor() {
    inbox = world.start_receiver(second_receiver);
    EXPECT_TRUE(world.wait_opened(second_receiver));
  }

  void bystander_is_heard() {
    EXPECT_TRUE(world.wait_arrived(witness, 5)) << "the bystander is held up";
    world.let_go_on(witness);
    EXPECT_TRUE(world.wait_arrived(witness, 10)) << "the bystander is held up";
    EXPECT_EQ(bystander.wait_end(), "exit 0");
  }

  void end() {
    EXPECT_EQ(world.dismiss(inbox), "exit 0");
    EXPECT_EQ(world.account(1), "");
    EXPECT_TRUE(world.directory().files().empty());
  }

  drill world;
  child_process inbox;
  child_process owner;
  child_process bystander;
};

enum class held : std::uint8_t { sender, receiver };
using order = std::tuple<step, step, held, bool>;

std::string order_name(const ::testing::TestParamInfo<order>& info) {
  const auto [sender_step, receiver_step, who, died] = info.param;
  const std::string s{name_of(sender_step)};
  const std::string r{name_of(receiver_step)};
  return (who == held::sender ? s + "_held_while_" + r : r + "_held_while_" + s) +
         (died ? "_died_handling" : "");
}

class TakeBackAndTakeOver : public ::testing::TestWithParam<order> {};

TEST_P(TakeBackAndTakeOver, EveryMessageHasOneOutcome) {
  const auto [sender_step, receiver_step, who, died] = GetParam();
  take_back_stage on{died};
  if (who == held::sender) {
    on.world.arrange(withdrawer, sender_step, 1, action::pause);
    on.world.let_go_on(withdrawer);
    ASSERT_TRUE(on.world.plan(withdrawer).reached.wait());
    on.open_successor();
    on.bystander_is_heard();
    ASSERT_TRUE(on.world.plan(second_receiver).asleep.wait());
    on.world.plan(withdrawer).go.add();
  } else {
    on.world.arrange(second_receiver, receiver_step, 1, action::pause);
    on.inbox = on.world.start_receiver(second_receiver);
    ASSERT_TRUE(on.world.plan(second_receiver).reached.wait());
    on.world.let_go_on(withdrawer);
    ASSERT_TRUE(on.world.plan(withdrawer).passed[static_cast<std::size_t>(sender_step)].wait());
    on.world.plan(second_receiver).go.add();
    on.bystander_is_heard();
  }
  on.world.let_go_on(withdrawer);
  EXPECT_EQ(on.owner.wait_end(), "exit 0");
  if (on.world.memory().taken_back[withdrawer].get() == 0) {
    EXPECT_TRUE(on.world.wait_all_arrived(withdrawer));
  }
  on.end();
}

INSTANTIATE_TEST_SUITE_P(
    EveryOrder, TakeBackAndTakeOver,
    ::testing::Combine(
        ::testing::Values(step::withdrawn_set, step::withdrawn_asked, step::withdrawn_cut),
        ::testing::Values(step::receiver_locked, step::bell_bound, step::generation_stored),
        ::testing::Values(held::sender, held::receiver), ::testing::Bool()),
    order_name);

// Step, whether the successor opened before the death, whether the first died in a handler.
using death = std::tuple<step, bool, bool>;

std::string death_name(const ::testing::TestParamInfo<death>& info) {
  const auto [at, opened, died] = info.param;
  return std::string{name_of(at)} + (opened ? "_before_its_death" : "_after_its_death") +
         (died ? "_died_handling" : "");
}

class DeathInTakeBack : public ::testing::TestWithParam<death> {};

TEST_P(DeathInTakeBack, GivesItsMessagesToTheSuccessorUnlessTheyWereCutOff) {
  const auto [at, opened_before, died] = GetParam();
  take_back_stage on{died};
  on.world.arrange(withdrawer, at, 1, opened_before ? action::stop : action::kill);
  on.world.let_go_on(withdrawer);
  if (opened_before) {
    ASSERT_TRUE(on.owner.wait_stopped());
    on.open_successor();
    ASSERT_TRUE(on.world.plan(second_receiver).asleep.wait());
    on.owner.kill_and_wait();
  } else {
    EXPECT_EQ(on.owner.wait_end(), "signal 9");
    on.open_successor();
  }
  if (at != step::withdrawn_cut) {
    EXPECT_TRUE(on.world.wait_arrived(withdrawer, message_count)) << "forgotten in a skipped lane";
  }
  on.bystander_is_heard();
  // The lane is free again: three lanes, and each newcomer keeps one while it lives.
  child_process next =
      on.world.start_sender(newcomer, [&on](sender& out) { on.world.talk(out, newcomer, 5, 100); });
  EXPECT_EQ(next.wait_end(), "exit 0");
  EXPECT_TRUE(on.world.wait_arrived(newcomer, 5));
  if (at == step::withdrawn_cut) {
    // Nobody is left to be told: what it had published and nobody had begun is gone with it.
    on.world.memory().accepted[withdrawer].set(on.world.arrived(withdrawer));
  }
  on.end();
}

INSTANTIATE_TEST_SUITE_P(EveryStep, DeathInTakeBack,
                         ::testing::Combine(::testing::Values(step::withdrawn_set,
                                                              step::withdrawn_asked,
                                                              step::withdrawn_cut),
                                            ::testing::Bool(), ::testing::Bool()),
                         death_name);

}  // namespace
}  // namespace atbus::test::take_back_race
