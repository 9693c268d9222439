// Asks a status server over a plain socket.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

#include "plain_socket.h"

namespace atbus::test {

struct http_response {
  int code = 0;  // 0: there was none
  std::string head;
  std::string body;

  [[nodiscard]] bool has(std::string_view header) const {
    return head.find(header) != std::string::npos;
  }
};

// "127.0.0.1:9464", "[::1]:9464"
inline plain_socket connect_to_server(const std::string& server, std::string_view from = {}) {
  return plain_socket::connect((server.starts_with('[') ? "ipv6://" : "ipv4://") + server, from);
}

// What is left of the stream.
inline http_response receive_response(plain_socket& from) {
  http_response got;
  const std::string all = from.receive_all();
  const std::size_t end = all.find("\r\n\r\n");
  if (end == std::string::npos)
    return got;
  got.head = all.substr(0, end + 2);
  got.body = all.substr(end + 4);
  got.code = std::atoi(got.head.c_str() + std::string_view{"HTTP/1.1 "}.size());
  return got;
}

inline std::string request_for(std::string_view path, std::string_view method = "GET",
                               std::string_view host = "127.0.0.1") {
  return std::string{method} + ' ' + std::string{path} + " HTTP/1.1\r\nHost: " + std::string{host} +
         "\r\n\r\n";
}

inline http_response ask_with(const std::string& server, std::string_view request,
                              std::string_view from = {}) {
  plain_socket socket = connect_to_server(server, from);
  if (!socket.send(request))
    return {};
  return receive_response(socket);
}
inline http_response ask(const std::string& server, std::string_view path) {
  return ask_with(server, request_for(path));
}

}  // namespace atbus::test
