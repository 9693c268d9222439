// A receiver with several shards that is killed at each of its steps, and whenever, with successors that have another
// number of them. Senders live through it, or are killed too.
#include <csignal>
#include <thread>
#include <vector>

#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "child_process.h"
#include "fault/channel/crash_points.h"
#include "numbered_message.h"
#include "scratch_directory.h"
#include "shared_memory.h"
#include "test.h"

namespace atbus::test::killed_shards {
namespace {

constexpr std::uint32_t most_senders = 16;

struct stage_memory {
  std::array<std::atomic<std::uint64_t>, most_senders> last;  // number that was handled
  std::array<shared_counter, most_senders> accepted;
  shared_counter arrived;
  shared_counter wrong;
  shared_counter marked;
  shared_counter farewell;
};

// Where the process that follows it dies. In a child only.
step kill_at = step::count;
std::uint32_t kill_nth = 0;
std::atomic<std::uint32_t> kill_count{0};

void die_at_step(step at) {
  if (at == kill_at && kill_count.fetch_add(1) + 1 == kill_nth)
    kill(getpid(), SIGKILL);
}

class Stage {
 public:
  [[nodiscard]] stage_memory& memory() const { return *memory_; }

  [[nodiscard]] result<std::vector<receiver>> open_shards(std::uint32_t shards) const {
    return receiver::open_shards(
        "shm://shards?lanes=4&lane_size=4K&message_limit=1000", shards,
        {.spin = std::chrono::nanoseconds{0}, .directory = directory_.path()});
  }
  [[nodiscard]] child_process start_receiver(std::uint32_t shards, step at = step::count,
                                             std::uint32_t nth = 0) const {
    return child_process{[this, shards, at, nth] {
      kill_at = at;
      kill_nth = nth;
      detail::on_step = die_at_step;
      auto opened = required(open_shards(shards));
      std::vector<std::thread> threads;
      for (receiver& each : *opened)
        threads.emplace_back([this, &each] { run(each); });
      for (std::thread& each : threads)
        each.join();
      return 0;
    }};
  }
  // Sends so many messages, and waits now and then until they were handled, so that shards sleep.
  [[nodiscard]] child_process start_sender(std::uint32_t who, std::uint64_t count) const {
    return child_process{[this, who, count] {
      sender out = open_sender();
      for (std::uint64_t n = 1; n <= count; ++n) {
        std::array<std::byte, 300> bytes;
        write_message(bytes, who, n);
        for (status sent = out.send(bytes); !sent; sent = out.send(bytes)) {
          require(sent == errc::would_block, sent.text());
          const status room = out.wait_writable(patience);
          require(static_cast<bool>(room), room.text());
        }
        memory_->accepted[who].add();
        if (n % 15 == 0)
          require(wait_handled(who, n), "a message was not handled");
      }
      return 0;
    }};
  }
  [[nodiscard]] bool wait_handled(std::uint32_t who, std::uint64_t number) const {
    return memory_->arrived.wait_until(
        [&](std::uint32_t) { return memory_->last[who].load() >= number; });
  }
  [[nodiscard]] std::vector<std::string> files() const { return directory_.files(); }

 private:
  sender open_sender() const {
    // A lane of a dead sender is free a moment later.
    const auto end = std::chrono::steady_clock::now() + patience;
    for (;;) {
      auto opened = sender::open("shm://shards", {.directory = directory_.path()});
      if (opened)
        return std::move(*opened);
      require(opened.error() == errc::no_free_lane || opened.error() == errc::not_found,
              opened.error().text());
      require(std::chrono::steady_clock::now() < end, "no lane becomes free");
      std::this_thread::yield();
    }
  }
  void run(receiver& shard) const {
    while (memory_->farewell.get() == 0) {
      if (shard.poll([this](const received_message& m) { take(m); }) == 0)
        (void)shard.wait(std::chrono::milliseconds{20});
    }
    require(static_cast<bool>(shard.remove()), "remove");
  }
  void take(const received_message& message) const {
    message_stamp stamp;
    if (!read_message(message.bytes, stamp) || stamp.sender >= most_senders)
      return memory_->wrong.add();
    std::atomic<std::uint64_t>& last = memory_->last[stamp.sender];
    const bool again = message.redelivered && stamp.number == last.load();
    if (!again && stamp.number != last.load() + 1)
      memory_->wrong.add();
    if (message.redelivered)
      memory_->marked.add();
    last.store(stamp.number);
    memory_->arrived.add();
  }

