// Descriptors that travel with a message over a Unix socket (SCM_RIGHTS).
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "system/kernel.h"

namespace atbus::detail {

// `Count` of them on their way out. It outlives the call of sendmsg.
template <std::size_t Count>
class passed_descriptors {
 public:
  // `message` passes these.
  void attach(msghdr& message, const std::array<int, Count>& descriptors) noexcept {
    message.msg_control = control_.data();
    message.msg_controllen = control_.size();
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(Count * sizeof(int));
    std::memcpy(CMSG_DATA(head), descriptors.data(), Count * sizeof(int));
  }

 private:
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(Count * sizeof(int))> control_{};
};

// Sends one with a byte. False: the other end does not take it now, or is gone.
[[nodiscard]] inline bool pass_descriptor(int through, int descriptor) noexcept {
  char byte = 1;
  iovec piece{.iov_base = &byte, .iov_len = 1};
  msghdr packet{};
  packet.msg_iov = &piece;
  packet.msg_iovlen = 1;
  passed_descriptors<1> passed;
  passed.attach(packet, {descriptor});
  return kernel().sendmsg(through, &packet, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

// At most `Count` of them that arrive; the kernel closes others. It outlives the call of recvmsg.
template <std::size_t Count>
class arriving_descriptors {
 public:
  void attach(msghdr& message) noexcept {
    message.msg_control = control_.data();
    // Without what aligns the end, in which another one would fit.
    message.msg_controllen = CMSG_LEN(Count * sizeof(int));
  }
  // Owns what recvmsg has put into `message`, in front of `taken`.
  static void take(msghdr& message, std::array<file, Count>& taken) noexcept {
    for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
         head = CMSG_NXTHDR(&message, head)) {
      if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
        continue;
      const std::size_t count = std::min((head->cmsg_len - CMSG_LEN(0)) / sizeof(int), Count);
      for (std::size_t i = 0; i != count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
        taken[i] = file{fd};
      }
    }
  }

 private:
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(Count * sizeof(int))> control_{};
};

}  // namespace atbus::detail
