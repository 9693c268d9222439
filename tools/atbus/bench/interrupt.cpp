#include "atbus/bench/interrupt.h"

#include <csignal>

namespace atbus::bench {
namespace {

volatile std::sig_atomic_t interrupt_seen = 0;

extern "C" void note_interrupt(int) {
  interrupt_seen = 1;
}

void handle_with(void (*handler)(int)) noexcept {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

interrupt_guard::interrupt_guard() noexcept {
  handle_with(note_interrupt);
}

interrupt_guard::~interrupt_guard() {
  handle_with(SIG_DFL);
}

bool interrupted() noexcept {
  return interrupt_seen != 0;
}

}  // namespace atbus::bench
