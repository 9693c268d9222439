// A sender that publishes while the receiver goes to sleep, and a receiver that makes room while
// the sender goes to sleep: every order of two steps. A lost wake-up leaves somebody asleep.
#include <poll.h>

#include <tuple>

#include "fault/channel/drill.h"
#include "system/kernel.h"

namespace atbus::test::sleep_race {
namespace {

enum role : std::uint32_t { talker, listener };

// Which process is held at its step while the other one runs on.
enum class held : std::uint8_t { sender, receiver };

using pair_of_steps = std::tuple<step, step, held>;

std::string pair_name(const ::testing::TestParamInfo<pair_of_steps>& info) {
  const auto [sender_step, receiver_step, who] = info.param;
  const std::string s{name_of(sender_step)};
  const std::string r{name_of(receiver_step)};
  return who == held::sender ? s + "_held_while_" + r : r + "_held_while_" + s;
}

// Sends a message to the receiver once it sleeps.
status wake(const drill& world, sender& out) {
  require(world.wait_all_arrived(talker), "the one before never arrived");
  require(world.plan(listener).asleep.wait(), "the receiver never slept");
  return world.send_next(out, talker);
}

// Sends one message when it is told to. If it is to be held at a step that it takes only while the
// receiver sleeps: as many as it takes to find it sleeping.
void send_when_told(const drill& world, sender& out) {
  crash_plan& plan = world.plan(talker);
  require(world.memory().may_go_on[talker].wait(), "not told to send");
  const bool to_be_held = plan.what == action::pause;
  for (int i = 0; i < 50; ++i) {
    // It handles the one before while it is awake; so after that it sleeps anew.
    const status s = to_be_held ? wake(world, out) : world.send_next(out, talker);
    require(static_cast<bool>(s), s.text());
    if (!to_be_held || plan.reached.get() != 0)
      return;
  }
}

std::uint32_t times(const drill& world, std::uint32_t role, step s) {
  return world.plan(role).passed[static_cast<std::size_t>(s)].get();
}

// With as many messages before that, each of which wakes the receiver: then the sender fences, and rings an eventfd.
using publish_and_sleep = std::tuple<step, step, held, std::uint32_t>;

std::string publish_and_sleep_name(const ::testing::TestParamInfo<publish_and_sleep>& info) {
  const auto [sender_step, receiver_step, who, before] = info.param;
  const std::string name = pair_name({{sender_step, receiver_step, who}, info.index});
  return before == 0 ? name : name + "_often";
}

class PublishAndSleep : public ::testing::TestWithParam<publish_and_sleep> {};

TEST_P(PublishAndSleep, TheMessageArrives) {
  const auto [sender_step, receiver_step, who, before] = GetParam();
  drill world{2};
  child_process inbox = world.start_receiver(listener);
  ASSERT_TRUE(world.wait_opened(listener));
  child_process out = world.start_sender(talker, [&world, count = before](sender& s) {
    for (std::uint32_t i = 0; i != count; ++i)
      require(static_cast<bool>(wake(world, s)), "not sent");
    send_when_told(world, s);
  });
  ASSERT_TRUE(world.wait_opened(talker));
  ASSERT_TRUE(world.plan(listener).passed[static_cast<std::size_t>(step::speaker_copied)].wait());
  ASSERT_TRUE(world.memory().accepted[talker].wait(before));
  ASSERT_TRUE(world.wait_all_arrived(talker));
  ASSERT_TRUE(world.plan(listener).asleep.wait());

  if (who == held::sender) {
    world.arrange(talker, sender_step, times(world, talker, sender_step) + 1, action::pause);
    world.let_go_on(talker);
    ASSERT_TRUE(world.plan(talker).reached.wait());
    // The receiver, roused by another sender, goes through its step while the sender is held.
    const std::uint32_t passed = times(world, listener, receiver_step);
    ASSERT_TRUE(world.plan(listener).asleep.wait());  // again, where the sender has rung
    child_process another = world.start_sender(2, [](sender&) {});
    EXPECT_EQ(another.wait_end(), "exit 0");
    ASSERT_TRUE(
        world.plan(listener).passed[static_cast<std::size_t>(receiver_step)].wait(passed + 1));
    world.plan(talker).go.add();
  } else {
    world.arrange(listener, receiver_step, times(world, listener, receiver_step) + 1,
                  action::pause);
    // Another sender rouses the receiver, which is held on its way back to sleep.
    child_process another = world.start_sender(2, [](sender&) {});
    EXPECT_EQ(another.wait_end(), "exit 0");
    ASSERT_TRUE(world.plan(listener).reached.wait());
    world.let_go_on(talker);
    // `send` returns although the receiver stands still.
    EXPECT_EQ(out.wait_end(), "exit 0");
    world.plan(listener).go.add();
  }
  if (who == held::sender) {
    EXPECT_EQ(out.wait_end(), "exit 0");
  }
  EXPECT_EQ(times(world, talker, step::fence_echo_stored) != 0, before != 0);
  EXPECT_TRUE(world.wait_all_arrived(talker)) << "a lost wake-up";
  EXPECT_EQ(world.dismiss(inbox), "exit 0");
  EXPECT_EQ(world.account(0), "");
}

INSTANTIATE_TEST_SUITE_P(
    EveryOrder, PublishAndSleep,
    ::testing::Combine(::testing::Values(step::record_written, step::before_tail, step::after_tail,
                                         step::ready_bit_set, step::before_ring, step::after_ring),
                       ::testing::Values(step::lanes_parked, step::sleeping_stored,
                                         step::sleep_checked, step::woken),
                       ::testing::Values(held::sender, held::receiver), ::testing::Values(0U, 40U)),
    publish_and_sleep_name);

class RequestAndRoom : public ::testing::TestWithParam<pair_of_steps> {};

// Fills the lane, then waits for room, then sends one more.
void fill_and_wait(const drill& world, sender& out) {
  while (world.send_next(out, talker)) {
  }
  require(world.memory().may_go_on[talker].wait(), "not told to wait");
  const status s = out.wait_writable(patience);
  require(static_cast<bool>(s), "the room was not announced: " + s.text());
  require(static_cast<bool>(world.send_next(out, talker)), "no room after all");
}

TEST_P(RequestAndRoom, TheRoomIsAnnounced) {
  const auto [sender_step, receiver_step, who] = GetParam();
  drill world{2};
  child_process inbox = world.start_receiver(listener, true);
  ASSERT_TRUE(world.wait_opened(listener));
  child_process out = world.start_sender(talker, [&world](sender& s) { fill_and_wait(world, s); });
  ASSERT_TRUE(world.memory().refused[talker].wait());

  if (who == held::sender) {
    world.arrange(talker, sender_step, 1, action::pause);
    world.let_go_on(talker);
    ASSERT_TRUE(world.plan(talker).reached.wait());
    world.let_go_on(listener);
    EXPECT_TRUE(world.wait_all_arrived(talker));
    ASSERT_TRUE(world.plan(listener).asleep.wait());
    world.plan(talker).go.add();
  } else {
    // The first room that the receiver makes: it is held there, and the sender falls asleep.
    world.arrange(listener, receiver_step, times(world, listener, receiver_step) + 1,
                  action::pause);
    world.let_go_on(listener);
    ASSERT_TRUE(world.plan(listener).reached.wait());
    const std::uint32_t before = times(world, talker, sender_step);
    world.let_go_on(talker);
    if (receiver_step != step::after_head) {
      ASSERT_TRUE(
          world.plan(talker).passed[static_cast<std::size_t>(sender_step)].wait(before + 1));
    } else {
      EXPECT_EQ(out.wait_end(), "exit 0");
    }
    world.plan(listener).go.add();
  }
  EXPECT_EQ(out.running() ? out.wait_end() : "exit 0", "exit 0");
  EXPECT_TRUE(world.wait_all_arrived(talker));
  EXPECT_EQ(world.dismiss(inbox), "exit 0");
  EXPECT_EQ(world.account(0), "");
}

INSTANTIATE_TEST_SUITE_P(
    EveryOrder, RequestAndRoom,
    ::testing::Combine(::testing::Values(step::request_stored, step::request_checked),
                       ::testing::Values(step::handling_stored, step::done_stored,
                                         step::before_head, step::after_head),
                       ::testing::Values(held::sender, held::receiver)),
    pair_name);

// Who polls while prepared to sleep may read the one ring of that sleep before it looks at what rang.
TEST(PollWhilePreparedToSleep, LosesNoMessageWhoseRingItReads) {
  const drill world{1};
  static sender* out = nullptr;
  auto in = world.open_receiver();
  ASSERT_TRUE(in);
  auto opened = world.open_sender();
  ASSERT_TRUE(opened);
  out = &*opened;
  in->poll([](bytes_view) {});
  ASSERT_TRUE(in->prepare_sleep());
  static const auto epoll_wait = detail::kernel().epoll_wait;
  detail::kernel().epoll_wait = [](int epoll, epoll_event* events, int count, std::int64_t ns) {
    if (out != nullptr) {
      EXPECT_TRUE(std::exchange(out, nullptr)->send(as_bytes("rings")));
    }
    return epoll_wait(epoll, events, count, ns);
  };
  std::size_t got = 0;
  const auto end = std::chrono::steady_clock::now() + patience;
  while (out != nullptr && std::chrono::steady_clock::now() < end)
    got += in->poll([](bytes_view) {});
  detail::kernel().epoll_wait = epoll_wait;
  ASSERT_EQ(out, nullptr) << "it never looked at its bells";
  if (got == 0 && in->prepare_sleep()) {
    pollfd bell{in->descriptor(), POLLIN, 0};
    EXPECT_EQ(poll(&bell, 1, 0), 1) << "it would sleep for ever";
  }
  got += in->poll([](bytes_view) {});
  EXPECT_EQ(got, 1U);
  EXPECT_TRUE(in->remove());
}

}  // namespace
}  // namespace atbus::test::sleep_race
