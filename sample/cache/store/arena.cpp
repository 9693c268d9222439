#include "arena.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace cache {

using atbus::errc;
using atbus::error;

namespace {

constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

errc cause_of(int system_code) {
  switch (system_code) {
    case EACCES:
    case EPERM:
      return errc::denied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return errc::no_space;
    case ENOMEM:
      return errc::out_of_memory;
    default:
      return errc::system_error;
  }
}

error failed(const std::string& what) {
  const int system_code = errno;
  return {cause_of(system_code), what, system_code};
}

// Puts every page in place without a change to what it holds.
void prefault(std::byte* base, std::size_t bytes) {
  constexpr int populate_write = 23;  // MADV_POPULATE_WRITE, of Linux 5.14
  if (madvise(base, bytes, populate_write) == 0)
    return;
  const auto step = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (std::size_t at = 0; at < bytes; at += step) {
    volatile std::byte& touched = base[at];
    touched = touched;
  }
}

}  // namespace

arena::~arena() {
  if (base_ != nullptr)
    munmap(base_, bytes_);
  if (file_ >= 0)
    close(file_);
}

error arena::open_file(const std::string& file, std::size_t bytes) {
  file_ = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
  if (file_ < 0)
    return failed("the file " + file + " can't be opened");
  struct stat found {};
  if (fstat(file_, &found) != 0)
    return failed("the file " + file + " can't be examined");
  if (!S_ISREG(found.st_mode))
    return {errc::not_supported, file + " is not a regular file"};
  if (flock(file_, LOCK_EX | LOCK_NB) != 0)
    return errno == EWOULDBLOCK
               ? error{errc::denied, "another process has the file " + file + " open as its cache"}
               : failed("the file " + file + " can't be locked");
  // Examined again: what had the lock before may have given it its size.
  if (fstat(file_, &found) != 0)
    return failed("the file " + file + " can't be examined");
  if (found.st_size != 0 && static_cast<std::size_t>(found.st_size) != bytes)
    return {errc::geometry_mismatch, "the file " + file + " has " + std::to_string(found.st_size) +
                                         " bytes, not the " + std::to_string(bytes) +
                                         " asked for: remove it, or ask for its size"};
  if (const int code = posix_fallocate(file_, 0, static_cast<off_t>(bytes)); code != 0) {
    if (found.st_size == 0 && ftruncate(file_, 0) != 0)
      return failed("the file " + file + " can't be emptied");
    return {cause_of(code), "no room for the file " + file, code};
  }
  return {};
}

error arena::map(const atbus::page_options& pages) {
  // Addresses for one huge page more, to align it; the rest is given back.
  const std::size_t reserved = bytes_ + huge_page_bytes;
  void* const room = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED)
    return failed("no addresses for the arena");
  auto* const begin = static_cast<std::byte*>(room);
  const std::size_t before = (0 - reinterpret_cast<std::uintptr_t>(begin)) & (huge_page_bytes - 1);
  const int flags = MAP_FIXED | (is_kept() ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS);
  void* const mapped = mmap(begin + before, bytes_, PROT_READ | PROT_WRITE, flags, file_, 0);
  if (mapped == MAP_FAILED) {
    const error problem = failed("no memory for the arena");
    munmap(begin, reserved);
    return problem;
  }
  base_ = begin + before;
  if (before > 0)
    munmap(begin, before);
  munmap(base_ + bytes_, huge_page_bytes - before);
  if (pages.huge_pages)
    madvise(base_, bytes_, MADV_HUGEPAGE);  // best effort
  if (pages.prefault)
    prefault(base_, bytes_);
  return {};
}

atbus::result<arena> arena::make(std::size_t bytes, const atbus::page_options& pages,
                                 const std::string& file) {
  arena made;
  if (!file.empty()) {
    if (error problem = made.open_file(file, bytes); !problem)
      return problem;
  }
  made.bytes_ = bytes;
  if (error problem = made.map(pages); !problem)
    return problem;
  return made;
}

}  // namespace cache
