// The interpreter's lock, of threads that the end of the interpreter may meet.
//
// Before Python 3.14 an interpreter that ends makes a thread that wants the lock call pthread_exit, which unwinds the stack.
// Functions of C and of nanobind let no exception through, so that would end the whole process: the thread stays where it
// is instead, as it does from Python 3.14 on.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

namespace atbus_python {

[[noreturn]] inline void stay_here() noexcept {
  for (;;)
    pause();
}

template <class Take>
void take_lock(Take&& take) noexcept {
  try {
    take();
  } catch (abi::__forced_unwind&) {  // which must not be left
    stay_here();
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

// The body of a callback of C: calls this with the lock, whether it is held already or not. What runs in Python gives
// the lock away at times, and may never get it back.
template <class Call>
auto with_lock(Call&& call) noexcept {
  class held {
   public:
    held() noexcept {
      take_lock([this] { state_ = PyGILState_Ensure(); });
    }
    held(const held&) = delete;
    held& operator=(const held&) = delete;
    ~held() { PyGILState_Release(state_); }

   private:
    PyGILState_STATE state_{};
  } const here;
  try {
    return call();
  } catch (abi::__forced_unwind&) {
    stay_here();
  }
}

}  // namespace atbus_python
