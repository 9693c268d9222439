#include "system/fork_guard.h"

#include <pthread.h>

#include <cassert>
#include <mutex>
#include <new>
#include <shared_mutex>

namespace atbus::detail {

struct fork_list {
  // Leaked on purpose: objects with static storage may outlive any static list.
  static fork_list& instance() {
    static auto* const list = new fork_list;
    return *list;
  }

  fork_list() { pthread_atfork(before_fork, in_parent, in_child); }

  static void before_fork();
  static void in_parent();
  static void in_child();

  std::mutex gate;  // held across fork, passed by pauses: later pauses don't delay a waiting fork
  std::shared_mutex mutex;  // held across fork, shared by pauses
  std::mutex list_mutex;    // taken inside a pause only, so free in every child
  fork_guard* first = nullptr;
  std::uint64_t forks = 0;  // changes only in a child, before its fork has returned
};

namespace {

thread_local int pauses = 0;
// Constructed when the library is loaded: a fork during its construction would leave it half made.
[[maybe_unused]] const fork_list& made_early = fork_list::instance();

}  // namespace

// A signal handler that forks during a pause of its own thread must not wait for the pause to end. Objects
// may be half made in that child, so it leaves them alone until exec closes them.

void fork_list::before_fork() {
  if (pauses != 0)
    return;
  instance().gate.lock();
  instance().mutex.lock();
}

void fork_list::in_parent() {
  if (pauses != 0)
    return;
  instance().mutex.unlock();
  instance().gate.unlock();
}

void fork_list::in_child() {
  ++instance().forks;
  if (pauses != 0)
    return;
  // The mutexes are held by a thread of the parent, so make new ones.
  new (&instance().gate) std::mutex;
  new (&instance().mutex) std::shared_mutex;
  for (fork_guard* g = instance().first; g != nullptr; g = g->next_)
    g->abandon_in_child();
}

std::uint64_t forks_so_far() noexcept {
  return fork_list::instance().forks;
}

fork_pause::fork_pause() noexcept {
  if (pauses++ != 0)
    return;
  fork_list& list = fork_list::instance();
  const std::lock_guard passing{list.gate};
  list.mutex.lock_shared();
}
fork_pause::~fork_pause() {
  if (--pauses == 0)
    fork_list::instance().mutex.unlock_shared();
}

fork_guard::fork_guard() noexcept {
  assert(pauses != 0);
  fork_list& list = fork_list::instance();
  const std::lock_guard lock{list.list_mutex};
  next_ = list.first;
  if (next_ != nullptr)
    next_->previous_ = this;
  list.first = this;
}

fork_guard::~fork_guard() {
  assert(pauses != 0);
  fork_list& list = fork_list::instance();
  const std::lock_guard lock{list.list_mutex};
  if (next_ != nullptr)
    next_->previous_ = previous_;
  (previous_ != nullptr ? previous_->next_ : list.first) = next_;
}

}  // namespace atbus::detail
