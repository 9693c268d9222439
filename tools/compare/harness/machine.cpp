#include "harness/machine.h"

#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>

#include "atbus/bench/clock.h"

namespace atbus::compare {
namespace {

volatile sig_atomic_t asked_to_finish = 0;

void finish(int) {
  asked_to_finish = 1;
}

}  // namespace

std::int64_t cpu_time_ns() noexcept {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<std::int64_t>(used.tv_sec) * bench::ns_per_s + used.tv_nsec;
}

void watch_for_termination() noexcept {
  struct sigaction action {};
  action.sa_handler = finish;  // no SA_RESTART: what sleeps wakes up
  sigaction(SIGTERM, &action, nullptr);
  // A system's own way to learn that its peer is gone is an error, not a signal.
  signal(SIGPIPE, SIG_IGN);
}

bool terminated() noexcept {
  return asked_to_finish != 0;
}

void stay_on(core which) noexcept {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
    return;
  }
  int chosen = -1;
  for (int cpu = 0; cpu != CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed) && (chosen < 0 || which == core::last)) {
      chosen = cpu;
    }
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(chosen, &one);
  sched_setaffinity(0, sizeof one, &one);
}

void say_ready() noexcept {
  std::puts("ready");
  std::fflush(stdout);
}

void wait_for_go() noexcept {
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) == 1 && byte != '\n') {
  }
}

}  // namespace atbus::compare
