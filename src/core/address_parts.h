// Parsers for the parts of an address, all pure. An error text covers one part ("port: ..."); the caller
// puts the whole address in front.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "atbus/address.hpp"

namespace atbus::detail {

// The part between "scheme://" and the options.
struct address_place {
  std::string name;
  std::uint16_t port = 0;
  bool abstract = false;
  std::string subject = {};
};

// A name for mem:// or shm://, not empty.
result<address_place> parse_channel_name(std::string_view text);
// "/path" or "@abstract".
result<address_place> parse_unix_name(std::string_view text);
// "host:port", the host in canonical form.
result<address_place> parse_ipv4(std::string_view text);
result<address_place> parse_ipv6(std::string_view text);
result<address_place> parse_dns(std::string_view text);
// "host:port/subject", the host a name, an IPv4 address or an IPv6 address in brackets.
result<address_place> parse_nats(std::string_view text);

using address_options = std::array<std::optional<std::uint64_t>, address_option_count>;

// "key=value&key=value", the part after the '?'.
result<address_options> parse_address_options(address_kind kind, std::string_view text);
// The options as text with the '?', in the order of address_option; empty without options.
std::string format_address_options(const address_options& options);

}  // namespace atbus::detail
