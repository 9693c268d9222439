// A Unix stream that goes over to a lane of shared memory, with either end killed or stopped at each
// step of the way.
//
// Whatever dies where: the other end sees an ordinary end, nothing torn arrives and nothing out of
// order, and the next one is served. Whoever is stopped makes nobody else wait.
#include "fault/channel/drill.h"
#include "numbered_message.h"

namespace atbus::test::lane_switch {
namespace {

enum role : std::uint32_t { victim, witness, newcomer, first_receiver, second_receiver };

struct switch_step {
  step at;
  std::uint32_t nth = 1;
};

constexpr std::uint32_t talk_messages = 12;
constexpr std::uint32_t no_wait = talk_messages + 1;  // for the receiver's sleep

class LaneSwitch : public ::testing::TestWithParam<switch_step> {
 protected:
  child_process start_receiver(std::uint32_t as) {
    child_process started = world_.start_receiver(as);
    EXPECT_TRUE(world_.wait_opened(as));
    return started;
  }
  // Opens a sender by itself, so that opening is part of what may fail, and runs `body`.
  child_process start_sender(std::uint32_t as, std::function<void(sender&)> body,
                             sender_options options = {}) {
    options.message_limit = 1000;
    options.spin = 0ns;
    return world_.start(as, [this, as, body = std::move(body), options] {
      auto out = required(world_.open_sender(options));
      world_.memory().opened[as].add();
      body(*out);
    });
  }
  // Each message has arrived before the next one is sent, so that the opening goes on between them,
  // unless the receiver has come to its step.
  void talk_in_turns(sender& out, std::uint32_t as) const {
    for (std::uint32_t i = 0; i < talk_messages && !receiver_at_step(); ++i) {
      world_.talk(out, as, 1, no_wait);
      const std::uint32_t sent = world_.memory().accepted[as].get();
      const auto deadline = std::chrono::steady_clock::now() + patience;
      while (!receiver_at_step() && !arrives(as, sent, 1ms)) {
        require(std::chrono::steady_clock::now() < deadline, "it does not arrive");
        (void)out.flush();
      }
    }
  }
  [[nodiscard]] bool arrives(std::uint32_t as, std::uint32_t number,
                             std::chrono::nanoseconds longest) const {
    return world_.memory().deliveries.wait_until(
        [&](std::uint32_t) { return world_.arrived(as) >= number; }, longest);
  }
  [[nodiscard]] bool receiver_at_step() const {
    return world_.plan(first_receiver).reached.get() != 0;
  }

  void is_served(std::uint32_t as) {
    const std::uint32_t before = world_.arrived(as);
    child_process process =
        start_sender(as, [this, as](sender& out) { world_.talk(out, as, 5, no_wait); });
    EXPECT_EQ(process.wait_end(), "exit 0");
    EXPECT_TRUE(world_.wait_arrived(as, before + 5)) << "another sender is held up";
  }
  void end(child_process& inbox) {
    EXPECT_EQ(world_.dismiss(inbox), "exit 0");
    EXPECT_EQ(world_.memory().torn.get(), 0U);
    EXPECT_EQ(disorder(), "");
    EXPECT_EQ(world_.marked(), 0U);
    EXPECT_TRUE(world_.directory().files().empty()) << world_.directory().files().front();
  }
  // Whether what was sent before is in no socket any more when a receiver dies at this step.
  static bool loses_nothing() {
    return GetParam().at >= step::switch_read || GetParam().at == step::speaker_copied;
  }
  // What each receiver got of each sender must be without a gap, and nothing comes twice: "" or what
  // does. What went down with a receiver's socket may be missing where the next one begins.
  [[nodiscard]] std::string disorder() const {
    std::map<std::uint32_t, delivery> latest;
    for (std::uint32_t i = 0; i < world_.memory().deliveries.get(); ++i) {
      const delivery& d = world_.memory().ledger[i];
      const auto [found, first] = latest.try_emplace(d.sender, d);
      const delivery before = std::exchange(found->second, d);
      const std::string what =
          "message " + std::to_string(d.number) + " of sender " + std::to_string(d.sender);
      if (first ? d.receiver == first_receiver && d.number != 1 : d.number <= before.number)
        return what + " out of order";
      if (!first && d.number != before.number + 1 &&
          (d.receiver == before.receiver || loses_nothing()))
        return what + " behind a gap";
    }
    return {};
  }

