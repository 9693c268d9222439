#include "atbus/bench/resource_usage.h"

#include <sys/resource.h>

#include <cinttypes>
#include <cstdio>

#include "atbus/bench/clock.h"

namespace atbus::bench {
namespace {

std::int64_t as_ns(const timeval& time) noexcept {
  return static_cast<std::int64_t>(time.tv_sec) * ns_per_s +
         static_cast<std::int64_t>(time.tv_usec) * 1000;
}

resource_usage usage_of(decltype(RUSAGE_SELF) who) noexcept {
  rusage usage{};
  if (getrusage(who, &usage) != 0) {
    return {};
  }
  return {as_ns(usage.ru_utime) + as_ns(usage.ru_stime),
          static_cast<std::uint64_t>(usage.ru_minflt), static_cast<std::uint64_t>(usage.ru_majflt)};
}

}  // namespace

resource_usage thread_usage() noexcept {
  return usage_of(RUSAGE_THREAD);
}

resource_usage process_usage() noexcept {
  return usage_of(RUSAGE_SELF);
}

std::uint64_t max_rss_kib() noexcept {
  std::FILE* const file = std::fopen("/proc/self/status", "re");
  if (file == nullptr) {
    return 0;
  }
  std::uint64_t kib = 0;
  char line[256];
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::sscanf(line, "VmHWM: %" SCNu64, &kib) == 1) {
      break;
    }
  }
  std::fclose(file);
  return kib;
}

}  // namespace atbus::bench
