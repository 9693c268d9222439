// Keeps a forked child from speaking for its parent.
//
// Kernel locks and connections belong to open file descriptions, which fork shares: a child that
// kept them would make a dead parent look alive. So in the child every guarded object closes its
// descriptors (closing never drops the parent's lock, unlocking would) and forgets its mappings,
// which are MADV_DONTFORK and do not exist there. A fork_pause keeps forks away from moments in
// which a descriptor is open and no guarded object knows it.
#pragma once

namespace atbus::detail {

// While one lives, other threads that fork wait; threads with pauses of their own don't. Nests. A
// fork that waits goes before pauses that begin later. No code of the user's runs inside one, a
// signal handler excepted: the child of one that forks there can only exec or exit.
class fork_pause {
 public:
  fork_pause() noexcept;
  fork_pause(const fork_pause&) = delete;
  fork_pause& operator=(const fork_pause&) = delete;
  ~fork_pause();
};

// Base of every object that holds descriptors or mappings. Made and destroyed inside a fork_pause:
// half an object can't be abandoned.
class fork_guard {
 public:
  fork_guard() noexcept;
  fork_guard(const fork_guard&) = delete;
  fork_guard& operator=(const fork_guard&) = delete;

  // Runs in the child between fork and its return, in the forking thread: only close(2) and plain
  // stores.
  virtual void abandon_in_child() noexcept = 0;

 protected:
  ~fork_guard();

 private:
  friend struct fork_list;
  fork_guard* previous_ = nullptr;
  fork_guard* next_ = nullptr;
};

}  // namespace atbus::detail
