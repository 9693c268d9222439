// Memory and events that forked processes of one test share.
#pragma once

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <new>
#include <utility>

namespace atbus::test {

// How long a test waits for what should take milliseconds: long enough for a machine that is slow
// and busy, short enough for a person.
inline constexpr std::chrono::seconds patience{30};

// A number that only grows, in memory that processes share. Waiting sleeps in the kernel.
class shared_counter {
 public:
  void add(std::uint32_t by = 1) noexcept {
    value_.fetch_add(by, std::memory_order_seq_cst);
    wake();
  }
  void set(std::uint32_t value) noexcept {
    value_.store(value, std::memory_order_seq_cst);
    wake();
  }
  [[nodiscard]] std::uint32_t get() const noexcept {
    return value_.load(std::memory_order_seq_cst);
  }

  // True once the value is at least `wanted`; false when the time is up.
  [[nodiscard]] bool wait(std::uint32_t wanted = 1,
                          std::chrono::nanoseconds longest = patience) noexcept {
    return wait_until([wanted](std::uint32_t value) { return value >= wanted; }, longest);
  }

  template <class Predicate>
  [[nodiscard]] bool wait_until(Predicate&& done,
                                std::chrono::nanoseconds longest = patience) noexcept {
    const auto end = std::chrono::steady_clock::now() + longest;
    for (;;) {
      const std::uint32_t seen = get();
      if (done(seen))
        return true;
      const auto left = end - std::chrono::steady_clock::now();
      if (left <= std::chrono::nanoseconds{0})
        return false;
      const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
      timespec timeout{.tv_sec = static_cast<time_t>(ns / 1'000'000'000),
                       .tv_nsec = static_cast<long>(ns % 1'000'000'000)};
      // Not the private kind: other processes wake us. The value is looked at again in any case.
      (void)syscall(SYS_futex, &value_, FUTEX_WAIT, seen, &timeout, nullptr, 0);
    }
  }

 private:
  void wake() noexcept {
    (void)syscall(SYS_futex, &value_, FUTEX_WAKE, 0x7fffffff, nullptr, nullptr, 0);
  }

  std::atomic<std::uint32_t> value_{0};
  static_assert(sizeof(std::atomic<std::uint32_t>) == 4);
};

// One `Value`, shared with all processes forked while it lives.
template <class Value>
class shared {
 public:
  shared() {
    void* const at = mmap(nullptr, sizeof(Value), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
      throw std::bad_alloc{};
    value_ = new (at) Value{};
  }
  shared(const shared&) = delete;
  shared& operator=(const shared&) = delete;
  ~shared() { munmap(value_, sizeof(Value)); }

  Value& operator*() const noexcept { return *value_; }
  Value* operator->() const noexcept { return value_; }

 private:
  Value* value_ = nullptr;
};

}  // namespace atbus::test
