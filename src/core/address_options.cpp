#include <algorithm>

#include "core/address_parts.h"
#include "core/text.h"

namespace atbus::detail {
namespace {

enum class value_form : std::uint8_t { count, size, flag };

// A new option is a new row here and a new value of address_option, in the same order.
struct option_rule {
  address_option option;
  std::string_view key;
  value_form form;
  std::array<bool, 7> kinds;  // indexed by address_kind: mem shm unix ipv4 ipv6 dns nats
};

constexpr std::array<bool, 7> lanes_kinds{true, true, false, false, false, false, false};
constexpr std::array<bool, 7> unix_kind{false, false, true, false, false, false, false};
constexpr std::array<bool, 7> network_kinds{false, false, false, true, true, true, true};

constexpr std::array<option_rule, address_option_count> rules{{
    {address_option::lanes, "lanes", value_form::count, lanes_kinds},
    {address_option::lane_size, "lane_size", value_form::size, lanes_kinds},
    {address_option::message_limit, "message_limit", value_form::size, lanes_kinds},
    {address_option::prefault, "prefault", value_form::flag, lanes_kinds},
    {address_option::durable, "durable", value_form::flag, lanes_kinds},
    {address_option::shm, "shm", value_form::flag, unix_kind},
    {address_option::tls, "tls", value_form::flag, network_kinds},
}};

consteval bool rules_match_their_options() {
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (static_cast<std::size_t>(rules[i].option) != i || rules[i].key.empty())
      return false;
  }
  return true;
}
static_assert(rules_match_their_options());

bool applies(const option_rule& rule, address_kind kind) {
  return rule.kinds[static_cast<std::size_t>(kind)];
}

std::string known_keys(address_kind kind) {
  std::string keys;
  for (const option_rule& rule : rules) {
    if (applies(rule, kind))
      keys.append(keys.empty() ? "" : ", ").append(rule.key);
  }
  return std::string{name(kind)} + ":// knows " + keys;
}

error bad_option(std::string problem) {
  return {errc::invalid_address, std::move(problem)};
}

result<std::uint64_t> parse_value(value_form form, std::string_view text) {
  if (form == value_form::flag) {
    const auto flag = parse_flag(text);
    if (!flag)
      return flag.error();
    return std::uint64_t{*flag};
  }
  auto number = form == value_form::size ? parse_size(text) : parse_number(text);
  if (number && *number == 0)
    return bad_option("'" + std::string{text} + "' is too small: at least 1");
  return number;
}

std::string format_value(value_form form, std::uint64_t value) {
  if (form == value_form::flag)
    return value != 0 ? "true" : "false";
  return form == value_form::size ? format_size(value) : std::to_string(value);
}

error parse_option(address_kind kind, std::string_view text, address_options& options) {
  std::string_view value = text;
  const std::string_view key = take_part(value, '=');
  const auto rule = std::ranges::find_if(
      rules, [&](const option_rule& r) { return r.key == key && applies(r, kind); });
  if (rule == rules.end()) {
    return bad_option("unknown option " + in_quotes(key) + ": " + known_keys(kind));
  }
  if (key.size() == text.size()) {
    return bad_option("option " + in_quotes(key) + " has no value: write " + std::string{key} +
                      "=...");
  }
  auto& slot = options[static_cast<std::size_t>(rule->option)];
  if (slot)
    return bad_option("option " + in_quotes(key) + " is given twice");
  const auto parsed = parse_value(rule->form, value);
  if (!parsed)
    return bad_option("option " + in_quotes(key) + ": " + parsed.error().text());
  slot = *parsed;
  return {};
}

}  // namespace

result<address_options> parse_address_options(address_kind kind, std::string_view text) {
  address_options options;
  for (bool more = true; more;) {
    more = text.find('&') != text.npos;
    if (auto problem = parse_option(kind, take_part(text, '&'), options); !problem)
      return problem;
  }
  return options;
}

std::string format_address_options(const address_options& options) {
  std::string text;
  for (const option_rule& rule : rules) {
    const auto& value = options[static_cast<std::size_t>(rule.option)];
    if (!value)
      continue;
    text.append(text.empty() ? "?" : "&").append(rule.key).append("=");
    text.append(format_value(rule.form, *value));
  }
  return text;
}

}  // namespace atbus::detail
