// A file descriptor that is closed when it is no longer needed. This library has no access to what libatbus
// hides, such as its own one.
#pragma once

#include <unistd.h>

#include <utility>

namespace atbus::detail {

class open_descriptor {
 public:
  open_descriptor() = default;
  explicit open_descriptor(int fd) noexcept : fd_(fd) {}
  open_descriptor(open_descriptor&& from) noexcept : fd_(from.release()) {}
  open_descriptor& operator=(open_descriptor&& from) noexcept {
    std::swap(fd_, from.fd_);
    return *this;
  }
  ~open_descriptor() {
    if (fd_ >= 0)
      close(fd_);
  }

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] explicit operator bool() const noexcept { return fd_ >= 0; }
  int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

}  // namespace atbus::detail
