#include "atbus/record/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "atbus/clock.hpp"

namespace atbus::tool {
namespace {

constexpr std::chrono::nanoseconds interval = std::chrono::seconds{1};

}  // namespace

progress_line::progress_line() noexcept
    : is_terminal_(isatty(STDERR_FILENO) != 0), next_(now() + interval) {}

progress_line::~progress_line() {
  if (is_shown_)
    fmt::print(stderr, "\r\x1b[K");
}

void progress_line::show(const std::function<std::string()>& text) {
  if (!is_terminal_ || now() < next_)
    return;
  next_ = now() + interval;
  is_shown_ = true;
  fmt::print(stderr, "\r\x1b[K{}", text());
  std::fflush(stderr);
}

}  // namespace atbus::tool
