#include "node/access/access_rules.h"

namespace atbus::detail {

bool subnet::contains(const network_address& address) const noexcept {
  unsigned left = length;
  for (std::size_t i = 0; i != prefix.size() && left != 0; ++i) {
    const unsigned bits = std::min(left, 8U);
    const auto mask = static_cast<std::byte>(0xff00U >> bits);
    if (((prefix[i] ^ address[i]) & mask) != std::byte{0})
      return false;
    left -= bits;
  }
  return true;
}

namespace {

// `*` stands for any characters, also none.
bool matches(std::string_view pattern, std::string_view text) noexcept {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos)
    return pattern == text;
  if (text.substr(0, star) != pattern.substr(0, star))
    return false;
  pattern.remove_prefix(star + 1);
  for (text.remove_prefix(star);; text.remove_prefix(1)) {
    if (matches(pattern, text))
      return true;
    if (text.empty())
      return false;
  }
}

}  // namespace

bool register_entry::covers(const link_origin& from) const noexcept {
  const auto is_named = [&](const std::string& pattern) {
    return std::ranges::any_of(from.names,
                               [&](const std::string& name) { return matches(pattern, name); });
  };
  if (!names.empty() && from.where != link_origin::place::relayed &&
      !std::ranges::any_of(names, is_named))
    return false;
  if (from_anywhere)
    return true;
  switch (from.where) {
    case link_origin::place::relayed:
      return true;
    case link_origin::place::host:
      return std::ranges::find(users, from.user) != users.end();
    case link_origin::place::network:
      return std::ranges::any_of(networks,
                                 [&](const subnet& one) { return one.contains(from.address); });
    case link_origin::place::unknown:
      break;
  }
  return false;
}

access_line access_rules::may_register(bus_id id, const std::optional<id_range>& below,
                                       const link_origin& from) const noexcept {
  if (register_any)
    return register_any;
  for (const register_entry& one : registrations) {
    if (one.ids.contains(id) && (!below || one.ids.contains(*below)) && one.covers(from))
      return one.line;
  }
  return std::nullopt;
}

access_line access_rules::may_send(bus_id from, bus_id to, message_class what,
                                   std::uint32_t type) const noexcept {
  return find(from, to, [=](const send_entry& one) { return one.types_of(what).contains(type); });
}

access_line access_rules::may_command(bus_id from, bus_id to,
                                      std::string_view name) const noexcept {
  return find(from, to, [=](const send_entry& one) { return one.commands.contains(name); });
}

access_line access_rules::may_broadcast(bus_id from, const id_range& to,
                                        std::uint32_t type) const noexcept {
  return find(from, to, [=](const send_entry& one) { return one.broadcasts.contains(type); });
}

bool access_rules::may_meet(bus_id one, bus_id other) const noexcept {
  const auto any = [](const send_entry&) { return true; };
  return find(one, other, any) || find(other, one, any);
}

bool access_rules::may_meet(const id_range& one, const id_range& other) const noexcept {
  const auto any = [](const send_entry&) { return true; };
  return find(one, other, any) || find(other, one, any);
}

bool access_rules::may_send_all(bus_id from, bus_id to) const noexcept {
  return find(from, to, [](const send_entry& one) { return one.messages.any; }) &&
         find(from, to, [](const send_entry& one) { return one.requests.any; });
}

}  // namespace atbus::detail
