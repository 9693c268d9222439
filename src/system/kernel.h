// The interface to the kernel for everything off the per-message path.
//
// All other code calls `kernel().fallocate(...)`, never the C library directly. So a test can replace any
// call by one that fails as real kernels fail (no space, no descriptors, no membarrier). Each entry behaves
// like the system call of its name: -1 (or MAP_FAILED) and errno.
#pragma once

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <ctime>

#include "atbus/detail/export.hpp"

namespace atbus::detail {

struct kernel_calls {
  int (*open)(const char* path, int flags, mode_t mode);
  int (*openat)(int directory, const char* path, int flags, mode_t mode);
  int (*close)(int fd);
  ssize_t (*read)(int fd, void* data, std::size_t length);
  ssize_t (*write)(int fd, const void* data, std::size_t length);
  ssize_t (*pwrite)(int fd, const void* data, std::size_t length, off_t offset);
  int (*fstat)(int fd, struct stat* out);
  int (*fstatat)(int directory, const char* path, struct stat* out, int flags);
  int (*fstatvfs)(int fd, struct statvfs* out);
  int (*ftruncate)(int fd, off_t size);
  int (*fallocate)(int fd, int mode, off_t offset, off_t length);
  int (*futimens)(int fd, const timespec times[2]);
  int (*linkat)(int old_directory, const char* old_path, int directory, const char* path,
                int flags);
  int (*renameat)(int old_directory, const char* old_path, int directory, const char* path);
  // renameat2 with RENAME_EXCHANGE: exchanges the two names.
  int (*exchangeat)(int directory, const char* one, const char* other);
  int (*unlinkat)(int directory, const char* path, int flags);
  int (*memfd_create)(const char* name, unsigned flags);
  void* (*mmap)(void* address, std::size_t length, int protection, int flags, int fd, off_t offset);
  int (*munmap)(void* address, std::size_t length);
  int (*madvise)(void* address, std::size_t length, int advice);
  long (*sysconf)(int name);
  int (*lock)(int fd, int command, struct flock* lock);  // fcntl with F_OFD_SETLK or F_OFD_GETLK
  int (*flock)(int fd, int operation);
  int (*membarrier)(int command, unsigned flags);
  int (*socket)(int domain, int type, int protocol);
  int (*bind)(int fd, const sockaddr* address, socklen_t length);
  int (*listen)(int fd, int backlog);
  int (*accept)(int fd, int flags);
  int (*connect)(int fd, const sockaddr* address, socklen_t length);
  ssize_t (*send)(int fd, const void* data, std::size_t length, int flags);
  ssize_t (*sendmsg)(int fd, const msghdr* message, int flags);
  ssize_t (*recv)(int fd, void* data, std::size_t length, int flags);
  ssize_t (*recvmsg)(int fd, msghdr* message, int flags);
  int (*socketpair)(int domain, int type, int protocol, int ends[2]);
  int (*shutdown)(int fd, int how);
  int (*setsockopt)(int fd, int level, int option, const void* value, socklen_t length);
  int (*eventfd)(unsigned count, int flags);
  int (*epoll_create)(int flags);
  int (*epoll_ctl)(int epoll, int operation, int fd, epoll_event* event);
  // Timeout in nanoseconds; negative: no limit.
  int (*epoll_wait)(int epoll, epoll_event* events, int count, std::int64_t timeout_ns);
  // The calls behind epoll_wait: epoll_pwait2, which is newer than many seccomp filters, and epoll_wait.
  int (*epoll_wait_in_ns)(int epoll, epoll_event* events, int count, std::int64_t timeout_ns);
  int (*epoll_wait_in_ms)(int epoll, epoll_event* events, int count, int timeout_ms);
  int (*inotify_init)(int flags);
  int (*inotify_add_watch)(int fd, const char* path, std::uint32_t mask);
};

// The table in force. Tests may change entries while no other thread uses the library.
ATBUS_API kernel_calls& kernel() noexcept;

// Whether a socket call failed because the kernel has no memory at the moment.
[[nodiscard]] inline bool is_out_of_memory(int code) noexcept {
  return code == ENOBUFS || code == ENOMEM;
}

// A descriptor with one owner. It is closed inside a fork_pause: fork copies the table of descriptors before
// the memory, so else a child could have the descriptor without an owner, or another thread's in its place.
class file {
 public:
  file() = default;
  explicit file(int fd) noexcept : fd_(fd) {}
  file(file&& other) noexcept : fd_(other.release()) {}
  file& operator=(file&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = other.release();
    }
    return *this;
  }
  file(const file&) = delete;
  file& operator=(const file&) = delete;
  ~file() { reset(); }

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] explicit operator bool() const noexcept { return fd_ >= 0; }
  int release() noexcept {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }
  void reset() noexcept {
    if (fd_ >= 0)
      close();
  }

 private:
  ATBUS_API void close() noexcept;

  int fd_ = -1;
};

// Open-file-description locks on single bytes of a file prove that a process is alive. They belong to the
// open file description, not to the process, so two openers in one process exclude each other as two
// processes do.
enum class lock_state : std::uint8_t { taken, held_elsewhere, failed /* errno says why */ };
[[nodiscard]] lock_state try_lock_byte(int fd, std::uint64_t byte) noexcept;
// Queries without locking: `held_elsewhere` if another description holds the byte, else `taken`.
[[nodiscard]] lock_state query_byte(int fd, std::uint64_t byte) noexcept;
void unlock_byte(int fd, std::uint64_t byte) noexcept;

// Asymmetric fence: the rare side calls `barrier_on_every_core`, the frequent side needs only a compiler
// fence. Register before use; false if the kernel or a seccomp filter refuses.
[[nodiscard]] bool register_for_barriers() noexcept;
[[nodiscard]] bool barrier_on_every_core() noexcept;

}  // namespace atbus::detail
