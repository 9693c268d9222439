// A process whose timer interrupts its system calls all the time: nothing that nodes promise depends on
// calls that are left in peace.
#include <signal.h>
#include <sys/time.h>

#include "node_fixture.h"

namespace atbus::test {
namespace {

volatile sig_atomic_t interruptions = 0;

// Interrupts this process every 200 us while it lives.
class fast_timer {
 public:
  fast_timer() {
    struct sigaction action {};
    action.sa_handler = [](int) { interruptions = interruptions + 1; };
    sigaction(SIGALRM, &action, &before_);
    const itimerval often{.it_interval = {0, 200}, .it_value = {0, 200}};
    setitimer(ITIMER_REAL, &often, nullptr);
  }
  ~fast_timer() {
    const itimerval never{};
    setitimer(ITIMER_REAL, &never, nullptr);
    sigaction(SIGALRM, &before_, nullptr);
  }
  fast_timer(const fast_timer&) = delete;
  fast_timer& operator=(const fast_timer&) = delete;

 private:
  struct sigaction before_ {};
};

class NodeSignals : public NodeFixture {};

TEST_P(NodeSignals, ThatInterruptEachSleepLoseNothing) {
  const fast_timer timer;
  connect_both();
  std::vector<std::string> wanted;
  const auto end = now() + 60s;
  int interrupted = 0;
  for (int i = 0; interrupted < 100 && now() < end; ++i) {
    // `wait` is under test: nothing comes, so that it sleeps, and may end early.
    const int before = interruptions;
    const status slept = second->wait(2ms);
    ASSERT_TRUE(slept || slept == errc::timed_out) << slept.text();
    interrupted += interruptions != before ? 1 : 0;
    wanted.push_back("message " + std::to_string(i));
    ASSERT_TRUE(first->send(2, 0, wanted.back()));
    first->poll();
    while (second_log.messages.size() != wanted.size() && now() < end) {
      const status how = second->wait(10s);
      ASSERT_TRUE(how || how == errc::timed_out) << how.text();
      second->poll();
      first->poll();
    }
  }
  EXPECT_EQ(second_log.messages, wanted);
  EXPECT_EQ(first->stats().links_lost + second->stats().links_lost, 0U);
}

INSTANTIATE_TEST_SUITE_P(Kinds, NodeSignals, ::testing::ValuesIn(node_kinds()),
                         [](const auto& kind) { return std::string{kind.param.name}; });

}  // namespace
}  // namespace atbus::test
