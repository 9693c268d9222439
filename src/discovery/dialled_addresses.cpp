#include "discovery/dialled_addresses.h"

#include <optional>

#include "atbus/address.hpp"

namespace atbus::detail {
namespace {

std::optional<address> address_of(std::string_view host, std::uint16_t port) {
  const std::string end = ':' + std::to_string(port);
  for (const std::string& text :
       {"ipv4://" + std::string{host} + end, "ipv6://[" + std::string{host} + ']' + end,
        "dns://" + std::string{host} + end}) {
    if (const result<address> made = address::parse(text))
      return *made;
  }
  return std::nullopt;
}

bool is_all_interfaces(const address& of) {
  return (of.kind() == address_kind::ipv4 && of.name() == "0.0.0.0") ||
         (of.kind() == address_kind::ipv6 && of.name() == "::");
}

}  // namespace

bool is_host(std::string_view host) {
  const auto made = address_of(host, 1);
  return made && !is_all_interfaces(*made);
}

std::vector<std::string> addresses_to_dial(const std::vector<std::string>& said,
                                           std::string_view host, std::string_view seen) {
  std::vector<std::string> told;
  for (const std::string& one : said) {
    const result<address> at = address::parse(one);
    if (!at || !is_all_interfaces(*at)) {
      told.push_back(one);
      continue;
    }
    const auto to = address_of(host.empty() ? seen : host, at->port());
    if (!to || (to->kind() != at->kind() && to->kind() != address_kind::dns))
      continue;
    // Its options are for who connects too.
    const std::size_t options = one.find('?');
    told.push_back(to->to_string() + (options != one.npos ? one.substr(options) : ""));
  }
  return told;
}

}  // namespace atbus::detail
