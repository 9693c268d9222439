// "HOST:PORT" with a numeric host, as a status server listens at.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "atbus/status.hpp"

namespace atbus::detail {

struct listen_address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  [[nodiscard]] bool is_loopback() const noexcept;
  [[nodiscard]] std::uint16_t port() const noexcept;
  // "127.0.0.1:9464", "[::1]:9464"
  [[nodiscard]] std::string to_string() const;
};

// Errors: invalid_address, with what is expected.
[[nodiscard]] result<listen_address> parse_listen_address(std::string_view text);

// Of a request: false if it names a host that is neither an address nor localhost. Such a name may be one
// that another site lets point here (DNS rebinding).
[[nodiscard]] bool names_this_host(std::string_view host_header);

}  // namespace atbus::detail
