#include "nats/line_threads.h"

#include <nats/nats.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "atbus/clock.hpp"
#include "system/fork_guard.h"

namespace atbus::detail {
namespace {

using namespace std::chrono_literals;

// How long the end of the process waits for the threads. A connection attempt takes 2 s, what comes after stop() less.
constexpr std::chrono::nanoseconds exit_patience = 5s;

// All threads. Leaked on purpose: the threads may outlive static objects.
struct thread_list {
  struct entry {
    line_threads::worker* of;
    pid_t process;
  };

  std::mutex mutex;  // locked only inside a fork_pause: no child inherits it locked
  std::vector<entry> all;
  bool is_closed = false;  // the process ends
};
thread_list& threads() {
  static auto* const list = new thread_list;
  return *list;
}

void end_lines() noexcept {
  line_threads::stop_all();
  for (const auto limit = now() + exit_patience; line_threads::running() != 0 && now() < limit;)
    std::this_thread::sleep_for(1ms);
}

// At exit() libcrypto and libnats free what their threads use. Of what is to be done then, the latest comes first: so
// both have to be there before the threads are ended.
void end_lines_before_their_libraries() {
  static std::once_flag done;
  std::call_once(done, [] {
    std::thread{[] {
      (void)pthread_setname_np(pthread_self(), "atbus-nats");  // as the threads that it starts
      (void)nats_Open(-1);
      nats_ReleaseThreadMemory();
    }}.join();
    (void)OPENSSL_init_crypto(0, nullptr);
    (void)std::atexit(end_lines);
  });
}

// Threads that start meanwhile, and those that they start, take none of the program's signals.
class no_signals {
 public:
  no_signals() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  no_signals(const no_signals&) = delete;
  no_signals& operator=(const no_signals&) = delete;
  ~no_signals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

void run_on_thread(line_threads::worker& of) {
  (void)pthread_setname_np(pthread_self(), "atbus-nats");
  of.run();
  nats_ReleaseThreadMemory();
  OPENSSL_thread_stop();
  const fork_pause no_fork;
  thread_list& list = threads();
  const std::lock_guard lock{list.mutex};
  std::erase_if(list.all, [&](const thread_list::entry& one) { return one.of == &of; });
}

}  // namespace

error line_threads::start(const std::shared_ptr<worker>& made) {
  const no_signals for_threads;
  try {
    end_lines_before_their_libraries();
    const fork_pause no_fork;
    thread_list& list = threads();
    const std::lock_guard lock{list.mutex};
    list.all.reserve(list.all.size() + 1);
    if (list.is_closed)
      return error{errc::closed, "the process ends"};
    std::thread{[made] { run_on_thread(*made); }}.detach();
    list.all.push_back({.of = made.get(), .process = getpid()});
  } catch (const std::system_error& refused) {
    return error{errc::system_error, "no thread for a connection to a NATS server",
                 refused.code().value()};
  }
  return {};
}

int line_threads::running() noexcept {
  const fork_pause no_fork;
  thread_list& list = threads();
  const std::lock_guard lock{list.mutex};
  // Those of a parent are not in this process.
  return static_cast<int>(std::ranges::count(list.all, getpid(), &thread_list::entry::process));
}

void line_threads::stop_all() noexcept {
  const fork_pause no_fork;
  thread_list& list = threads();
  const std::lock_guard lock{list.mutex};
  list.is_closed = true;
  for (const thread_list::entry& one : list.all) {
    if (one.process == getpid())
      one.of->stop();
  }
}

}  // namespace atbus::detail
