#include "failing_kernel.h"

#include <sys/mman.h>

#include <cerrno>
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

// Linux has closed a descriptor even where close reports an error.
template <auto Entry>
constexpr bool acts_even_if_it_fails = false;
template <>
constexpr bool acts_even_if_it_fails<&kernel_calls::close> = true;

template <auto Entry, class Call>
struct intercepted;

template <auto Entry, class Result, class... Arguments>
struct intercepted<Entry, Result (*)(Arguments...)> {
  static Result call(Arguments... arguments) {
    call_record& record = record_of<Entry>();
    if (++record.calls != record.fails_at)
      return (untouched.*Entry)(arguments...);
    record.failed = true;
    if constexpr (acts_even_if_it_fails<Entry>)
      (void)(untouched.*Entry)(arguments...);
    errno = record.code;
    if constexpr (std::is_pointer_v<Result>)
      return static_cast<Result>(MAP_FAILED);
    else
      return Result{-1};
  }
};

template <auto Entry>
failing_entry row(std::string_view name, std::vector<int> codes) {
  return {name, std::move(codes), &record_of<Entry>(), [](kernel_calls& table) {
            using call = std::remove_reference_t<decltype(table.*Entry)>;
            table.*Entry = intercepted<Entry, call>::call;
          }};
}

const std::vector<failing_entry>& rows() {
  static const std::vector<failing_entry> all{
      row<&kernel_calls::open>("open", {EMFILE, ENFILE, ENOMEM, EACCES, ENOSPC, EOPNOTSUPP}),
      row<&kernel_calls::openat>("openat", {EMFILE, ENFILE, ENOMEM, EACCES, ELOOP, EIO}),
      row<&kernel_calls::close>("close", {EIO, EINTR}),
      row<&kernel_calls::fstat>("fstat", {EIO, ENOMEM}),
      row<&kernel_calls::fstatat>("fstatat", {EIO, ENOMEM, EACCES}),
      row<&kernel_calls::fstatvfs>("fstatvfs", {EIO, ENOSYS}),
      row<&kernel_calls::ftruncate>("ftruncate", {EFBIG, EINTR, EIO, EPERM}),
      row<&kernel_calls::fallocate>("fallocate", {ENOSPC, EDQUOT, EINTR, ENOMEM, EOPNOTSUPP, EIO}),
      row<&kernel_calls::futimens>("futimens", {EPERM, EROFS}),
      row<&kernel_calls::linkat>("linkat", {ENOSPC, ENOENT, EPERM, EROFS, EXDEV, EMLINK}),
      row<&kernel_calls::renameat>("renameat", {ENOSPC, EACCES, EIO}),
      row<&kernel_calls::exchangeat>("exchangeat", {ENOENT, EACCES, EINVAL, EIO}),
      row<&kernel_calls::unlinkat>("unlinkat", {EACCES, EBUSY, EIO, EROFS}),
      row<&kernel_calls::memfd_create>("memfd_create", {EMFILE, ENFILE, ENOMEM, ENOSYS}),
      row<&kernel_calls::mmap>("mmap", {ENOMEM, EAGAIN, EPERM, ENODEV}),
      row<&kernel_calls::munmap>("munmap", {}),  // fails only for addresses that are none
      row<&kernel_calls::madvise>("madvise", {ENOMEM, EAGAIN, EINVAL}),
      row<&kernel_calls::lock>("lock", {ENOLCK, EINVAL, EINTR}),
      row<&kernel_calls::membarrier>("membarrier", {ENOSYS, EPERM, EINVAL}),
      row<&kernel_calls::socket>("socket", {EMFILE, ENFILE, ENOMEM, EACCES, EAFNOSUPPORT}),
      row<&kernel_calls::bind>("bind", {EADDRINUSE, ENOSPC, ENOMEM, EACCES, EROFS}),
      row<&kernel_calls::listen>("listen", {EADDRINUSE, ENOMEM}),
      row<&kernel_calls::accept>("accept", {EMFILE, ENFILE, ENOMEM, ENOBUFS, EINTR, ECONNABORTED}),
      // Not ECONNREFUSED, which says that nobody lives there, nor EAGAIN, which says that the
      // receiver has connections to look at: a living and idle one never answers so.
      row<&kernel_calls::connect>("connect", {EACCES, ENOMEM, EINTR}),
      // Not EAGAIN: on a socket it stands for a full queue, in which a ring waits already.
      row<&kernel_calls::send>("send", {EPIPE, ECONNRESET, ENOBUFS, ENOMEM}),
      row<&kernel_calls::sendmsg>("sendmsg", {EPIPE, ECONNRESET, ENOBUFS, ENOMEM}),
      row<&kernel_calls::recv>("recv", {ECONNRESET, ENOMEM, EINTR}),
      row<&kernel_calls::recvmsg>("recvmsg", {ECONNRESET, ENOMEM, EINTR}),
      row<&kernel_calls::socketpair>("socketpair", {EMFILE, ENFILE, ENOMEM}),
      row<&kernel_calls::shutdown>("shutdown", {ENOTCONN}),
      row<&kernel_calls::setsockopt>("setsockopt", {ENOPROTOOPT, EPERM}),
      row<&kernel_calls::epoll_create>("epoll_create", {EMFILE, ENFILE, ENOMEM}),
      row<&kernel_calls::epoll_ctl>("epoll_ctl", {ENOMEM, ENOSPC}),
      row<&kernel_calls::epoll_wait>("epoll_wait", {EINTR}),
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
}

void failing_kernel::restart() const {
  for (const failing_entry& entry : rows())
    *entry.record = {};
}

void failing_kernel::arm(const failing_entry& entry, unsigned nth, int code) const {
  restart();
  entry.record->fails_at = nth;
  entry.record->code = code;
}

}  // namespace atbus::test
