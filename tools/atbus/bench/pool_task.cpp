#include "atbus/bench/pool_task.h"

#include <link.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "atbus/bench/clock.h"
#include "atbus/bench/resource_usage.h"
#include "atbus/block_pool.hpp"

namespace atbus::bench {
namespace {

constexpr std::size_t page_bytes = 4096;

struct shape {
  std::size_t slots;
  std::uint64_t operations;
  std::size_t burst_max;
  std::size_t large_every;  // every how many slots is large; 0: none

  [[nodiscard]] bool is_large(std::size_t slot) const noexcept {
    return large_every != 0 && slot % large_every == large_every - 1;
  }
  [[nodiscard]] std::size_t large_slots() const noexcept {
    return large_every == 0 ? 0 : slots / large_every;
  }
  [[nodiscard]] std::size_t bytes_of_all() const noexcept {
    return large_slots() * large_piece_bytes + (slots - large_slots()) * small_piece_bytes;
  }
};

shape shape_of(const pool_task& task) noexcept {
  const auto scaled = [&](double operations) {
    return static_cast<std::uint64_t>(std::max(1.0, operations * task.scale));
  };
  switch (task.test) {
    case pool_test::large:
      return {128, scaled(5e5), std::min(task.burst, 32U), 1};
    case pool_test::mixed:
      return {64 * (small_pieces_per_large + 1), scaled(8e6), task.burst,
              small_pieces_per_large + 1};
    case pool_test::small:
      break;
  }
  return {65536, scaled(1e7), task.burst, 0};
}

// Vigna's xorshift64*: a few instructions, so that the loop measures the allocator.
class random_numbers {
 public:
  std::uint64_t below(std::uint64_t bound) noexcept {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return ((state_ * 0x2545f4914f6cdd1dULL) >> 32) * bound >> 32;
  }

 private:
  std::uint64_t state_ = 0x9e3779b97f4a7c15ULL;
};

struct malloc_memory {
  static std::byte* allocate(std::size_t bytes) noexcept {
    return static_cast<std::byte*>(std::malloc(bytes));
  }
  static void deallocate(std::byte* piece) noexcept { std::free(piece); }
};

struct pool_memory {
  block_pool& pool;
  std::byte* allocate(std::size_t bytes) noexcept { return pool.allocate(bytes); }
  void deallocate(std::byte* piece) noexcept { pool.deallocate(piece); }
};

// Around each call of the allocator: nothing, or a look at the clock.
struct untimed {
  void begin() noexcept {}
  void end() noexcept {}
};

// The longest call. One during which the kernel ran somebody else says nothing of the allocator.
class pause_watch {
 public:
  void begin() noexcept { began_ns_ = now_ns(); }
  void end() noexcept {
    const std::int64_t took_ns = now_ns() - began_ns_;
    if (took_ns <= longest_ns_) {
      return;
    }
    const long switches = involuntary_switches();
    if (switches == switches_) {
      longest_ns_ = took_ns;
    } else {
      switches_ = switches;
      ++preempted_;
    }
  }
  [[nodiscard]] std::int64_t longest_ns() const noexcept { return longest_ns_; }
  [[nodiscard]] std::uint64_t preempted() const noexcept { return preempted_; }

 private:
  static long involuntary_switches() noexcept {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
  }

  std::int64_t began_ns_ = 0;
  std::int64_t longest_ns_ = 0;
  long switches_ = involuntary_switches();
  std::uint64_t preempted_ = 0;
};

template <class Memory, class Watch>
class exercise {
 public:
  exercise(Memory memory, const shape& form, pool_touch touch)
      : memory_{memory}, shape_{form}, touch_{touch}, slots_(form.slots, nullptr) {
    emptied_.reserve(form.burst_max);
  }

  ~exercise() { empty(); }
  exercise(const exercise&) = delete;
  exercise& operator=(const exercise&) = delete;

  // Every piece once, so that the memory is in place.
  void warm() noexcept {
    fill();
    empty();
  }

  void run(std::uint64_t operations) noexcept {
    const std::uint64_t end = operations_ + operations;
    fill();
    while (operations_ < end) {
      const std::size_t burst = 1 + random_.below(shape_.burst_max);
      emptied_.clear();
      for (std::size_t i = 0; i != burst; ++i) {
        const std::size_t slot = random_.below(slots_.size());
        if (slots_[slot] != nullptr) {
          give(slot);
          emptied_.push_back(slot);
        }
      }
      for (const std::size_t slot : emptied_) {
        take(slot);
      }
    }
  }

  [[nodiscard]] std::uint64_t operations() const noexcept { return operations_; }
  [[nodiscard]] std::uint64_t damaged() const noexcept { return damaged_; }
  [[nodiscard]] std::uint64_t refused() const noexcept { return refused_; }
  [[nodiscard]] const Watch& watch() const noexcept { return watch_; }

 private:
  void fill() noexcept {
    for (std::size_t slot = 0; slot != slots_.size(); ++slot) {
      if (slots_[slot] == nullptr) {
        take(slot);
      }
    }
  }

