#include "node/route/sibling_addresses.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstdint>
#include <cstring>

namespace atbus::detail {
namespace {

enum class reach : std::uint8_t { none, this_host, all_interfaces, network };

reach reach_of(std::uint32_t ipv4) noexcept {
  const std::uint32_t first = ipv4 >> 24;
  if (ipv4 == INADDR_ANY)
    return reach::all_interfaces;
  if (first == IN_LOOPBACKNET)
    return reach::this_host;
  // "This network", multicast, reserved, broadcast.
  return first == 0 || first >= 224 ? reach::none : reach::network;
}

reach reach_of(const in6_addr& ipv6) noexcept {
  if (IN6_IS_ADDR_UNSPECIFIED(&ipv6))
    return reach::all_interfaces;
  if (IN6_IS_ADDR_LOOPBACK(&ipv6))
    return reach::this_host;
  if (IN6_IS_ADDR_V4MAPPED(&ipv6)) {
    std::uint32_t ipv4 = 0;
    std::memcpy(&ipv4, &ipv6.s6_addr[12], sizeof ipv4);
    return reach_of(ntohl(ipv4));
  }
  // A link-local one needs an interface too, which no address here has.
  return IN6_IS_ADDR_MULTICAST(&ipv6) || IN6_IS_ADDR_LINKLOCAL(&ipv6) ? reach::none
                                                                      : reach::network;
}

reach reach_of(const address& at) noexcept {
  switch (at.kind()) {
    case address_kind::mem:
    case address_kind::shm:
    case address_kind::unix_socket:
      return reach::this_host;
    case address_kind::ipv4:
      if (in_addr binary{}; inet_pton(AF_INET, at.name().c_str(), &binary) == 1)
        return reach_of(ntohl(binary.s_addr));
      break;
    case address_kind::ipv6:
      if (in6_addr binary{}; inet_pton(AF_INET6, at.name().c_str(), &binary) == 1)
        return reach_of(binary);
      break;
    case address_kind::dns:
    case address_kind::nats:  // who can reach that server is not known here
      break;
  }
  return reach::none;
}

}  // namespace

std::vector<std::string> addresses_to_tell(const std::vector<std::string>& said,
                                           std::string_view seen) {
  const result<address> from = address::parse(seen);
  std::vector<std::string> told;
  for (const std::string& text : said) {
    const result<address> at = address::parse(text);
    if (told.size() == sibling_addresses_max)
      break;
    if (!at || reach_of(*at) == reach::none)
      continue;
    if (reach_of(*at) != reach::all_interfaces)
      told.push_back(text);
    else if (from && from->kind() == at->kind())
      told.push_back(from->with_port(at->port()).to_string());
  }
  return told;
}

bool is_worth_dialling(const address& to, bool same_host) noexcept {
  const reach of = reach_of(to);
  return of == reach::network || (of == reach::this_host && same_host);
}

}  // namespace atbus::detail
