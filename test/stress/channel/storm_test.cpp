// Senders and a receiver that are killed, stopped, continued and restarted at random, for a while.
// Afterwards every message has one outcome: what was accepted was delivered, once and in order, or
// taken back; what came again was marked, and was the one record that a dead receiver had in hand.
//
// ATBUS_TEST_SEED repeats the random choices (not the kernel's), ATBUS_TEST_SECONDS sets the length.
#include <signal.h>

#include <iostream>

#include "child_process.h"
#include "from_environment.h"
#include "storm.h"
#include "test.h"

namespace atbus::test {
namespace {

class storm {
 public:
  explicit storm(std::uint64_t seed) : world(seed), random_(seed) {
    for (std::uint32_t i = 0; i < sender_count; ++i)
      start_sender(i);
    start_receiver();
  }

  // One misfortune, and a moment for it to have consequences.
  void strike() {
    switch (pick(10)) {
      case 0:
      case 1:
        kill_receiver();
        break;
      case 2:
        toggle(receiver_, receiver_stopped_);
        break;
      case 3:
      case 4:
      case 5:
      case 6: {
        const std::uint32_t slot = pick(sender_count);
        check_end(senders_[slot], "sender");
        stopped_[slot] = false;
        start_sender(slot);
        break;
      }
      default: {
        const std::uint32_t slot = pick(sender_count);
        toggle(senders_[slot], stopped_[slot]);
      }
    }
    const timespec pause{.tv_sec = 0, .tv_nsec = static_cast<long>(pick(8'000'000))};
    nanosleep(&pause, nullptr);
  }

  // Everybody goes on, senders stand still: now everything has to arrive, with nobody's help.
  void calm_down() {
    world.memory().calm.add();
    const std::uint32_t calm = world.memory().calm.get();
    if (receiver_stopped_)
      toggle(receiver_, receiver_stopped_);
    for (std::uint32_t i = 0; i < sender_count; ++i) {
      if (stopped_[i])
        toggle(senders_[i], stopped_[i]);
    }
    for (std::uint32_t i = 0; i < sender_count; ++i) {
      EXPECT_TRUE(world.memory().standing_still[i].wait(calm)) << "sender " << i << " hangs";
    }
    wait_all_delivered();
    EXPECT_EQ(world.account(), "");
    world.memory().calm.add();
  }

  void finish() {
    calm_down();
    world.memory().finish.add();
    for (child_process& s : senders_)
      EXPECT_EQ(s.wait_end(), "exit 0");
    wait_all_delivered();
    EXPECT_EQ(world.account(), "");
    EXPECT_LE(world.memory().marks.load(), receiver_deaths_);
    check_end(receiver_, "receiver");
  }

  [[nodiscard]] std::string summary() const {
    const storm_memory& m = world.memory();
    return std::to_string(m.sender_incarnations.load()) + " sender lives, " +
           std::to_string(m.receiver_incarnations.load()) + " receiver lives, " +
           std::to_string(m.deliveries.load()) + " deliveries, " + std::to_string(m.marks.load()) +
           " marked";
  }

  storm_world world;

 private:
  std::uint32_t pick(std::uint32_t below) { return static_cast<std::uint32_t>(random_() % below); }

  void wait_all_delivered() {
    const bool all =
        world.memory().progress.wait_until([this](std::uint32_t) { return world.all_delivered(); });
    EXPECT_TRUE(all) << "a lost wake-up: " << world.account();
  }
  void start_sender(std::uint32_t slot) {
    senders_[slot] = child_process{
        [this, slot, process = ++processes_] { return world.run_sender(slot, process); }};
  }
  void start_receiver() {
    const std::uint32_t instance = world.memory().receiver_incarnations.fetch_add(1) + 1;
    receiver_ = child_process{[this, instance] { return world.run_receiver(instance); }};
  }
  void kill_receiver() {
    check_end(receiver_, "receiver");
    receiver_stopped_ = false;
    ++receiver_deaths_;
    start_receiver();
  }
  // Kills it; nothing else may have ended it before.
  static void check_end(child_process& process, const char* who) {
    kill(process.pid(), SIGKILL);
    EXPECT_EQ(process.wait_end(), "signal 9") << who;
  }
  static void toggle(child_process& process, bool& stopped) {
    kill(process.pid(), stopped ? SIGCONT : SIGSTOP);
    stopped = !stopped;
  }

  std::mt19937_64 random_;
  std::array<child_process, sender_count> senders_;
  std::array<bool, sender_count> stopped_{};
  child_process receiver_;
  bool receiver_stopped_ = false;
  std::uint32_t processes_ = 0;
  std::uint64_t receiver_deaths_ = 0;
};

TEST(Storm, LeavesEveryMessageWithOneOutcome) {
  const std::uint64_t seed = from_environment("ATBUS_TEST_SEED", std::random_device{}());
  const std::chrono::seconds length{from_environment("ATBUS_TEST_SECONDS", 8)};
  std::cout << "seed: ATBUS_TEST_SEED=" << seed << std::endl;
  storm weather{seed};
  const auto end = std::chrono::steady_clock::now() + length;
  auto next_calm = std::chrono::steady_clock::now() + 500ms;
  while (std::chrono::steady_clock::now() < end && !::testing::Test::HasFailure()) {
    weather.strike();
    if (std::chrono::steady_clock::now() >= next_calm) {
      weather.calm_down();
      next_calm = std::chrono::steady_clock::now() + 500ms;
    }
  }
  weather.finish();
  std::cout << weather.summary() << std::endl;
}

}  // namespace
}  // namespace atbus::test
