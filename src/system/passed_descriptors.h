// Descriptors that travel with a message over a Unix socket (SCM_RIGHTS).
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstring>

namespace atbus::detail {

// The room for `Count` of them. It outlives the call of sendmsg or recvmsg.
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

}  // namespace atbus::detail
