// Requests over a named segment, which outlives the processes that read from it.
#include <memory>
#include <vector>

#include "atbus/atbus.hpp"
#include "atbus/testing.hpp"
#include "test.h"

namespace atbus {
namespace {

class RequestRestart : public ::testing::Test {
 protected:
  // Node 2 answers its requests 3 s after they have come, unless its process is killed before.
  void start() {
    sim.start(2, [this](node& n) {
      EXPECT_TRUE(n.listen("shm://two"));
      auto kept = std::make_unique<std::vector<request>>();
      n.on_request(7, [this, all = kept.get()](request& r) {
        ++handled;
        all->push_back(r.detach());
      });
      n.spawn(answer(n, *kept));
      return kept;
    });
    sim.start(1, [](node& n) { EXPECT_TRUE(n.connect(2, "shm://two")); });
    sim.run_for(1s);
  }
  static task<> answer(node& by, std::vector<request>& kept) {
    while (co_await by.sleep(3s)) {
      for (request& one : kept)
        (void)one.reply("done");
      kept.clear();
    }
  }
  // Waits in the segment, because node 2 does not come to it.
  void ask_a_stopped_process() {
    sim.stop_for(2, 1min);
    ask();
    sim.run_for(10ms);
    ASSERT_EQ(handled, 0);
  }
  void ask() {
    const auto began = sim.now();
    ASSERT_TRUE(sim.node(1).request(2, 7, "x", 10min, [this, began](const response& r) {
      ++told;
      how = r.how();
      after = sim.now() - began;
    }));
  }
  void restart() {
    sim.kill(2);
    sim.run_for(100ms);
    sim.restart(2);
  }
  void pass_through_a_process_that_ends() {
    restart();
    while (handled == 0)
      sim.run_for(100us);
    restart();
    sim.run_for(10s);
    EXPECT_EQ(handled, 1);
    EXPECT_EQ(told, 1);
    EXPECT_EQ(how, errc::outcome_unknown) << how.text();
    EXPECT_LT(after, 10s);
  }

  testing::simulation sim{7};
  int handled = 0;
  int told = 0;
  status how;
  std::chrono::nanoseconds after{0};
};

TEST_F(RequestRestart, ASuccessorAnswersWhatWaitedForIt) {
  start();
  ask_a_stopped_process();
  restart();
  sim.run_for(10s);
  EXPECT_EQ(handled, 1);
  EXPECT_EQ(told, 1);
  EXPECT_TRUE(how) << how.text();
}

// The asking process sees later that there is another one: the request has left the segment by then.
TEST_F(RequestRestart, ASuccessorAnswersAlsoIfTheAskingProcessWasStoppedMeanwhile) {
  start();
  ask_a_stopped_process();
  sim.stop_for(1, 1s);
  restart();
  sim.run_for(10s);
  EXPECT_EQ(handled, 1);
  EXPECT_EQ(told, 1);
  EXPECT_TRUE(how) << how.text();
  EXPECT_EQ(sim.node(1).stats().late_responses, 0U);
}

// It ends before it has registered.
TEST_F(RequestRestart, WhatASuccessorTookAlongIsUnknownOnceTheNextOneIsThere) {
  start();
  ask_a_stopped_process();
  pass_through_a_process_that_ends();
}

TEST_F(RequestRestart, WhatASuccessorTookAlongIsUnknownAlsoIfTheAskingProcessSawNothing) {
  start();
  ask_a_stopped_process();
  sim.stop_for(1, 1s);
  pass_through_a_process_that_ends();
}

TEST_F(RequestRestart, WhatAProcessHadInHandIsUnknownOnceItsSuccessorIsThere) {
  start();
  ask();
  sim.run_for(10ms);
  ASSERT_EQ(handled, 1);
  restart();
  sim.run_for(10s);
  EXPECT_EQ(handled, 1);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(how, errc::outcome_unknown) << how.text();
}

// Which of two alike links stays is decided by both ends: what was said over the other one is lost.
TEST(RequestRestartOverTwoLinks, WhatAProcessHadInHandIsUnknownAllTheSame) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    testing::simulation sim{seed};
    std::vector<request> kept;
    sim.start(1, [](node& n) {
      EXPECT_TRUE(n.listen("ipv4://10.0.0.1:7000"));
      EXPECT_TRUE(n.listen("ipv4://10.0.0.1:7001"));
    });
    testing::process_options elsewhere;
    elsewhere.host = 2;
    sim.start(
        2,
        [&](node& n) {
          EXPECT_TRUE(n.connect(1, "ipv4://10.0.0.1:7000"));
          EXPECT_TRUE(n.connect(1, "ipv4://10.0.0.1:7001"));
          n.on_request(7, [&](request& r) { kept.push_back(r.detach()); });
        },
        elsewhere);
    sim.run_for(2s);
    int told = 0;
    status how;
    ASSERT_TRUE(sim.node(1).request(2, 7, "x", 10min, [&](const response& r) {
      ++told;
      how = r.how();
    }));
    sim.run_for(1s);
    ASSERT_EQ(kept.size(), 1U) << seed;
    sim.kill(2);
    sim.run_for(100ms);
    sim.restart(2);
    sim.run_for(1min);
    EXPECT_EQ(told, 1) << seed;
    EXPECT_EQ(how, errc::outcome_unknown) << seed << ' ' << how.text();
  }
}

}  // namespace
}  // namespace atbus
