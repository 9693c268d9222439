// Memory that is set aside for the moment when an allocation fails: it is given back then, and the
// allocation is tried again. What was begun can end so, also in code that can't bear a failure, such
// as destructors that allocate (nlohmann::json has one).
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace atbus::bench {

// One a process: the handler that `operator new` calls has no other way to find it.
class memory_reserve {
 public:
  // 0: none.
  explicit memory_reserve(std::size_t bytes) noexcept : bytes_{bytes} {
    if (bytes_ != 0) {
      static_cast<void>(is_full());
      std::set_new_handler(give_up_reserve);
    }
  }
  ~memory_reserve() {
    std::set_new_handler(nullptr);
    std::free(kept);
    kept = nullptr;
  }
  memory_reserve(const memory_reserve&) = delete;
  memory_reserve& operator=(const memory_reserve&) = delete;

  // Whether it is there; one that was given back is taken again if there is memory.
  [[nodiscard]] bool is_full() noexcept {
    if (kept == nullptr && bytes_ != 0) {
      kept = std::malloc(bytes_);
    }
    return kept != nullptr || bytes_ == 0;
  }

 private:
  static void give_up_reserve() {
    if (kept == nullptr) {
      throw std::bad_alloc{};
    }
    std::free(kept);
    kept = nullptr;
  }

  static inline void* kept = nullptr;
  std::size_t bytes_;
};

}  // namespace atbus::bench
