#include "node/access/access_file.h"

#include <arpa/inet.h>

#include <cstring>
#include <string>
#include <utility>

#include "core/text.h"
#include "node/files/toml_reader.h"

namespace atbus::detail {
namespace {

constexpr std::string_view any_text = "any";
constexpr std::string_view clients_text = "clients";
constexpr std::string_view user_prefix = "user:";
constexpr std::ptrdiff_t name_stars_max = 2;  // each multiplies the time to compare
constexpr unsigned ipv4_prefix_bits = 96;     // of ::ffff:0:0/96

std::optional<network_address> parse_network_address(const std::string& text) {
  network_address made{};
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) {
    made[10] = made[11] = std::byte{0xff};
    std::memcpy(&made[12], &v4, sizeof v4);
    return made;
  }
  if (inet_pton(AF_INET6, text.c_str(), made.data()) == 1)
    return made;
  return std::nullopt;
}

bool has_bits_below(const network_address& prefix, unsigned length) noexcept {
  for (unsigned bit = length; bit < 128; ++bit) {
    if ((prefix[bit / 8] & static_cast<std::byte>(0x80U >> bit % 8)) != std::byte{0})
      return true;
  }
  return false;
}

// "10.0.0.0/8", "fd00::/8", or an address alone.
std::optional<subnet> parse_subnet(std::string_view text) {
  const std::size_t slash = text.find('/');
  const std::string address{text.substr(0, slash)};
  const auto prefix = parse_network_address(address);
  if (!prefix)
    return std::nullopt;
  const unsigned above = address.find(':') == std::string::npos ? ipv4_prefix_bits : 0;
  subnet made{*prefix, 128};
  if (slash != std::string_view::npos) {
    const result<std::uint64_t> length = parse_number(text.substr(slash + 1), 128 - above);
    if (!length)
      return std::nullopt;
    made.length = above + static_cast<unsigned>(*length);
  }
  if (has_bits_below(made.prefix, made.length))
    return std::nullopt;
  return made;
}

// None: it is something else.
std::optional<std::uint32_t> parse_user(std::string_view text) {
  if (!text.starts_with(user_prefix))
    return std::nullopt;
  const auto user =
      parse_number(text.substr(user_prefix.size()), std::numeric_limits<std::uint32_t>::max());
  return user ? std::optional{static_cast<std::uint32_t>(*user)} : std::nullopt;
}

// An id, or a range of them.
result<id_range> parse_ids(std::string_view text) {
  if (text.find('/') != std::string_view::npos)
    return id_range::parse(text);
  const result<bus_id> id = bus_id::parse(text);
  if (!id)
    return id.error();
  if (*id == bus_id{})
    return error{errc::invalid_argument, "0 is no id of a node; clients are \"clients\""};
  return id_range::single(*id);
}

class access_reader : toml_reader {
 public:
  explicit access_reader(std::string_view name) noexcept : toml_reader(name) {}

  result<access_rules> read(std::string_view text);

 private:
  using entry_reader = error (access_reader::*)(const toml::table&);

  // Each says what is wrong; no error: it was taken.
  error take_all(const toml::table& root);
  error take_part(const toml::table& root, std::string_view name, access_line& any,
                  entry_reader take);
  error take_registration(const toml::table& entry);
  error take_send(const toml::table& entry);
  error take_origin(const toml::node& value, register_entry& into) const;
  error take_name(const toml::node& value, std::vector<std::string>& into) const;
  error take_ids(const toml::table& entry, std::string_view key, id_set& into) const;
  // `read` makes a value of an element of the list, or says what is wrong with it.
  template <class Value, class Read>
  error take_values(const toml::table& entry, std::string_view key, std::string_view example,
                    value_set<Value>& into, Read&& read) const;
  error take_types(const toml::table& entry, std::string_view key, type_set& into) const;
  error take_names(const toml::table& entry, std::string_view key, name_set& into) const;
  // Calls `take` with each element of the list; `example` is one.
  template <class Take>
  error take_list(const toml::node& value, std::string_view example, Take&& take) const;
  error check_keys(const toml::table& entry, std::string_view what,
                   std::initializer_list<std::string_view> known) const;

