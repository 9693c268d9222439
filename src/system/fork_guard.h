// Keeps a forked child from acting for its parent.
//
// Kernel locks and connections belong to open file descriptions, which fork shares. A child that kept them
// would make a dead parent look alive. So in the child every guarded object closes its descriptors (closing
// keeps the parent's lock; unlocking would drop it) and forgets its mappings, which are MADV_DONTFORK and do
// not exist there. A fork_pause blocks forks while a descriptor is open that no guarded object holds.
#pragma once

#include <cstdint>

#include "atbus/detail/export.hpp"

namespace atbus::detail {

// While one exists, forks in other threads wait; other pauses do not. Pauses nest. A waiting fork goes before
// pauses that begin later. No user code runs inside a pause, except for signal handlers: if one forks there,
// its child may only exec or exit.
class ATBUS_API fork_pause {
 public:
  ATBUS_API fork_pause() noexcept;
  fork_pause(const fork_pause&) = delete;
  fork_pause& operator=(const fork_pause&) = delete;
  ATBUS_API ~fork_pause();
};

// Base of every object that holds descriptors or mappings. Constructed and destroyed inside a fork_pause,
// because a half-made object can't be abandoned.
class ATBUS_API fork_guard {
 public:
  fork_guard() noexcept;
  fork_guard(const fork_guard&) = delete;
  fork_guard& operator=(const fork_guard&) = delete;

  // Runs in the child between fork and its return, in the forking thread: only plain stores, close(2), and
  // system calls like it, which take no lock and no memory of the process.
  virtual void abandon_in_child() noexcept = 0;

 protected:
  ~fork_guard();

 private:
  friend struct fork_list;
  fork_guard* previous_ = nullptr;
  fork_guard* next_ = nullptr;
};

// How many forks lie between the process that loaded the library and this one. For an object that has nothing
// to give up in a child, but has to tell that it is in one: it keeps the count of its beginning.
[[nodiscard]] ATBUS_API std::uint64_t forks_so_far() noexcept;

}  // namespace atbus::detail
