// The context that new connections of some credentials begin with. It can be replaced while they are in use.
//
// Any number of threads.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "tls/tls_context.h"

namespace atbus::detail {

class tls_source {
 public:
  explicit tls_source(std::shared_ptr<const tls_context> first) noexcept
      : current_(std::move(first)) {}

  [[nodiscard]] std::shared_ptr<const tls_context> current() const noexcept {
    const std::lock_guard hold{mutex_};
    return current_;
  }
  void replace(std::shared_ptr<const tls_context> by) noexcept {
    const std::lock_guard hold{mutex_};
    current_.swap(by);  // the old one ends behind the lock
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const tls_context> current_;  // never null
};

}  // namespace atbus::detail