  scratch_directory directory_;
  shared<stage_memory> memory_;
};

struct death {
  step at;
  std::uint32_t nth;
};

class ShardDeath : public ::testing::TestWithParam<death> {};

TEST_P(ShardDeath, AtAStepLosesNothingForAnotherNumberOfShards) {
  const Stage stage;
  constexpr std::uint64_t messages = 60;
  child_process victim = stage.start_receiver(2, GetParam().at, GetParam().nth);
  std::vector<child_process> senders;
  for (std::uint32_t who = 0; who < 4; ++who)
    senders.push_back(stage.start_sender(who, messages));
  EXPECT_EQ(victim.wait_end(), "signal 9");
  victim = stage.start_receiver(3, GetParam().at, GetParam().nth);
  EXPECT_EQ(victim.wait_end(), "signal 9");
  child_process last = stage.start_receiver(1);
  for (child_process& each : senders)
    EXPECT_EQ(each.wait_end(), "exit 0");
  for (std::uint32_t who = 0; who < 4; ++who)
    EXPECT_TRUE(stage.wait_handled(who, messages)) << who;
  stage.memory().farewell.add();
  EXPECT_EQ(last.wait_end(), "exit 0");
  EXPECT_EQ(stage.memory().wrong.get(), 0U);
  EXPECT_LE(stage.memory().marked.get(), 5U) << "one for each thread that died";
  EXPECT_TRUE(stage.files().empty());
}

INSTANTIATE_TEST_SUITE_P(
    All, ShardDeath,
    ::testing::Values(death{step::receiver_locked, 1}, death{step::bell_bound, 1},
                      death{step::generation_stored, 1}, death{step::handling_stored, 1},
                      death{step::handling_stored, 17}, death{step::handler_returned, 9},
                      death{step::done_stored, 3}, death{step::before_head, 2},
                      death{step::after_head, 5}, death{step::lanes_parked, 1},
                      death{step::sleeping_stored, 2}, death{step::sleep_checked, 2},
                      death{step::woken, 3}),
    [](const ::testing::TestParamInfo<death>& of) {
      return std::string{name_of(of.param.at)} + "_" + std::to_string(of.param.nth);
    });

// Whoever dies, and whenever: what was accepted is handled once, or again with a mark.
TEST(KilledShards, UnderTrafficLeaveEverythingToTheirSuccessors) {
  const Stage stage;
  std::minstd_rand dice{7};
  const auto random = [&dice] { return static_cast<std::uint32_t>(dice()); };
  std::vector<std::pair<std::uint32_t, child_process>> senders;
  std::vector<std::uint32_t> ended;
  std::uint32_t next_sender = 0;
  std::uint32_t threads_killed = 0;
  for (; next_sender < 4; ++next_sender)
    senders.emplace_back(next_sender, stage.start_sender(next_sender, 1'000'000));
  for (const std::uint32_t shards : {2U, 4U, 1U, 3U, 2U, 4U}) {
    const std::uint32_t so_far = stage.memory().arrived.get();
    child_process inbox = stage.start_receiver(shards);
    EXPECT_TRUE(stage.memory().arrived.wait(so_far + 200 + random() % 500));
    if (random() % 2 == 0) {
      auto& [who, process] = senders[random() % senders.size()];
      process.kill_and_wait();
      ended.push_back(who);
      who = next_sender++;
      process = stage.start_sender(who, 1'000'000);
    }
    const std::uint32_t now = stage.memory().arrived.get();
    EXPECT_TRUE(stage.memory().arrived.wait(now + random() % 300));
    inbox.kill_and_wait();
    threads_killed += shards;
  }
  for (auto& [who, process] : senders) {
    process.kill_and_wait();
    ended.push_back(who);
  }
  child_process last = stage.start_receiver(3);
  for (const std::uint32_t who : ended)
    EXPECT_TRUE(stage.wait_handled(who, stage.memory().accepted[who].get())) << who;
  stage.memory().farewell.add();
  EXPECT_EQ(last.wait_end(), "exit 0");
  EXPECT_EQ(stage.memory().wrong.get(), 0U);
  EXPECT_LE(stage.memory().marked.get(), threads_killed);
  EXPECT_TRUE(stage.files().empty());
}

// Stopped and let go on, it has lost nothing; meanwhile nobody takes its place.
TEST(KilledShards, ThatAreStoppedGoOnAfterwards) {
  const Stage stage;
  child_process inbox = stage.start_receiver(3);
  std::vector<child_process> senders;
  for (std::uint32_t who = 0; who < 4; ++who)
    senders.push_back(stage.start_sender(who, 300));
  for (std::uint32_t i = 1; i <= 5; ++i) {
    EXPECT_TRUE(stage.memory().arrived.wait(i * 150));
    inbox.stop();
    child_process rival{[&stage] {
      const auto refused = stage.open_shards(2);
      return !refused && refused.error() == errc::receiver_exists ? 0 : 1;
    }};
    EXPECT_EQ(rival.wait_end(), "exit 0") << "it has an owner";
    inbox.resume();
  }
  for (child_process& each : senders)
    EXPECT_EQ(each.wait_end(), "exit 0");
  for (std::uint32_t who = 0; who < 4; ++who)
    EXPECT_TRUE(stage.wait_handled(who, 300)) << who;
  stage.memory().farewell.add();
  EXPECT_EQ(inbox.wait_end(), "exit 0");
  EXPECT_EQ(stage.memory().wrong.get(), 0U);
  EXPECT_EQ(stage.memory().marked.get(), 0U);
}

}  // namespace
}  // namespace atbus::test::killed_shards
