// The sender's end of a doorbell.
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "channel/shm/bell_socket.h"
#include "channel/shm/doorbell.h"
#include "channel/shm/in_process_names.h"
#include "system/fork_guard.h"
#include "system/passed_descriptors.h"

namespace atbus::detail {
namespace {

// Another descriptor from a hostile receiver could be one on which a write blocks, or raises a signal.
bool is_eventfd(int fd) noexcept {
  char path[32];
  char target[32];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  const ssize_t length = ::readlink(path, target, sizeof target);
  return length > 0 &&
         std::string_view{target, static_cast<std::size_t>(length)} == "anon_inode:[eventfd]";
}

}  // namespace

bool bell_client::connect(const segment_name& name, std::uint32_t lane) noexcept {
  try {
    return try_connect(name, lane);
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
    return false;
  }
}

bool bell_client::try_connect(const segment_name& name, std::uint32_t lane) {
  close();
  file fd = bell_socket();
  if (!fd)
    return false;
  file directory;
  bell_address a;
  if (name.in_process) {
    const std::string raw = in_process_bell(name.name);
    if (raw.empty()) {
      errno = ENOENT;
      return false;
    }
    a = abstract_address(raw);
  } else {
    auto opened = open_directory(name);
    if (!opened)
      return false;
    directory = std::move(*opened);
    a = path_address(directory.get(), name.bell_name());
  }
  if (kernel().connect(fd.get(), reinterpret_cast<const sockaddr*>(&a.address), a.length) != 0)
    return false;
  if (!is_trusted(fd.get(), name.in_process)) {
    errno = ECONNREFUSED;  // another user's process has taken the name
    return false;
  }
  let_descriptors_through(fd.get(), true);  // an eventfd: see bell_server::give_event
  if (kernel().send(fd.get(), &lane, sizeof lane, MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof lane)
    return false;
  fd_ = std::move(fd);
  return true;
}

bool bell_client::ring() noexcept {
  const std::uint64_t nothing = 0;  // see bell_server::give_event
  if (event_ && kernel().write(event_.get(), &nothing, sizeof nothing) == sizeof nothing)
    return true;
  const char byte = 1;
  const ssize_t n = kernel().send(fd_.get(), &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (n == 1 || errno == EAGAIN) {
    ++rings_;
    return true;
  }
  if (!is_out_of_memory(errno))
    close();
  return false;
}

void bell_client::look_for_event() noexcept {
  // One ring later than the receiver passes it: by then it has slept anew.
  if (fd_ && !event_ && is_time_for_event(rings_ - 1))
    (void)drain();
}

bool bell_client::drain() noexcept {
  for (int i = 0; i < 16; ++i) {
    const ssize_t n = read_ring();
    if (n > 0)
      continue;
    if (n < 0 && (errno == EAGAIN || errno == EINTR || is_out_of_memory(errno)))
      return true;
    close();
    return false;
  }
  return true;
}

ssize_t bell_client::read_ring() noexcept {
  std::uint32_t word = 0;
  iovec piece{.iov_base = &word, .iov_len = sizeof word};
  msghdr packet{};
  packet.msg_iov = &piece;
  packet.msg_iovlen = 1;
  arriving_descriptors<1> arriving;
  arriving.attach(packet);
  const fork_pause no_fork;
  const ssize_t n = kernel().recvmsg(fd_.get(), &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  std::array<file, 1> passed;
  if (n >= 0)  // also with an empty packet
    arriving.take(packet, passed);
  if (passed[0] && is_eventfd(passed[0].get()) && has_many_descriptors_left(passed[0].get(), 0))
    event_ = std::move(passed[0]);
  return n;
}

void bell_client::close() noexcept {
  const fork_pause no_fork;
  fd_.reset();
  event_.reset();
  rings_ = 0;
}

}  // namespace atbus::detail
