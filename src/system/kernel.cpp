#include "system/kernel.h"

#include <fcntl.h>
#include <linux/membarrier.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <ctime>

#include "system/fork_guard.h"

namespace atbus::detail {
namespace {

int epoll_wait_in_ns(int epoll, epoll_event* events, int count, std::int64_t timeout_ns) {
#if defined(SYS_epoll_pwait2)
  timespec timeout{.tv_sec = static_cast<time_t>(timeout_ns / 1'000'000'000),
                   .tv_nsec = static_cast<long>(timeout_ns % 1'000'000'000)};
  return static_cast<int>(::syscall(SYS_epoll_pwait2, epoll, events, count, &timeout, nullptr, 0));
#else
  (void)epoll, (void)events, (void)count, (void)timeout_ns;
  errno = ENOSYS;
  return -1;
#endif
}

// Set when the kernel refuses waits in nanoseconds, so that later waits need one system call.
std::atomic<bool> waits_in_ms{false};

int epoll_wait_ns(int epoll, epoll_event* events, int count, std::int64_t timeout_ns) {
  if (timeout_ns > 0 && !waits_in_ms.load(std::memory_order_relaxed)) {
    const int n = kernel().epoll_wait_in_ns(epoll, events, count, timeout_ns);
    // ENOSYS: a kernel before 5.11. EPERM and others: a seccomp filter that does not know the call. If the
    // arguments are wrong, the call below fails as well.
    if (n >= 0 || errno == EINTR)
      return n;
    if (errno == ENOSYS || errno == EPERM || errno == EACCES)
      waits_in_ms.store(true, std::memory_order_relaxed);
  }
  // In milliseconds: rounded up, so that a deadline is never cut short into a busy loop.
  const std::int64_t ms = timeout_ns < 0 ? -1 : (timeout_ns + 999'999) / 1'000'000;
  return kernel().epoll_wait_in_ms(epoll, events, count,
                                   ms > 0x7fffffff ? 0x7fffffff : static_cast<int>(ms));
}

// send is faster for a single piece, because the kernel has no list to copy.
ssize_t send_pieces(int fd, const msghdr* message, int flags) {
  if (message->msg_iovlen == 1 && message->msg_controllen == 0 && message->msg_namelen == 0)
    return ::send(fd, message->msg_iov->iov_base, message->msg_iov->iov_len, flags);
  return ::sendmsg(fd, message, flags);
}

kernel_calls table{
    .open = [](const char* p, int f, mode_t m) { return ::open(p, f, m); },
    .openat = [](int d, const char* p, int f, mode_t m) { return ::openat(d, p, f, m); },
    .close = ::close,
    .read = ::read,
    .write = ::write,
    .pwrite = ::pwrite,
    .fstat = ::fstat,
    .fstatat = ::fstatat,
    .fstatvfs = ::fstatvfs,
    .ftruncate = ::ftruncate,
    .fallocate = ::fallocate,
    .futimens = ::futimens,
    .linkat = ::linkat,
    .renameat = ::renameat,
    .exchangeat =
        [](int directory, const char* one, const char* other) {
          // By number: a C library older than the call has no wrapper.
          constexpr unsigned exchange = 2;
          return static_cast<int>(
              ::syscall(SYS_renameat2, directory, one, directory, other, exchange));
        },
    .unlinkat = ::unlinkat,
    .memfd_create = [](const char* n, unsigned f) { return ::memfd_create(n, f); },
    .mmap = ::mmap,
    .munmap = ::munmap,
    .madvise = ::madvise,
    .sysconf = ::sysconf,
    .lock = [](int fd, int command, struct flock* l) { return ::fcntl(fd, command, l); },
    .flock = [](int fd, int operation) { return ::flock(fd, operation); },
    .membarrier = [](int c,
                     unsigned f) { return static_cast<int>(::syscall(SYS_membarrier, c, f, 0)); },
    .socket = ::socket,
    .bind = ::bind,
    .listen = ::listen,
    .accept = [](int fd, int flags) { return ::accept4(fd, nullptr, nullptr, flags); },
    .connect = ::connect,
    .send = ::send,
    .sendmsg = send_pieces,
    .recv = ::recv,
    .recvmsg = ::recvmsg,
    .socketpair = ::socketpair,
    .shutdown = ::shutdown,
    .setsockopt = ::setsockopt,
    .eventfd = ::eventfd,
    .epoll_create = ::epoll_create1,
    .epoll_ctl = ::epoll_ctl,
    .epoll_wait = epoll_wait_ns,
    .epoll_wait_in_ns = epoll_wait_in_ns,
    .epoll_wait_in_ms = ::epoll_wait,
    .inotify_init = ::inotify_init1,
    .inotify_add_watch = ::inotify_add_watch,
};

struct flock one_byte(short type, std::uint64_t byte) noexcept {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(byte);
  lock.l_len = 1;
  return lock;
}

}  // namespace

kernel_calls& kernel() noexcept {
  return table;
}

void file::close() noexcept {
  const fork_pause no_fork;
  kernel().close(fd_);
  fd_ = -1;
}

lock_state try_lock_byte(int fd, std::uint64_t byte) noexcept {
  struct flock lock = one_byte(F_WRLCK, byte);
  if (kernel().lock(fd, F_OFD_SETLK, &lock) == 0)
    return lock_state::taken;
  return errno == EAGAIN || errno == EACCES ? lock_state::held_elsewhere : lock_state::failed;
}

lock_state query_byte(int fd, std::uint64_t byte) noexcept {
  struct flock lock = one_byte(F_WRLCK, byte);
  if (kernel().lock(fd, F_OFD_GETLK, &lock) != 0)
    return lock_state::failed;
  return lock.l_type == F_UNLCK ? lock_state::taken : lock_state::held_elsewhere;
}

void unlock_byte(int fd, std::uint64_t byte) noexcept {
  // Even unlocking needs kernel memory and may fail. The caller goes on without the lock, so it must not
  // stay: it would look like a living holder.
  constexpr int tries = 3;
  struct flock lock = one_byte(F_UNLCK, byte);
  for (int i = 0; i < tries && kernel().lock(fd, F_OFD_SETLK, &lock) != 0; ++i) {
  }
}

bool register_for_barriers() noexcept {
  // Registers at each open: a fork keeps the registration, an exec drops it, and the call is cheap.
  return kernel().membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0) == 0;
}

bool barrier_on_every_core() noexcept {
  // The fence for the calling thread itself, and the compiler's.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return kernel().membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0) == 0;
}

}  // namespace atbus::detail
