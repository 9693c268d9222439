// Removing a segment while others open it.
#include "fault/channel/drill.h"

namespace atbus::test::lifecycle_race {
namespace {

enum role : std::uint32_t { early, late, later, remover, successor };

class RemovalRace : public ::testing::TestWithParam<step> {
 protected:
  // A receiver that removes its segment when it is told to.
  child_process start_remover() {
    return world.start(remover, [this] {
      auto inbox = required(world.open_receiver());
      world.memory().opened[remover].add();
      require(world.memory().may_go_on[remover].wait(), "not allowed to remove");
      require(static_cast<bool>(inbox->remove()), "remove");
    });
  }

  drill world{2};
};

using RemoverHeld = RemovalRace;

TEST_P(RemoverHeld, LetsNobodyIntoTheOldSegmentAndLeavesTheNewOneAlone) {
  const bool has_name = GetParam() == step::retired_stored;
  world.arrange(remover, GetParam(), 1, action::pause);
  child_process old_receiver = start_remover();
  ASSERT_TRUE(world.wait_opened(remover));
  world.let_go_on(remover);
  ASSERT_TRUE(world.plan(remover).reached.wait());

  child_process sender_process = world.start(late, [this, has_name] {
    auto out = world.open_sender();
    require(!out && out.error() == (has_name ? errc::retired : errc::not_found), "opened");
  });
  EXPECT_EQ(sender_process.wait_end(), "exit 0");
  child_process rival = world.start(successor, [this, has_name] {
    auto inbox = world.open_receiver();
    require(static_cast<bool>(inbox) != has_name, "only one that lost its name has a successor");
    if (inbox) {
      world.memory().receiver_role.set(successor);
      world.memory().opened[successor].add();
      world.run_receiver(*inbox, successor);
    } else {
      require(inbox.error() == errc::receiver_exists, inbox.error().text());
      world.memory().opened[successor].add();
    }
  });
  ASSERT_TRUE(world.wait_opened(successor));
  if (has_name) {
    EXPECT_EQ(rival.wait_end(), "exit 0");
  }
  world.plan(remover).go.add();
  EXPECT_EQ(old_receiver.wait_end(), "exit 0");
  if (has_name)
    rival = world.start_receiver(later);
  ASSERT_TRUE(world.wait_opened(has_name ? later : successor));
  child_process next =
      world.start_sender(early, [this](sender& out) { world.talk(out, early, 20); });
  EXPECT_EQ(next.wait_end(), "exit 0");
  EXPECT_TRUE(world.wait_all_arrived(early));
  EXPECT_EQ(world.dismiss(rival), "exit 0");
  EXPECT_EQ(world.account(0), "");
  EXPECT_TRUE(world.directory().files().empty());
}

INSTANTIATE_TEST_SUITE_P(All, RemoverHeld,
                         ::testing::Values(step::retired_stored, step::name_unlinked),
                         step_test_name);

using OpenerHeld = RemovalRace;

TEST_P(OpenerHeld, FindsTheSegmentGoneOrLearnsOfItsEndAtItsFirstMessage) {
  child_process old_receiver = start_remover();
  ASSERT_TRUE(world.wait_opened(remover));
  world.arrange(early, GetParam(), 1, action::pause);
  child_process sender_process = world.start(early, [this] {
    auto out = world.open_sender();
    if (!out) {
      require(out.error() == errc::not_found || out.error() == errc::retired, out.error().text());
      return;
    }
    // A message that is accepted by the old segment can be taken back; nothing may vanish.
    std::uint32_t back = 0;
    status s = world.send_next(*out, early);
    if (s)
      s = world.send_next(*out, early);
    require(s == errc::retired, s.text());
    auto taken = out->take_back([&back](bytes_view, errc) { ++back; });
    require(static_cast<bool>(taken), taken ? "" : taken.error().text());
    require(back == world.memory().accepted[early].get(), "accepted, and not given back");
    world.memory().accepted[early].set(0);
  });
  ASSERT_TRUE(world.plan(early).reached.wait());
  world.let_go_on(remover);
  EXPECT_EQ(old_receiver.wait_end(), "exit 0");
  world.plan(early).go.add();
  EXPECT_EQ(sender_process.wait_end(), "exit 0");
  EXPECT_EQ(world.account(0), "");
  EXPECT_TRUE(world.directory().files().empty());
}

TEST_P(OpenerHeld, FindsTheNewSegmentOrLearnsOfTheOldOnesEnd) {
  child_process old_receiver = start_remover();
  ASSERT_TRUE(world.wait_opened(remover));
  world.arrange(early, GetParam(), 1, action::pause);
  child_process sender_process = world.start(early, [this] {
    auto out = world.open_sender();
    for (int i = 0; i < 3; ++i) {
      require(static_cast<bool>(out), out ? "" : out.error().text());
      // The first one may find out about the end; then it is in the old lane, and given back.
      status s = world.send_next(*out, early);
      if (s)
        s = world.send_next(*out, early);
      if (s)
        return;
      require(s == errc::retired, s.text());
      auto taken = out->take_back([](bytes_view, errc) {});
      require(taken && *taken == world.memory().accepted[early].get(), "not given back");
      world.memory().accepted[early].set(0);
      out = world.open_sender();
    }
    require(false, "never reached the new segment");
  });
  ASSERT_TRUE(world.plan(early).reached.wait());
  world.let_go_on(remover);
  EXPECT_EQ(old_receiver.wait_end(), "exit 0");
  child_process inbox = world.start_receiver(successor);
  ASSERT_TRUE(world.wait_opened(successor));
  world.plan(early).go.add();
  EXPECT_EQ(sender_process.wait_end(), "exit 0");
  EXPECT_TRUE(world.wait_arrived(early, 2));
  EXPECT_EQ(world.dismiss(inbox), "exit 0");
  EXPECT_EQ(world.account(0), "");
  EXPECT_TRUE(world.directory().files().empty());
}

INSTANTIATE_TEST_SUITE_P(All, OpenerHeld,
                         ::testing::Values(step::lane_locked, step::lane_reserved,
                                           step::open_record_published),
                         step_test_name);

class WaitingSender : public ::testing::TestWithParam<action> {};

TEST_P(WaitingSender, LearnsThatItsSegmentWasRemoved) {
  drill world{2};
  if (GetParam() == action::kill)
    world.arrange(remover, step::retired_stored, 1, action::kill);
  child_process old_receiver = world.start(remover, [&world] {
    auto inbox = required(world.open_receiver());
    world.memory().opened[remover].add();
    require(world.memory().may_go_on[remover].wait(), "not allowed to remove");
    require(static_cast<bool>(inbox->remove()), "remove");
  });
  ASSERT_TRUE(world.wait_opened(remover));
  child_process waiting = world.start_sender(early, [&world](sender& out) {
    while (world.send_next(out, early)) {
    }
    const status s = out.wait_writable(patience);
    require(s == errc::retired, s.text());
  });
  ASSERT_TRUE(world.plan(early).passed[static_cast<std::size_t>(step::request_checked)].wait());
  world.let_go_on(remover);
  EXPECT_EQ(waiting.wait_end(), "exit 0");
  EXPECT_EQ(old_receiver.wait_end(), GetParam() == action::kill ? "signal 9" : "exit 0");
}

INSTANTIATE_TEST_SUITE_P(RemoverIs, WaitingSender, ::testing::Values(action::none, action::kill),
                         [](const ::testing::TestParamInfo<action>& of) {
                           return std::string{of.param == action::kill ? "Killed" : "Alive"};
                         });

}  // namespace
}  // namespace atbus::test::lifecycle_race