  void take(std::size_t slot) noexcept {
    const std::size_t bytes = shape_.is_large(slot) ? large_piece_bytes : small_piece_bytes;
    ++operations_;
    watch_.begin();
    std::byte* const piece = memory_.allocate(bytes);
    watch_.end();
    if (piece == nullptr) {
      ++refused_;
      return;
    }
    slots_[slot] = piece;
    if (bytes == small_piece_bytes || touch_ == pool_touch::all) {
      std::memset(piece, static_cast<int>(slot & 0xff), bytes);
    } else {
      // A line in each page, and not the same line of each: that would be a test of the cache.
      for (std::size_t at = 0; at < bytes; at += page_bytes + 64) {
        piece[at] = static_cast<std::byte>(slot);
      }
    }
    std::memcpy(piece, &slot, sizeof slot);
    std::memcpy(piece + bytes - sizeof slot, &slot, sizeof slot);
  }

  void give(std::size_t slot) noexcept {
    const std::size_t bytes = shape_.is_large(slot) ? large_piece_bytes : small_piece_bytes;
    std::byte* const piece = slots_[slot];
    std::size_t first = 0;
    std::size_t last = 0;
    std::memcpy(&first, piece, sizeof first);
    std::memcpy(&last, piece + bytes - sizeof last, sizeof last);
    damaged_ += first != slot || last != slot ? 1 : 0;
    ++operations_;
    watch_.begin();
    memory_.deallocate(piece);
    watch_.end();
    slots_[slot] = nullptr;
  }

  void empty() noexcept {
    for (std::size_t slot = 0; slot != slots_.size(); ++slot) {
      if (slots_[slot] != nullptr) {
        give(slot);
      }
    }
  }

  Memory memory_;
  shape shape_;
  pool_touch touch_;
  std::vector<std::byte*> slots_;
  random_numbers random_;
  std::vector<std::size_t> emptied_;
  Watch watch_;
  std::uint64_t operations_ = 0;
  std::uint64_t damaged_ = 0;
  std::uint64_t refused_ = 0;
};

std::int64_t as_ns(const timeval& time) noexcept {
  return time.tv_sec * ns_per_s + time.tv_usec * 1000;
}

// User and system, by the scheduler's own clock: what others do with the core does not show.
std::int64_t process_cpu_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<std::int64_t>(now.tv_sec) * ns_per_s + now.tv_nsec;
}

template <class Memory>
void measure(Memory memory, const pool_task& task, pool_figures& figures) {
  const shape form = shape_of(task);
  exercise<Memory, untimed> work{memory, form, task.touch};
  if (task.prefault) {
    work.warm();
  }
  const std::uint64_t operations_before = work.operations();
  rusage before{};
  rusage after{};
  getrusage(RUSAGE_SELF, &before);
  const std::int64_t start = now_ns();
  const std::int64_t cpu_start = process_cpu_ns();
  work.run(form.operations);
  figures.cpu_ns = process_cpu_ns() - cpu_start;
  figures.elapsed_ns = now_ns() - start;
  getrusage(RUSAGE_SELF, &after);
  figures.operations = work.operations() - operations_before;
  figures.user_ns = as_ns(after.ru_utime) - as_ns(before.ru_utime);
  figures.system_ns = as_ns(after.ru_stime) - as_ns(before.ru_stime);
  figures.major_faults = static_cast<std::uint64_t>(after.ru_majflt - before.ru_majflt);
  figures.minor_faults = static_cast<std::uint64_t>(after.ru_minflt - before.ru_minflt);
  figures.damaged = work.damaged();
  figures.refused = work.refused();
  figures.max_rss_kib = max_rss_kib();
}

template <class Memory>
void measure_pauses(Memory memory, const pool_task& task, pool_figures& figures) {
  const shape form = shape_of(task);
  exercise<Memory, pause_watch> work{memory, form, task.touch};
  if (task.prefault) {
    work.warm();
  }
  work.run(form.operations / 4);
  figures.longest_pause_ns = work.watch().longest_ns();
  figures.preempted = work.watch().preempted();
  figures.damaged += work.damaged();
  figures.refused += work.refused();
}

template <std::size_t Size>
void copy_text(std::array<char, Size>& to, std::string_view text) noexcept {
  const std::size_t length = std::min(text.size(), Size - 1);
  std::memcpy(to.data(), text.data(), length);
  to[length] = '\0';
}

// The library in this process that took malloc over.
void find_library(pool_figures& figures) {
  const auto look = [](dl_phdr_info* info, std::size_t, void* out) {
    const std::string_view name = info->dlpi_name == nullptr ? "" : info->dlpi_name;
    for (const std::string_view known : {"jemalloc", "mimalloc", "tcmalloc"}) {
      if (name.find(known) != std::string_view::npos) {
        copy_text(static_cast<pool_figures*>(out)->library, name);
        return 1;
      }
    }
    return 0;
  };
  dl_iterate_phdr(look, &figures);
}

// Room for every slot to be full, and some for what random order scatters.
std::size_t pool_bytes(const shape& form) noexcept {
  return form.bytes_of_all() / 16 * 18 + (std::size_t{1} << 20);
}

}  // namespace

pool_figures run_pool_task(const pool_task& task) {
  pool_figures figures{};
  find_library(figures);
  if (task.with_malloc) {
    measure(malloc_memory{}, task, figures);
    measure_pauses(malloc_memory{}, task, figures);
    return figures;
  }
  const auto made =
      block_pool::create({.bytes = pool_bytes(shape_of(task)),
                          .pages = {.prefault = task.prefault, .huge_pages = task.huge_pages}});
  if (!made) {
    copy_text(figures.obtained, made.error().text());
    return figures;
  }
  copy_text(figures.obtained, (*made)->obtained().text());
  measure(pool_memory{**made}, task, figures);
  measure_pauses(pool_memory{**made}, task, figures);
  return figures;
}

}  // namespace atbus::bench
