// The interpreter's lock, of threads that the end of the interpreter may meet.
//
// Before Python 3.14 an interpreter that ends makes a thread that wants the lock call pthread_exit, which unwinds the stack.
// Functions of C and of nanobind let no exception through, so that would end the whole process: the thread stays where it
// is instead, as it does from Python 3.14 on.
#pragma once

#include <Python.h>
#include <unistd.h>

namespace atbus_python {

template <class Take>
void take_lock(Take&& take) noexcept {
  try {
    take();
  } catch (...) {  // the unwinding, which must not be left
    for (;;)
      pause();
  }
}

// The lock is released in its scope.
class without_lock {
 public:
  without_lock() noexcept : state_(PyEval_SaveThread()) {}
  without_lock(const without_lock&) = delete;
  without_lock& operator=(const without_lock&) = delete;
  ~without_lock() {
    take_lock([this] { PyEval_RestoreThread(state_); });
  }

 private:
  PyThreadState* state_;
};

// The lock is held in its scope, as that of a callback, whether it was before or not.
class with_lock {
 public:
  with_lock() noexcept {
    take_lock([this] { state_ = PyGILState_Ensure(); });
  }
  with_lock(const with_lock&) = delete;
  with_lock& operator=(const with_lock&) = delete;
  ~with_lock() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_{};
};

}  // namespace atbus_python
