#include "failing_kernel.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <type_traits>

namespace atbus::test {
namespace {

using detail::kernel_calls;

// The table as it was; the rows call through it.
kernel_calls untouched;

template <auto Entry>
call_record& record_of() {
  static call_record record;
  return record;
}

// What the kernel has done although it reports an error.
template <auto Entry, class... Arguments>
void do_nevertheless(int /*code*/, Arguments...) {}
// Linux has closed the descriptor.
template <>
void do_nevertheless<&kernel_calls::close>(int, int fd) {
  untouched.close(fd);
}
// Connecting goes on when a signal has come.
template <>
void do_nevertheless<&kernel_calls::connect>(int code, int fd, const sockaddr* address,
                                             socklen_t length) {
  if (code == EINTR)
    (void)untouched.connect(fd, address, length);
}
// Where nobody reads any more, nothing comes either.
template <>
void do_nevertheless<&kernel_calls::sendmsg>(int code, int fd, const msghdr*, int) {
  if (code == EPIPE || code == ECONNRESET || code == ETIMEDOUT)
    (void)untouched.shutdown(fd, SHUT_RDWR);
}

// What a call that moves bytes moves at most; 0: as many as it is asked to.
std::size_t most_bytes = 0;

// The first piece of a list, or what may go of it.
iovec first_of(const msghdr& list) {
  iovec first = list.msg_iov[0];
  first.iov_len = std::min(first.iov_len, most_bytes);
  return first;
}

template <auto Entry, class... Arguments>
auto whole_or_short(Arguments... arguments) {
  return (untouched.*Entry)(arguments...);
}
template <>
auto whole_or_short<&kernel_calls::recv>(int fd, void* data, std::size_t length, int flags) {
  return untouched.recv(fd, data, most_bytes == 0 ? length : std::min(length, most_bytes), flags);
}
template <>
auto whole_or_short<&kernel_calls::sendmsg>(int fd, const msghdr* message, int flags) {
  if (most_bytes == 0)
    return untouched.sendmsg(fd, message, flags);
  iovec first = first_of(*message);
  msghdr cut = *message;
  cut.msg_iov = &first;
  cut.msg_iovlen = 1;
  return untouched.sendmsg(fd, &cut, flags);
}
template <>
auto whole_or_short<&kernel_calls::recvmsg>(int fd, msghdr* message, int flags) {
  if (most_bytes == 0)
    return untouched.recvmsg(fd, message, flags);
  iovec first = first_of(*message);
  iovec* const whole = message->msg_iov;
  message->msg_iov = &first;  // the caller has one piece
  const ssize_t n = untouched.recvmsg(fd, message, flags);
  message->msg_iov = whole;
  return n;
}

// --- a kernel with large pages

// Bytes of a page; 0: as this kernel has them.
std::size_t page_bytes = 0;

std::size_t whole_pages(std::size_t length) {
  return (length + page_bytes - 1) & ~(page_bytes - 1);
}
bool begins_page(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % page_bytes == 0;
}
int refuse() {
  errno = EINVAL;
  return -1;
}

template <>
auto whole_or_short<&kernel_calls::sysconf>(int name) {
  return page_bytes != 0 && name == _SC_PAGESIZE ? static_cast<long>(page_bytes)
                                                 : untouched.sysconf(name);
}
template <>
auto whole_or_short<&kernel_calls::mmap>(void* address, std::size_t length, int protection,
                                         int flags, int fd, off_t offset) {
  if (page_bytes == 0)
    return untouched.mmap(address, length, protection, flags, fd, offset);
  if (static_cast<std::size_t>(offset) % page_bytes != 0 || address != nullptr) {
    (void)refuse();
    return static_cast<void*>(MAP_FAILED);
  }
  // A large page begins at a multiple of its size: cut an aligned piece out of a larger one.
  const std::size_t size = whole_pages(length);
  auto* const place = static_cast<std::byte*>(
      ::mmap(nullptr, size + page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (place == MAP_FAILED)
    return static_cast<void*>(MAP_FAILED);
  const std::size_t before =
      (page_bytes - reinterpret_cast<std::uintptr_t>(place) % page_bytes) % page_bytes;
  if (before != 0)
    ::munmap(place, before);
  ::munmap(place + before + size, page_bytes - before);
  return untouched.mmap(place + before, length, protection, flags | MAP_FIXED, fd, offset);
}
template <>
auto whole_or_short<&kernel_calls::munmap>(void* address, std::size_t length) {
  if (page_bytes == 0)
    return untouched.munmap(address, length);
  return begins_page(address) ? untouched.munmap(address, whole_pages(length)) : refuse();
}
template <>
auto whole_or_short<&kernel_calls::madvise>(void* address, std::size_t length, int advice) {
  if (page_bytes == 0)
    return untouched.madvise(address, length, advice);
  return begins_page(address) ? untouched.madvise(address, length, advice) : refuse();
}
// Memory comes and goes by whole pages: what is reserved grows to them, what is given back shrinks.
template <>
auto whole_or_short<&kernel_calls::fallocate>(int fd, int mode, off_t offset, off_t length) {
  const auto page = static_cast<off_t>(page_bytes);
  if (page == 0)
    return untouched.fallocate(fd, mode, offset, length);
  off_t begin = offset / page * page;
  off_t end = (offset + length + page - 1) / page * page;
  if ((mode & FALLOC_FL_PUNCH_HOLE) != 0) {
    begin = (offset + page - 1) / page * page;
    end = (offset + length) / page * page;
    if (begin >= end)
      return 0;
  }
  return untouched.fallocate(fd, mode, begin, end - begin);
}

template <auto Entry, class Call>
struct intercepted;

template <auto Entry, class Result, class... Arguments>
struct intercepted<Entry, Result (*)(Arguments...)> {
  static Result call(Arguments... arguments) {
    call_record& record = record_of<Entry>();
    const unsigned nth = ++record.calls;
    if (nth < record.fails_at || nth - record.fails_at >= record.times)
      return whole_or_short<Entry>(arguments...);
    record.failed = true;
    do_nevertheless<Entry>(record.code, arguments...);
    errno = record.code;
    if constexpr (std::is_pointer_v<Result>)
      return static_cast<Result>(MAP_FAILED);
    else
      return Result{-1};
  }
};

template <auto Entry>
failing_entry row(std::string_view name, std::vector<int> codes, std::vector<int> more = {}) {
  return {name, std::move(codes), std::move(more), &record_of<Entry>(), [](kernel_calls& table) {
            using call = std::remove_reference_t<decltype(table.*Entry)>;
            table.*Entry = intercepted<Entry, call>::call;
          }};
}

const std::vector<failing_entry>& rows() {
  static const std::vector<failing_entry> all{
      row<&kernel_calls::open>("open", {EMFILE, ENFILE, ENOMEM, EACCES, ENOSPC, EOPNOTSUPP}),
      row<&kernel_calls::openat>("openat", {EMFILE, ENFILE, ENOMEM, EACCES, ELOOP, EIO}),
      row<&kernel_calls::close>("close", {EIO, EINTR}),
      row<&kernel_calls::read>("read", {EIO, EINTR, EISDIR}),
      row<&kernel_calls::write>("write", {EAGAIN, EINTR}),
      row<&kernel_calls::pwrite>("pwrite", {ENOSPC, EINTR, EIO}),
      row<&kernel_calls::fstat>("fstat", {EIO, ENOMEM}),
      row<&kernel_calls::fstatat>("fstatat", {EIO, ENOMEM, EACCES}),
      row<&kernel_calls::fstatvfs>("fstatvfs", {EIO, ENOSYS}),
      row<&kernel_calls::ftruncate>("ftruncate", {EFBIG, EINTR, EIO, EPERM}),
      row<&kernel_calls::fallocate>("fallocate", {ENOSPC, EDQUOT, EINTR, ENOMEM, EOPNOTSUPP, EIO}),
      row<&kernel_calls::futimens>("futimens", {EPERM, EROFS}),
      row<&kernel_calls::linkat>("linkat",
                                 {ENOSPC, ENOENT, EPERM, EROFS, EXDEV, EMLINK, EOPNOTSUPP, ENOSYS}),
      row<&kernel_calls::renameat>("renameat", {ENOSPC, EACCES, EIO}),
      row<&kernel_calls::exchangeat>("exchangeat", {ENOENT, EACCES, EINVAL, EIO}),
      row<&kernel_calls::unlinkat>("unlinkat", {EACCES, EBUSY, EIO, EROFS}),
      row<&kernel_calls::memfd_create>("memfd_create",
                                       {EMFILE, ENFILE, ENOMEM, ENOSYS, EACCES, EPERM}),
      row<&kernel_calls::mmap>("mmap", {ENOMEM, EAGAIN, EPERM, ENODEV}),
      row<&kernel_calls::munmap>("munmap", {}),  // fails only for addresses that are none
      row<&kernel_calls::madvise>("madvise", {ENOMEM, EAGAIN, EINVAL}),
      row<&kernel_calls::sysconf>("sysconf", {}),  // what is asked for is always known
      row<&kernel_calls::lock>("lock", {ENOLCK, EINVAL, EINTR}),
      row<&kernel_calls::flock>("flock", {EWOULDBLOCK, EINTR, ENOLCK}),
      row<&kernel_calls::membarrier>("membarrier", {ENOSYS, EPERM, EINVAL}),
      row<&kernel_calls::socket>("socket", {EMFILE, ENFILE, ENOMEM, EACCES, EAFNOSUPPORT},
                                 {ENOBUFS}),
      row<&kernel_calls::bind>("bind", {EADDRINUSE, ENOSPC, ENOMEM, EACCES, EROFS},
                               {EADDRNOTAVAIL, EPERM}),
      row<&kernel_calls::listen>("listen", {EADDRINUSE, ENOMEM}),
      row<&kernel_calls::accept>("accept", {EMFILE, ENFILE, ENOMEM, ENOBUFS, EINTR, ECONNABORTED}),
      // Not ECONNREFUSED, which says that nobody lives there, nor EAGAIN, which says that the
      // receiver has connections to look at: a living and idle one never answers so.
      row<&kernel_calls::connect>("connect", {EACCES, ENOMEM, EINTR},
                                  {EAGAIN, ECONNREFUSED, ETIMEDOUT, EADDRNOTAVAIL, EPERM}),
      // Not EAGAIN: on a socket it stands for a full queue, in which a ring waits already.
      row<&kernel_calls::send>("send", {EPIPE, ECONNRESET, ENOBUFS, ENOMEM}),
      row<&kernel_calls::sendmsg>("sendmsg", {EPIPE, ECONNRESET, ENOBUFS, ENOMEM},
                                  {EAGAIN, EINTR, EPERM, ETIMEDOUT, ETOOMANYREFS}),
      row<&kernel_calls::recv>("recv", {ECONNRESET, ENOMEM, EINTR}, {EAGAIN, ETIMEDOUT}),
      row<&kernel_calls::recvmsg>("recvmsg", {ECONNRESET, ENOMEM, EINTR}, {EAGAIN, ETIMEDOUT}),
      row<&kernel_calls::socketpair>("socketpair", {EMFILE, ENFILE, ENOMEM}),
      row<&kernel_calls::shutdown>("shutdown", {ENOTCONN}),
      row<&kernel_calls::setsockopt>("setsockopt", {ENOPROTOOPT, EPERM}),
      row<&kernel_calls::eventfd>("eventfd", {EMFILE, ENFILE, ENOMEM, ENODEV}),
      row<&kernel_calls::epoll_create>("epoll_create", {EMFILE, ENFILE, ENOMEM}),
      row<&kernel_calls::epoll_ctl>("epoll_ctl", {ENOMEM, ENOSPC}),
      row<&kernel_calls::epoll_wait>("epoll_wait", {EINTR}),
      row<&kernel_calls::epoll_wait_in_ns>("epoll_wait_in_ns", {ENOSYS, EPERM, EACCES}),
      row<&kernel_calls::epoll_wait_in_ms>("epoll_wait_in_ms", {EINTR}),
      row<&kernel_calls::inotify_init>("inotify_init", {EMFILE, ENFILE, ENOMEM, ENOSYS}),
      row<&kernel_calls::inotify_add_watch>("inotify_add_watch", {ENOSPC, ENOMEM, EACCES}),
  };
  return all;
}

}  // namespace

std::span<const failing_entry> failing_entries() {
  return rows();
}

failing_kernel::failing_kernel() {
  untouched = detail::kernel();
  restart();
  for (const failing_entry& entry : rows())
    entry.intercept(detail::kernel());
}

failing_kernel::~failing_kernel() {
  detail::kernel() = untouched;
  page_bytes = 0;
}

void failing_kernel::restart() const {
  for (const failing_entry& entry : rows())
    *entry.record = {};
  most_bytes = 0;
}

void failing_kernel::arm(const failing_entry& entry, unsigned nth, int code, unsigned times) const {
  restart();
  entry.record->fails_at = nth;
  entry.record->times = times;
  entry.record->code = code;
}

void failing_kernel::shorten(std::size_t bytes) const {
  most_bytes = bytes;
}

void failing_kernel::enlarge_pages(std::size_t bytes) const {
  page_bytes = bytes;
}

unsigned failing_kernel::calls() {
  unsigned sum = 0;
  for (const failing_entry& entry : rows())
    sum += entry.record->calls;
  return sum;
}

}  // namespace atbus::test
