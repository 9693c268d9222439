// Addresses of plain sockets for tests, in the notation of the library but without its code.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace atbus::test {

struct socket_address {
  sockaddr_storage storage{};
  socklen_t size = 0;

  // "ipv4://a.b.c.d:port", "ipv6://::1:port", "ipv6://[::1]:port", "unix:///path", "unix://@name".
  // Options of the library behind a '?' are left out.
  static socket_address parse(std::string_view text) {
    text = text.substr(0, text.find('?'));
    const auto take = [&text](std::string_view scheme) {
      if (!text.starts_with(scheme))
        return false;
      text.remove_prefix(scheme.size());
      return true;
    };
    if (take("unix://"))
      return local(text);
    const bool four = take("ipv4://");
    if (!four && !take("ipv6://"))
      throw std::invalid_argument{"no socket address: " + std::string{text}};
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos)
      throw std::invalid_argument{"no port: " + std::string{text}};
    std::string host{text.substr(0, colon)};
    if (host.size() > 2 && host.front() == '[' && host.back() == ']')
      host = host.substr(1, host.size() - 2);
    const auto port = static_cast<std::uint16_t>(std::stoul(std::string{text.substr(colon + 1)}));
    socket_address at;
    if (four) {
      sockaddr_in in{};
      in.sin_family = AF_INET;
      in.sin_port = htons(port);
      at.take(in, inet_pton(AF_INET, host.c_str(), &in.sin_addr), host);
    } else {
      sockaddr_in6 in{};
      in.sin6_family = AF_INET6;
      in.sin6_port = htons(port);
      at.take(in, inet_pton(AF_INET6, host.c_str(), &in.sin6_addr), host);
    }
    return at;
  }

  // What a socket is bound to.
  static socket_address bound(int fd) {
    socket_address at;
    at.size = sizeof at.storage;
    if (getsockname(fd, at.get(), &at.size) != 0)
      throw std::system_error(errno, std::generic_category(), "getsockname");
    return at;
  }

  [[nodiscard]] int family() const noexcept { return storage.ss_family; }
  [[nodiscard]] sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
  [[nodiscard]] const sockaddr* get() const noexcept {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
  // The path of a Unix socket that is a file; empty for everything else.
  [[nodiscard]] std::string path() const {
    const std::string name = unix_name();
    return name.empty() || name.front() == '@' ? std::string{} : name;
  }

  [[nodiscard]] std::string text() const {
    char host[INET6_ADDRSTRLEN] = {};
    if (family() == AF_INET) {
      sockaddr_in in{};
      std::memcpy(&in, &storage, sizeof in);
      inet_ntop(AF_INET, &in.sin_addr, host, sizeof host);
      return "ipv4://" + std::string{host} + ":" + std::to_string(ntohs(in.sin_port));
    }
    if (family() == AF_INET6) {
      sockaddr_in6 in{};
      std::memcpy(&in, &storage, sizeof in);
      inet_ntop(AF_INET6, &in.sin6_addr, host, sizeof host);
      return "ipv6://" + std::string{host} + ":" + std::to_string(ntohs(in.sin6_port));
    }
    return "unix://" + unix_name();
  }

 private:
  template <class Kind>
  void take(const Kind& in, int parsed, const std::string& host) {
    if (parsed != 1)
      throw std::invalid_argument{"no numeric host: " + host};
    std::memcpy(&storage, &in, sizeof in);
    size = sizeof in;
  }

  static socket_address local(std::string_view name) {
    sockaddr_un un{};
    un.sun_family = AF_UNIX;
    if (name.empty() || name.size() >= sizeof un.sun_path)
      throw std::invalid_argument{"no name of a Unix socket: " + std::string{name}};
    std::memcpy(un.sun_path, name.data(), name.size());
    const bool is_abstract = name.front() == '@';
    if (is_abstract)
      un.sun_path[0] = '\0';
    socket_address at;
    std::memcpy(&at.storage, &un, sizeof un);
    at.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() +
                                     (is_abstract ? 0 : 1));
    return at;
  }

  [[nodiscard]] std::string unix_name() const {
    if (family() != AF_UNIX || size <= offsetof(sockaddr_un, sun_path))
      return {};
    sockaddr_un un{};
    std::memcpy(&un, &storage, sizeof un);
    const std::size_t length = size - offsetof(sockaddr_un, sun_path);
    if (un.sun_path[0] == '\0')
      return "@" + std::string{un.sun_path + 1, length - 1};
    return std::string{un.sun_path, strnlen(un.sun_path, length)};
  }
};

}  // namespace atbus::test
