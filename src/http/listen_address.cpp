#include "http/listen_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "core/text.h"

namespace atbus::detail {
namespace {

struct host_and_port {
  std::string host;  // without brackets
  bool bracketed = false;
  std::string_view port;
};

// "host", "host:port", "[host]", "[host]:port"
std::optional<host_and_port> split(std::string_view text) {
  host_and_port parts;
  std::string_view rest;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos)
      return std::nullopt;
    parts.bracketed = true;
    parts.host = text.substr(1, end - 1);
    rest = text.substr(end + 1);
  } else {
    const std::size_t end = std::min(text.find(':'), text.size());
    parts.host = text.substr(0, end);
    rest = text.substr(end);
  }
  if (!rest.empty() && rest.front() != ':')
    return std::nullopt;
  parts.port = rest.empty() ? rest : rest.substr(1);
  return parts;
}

std::optional<std::uint16_t> to_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (text.empty() || failed != std::errc{} || end != text.data() + text.size())
    return std::nullopt;
  return port;
}

bool is_address(const host_and_port& of) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(of.bracketed ? AF_INET6 : AF_INET, of.host.c_str(), bytes) == 1;
}

std::string printable(std::string_view text) {
  std::string shown{text.substr(0, 64)};
  std::ranges::replace_if(
      shown, [](char c) { return !is_printable(c); }, '?');
  return shown;
}

template <class Address>
Address as(const sockaddr_storage& from) noexcept {
  Address to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

}  // namespace

bool listen_address::is_loopback() const noexcept {
  if (storage.ss_family == AF_INET)
    return ntohl(as<sockaddr_in>(storage).sin_addr.s_addr) >> 24 == 127;
  const auto v6 = as<sockaddr_in6>(storage);
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) ||
         (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) && v6.sin6_addr.s6_addr[12] == 127);
}

std::uint16_t listen_address::port() const noexcept {
  return ntohs(storage.ss_family == AF_INET ? as<sockaddr_in>(storage).sin_port
                                            : as<sockaddr_in6>(storage).sin6_port);
}

std::string listen_address::to_string() const {
  char text[INET6_ADDRSTRLEN] = {};
  if (storage.ss_family == AF_INET) {
    const auto v4 = as<sockaddr_in>(storage);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    return std::string{text} + ':' + std::to_string(port());
  }
  const auto v6 = as<sockaddr_in6>(storage);
  inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
  return '[' + std::string{text} + "]:" + std::to_string(port());
}

result<listen_address> parse_listen_address(std::string_view text) {
  const auto parts = split(text);
  const auto port = parts ? to_port(parts->port) : std::nullopt;
  if (!port || parts->host.find('\0') != std::string::npos || !is_address(*parts))
    return error{errc::invalid_address,
                 "'" + printable(text) +
                     "': an IPv4 or IPv6 address and a port are expected, such as 127.0.0.1:9464 "
                     "or [::1]:9464"};
  listen_address made;
  if (parts->bracketed) {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(*port);
    inet_pton(AF_INET6, parts->host.c_str(), &v6.sin6_addr);
    std::memcpy(&made.storage, &v6, made.length = sizeof v6);
  } else {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(*port);
    inet_pton(AF_INET, parts->host.c_str(), &v4.sin_addr);
    std::memcpy(&made.storage, &v4, made.length = sizeof v4);
  }
  return made;
}

bool names_this_host(std::string_view host_header) {
  const auto parts = split(host_header);
  return parts && (is_address(*parts) || (!parts->bracketed && parts->host == "localhost"));
}

}  // namespace atbus::detail
