// A descriptor that a forked child closes, for an owner that is not guarded itself.
//
// One thread.
#pragma once

#include <memory>
#include <utility>

#include "system/fork_guard.h"
#include "system/kernel.h"

namespace atbus::detail {

class guarded_file {
 public:
  guarded_file() noexcept = default;
  // `open` returns the new descriptor, or -1. It runs inside a fork_pause.
  template <class Open>
  [[nodiscard]] static guarded_file make(Open&& open) {
    const fork_pause no_fork;
    guarded_file made;
    made.held_.reset(new holder);
    made.held_->at = file{std::forward<Open>(open)()};
    return made;
  }

  // -1: none, or this is a forked child.
  [[nodiscard]] int get() const noexcept { return held_ == nullptr ? -1 : held_->at.get(); }
  [[nodiscard]] explicit operator bool() const noexcept { return get() >= 0; }
  void reset() noexcept { held_.reset(); }

 private:
  struct holder final : fork_guard {
    void abandon_in_child() noexcept override { at.reset(); }
    file at;
  };
  struct destroy {
    void operator()(holder* of) const noexcept {
      const fork_pause no_fork;
      delete of;
    }
  };

  std::unique_ptr<holder, destroy> held_;
};

}  // namespace atbus::detail
