#include "node/files/watched_file.h"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <new>
#include <utility>

#include "core/text.h"
#include "system/kernel.h"

namespace atbus::detail {
namespace {

std::int64_t to_ns(const timespec& time) noexcept {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

bool watched_file::has_changed() noexcept {
  const state now = look();
  const bool first = !std::exchange(looked_, true);
  const bool still = now == std::exchange(seen_, now);
  if (!first && (!still || now == used_))
    return false;
  if (!first)
    used_ = now;
  return true;
}

result<std::optional<std::string>> watched_file::take() {
  if (!has_changed())
    return std::optional<std::string>{};
  try {
    result<std::string> all = read_config_file(path_);
    if (all)
      return std::optional{*std::move(all)};
    // What the system refuses may work at the next look, though the file stays the same.
    if (all.error() == errc::system_error)
      take_again();
    return std::move(all).error();
  } catch (const std::bad_alloc&) {
    take_again();
    throw;
  }
}

watched_file::state watched_file::look() const noexcept {
  struct stat is {};
  if (kernel().fstatat(AT_FDCWD, path_.c_str(), &is, 0) != 0)
    return {.problem = errno};
  return {.device = is.st_dev,
          .number = is.st_ino,
          .size = is.st_size,
          .written_ns = to_ns(is.st_mtim),
          .changed_ns = to_ns(is.st_ctim)};
}

result<std::string> read_config_file(const std::string& path) {
  const auto cannot = [&](int code) {
    return error{code == ENOENT ? errc::not_found : errc::system_error, path + " can't be read",
                 code};
  };
  // Nothing that is waited for: a pipe without a writer is opened at once.
  const file from{kernel().open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0)};
  if (!from)
    return cannot(errno);
  struct stat is {};
  if (kernel().fstat(from.get(), &is) != 0)
    return cannot(errno);
  if (!S_ISREG(is.st_mode))
    return error{errc::invalid_argument, path + " is not a file"};
  std::string all;
  std::array<char, 64 * 1024> piece;
  while (all.size() <= watched_file_size_max) {
    const ssize_t got = kernel().read(from.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return cannot(errno);
    if (got == 0)
      return all;
    all.append(piece.data(), static_cast<std::size_t>(got));
  }
  return error{errc::invalid_argument,
               path + " has more than " + format_size(watched_file_size_max) + " bytes"};
}

}  // namespace atbus::detail
