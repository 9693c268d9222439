// Keeps the first exception that calls of user code throw, until all these calls were made.
//
// One thread.
#pragma once

#include <exception>
#include <utility>

namespace atbus::detail {

class first_exception {
 public:
  template <class Call>
  void keep(Call&& call) noexcept {
    try {
      std::forward<Call>(call)();
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
