// Ctrl-C (and SIGTERM) while a benchmark runs: the run ends early and its results are printed. A
// second one ends the program.
#pragma once

namespace atbus::bench {

class interrupt_guard {
 public:
  interrupt_guard() noexcept;
  ~interrupt_guard();
  interrupt_guard(const interrupt_guard&) = delete;
  interrupt_guard& operator=(const interrupt_guard&) = delete;
};

// Stays true until the program ends, so that a series of runs ends too.
bool interrupted() noexcept;

}  // namespace atbus::bench
