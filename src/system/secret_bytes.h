// A secret in memory: in pages of its own, which are left out of core dumps, kept from being swapped out where the
// limits of the process allow it, and wiped when it goes.
//
// Can be moved, not copied. One thread.
#pragma once

#include <cstddef>
#include <utility>

#include "atbus/bytes.hpp"

namespace atbus::detail {

class secret_bytes {
 public:
  secret_bytes() = default;
  // A copy. Throws std::bad_alloc.
  explicit secret_bytes(bytes_view from);
  secret_bytes(secret_bytes&& other) noexcept
      : pages_(std::exchange(other.pages_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  secret_bytes& operator=(secret_bytes&& other) noexcept {
    std::swap(pages_, other.pages_);
    std::swap(size_, other.size_);
    other.wipe();
    return *this;
  }
  ~secret_bytes() { wipe(); }

  [[nodiscard]] bytes_view get() const noexcept {
    return {static_cast<const std::byte*>(pages_), size_};
  }

 private:
  void wipe() noexcept;

  void* pages_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace atbus::detail
