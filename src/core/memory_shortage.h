// Several steps that are all to be taken, whether there is memory for each or not.
#pragma once

#include <new>

namespace atbus::detail {

class memory_shortage {
 public:
  template <class Step>
  void during(Step&& step) {
    try {
      step();
    } catch (const std::bad_alloc&) {
      is_there_ = true;
    }
  }
  // Throws std::bad_alloc if there was too little memory for one of them.
  void rethrow() const {
    if (is_there_)
      throw std::bad_alloc{};
  }

 private:
  bool is_there_ = false;
};

}  // namespace atbus::detail
