// What both ends of a doorbell need: its socket and address, and when rings go through an eventfd.
#pragma once

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "system/kernel.h"
#include "system/socket.h"

namespace atbus::detail {

struct bell_address {
  sockaddr_un address{};
  socklen_t length = 0;
};

// The address of a file through an open directory, because sun_path is limited to 108 bytes.
inline bell_address path_address(int directory, const std::string& file_name) {
  bell_address a;
  a.address.sun_family = AF_UNIX;
  const std::string path = "/proc/self/fd/" + std::to_string(directory) + "/" + file_name;
  const std::size_t n = std::min(path.size(), sizeof a.address.sun_path - 1);
  std::memcpy(a.address.sun_path, path.data(), n);
  a.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + n + 1);
  return a;
}

inline bell_address abstract_address(const std::string& raw) {
  bell_address a;
  a.address.sun_family = AF_UNIX;
  const std::size_t n = std::min(raw.size(), sizeof a.address.sun_path);
  std::memcpy(a.address.sun_path, raw.data(), n);
  a.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + n);
  return a;
}

// Only processes of the same user may ring; for mem:// only this process.
inline bool is_trusted(int fd, bool in_process) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
    return false;
  return peer.uid == geteuid() && (!in_process || peer.pid == getpid());
}

inline file bell_socket() {
  file made{kernel().socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (made)
    let_descriptors_through(made.get(), false);
  return made;
}

// Whether the receiver passes an eventfd after so many rings: 16, 32, 64 and so on, because an older process at the
// other end never takes one.
inline bool is_time_for_event(std::uint32_t rings) noexcept {
  return rings >= 16 && std::has_single_bit(rings);
}

// Leaves most of the process's descriptors to connections. `newest`: the lowest number that was free; `events`: the
// eventfds that are used already.
inline bool has_many_descriptors_left(int newest, std::size_t events) noexcept {
  rlimit most{};
  return getrlimit(RLIMIT_NOFILE, &most) != 0 ||
         (static_cast<rlim_t>(newest) < most.rlim_cur / 2 && events < most.rlim_cur / 4);
}

}  // namespace atbus::detail
