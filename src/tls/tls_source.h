// The context that new connections of some credentials begin with. It can be replaced while they are in use.
//
// Any number of threads.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "system/fork_guard.h"
#include "tls/tls_context.h"

namespace atbus::detail {

class tls_source {
 public:
  explicit tls_source(std::shared_ptr<const tls_context> first) noexcept
      : current_(std::move(first)) {}

  [[nodiscard]] std::shared_ptr<const tls_context> current() const noexcept {
    const fork_pause no_fork;
    const std::lock_guard hold{mutex_};
    return current_;
  }
  void replace(std::shared_ptr<const tls_context> by) noexcept {
    const fork_pause no_fork;
    const std::lock_guard hold{mutex_};
    current_.swap(by);  // the old one ends behind the lock
  }

 private:
  mutable std::mutex mutex_;  // locked only inside a fork_pause: no child inherits it locked
  std::shared_ptr<const tls_context> current_;  // never null
};

}  // namespace atbus::detail
