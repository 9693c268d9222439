// Blocks all signals of this thread while one exists, and removes a SIGPIPE that comes meanwhile: what OpenSSL writes
// to a closed socket may raise one, and threads that libcurl starts inherit the mask.
#pragma once

#include <pthread.h>

#include <csignal>
#include <ctime>

namespace atbus::detail {

class quiet_signals {
 public:
  quiet_signals() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
    sigset_t pending;
    sigpending(&pending);
    had_pipe_ = sigismember(&pending, SIGPIPE) == 1;
  }
  quiet_signals(const quiet_signals&) = delete;
  quiet_signals& operator=(const quiet_signals&) = delete;
  ~quiet_signals() {
    sigset_t pending;
    sigpending(&pending);
    if (!had_pipe_ && sigismember(&pending, SIGPIPE) == 1) {
      sigset_t pipe;
      sigemptyset(&pipe);
      sigaddset(&pipe, SIGPIPE);
      const timespec at_once{};
      (void)sigtimedwait(&pipe, nullptr, &at_once);
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t before_;
  bool had_pipe_ = false;
};

}  // namespace atbus::detail