  drill world_{3, drill::kind::stream};
};

// --- the sender's steps

class LaneSwitchOfSender : public LaneSwitch {};

TEST_P(LaneSwitchOfSender, KilledThereLeavesABeginningOfWhatItSent) {
  child_process inbox = start_receiver(first_receiver);
  world_.arrange(victim, GetParam().at, GetParam().nth, action::kill);
  child_process out = start_sender(victim, [this](sender& s) { talk_in_turns(s, victim); });
  EXPECT_EQ(out.wait_end(), "signal 9");
  ASSERT_EQ(world_.plan(victim).reached.get(), 1U) << "it missed its step";
  // Its end is what wakes the receiver.
  const bool published = GetParam().at == step::after_tail && GetParam().nth > 1;
  EXPECT_TRUE(
      world_.wait_arrived(victim, world_.memory().accepted[victim].get() + (published ? 1U : 0U)));
  is_served(witness);
  is_served(newcomer);
  end(inbox);
}

TEST_P(LaneSwitchOfSender, StoppedThereDelaysNobodyAndThenGoesOn) {
  child_process inbox = start_receiver(first_receiver);
  world_.arrange(victim, GetParam().at, GetParam().nth, action::stop);
  child_process out = start_sender(victim, [this](sender& s) { talk_in_turns(s, victim); });
  ASSERT_TRUE(out.wait_stopped());
  is_served(witness);
  is_served(newcomer);
  out.resume();
  EXPECT_EQ(out.wait_end(), "exit 0");
  EXPECT_EQ(world_.memory().accepted[victim].get(), talk_messages);
  EXPECT_TRUE(world_.wait_all_arrived(victim));
  end(inbox);
}

// The first record of a lane announces its sender; the second is its first message.
constexpr switch_step sender_steps[] = {
    {step::hello_written},  {step::lane_locked},    {step::lane_reserved},
    {step::before_tail},    {step::after_tail},     {step::open_record_published},
    {step::switch_said},    {step::switch_written}, {step::record_written, 2},
    {step::before_tail, 2}, {step::after_tail, 2},  {step::record_written, 5},
};

// --- the receiver's steps

class LaneSwitchOfReceiver : public LaneSwitch {};

TEST_P(LaneSwitchOfReceiver, KilledThereEndsTheConnectionAndTheRestIsTakenBack) {
  world_.arrange(first_receiver, GetParam().at, GetParam().nth, action::kill);
  child_process inbox = start_receiver(first_receiver);
  child_process out = start_sender(victim, [this](sender& s) {
    talk_in_turns(s, victim);
    require(receiver_at_step(), "the receiver missed its step");
    status last;
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (last || last == errc::would_block) {
      require(std::chrono::steady_clock::now() < deadline, "it does not end");
      last = world_.send_next(s, victim);
      if (last == errc::would_block)
        (void)s.wait_writable(1ms);
    }
    require(last == errc::peer_closed, last.text());
    const std::uint64_t arrived = world_.arrived(victim);
    std::uint64_t latest = arrived;
    const auto take = [&](bytes_view message, errc) {
      message_stamp stamp;
      require(read_message(message, stamp) && stamp.number > latest, "taken back and delivered");
      require(stamp.number == latest + 1 || (latest == arrived && !loses_nothing()), "a gap");
      latest = stamp.number;
    };
    // A dying process's connections may end a moment before its locks.
    while (!s.take_back(take))
      require(std::chrono::steady_clock::now() < deadline, "it can't be taken back");
    require(
        latest == world_.memory().accepted[victim].get() || (latest == arrived && !loses_nothing()),
        "the latest is missing");
  });
  EXPECT_EQ(inbox.wait_end(), "signal 9");
  EXPECT_EQ(out.wait_end(), "exit 0");
  child_process next = start_receiver(second_receiver);
  is_served(newcomer);
  end(next);
}

TEST_P(LaneSwitchOfReceiver, KilledThereIsFollowedByASuccessorThatGetsTheRest) {
  world_.arrange(first_receiver, GetParam().at, GetParam().nth, action::kill);
  child_process inbox = start_receiver(first_receiver);
  child_process out =
      start_sender(victim,
                   [this](sender& s) {
                     talk_in_turns(s, victim);
                     require(receiver_at_step(), "the receiver missed its step");
                     // What went down with its socket is lost; from some message on they come again.
                     const std::uint32_t before = world_.memory().accepted[victim].get();
                     const auto deadline = std::chrono::steady_clock::now() + patience;
                     while (!arrives(victim, before + 1, 1ms)) {
                       require(std::chrono::steady_clock::now() < deadline, "nothing comes again");
                       (void)world_.send_next(s, victim);
                       (void)s.flush();
                     }
                     world_.talk(s, victim, talk_messages, no_wait);
                   },
                   {.reconnect_min = 1ms, .reconnect_max = 10ms});
  EXPECT_EQ(inbox.wait_end(), "signal 9");
  child_process next = start_receiver(second_receiver);
  EXPECT_EQ(out.wait_end(), "exit 0");
  EXPECT_TRUE(world_.wait_all_arrived(victim));
  is_served(newcomer);
  end(next);
}

TEST_P(LaneSwitchOfReceiver, StoppedThereMakesItsSenderWaitForRoomAtMost) {
  world_.arrange(first_receiver, GetParam().at, GetParam().nth, action::stop);
  child_process inbox = start_receiver(first_receiver);
  sender_options options;
  options.send_buffer_number = 1;  // as few as the longest message needs
  options.socket.send_buffer = 16 * 1024;
  child_process out = start_sender(
      victim,
      [this](sender& s) {
        talk_in_turns(s, victim);
        while (world_.send_next(s, victim)) {
        }
        world_.talk(s, victim, talk_messages, no_wait);
      },
      options);
  ASSERT_TRUE(inbox.wait_stopped());
  EXPECT_TRUE(world_.memory().refused[victim].wait()) << "it waits without being told to";
  inbox.resume();
  EXPECT_EQ(out.wait_end(), "exit 0");
  EXPECT_TRUE(world_.wait_all_arrived(victim));
  is_served(newcomer);
  end(inbox);
  EXPECT_EQ(world_.account(0), "");
}

constexpr switch_step receiver_steps[] = {
    {step::bell_bound},  {step::generation_stored}, {step::lane_offered},   {step::offer_written},
    {step::switch_read}, {step::gate_opened},       {step::speaker_copied},
};

std::string step_name(const ::testing::TestParamInfo<switch_step>& of) {
  return std::string{name_of(of.param.at)} + "_" + std::to_string(of.param.nth);
}

INSTANTIATE_TEST_SUITE_P(All, LaneSwitchOfSender, ::testing::ValuesIn(sender_steps), step_name);
INSTANTIATE_TEST_SUITE_P(All, LaneSwitchOfReceiver, ::testing::ValuesIn(receiver_steps), step_name);

}  // namespace
}  // namespace atbus::test::lane_switch
