#include "atbus/address.hpp"

#include <algorithm>
#include <cassert>

#include "core/address_parts.h"
#include "core/text.h"

namespace atbus {
namespace {

using detail::address_place;
using detail::in_quotes;

// In the address `shm://` the name is missing: the node chooses one.
result<address_place> parse_optional_name(std::string_view text) {
  return text.empty() ? address_place{} : detail::parse_channel_name(text);
}

struct scheme {
  address_kind kind;
  std::string_view name;
  result<address_place> (*parse_place)(std::string_view);
};

constexpr std::array<scheme, 7> schemes{{
    {address_kind::mem, "mem", detail::parse_channel_name},
    {address_kind::shm, "shm", parse_optional_name},
    {address_kind::unix_socket, "unix", detail::parse_unix_name},
    {address_kind::ipv4, "ipv4", detail::parse_ipv4},
    {address_kind::ipv6, "ipv6", detail::parse_ipv6},
    {address_kind::dns, "dns", detail::parse_dns},
    {address_kind::nats, "nats", detail::parse_nats},
}};

consteval bool schemes_match_their_kinds() {
  for (std::size_t i = 0; i < schemes.size(); ++i) {
    if (static_cast<std::size_t>(schemes[i].kind) != i)
      return false;
  }
  return true;
}
static_assert(schemes_match_their_kinds());

error at_fault(std::string_view text, errc code, std::string_view problem) {
  return {code, "address " + in_quotes(text) + ": " + std::string{problem}};
}

bool has_port(address_kind kind) {
  return kind == address_kind::ipv4 || kind == address_kind::ipv6 || kind == address_kind::dns ||
         kind == address_kind::nats;
}

bool is_control(char c) {
  const auto value = static_cast<unsigned char>(c);
  return value < 0x20 || value == 0x7f;
}

// The checks that are common to all kinds of address.
error check_bytes(std::string_view text) {
  if (text.size() > address_length_max) {
    return at_fault(text, errc::invalid_address,
                    "it has " + std::to_string(text.size()) + " bytes, the limit is " +
                        std::to_string(address_length_max));
  }
  const auto bad = std::ranges::find_if(text, is_control);
  if (bad == text.end())
    return {};
  return at_fault(text, errc::invalid_address,
                  "character " + std::to_string(bad - text.begin() + 1) +
                      " is the control character " + detail::shown(*bad) +
                      ", which is not allowed");
}

}  // namespace

std::string_view name(address_kind kind) noexcept {
  const auto index = static_cast<std::size_t>(kind);
  return index < schemes.size() ? schemes[index].name : "unknown";
}

result<address> address::parse(std::string_view text) {
  if (auto problem = check_bytes(text); !problem)
    return problem;

  constexpr std::string_view separator = "://";
  const auto scheme_end = text.find(separator);
  if (scheme_end == text.npos) {
    return at_fault(text, errc::invalid_address,
                    "no '://', as in shm://name or ipv4://127.0.0.1:7001");
  }
  const std::string_view wanted = text.substr(0, scheme_end);
  const auto scheme = std::ranges::find(schemes, wanted, &scheme::name);
  if (scheme == schemes.end()) {
    return at_fault(
        text, errc::invalid_address,
        "unknown kind " + in_quotes(wanted) + ": known are mem, shm, unix, ipv4, ipv6, dns, nats");
  }

  if (scheme->kind == address_kind::nats && text.find('@') != text.npos) {
    // Not shown: what is before the '@' may be a password.
    return error{errc::invalid_address,
                 "a nats:// address with '@': users and passwords belong into a file "
                 "(nats_options::user_file)"};
  }
  std::string_view options = text.substr(scheme_end + separator.size());
  const bool has_options = options.find('?') != options.npos;
  auto place = scheme->parse_place(detail::take_part(options, '?'));
  if (!place)
    return at_fault(text, place.error().code(), place.error().text());

  address parsed{scheme->kind};
  parsed.name_ = std::move(place->name);
  parsed.port_ = place->port;
  parsed.abstract_ = place->abstract;
  parsed.subject_ = std::move(place->subject);
  if (has_options) {
    const auto values = detail::parse_address_options(scheme->kind, options);
    if (!values)
      return at_fault(text, values.error().code(), values.error().text());
    parsed.options_ = *values;
  }
  return parsed;
}

std::string address::to_string() const {
  std::string text{atbus::name(kind_)};
  text += "://";
  if (abstract_)
    text += '@';
  text += name_.find(':') != name_.npos && has_port(kind_) ? '[' + name_ + ']' : name_;
  if (has_port(kind_))
    text += ':' + std::to_string(port_);
  if (!subject_.empty())
    text += '/' + subject_;
  return text += detail::format_address_options(options_);
}

address address::with_port(std::uint16_t port) const {
  assert(has_port(kind_));
  address changed = *this;
  changed.port_ = port;
  return changed;
}

result<address> address::with_name(std::string_view name) const {
  if (kind_ != address_kind::mem && kind_ != address_kind::shm) {
    return error{errc::invalid_argument,
                 to_string() + ": only mem:// and shm:// can be given a name"};
  }
  auto place = detail::parse_channel_name(name);
  if (!place)
    return place.error();
  address changed = *this;
  changed.name_ = std::move(place->name);
  return changed;
}

}  // namespace atbus
