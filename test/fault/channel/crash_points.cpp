#include "crash_points.h"

#include <unistd.h>

#include <csignal>

#include "child_process.h"

namespace atbus::test {
namespace {

crash_plan* plan_in_force = nullptr;
bool going_to_sleep = false;

void at_step(step s) {
  crash_plan& plan = *plan_in_force;
  // Before it is counted: who has seen the count waits for the next sleep.
  if (s == step::woken) {
    going_to_sleep = false;
    plan.asleep.set(0);
  }
  plan.passed[static_cast<std::size_t>(s)].add();
  if (s == step::sleeping_stored)
    going_to_sleep = true;
  if (s == step::sleep_checked && going_to_sleep)
    plan.asleep.set(1);
  if (s != plan.at || plan.passed[static_cast<std::size_t>(s)].get() != plan.nth)
    return;
  plan.reached.add();
  switch (plan.what) {
    case action::none:
      return;
    case action::kill:
      kill(getpid(), SIGKILL);
      return;
    case action::stop:
      raise(SIGSTOP);
      return;
    case action::pause:
      require(plan.go.wait(1), "never told to go on");
      return;
    case action::exit:
      _exit(0);
  }
}

}  // namespace

void follow(crash_plan& plan) {
  plan_in_force = &plan;
  detail::on_step = at_step;
}

}  // namespace atbus::test
