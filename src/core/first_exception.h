// Several steps that are all taken, whatever one of them throws: the first exception is thrown after the last.
//
// One thread.
#pragma once

#include <exception>
#include <utility>

namespace atbus::detail {

class first_exception {
 public:
  template <class Step>
  void keep(Step&& step) noexcept {
    try {
      step();
    } catch (...) {
      if (!first_)
        first_ = std::current_exception();
    }
  }
  // Throws it, if there is one.
  void rethrow() {
    if (first_)
      std::rethrow_exception(std::exchange(first_, nullptr));
  }

 private:
  std::exception_ptr first_;
};

}  // namespace atbus::detail
