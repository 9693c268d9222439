// A callable that runs once, stored in place: a run has millions of them, nearly all small.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

namespace atbus::detail {

class simulated_action {
 public:
  simulated_action() = default;
  ~simulated_action() { clear(); }
  simulated_action(const simulated_action&) = delete;
  simulated_action& operator=(const simulated_action&) = delete;

  // In an empty one.
  template <class What>
  void set(What what) {
    if constexpr (sizeof(What) > sizeof room_) {
      set(std::function<void()>{std::move(what)});
    } else {
      std::construct_at(reinterpret_cast<What*>(room_), std::move(what));
      run_ = [](std::byte* at) { (*reinterpret_cast<What*>(at))(); };
      end_ = [](std::byte* at) { std::destroy_at(reinterpret_cast<What*>(at)); };
    }
  }
  void run() { run_(room_); }
  void clear() noexcept {
    if (end_ != nullptr)
      std::exchange(end_, nullptr)(room_);
  }

 private:
  alignas(std::max_align_t) std::byte room_[48];
  void (*run_)(std::byte*) = nullptr;
  void (*end_)(std::byte*) = nullptr;
};

}  // namespace atbus::detail
