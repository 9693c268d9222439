#include "core/address_parts.h"

#include <arpa/inet.h>

#include <algorithm>

#include "core/text.h"

namespace atbus::detail {
namespace {

constexpr std::size_t host_length_max = 253;  // RFC 1035, 2.3.4, without the final dot
constexpr std::size_t label_length_max = 63;
constexpr std::uint64_t port_max = 65535;

error bad_name(std::string problem) {
  return {errc::invalid_name, std::move(problem)};
}
error bad_address(std::string problem) {
  return {errc::invalid_address, std::move(problem)};
}

std::string too_long(std::string_view text, std::size_t limit) {
  return in_quotes(text) + " has " + std::to_string(text.size()) + " bytes, the limit is " +
         std::to_string(limit);
}

constexpr bool is_name_character(char c) noexcept {
  return is_letter(c) || is_digit(c) || c == '_' || c == '.' || c == '-';
}

struct host_and_port {
  std::string_view host;
  std::uint16_t port;
};

// The last colon separates, so that a bare IPv6 address needs no brackets.
result<host_and_port> split_port(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == text.npos || text.ends_with(']')) {
    return bad_address("no port after " + in_quotes(text) + ": write host:port");
  }
  const auto port = parse_number(text.substr(colon + 1), port_max);
  if (!port)
    return bad_address("port: " + port.error().text());
  return host_and_port{text.substr(0, colon), static_cast<std::uint16_t>(*port)};
}

// The IP address as inet_ntop writes it; empty if the text is not one. The text holds no NUL (checked by
// address::parse).
std::optional<std::string> canonical_ip(int family, std::string_view text) {
  std::array<unsigned char, sizeof(in6_addr)> binary{};
  std::array<char, INET6_ADDRSTRLEN> canonical{};
  if (inet_pton(family, std::string{text}.c_str(), binary.data()) != 1)
    return std::nullopt;
  return inet_ntop(family, binary.data(), canonical.data(), canonical.size());
}

std::optional<std::string> problem_with_label(std::string_view label) {
  if (label.empty())
    return "empty label (two dots in a row, or one at the start)";
  if (label.size() > label_length_max)
    return too_long(label, label_length_max);
  if (label.front() == '-' || label.back() == '-') {
    return in_quotes(label) + " starts or ends with '-'";
  }
  const auto bad = std::ranges::find_if_not(
      label, [](char c) { return is_letter(c) || is_digit(c) || c == '-' || c == '_'; });
  if (bad == label.end())
    return std::nullopt;
  return bad_character(label, static_cast<std::size_t>(bad - label.begin()), "A-Z a-z 0-9 _ -");
}

std::optional<std::string> problem_with_subject(std::string_view subject) {
  if (subject.size() > subject_length_max)
    return too_long(subject, subject_length_max);
  std::string_view tokens = subject;
  for (bool more = true; more;) {
    more = tokens.find('.') != tokens.npos;
    const std::string_view token = take_part(tokens, '.');
    if (token.empty())
      return in_quotes(subject) + " has an empty token (two dots in a row, or one at an end)";
    const auto bad = std::ranges::find_if_not(
        token, [](char c) { return is_letter(c) || is_digit(c) || c == '-' || c == '_'; });
    if (bad != token.end())
      return bad_character(token, static_cast<std::size_t>(bad - token.begin()),
                           "A-Z a-z 0-9 _ - and dots between tokens");
  }
  return std::nullopt;
}

std::string lower_case(std::string_view text) {
  std::string lower{text};
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z')
      c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

}  // namespace

result<address_place> parse_channel_name(std::string_view text) {
  if (text.empty())
    return bad_name("the name is empty");
  if (text.size() > channel_name_length_max) {
    return bad_name("name " + too_long(text, channel_name_length_max));
  }
  const auto bad = std::ranges::find_if_not(text, is_name_character);
  if (bad != text.end()) {
    const auto index = static_cast<std::size_t>(bad - text.begin());
    return bad_name("name " + bad_character(text, index, "A-Z a-z 0-9 _ . -"));
  }
  if (text.front() == '.' || text.front() == '-') {
    return bad_name("name " + bad_character(text, 0, "first a letter, a digit or _"));
  }
  return address_place{.name = std::string{text}};
}

result<address_place> parse_unix_name(std::string_view text) {
  const bool abstract = text.starts_with('@');
  if (!abstract && !text.starts_with('/')) {
    return bad_name("path " + in_quotes(text) +
                    " starts with neither '/' (a full path: unix:///run/x.sock) nor '@' (an "
                    "abstract name: unix://@x)");
  }
  const std::string_view name = abstract ? text.substr(1) : text;
  const std::string what = abstract ? "abstract name " : "path ";
  if (name.empty())
    return bad_name("the abstract name after '@' is empty");
  if (name.size() > unix_name_length_max) {
    return bad_name(what + too_long(name, unix_name_length_max));
  }
  if (!abstract && name.ends_with('/')) {
    return bad_name("path " + in_quotes(name) +
                    " ends with '/', so it names a folder, not a socket");
  }
  return address_place{.name = std::string{name}, .abstract = abstract};
}

result<address_place> parse_ipv4(std::string_view text) {
  const auto place = split_port(text);
  if (!place)
    return place.error();
  auto host = canonical_ip(AF_INET, place->host);
  if (!host) {
    return bad_address("host " + in_quotes(place->host) +
                       " is no IPv4 address such as 127.0.0.1 (for host names: dns://)");
  }
  return address_place{.name = std::move(*host), .port = place->port};
}

result<address_place> parse_ipv6(std::string_view text) {
  const auto place = split_port(text);
  if (!place)
    return place.error();
  std::string_view literal = place->host;
  if (literal.starts_with('[') && literal.ends_with(']')) {
    literal = literal.substr(1, literal.size() - 2);
  }
  if (literal.find('%') != literal.npos) {
    return bad_address("host " + in_quotes(place->host) + ": zones (%interface) are not supported");
  }
  auto host = canonical_ip(AF_INET6, literal);
  if (!host) {
    return bad_address("host " + in_quotes(place->host) +
                       " is no IPv6 address such as [::1] (what follows the last colon, " +
                       std::to_string(place->port) + ", was taken as the port)");
  }
  return address_place{.name = std::move(*host), .port = place->port};
}

result<address_place> parse_dns(std::string_view text) {
  const auto place = split_port(text);
  if (!place)
    return place.error();
  std::string_view labels = place->host;
  if (labels.ends_with('.'))
    labels.remove_suffix(1);  // "already complete", kept in the name
  if (labels.empty())
    return bad_address("the host is empty");
  if (labels.size() > host_length_max) {
    return bad_address("host " + too_long(labels, host_length_max));
  }
  for (bool more = true; more;) {
    more = labels.find('.') != labels.npos;
    if (const auto problem = problem_with_label(take_part(labels, '.'))) {
      return bad_address("host " + in_quotes(place->host) + ": " + *problem);
    }
  }
  return address_place{.name = lower_case(place->host), .port = place->port};
}

result<address_place> parse_nats(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == text.npos)
    return bad_address("no subject: write host:port/subject");
  const std::string_view server = text.substr(0, slash);
  auto place = server.starts_with('[') ? parse_ipv6(server) : parse_dns(server);
  if (!place)
    return place;
  const std::string_view subject = text.substr(slash + 1);
  if (auto problem = problem_with_subject(subject))
    return bad_name("subject " + *problem);
  place->subject = subject;
  return place;
}

}  // namespace atbus::detail
