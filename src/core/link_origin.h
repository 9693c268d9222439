// Where the process at the other end of a link is, as the kernel says.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "atbus/bus_id.hpp"

namespace atbus::detail {

// An IPv6 address, or an IPv4 address a.b.c.d as ::ffff:a.b.c.d.
using network_address = std::array<std::byte, 16>;

struct link_origin {
  enum class place : std::uint8_t {
    unknown,
    relayed,  // behind other nodes
    host,     // this one
    network,
  };

  place where = place::unknown;
  std::uint32_t user = 0;     // of `host`: its user id
  network_address address{};  // of `network`
  bus_id node{};  // of `relayed`: in whose name it came, as the nodes on its way have checked
  // Of its verified certificate, such as "DNS:zone-1.example" or "URI:spiffe://example/zone"; empty without one.
  std::vector<std::string> names{};

  friend bool operator==(const link_origin&, const link_origin&) = default;
};

}  // namespace atbus::detail
