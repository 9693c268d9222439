#include "atbus/relay/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace atbus::tool {

void tell_service_manager(std::string_view what) noexcept {
  const char* const path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un to{};
  if (path == nullptr || (path[0] != '/' && path[0] != '@') ||
      std::strlen(path) >= sizeof to.sun_path)
    return;
  to.sun_family = AF_UNIX;
  const std::size_t length = std::strlen(path);
  std::memcpy(to.sun_path, path, length);
  if (path[0] == '@')
    to.sun_path[0] = '\0';  // an abstract name
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return;
  // A manager that does not listen is no reason to fail.
  (void)sendto(fd, what.data(), what.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&to),
               static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length));
  close(fd);
}

}  // namespace atbus::tool
