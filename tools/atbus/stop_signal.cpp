#include "atbus/stop_signal.h"

#include <signal.h>

namespace atbus::tool {
namespace {

volatile sig_atomic_t signalled = 0;

void note_signal(int) {
  signalled = 1;
}

void set_handler(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

stop_signal::stop_signal() {
  signalled = 0;
  set_handler(note_signal);
}

stop_signal::~stop_signal() {
  set_handler(SIG_DFL);
}

bool stop_signal::seen() const noexcept {
  return signalled != 0;
}

}  // namespace atbus::tool