  access_rules rules_;
};

bool is_any(const toml::node& value) noexcept {
  const auto* const text = value.as_string();
  return text != nullptr && text->get() == any_text;
}

result<access_rules> access_reader::read(std::string_view text) {
  const result<toml::table> root = parse(text);
  if (!root)
    return root.error();
  if (error bad = take_all(*root); !bad)
    return bad;
  return std::move(rules_);
}

error access_reader::take_all(const toml::table& root) {
  if (error bad = check_keys(root, "a file of access rules", {"register", "send"}); !bad)
    return bad;
  if (error bad =
          take_part(root, "register", rules_.register_any, &access_reader::take_registration);
      !bad)
    return bad;
  return take_part(root, "send", rules_.send_any, &access_reader::take_send);
}

// A part that is missing by mistake must not open the node to everybody.
error access_reader::take_part(const toml::table& root, std::string_view name, access_line& any,
                               entry_reader take) {
  const std::string key{name};
  const toml::node* const value = root.get(name);
  if (value == nullptr) {
    return at(toml::source_position{1, 1}, "there is no " + in_quotes(key) + "; write [[" + key +
                                               "]] entries, or " + key + " = \"any\"");
  }
  if (is_any(*value)) {
    any = value->source().begin.line;
    return {};
  }
  const toml::array* const list = value->as_array();
  if (list == nullptr)
    return at(*value, in_quotes(key) + " is a list of entries, each under [[" + key +
                          "]], or the text \"any\"");
  if (list->size() > access_entries_max)
    return at(*value, "more than " + std::to_string(access_entries_max) + " entries");
  for (const toml::node& one : *list) {
    const toml::table* const entry = one.as_table();
    if (entry == nullptr)
      return at(one, "not an entry; each begins with [[" + key + "]]");
    if (error bad = (this->*take)(*entry); !bad)
      return bad;
  }
  return {};
}

error access_reader::check_keys(const toml::table& entry, std::string_view what,
                                std::initializer_list<std::string_view> known) const {
  for (const auto& [key, value] : entry) {
    if (std::ranges::find(known, key.str()) != known.end())
      continue;
    std::string text = in_quotes(key.str()) + " is unknown; " + std::string{what} + " has ";
    for (const std::string_view& one : known)
      text += (&one == known.begin() ? "" : ", ") + std::string{one};
    return at(key.source().begin, text);
  }
  return {};
}

template <class Take>
error access_reader::take_list(const toml::node& value, std::string_view example,
                               Take&& take) const {
  const toml::array* const list = value.as_array();
  if (list == nullptr || list->empty()) {
    return at(value, "a list of at least one value is expected, such as [" + std::string{example} +
                         "], or the text \"any\"");
  }
  if (list->size() > access_values_max)
    return at(value, "more than " + std::to_string(access_values_max) + " values in one list");
  for (const toml::node& one : *list) {
    if (error bad = take(one); !bad)
      return bad;
  }
  return {};
}

error access_reader::take_ids(const toml::table& entry, std::string_view key, id_set& into) const {
  const toml::node* const value = entry.get(key);
  if (value == nullptr)
    return at(entry, "an entry without " + in_quotes(key));
  if (is_any(*value)) {
    into.ranges.emplace_back();
    into.clients = true;
    return {};
  }
  return take_list(*value, "\"0x12340000/48\", 7", [&](const toml::node& one) -> error {
    if (const auto* const number = one.as_integer(); number != nullptr && number->get() > 0) {
      into.ranges.push_back(id_range::single(bus_id{number->get()}));
      return {};
    }
    const auto* const text = one.as_string();
    if (text == nullptr)
      return at(one,
                "an id is a number from 1 on, or a text: \"0x12340007\", \"0x12340000/48\" "
                "for a range, \"clients\"");
    if (text->get() == clients_text) {
      into.clients = true;
      return {};
    }
    const result<id_range> read = parse_ids(text->get());
    if (!read)
      return at(one, read.error().text());
    into.ranges.push_back(*read);
    return {};
  });
}

error access_reader::take_origin(const toml::node& value, register_entry& into) const {
  const auto* const text = value.as_string();
  const std::string_view all = text != nullptr ? std::string_view{text->get()} : std::string_view{};
  if (const auto user = parse_user(all)) {
    into.users.push_back(*user);
    return {};
  }
  if (const auto network = parse_subnet(all)) {
    into.networks.push_back(*network);
    return {};
  }
  return at(value,
            "an origin is a network such as \"10.0.0.0/8\" or \"fd00::/8\" with no bits "
            "below its prefix, an address, or \"user:1000\" for processes of that user on "
            "this host");
}

error access_reader::take_name(const toml::node& value, std::vector<std::string>& into) const {
  constexpr std::string_view kinds[] = {"DNS:", "IP:", "URI:", "CN:"};
  const auto* const text = value.as_string();
  const bool has_kind = text != nullptr && std::ranges::any_of(kinds, [&](std::string_view kind) {
                          return text->get().size() > kind.size() && text->get().starts_with(kind);
                        });
  if (!has_kind || std::ranges::count(text->get(), '*') > name_stars_max) {
    return at(value,
              "a name of a certificate is DNS:, IP:, URI: or CN: and the name, with at most " +
                  std::to_string(name_stars_max) + " * for any characters: \"DNS:zone-*.example\"");
  }
  into.push_back(text->get());
  return {};
}

error access_reader::take_registration(const toml::table& entry) {
  if (error bad = check_keys(entry, "an entry of 'register'", {"ids", "from", "certificate"}); !bad)
    return bad;
  register_entry made{.line = entry.source().begin.line};
  if (error bad = take_ids(entry, "ids", made.ids); !bad)
    return bad;
  const toml::node* const from = entry.get("from");
  if (from == nullptr)
    return at(entry, "an entry without 'from'");
  made.from_anywhere = is_any(*from);
  if (!made.from_anywhere) {
    if (error bad =
            take_list(*from, "\"10.0.0.0/8\"",
                      [&](const toml::node& one) -> error { return take_origin(one, made); });
        !bad)
      return bad;
  }
  if (const toml::node* const names = entry.get("certificate"); names != nullptr) {
    if (error bad =
            take_list(*names, "\"DNS:zone-*.example\"",
                      [&](const toml::node& one) -> error { return take_name(one, made.names); });
        !bad)
      return bad;
  }
  rules_.registrations.push_back(std::move(made));
  return {};
}

template <class Value, class Read>
error access_reader::take_values(const toml::table& entry, std::string_view key,
                                 std::string_view example, value_set<Value>& into,
                                 Read&& read) const {
  const toml::node* const value = entry.get(key);
  if (value == nullptr)
    return {};
  into.any = is_any(*value);
  if (into.any)
    return {};
  error bad = take_list(*value, example, [&](const toml::node& one) -> error {
    result<Value> element = read(one);
    if (!element)
      return std::move(element).error();
    into.values.push_back(*std::move(element));
    return {};
  });
  std::ranges::sort(into.values);
  return bad;
}

error access_reader::take_types(const toml::table& entry, std::string_view key,
                                type_set& into) const {
  return take_values(entry, key, "1, 2", into, [&](const toml::node& one) -> result<std::uint32_t> {
    const auto* const number = one.as_integer();
    if (number == nullptr || number->get() < 0 ||
        number->get() > std::numeric_limits<std::uint32_t>::max())
      return at(one, "a type is a number from 0 to 4294967295");
    return static_cast<std::uint32_t>(number->get());
  });
}

error access_reader::take_names(const toml::table& entry, std::string_view key,
                                name_set& into) const {
  return take_values(entry, key, "\"status\"", into,
                     [&](const toml::node& one) -> result<std::string> {
                       const auto* const name = one.as_string();
                       if (name == nullptr || name->get().empty())
                         return at(one, "a command's name is a text, such as \"status\"");
                       return name->get();
                     });
}

error access_reader::take_send(const toml::table& entry) {
  if (error bad = check_keys(entry, "an entry of 'send'",
                             {"from", "to", "messages", "requests", "commands", "broadcasts"});
      !bad)
    return bad;
  send_entry made{.line = entry.source().begin.line};
  if (error bad = take_ids(entry, "from", made.from); !bad)
    return bad;
  if (error bad = take_ids(entry, "to", made.to); !bad)
    return bad;
  const std::pair<std::string_view, type_set*> types[] = {
      {"messages", &made.messages}, {"requests", &made.requests}, {"broadcasts", &made.broadcasts}};
  bool allows = entry.contains("commands");
  for (const auto& [key, into] : types) {
    allows = allows || entry.contains(key);
    if (error bad = take_types(entry, key, *into); !bad)
      return bad;
  }
  if (error bad = take_names(entry, "commands", made.commands); !bad)
    return bad;
  if (!allows)
    return at(entry,
              "an entry that allows nothing: say which messages, requests, commands or "
              "broadcasts");
  rules_.sends.push_back(std::move(made));
  return {};
}

}  // namespace

result<access_rules> read_access_file(std::string_view text, std::string_view name) {
  return access_reader{name}.read(text);
}

result<link_origin> read_origin(std::string_view text) {
  if (const auto user = parse_user(text))
    return link_origin{.where = link_origin::place::host, .user = *user};
  if (const auto address = parse_network_address(std::string{text}))
    return link_origin{.where = link_origin::place::network, .address = *address};
  return error{errc::invalid_argument,
               in_quotes(text) + " is no address such as 10.0.0.7, and no user such as user:1000"};
}

}  // namespace atbus::detail
