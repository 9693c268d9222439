#include "atbus/relay/config.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <sstream>

#include "atbus/address.hpp"
#include "atbus/node_client.h"
#include "atbus/relay/discovery_config.h"
#include "core/text.h"
#include "node/files/toml_reader.h"
#include "node/files/watched_file.h"
#include "protocol/token.h"

#if defined(ATBUS_HAS_HTTP)
#include "atbus/status_server.hpp"
#endif

namespace atbus::tool {
namespace {

using detail::in_quotes;

class relay_reader : detail::toml_reader {
 public:
  explicit relay_reader(const std::string& path)
      : toml_reader(path), name_of_file_(path), folder_(std::filesystem::path{path}.parent_path()) {
    add_keys();
  }

  result<relay_config> read(std::string_view text);

 private:
  using take = std::function<error(const toml::node&)>;

  void add_keys();
  error take_all(const toml::table& root);
  error take_connect(const toml::node& value);
  error take_certificates(const toml::node& value);
  error take_strangers(const toml::node& value);
  error take_http(const toml::node& value);
  error take_nats(const toml::node& value);
  error take_nats_key(std::string_view key, const toml::node& value);
  error make_carrier(const toml::table& root);
  error make_directory(const toml::table& root);
  error check_addresses(const toml::table& root) const;
  error check_http(const toml::table& root) const;
  error read_tokens();

  [[nodiscard]] error take_id(const toml::node& value, bus_id& into) const;
  [[nodiscard]] error take_text(const toml::node& value, std::string& into) const;
  [[nodiscard]] error take_texts(const toml::node& value, std::vector<std::string>& into) const;
  [[nodiscard]] error take_seconds(const toml::node& value, std::chrono::nanoseconds& into) const;
  template <class Number>
  [[nodiscard]] error take_number(const toml::node& value, Number& into) const;
  // Reads the value, then hands it to `use`.
  template <class Number>
  take number(node_options& (node_options::*use)(Number)) {
    return [this, use](const toml::node& value) {
      Number read{};
      error bad = take_number(value, read);
      if (bad)
        (made_.options.*use)(read);
      return bad;
    };
  }
  take seconds(node_options& (node_options::*use)(std::chrono::nanoseconds)) {
    return [this, use](const toml::node& value) {
      std::chrono::nanoseconds read{0};
      error bad = take_seconds(value, read);
      if (bad)
        (made_.options.*use)(read);
      return bad;
    };
  }
  take flag(node_options& (node_options::*use)(bool)) {
    return [this, use](const toml::node& value) -> error {
      const auto* const set = value.as_boolean();
      if (set == nullptr)
        return at(value, "true or false is expected");
      (made_.options.*use)(set->get());
      return {};
    };
  }
  // A path of a file, or none.
  take file(node_options& (node_options::*use)(std::string)) {
    return [this, use](const toml::node& value) {
      std::string read;
      error bad = take_text(value, read);
      if (bad)
        (made_.options.*use)(path_of(read));
      return bad;
    };
  }
  [[nodiscard]] std::string path_of(const std::string& named) const {
    return named.empty() ? named : (folder_ / named).string();
  }

  const std::string& name_of_file_;
  std::filesystem::path folder_;
  std::map<std::string, take, std::less<>> keys_;
  relay_config made_;
};

constexpr std::string_view no_nats =
    "this command was built without links through NATS (ATBUS_BUILD_NATS)";
// In seconds; with nanoseconds a double has digits to spare for years.
constexpr double longest_seconds = 1e8;

void relay_reader::add_keys() {
  keys_ = {
      {"id", [this](const toml::node& value) { return take_id(value, made_.id); }},
      {"listen", [this](const toml::node& value) { return take_texts(value, made_.listen); }},
      {"connect", [this](const toml::node& value) { return take_connect(value); }},
      {"parent",
       [this](const toml::node& value) {
         std::vector<std::string> all;
         error bad = take_texts(value, all);
         for (const std::string& one : all)
           made_.options.parent(one);
         return bad;
       }},
      {"children",
       [this](const toml::node& value) {
         std::string range;
         error bad = take_text(value, range);
         made_.options.children(range);
         return bad;
       }},
      {"token_file",
       [this](const toml::node& value) { return take_texts(value, made_.token_files); }},
      {"certificates", [this](const toml::node& value) { return take_certificates(value); }},
      {"access", file(&node_options::access)},
      {"directory", file(&node_options::directory)},
      {"report_directory", file(&node_options::report_directory)},
      {"allow_unauthenticated", flag(&node_options::allow_unauthenticated)},
      {"allow_unencrypted", flag(&node_options::allow_unencrypted)},
      {"built_in_commands", flag(&node_options::built_in_commands)},
      {"allow_tap", flag(&node_options::allow_tap)},
      {"message_limit", number<std::size_t>(&node_options::message_limit)},
      {"send_buffer_size", number<std::size_t>(&node_options::send_buffer_size)},
      {"connections", number<std::uint32_t>(&node_options::connections)},
      {"unconfirmed", number<std::uint32_t>(&node_options::unconfirmed)},
      {"sessions", number<std::size_t>(&node_options::sessions)},
      {"clients", number<std::size_t>(&node_options::clients)},
      {"fault_tolerance", number<unsigned>(&node_options::fault_tolerance)},
      {"ping_interval", seconds(&node_options::ping_interval)},
      {"first_idle_timeout", seconds(&node_options::first_idle_timeout)},
      {"strangers", [this](const toml::node& value) { return take_strangers(value); }},
      {"http", [this](const toml::node& value) { return take_http(value); }},
      {"nats", [this](const toml::node& value) { return take_nats(value); }},
      // Once the rest is known to be right: make_directory.
      {"discovery", [](const toml::node&) { return error{}; }},
      {"drain", [this](const toml::node& value) { return take_seconds(value, made_.drain); }},
      {"log",
       [this](const toml::node& value) -> error {
         std::string how;
         if (error bad = take_text(value, how); !bad)
           return bad;
         if (how != "text" && how != "json")
           return at(value, "the log is \"text\" or \"json\"");
         made_.log_as_json = how == "json";
         return {};
       }},
  };
}

result<relay_config> relay_reader::read(std::string_view text) {
  const result<toml::table> root = parse(text);
  if (!root)
    return root.error();
  if (error bad = take_all(*root); !bad)
    return bad;
  if (error bad = read_tokens(); !bad)
    return bad;
  if (error bad = make_carrier(*root); !bad)
    return bad;
  if (error bad = make_directory(*root); !bad)
    return bad;
  if (error bad = check_addresses(*root); !bad)
    return bad;
  if (error bad = check_http(*root); !bad)
    return bad;
  if (error bad = made_.options_with_tokens().check(); !bad)
    return at(*root, bad.text());
  return std::move(made_);
}

error relay_reader::take_all(const toml::table& root) {
  for (const auto& [key, value] : root) {
    const std::string name{key.str()};
    const auto known = keys_.find(name);
    if (known == keys_.end()) {
      std::string all;
      for (const auto& [one, ignored] : keys_)
        all += (all.empty() ? "" : ", ") + one;
      return at(key.source().begin, in_quotes(name) + " is unknown; there are " + all);
    }
    if (error bad = known->second(value); !bad)
      return bad;
    std::ostringstream raw;
    value.visit([&raw](const auto& of) { raw << of; });
    made_.raw[name] = raw.str();
  }
  if (made_.id == bus_id{})
    return at(root, "there is no \"id\": the bus id of the relay, such as \"0x12340000\"");
  if (made_.listen.empty() && made_.connect.empty() && made_.options.parents().empty())
    return at(root, "there is nothing to relay: no \"listen\", \"connect\" or \"parent\"");
  return {};
}

error relay_reader::take_id(const toml::node& value, bus_id& into) const {
  if (const auto* const number = value.as_integer(); number != nullptr && number->get() > 0) {
    into = bus_id{static_cast<std::uint64_t>(number->get())};
    return {};
  }
  const auto* const text = value.as_string();
  const auto read =
      text != nullptr ? bus_id::parse(text->get()) : result<bus_id>{errc::invalid_argument};
  if (!read || *read == bus_id{})
    return at(value, "a bus id is a number from 1 on, or a text such as \"0x12340007\"");
  into = *read;
  return {};
}

error relay_reader::take_text(const toml::node& value, std::string& into) const {
  const auto* const text = value.as_string();
  if (text == nullptr)
    return at(value, "a text is expected");
  into = text->get();
  return {};
}

error relay_reader::take_texts(const toml::node& value, std::vector<std::string>& into) const {
  const toml::array* const list = value.as_array();
  if (list == nullptr) {
    std::string one;
    if (error bad = take_text(value, one); !bad)
      return at(value, "a text, or a list of texts, is expected");
    into.push_back(std::move(one));
    return {};
  }
  for (const toml::node& each : *list) {
    std::string one;
    if (error bad = take_text(each, one); !bad)
      return bad;
    into.push_back(std::move(one));
  }
  return {};
}

error relay_reader::take_seconds(const toml::node& value, std::chrono::nanoseconds& into) const {
  double read = -1;
  if (const auto* const whole = value.as_integer(); whole != nullptr)
    read = static_cast<double>(whole->get());
  else if (const auto* const part = value.as_floating_point(); part != nullptr)
    read = part->get();
  if (!(read >= 0 && read <= longest_seconds))
    return at(value, "a number of seconds is expected, such as 2.5");
  into = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>{read});
  return {};
}

template <class Number>
error relay_reader::take_number(const toml::node& value, Number& into) const {
  const auto* const read = value.as_integer();
  if (read == nullptr || read->get() < 0 ||
      static_cast<std::uint64_t>(read->get()) > std::numeric_limits<Number>::max())
    return at(value, "a whole number from 0 to " +
                         std::to_string(std::numeric_limits<Number>::max()) + " is expected");
  into = static_cast<Number>(read->get());
  return {};
}

error relay_reader::take_connect(const toml::node& value) {
  const toml::array* const list = value.as_array();
  if (list == nullptr)
    return at(value, "\"connect\" is a list of entries, each under [[connect]]");
  for (const toml::node& one : *list) {
    const toml::table* const entry = one.as_table();
    const toml::node* const id = entry != nullptr ? entry->get("id") : nullptr;
    const toml::node* const address = entry != nullptr ? entry->get("address") : nullptr;
    if (id == nullptr || address == nullptr || entry->size() != 2)
      return at(one, "each [[connect]] has an \"id\" and an \"address\", and nothing else");
    std::pair<bus_id, std::string> made;
    if (error bad = take_id(*id, made.first); !bad)
      return bad;
    if (error bad = take_text(*address, made.second); !bad)
      return bad;
    made_.connect.push_back(std::move(made));
  }
  return {};
}

error relay_reader::take_certificates(const toml::node& value) {
  const toml::table* const entry = value.as_table();
  tls_files files;
  const std::pair<const char*, std::string*> wanted[] = {
      {"authority", &files.authority}, {"chain", &files.chain}, {"key", &files.key}};
  for (const auto& [name, into] : wanted) {
    const toml::node* const path = entry != nullptr ? entry->get(name) : nullptr;
    if (path == nullptr || entry->size() != std::size(wanted))
      return at(value, "[certificates] has \"authority\", \"chain\" and \"key\": three files");
    if (error bad = take_text(*path, *into); !bad)
      return bad;
    *into = path_of(*into);
  }
  made_.options.certificates(std::move(files));
  return {};
}

error relay_reader::take_strangers(const toml::node& value) {
  stranger_limits limits;
  const std::map<std::string, take, std::less<>> known = {
      {"per_address", [&](const toml::node& of) { return take_number(of, limits.per_address); }},
      {"bytes", [&](const toml::node& of) { return take_number(of, limits.bytes); }},
      {"handshakes_per_second",
       [&](const toml::node& of) { return take_number(of, limits.handshakes_per_second); }},
      {"first_byte_timeout",
       [&](const toml::node& of) { return take_seconds(of, limits.first_byte_timeout); }}};
  const toml::table* const entry = value.as_table();
  if (entry == nullptr)
    return at(value, "the limits of strangers stand under [strangers]");
  for (const auto& [key, limit] : *entry) {
    const auto found = known.find(std::string{key.str()});
    if (found == known.end())
      return at(key.source().begin,
                in_quotes(key.str()) +
                    " is unknown; [strangers] has per_address, bytes, handshakes_per_second and "
                    "first_byte_timeout");
    if (error bad = found->second(limit); !bad)
      return bad;
  }
  made_.options.strangers(limits);
  return {};
}

error relay_reader::take_http(const toml::node& value) {
  const toml::table* const entry = value.as_table();
  const toml::node* const listen = entry != nullptr ? entry->get("listen") : nullptr;
  if (listen == nullptr || entry->size() != 1)
    return at(value, "[http] has \"listen\", such as \"127.0.0.1:9464\", and nothing else");
  if (error bad = take_text(*listen, made_.http_listen); !bad)
    return bad;
#if defined(ATBUS_HAS_HTTP)
  const error bad = status_server_options{.listen = made_.http_listen}.check();
  return bad ? error{} : at(*listen, bad.text());
#else
  return at(value, "this command was built without a status server (ATBUS_BUILD_HTTP)");
#endif
}

error relay_reader::take_nats(const toml::node& value) {
  const toml::table* const entry = value.as_table();
  if (entry == nullptr)
    return at(value, "how to reach NATS servers stands under [nats]");
  for (const auto& [key, one] : *entry) {
    if (error bad = take_nats_key(key.str(), one); !bad)
      return bad;
  }
  return {};
}

error relay_reader::take_nats_key(std::string_view key, const toml::node& value) {
  nats_options& into = made_.nats;
  const std::pair<std::string_view, std::string*> files[] = {{"credentials", &into.credentials},
                                                             {"user_file", &into.user_file},
                                                             {"authority", &into.authority},
                                                             {"certificate", &into.certificate},
                                                             {"key", &into.key}};
  for (const auto& [name, path] : files) {
    if (name != key)
      continue;
    error bad = take_text(value, *path);
    *path = path_of(*path);
    return bad;
  }
  if (key == "servers")
    return take_texts(value, into.servers);
  if (key == "inbox_prefix")
    return take_text(value, into.inbox_prefix);
  if (key != "tls") {
    return at(value, in_quotes(key) +
                         " is unknown; [nats] has credentials, user_file, tls, authority, "
                         "certificate, key, servers and inbox_prefix");
  }
  if (value.as_boolean() == nullptr)
    return at(value, "true or false is expected");
  into.tls = value.as_boolean()->get();
  return {};
}

error relay_reader::make_carrier(const toml::table& root) {
  const toml::node* const entry = root.get("nats");
#if defined(ATBUS_HAS_NATS)
  auto made = nats_carrier(made_.nats);
  if (!made)
    return at(entry != nullptr ? *entry : root, made.error().text());
  made_.options.carrier(std::move(*made));
  return {};
#else
  return entry == nullptr ? error{} : at(*entry, std::string{no_nats});
#endif
}

error relay_reader::make_directory(const toml::table& root) {
  const toml::node* const entry = root.get("discovery");
  if (entry == nullptr)
    return {};
  if (root.contains("directory"))
    return at(*entry, "a relay has a \"directory\" or [discovery], not both");
  auto made = discovery_reader{name_of_file_, folder_}.read(*entry);
  if (!made)
    return made.error();
  made_.options.directory(*std::move(made));
  return {};
}

error relay_reader::check_http(const toml::table& root) const {
  if (!made_.http_listen.empty() && made_.options.report_directory().empty())
    return at(*root.get("http"),
              "the status server reads reports, and \"report_directory\" is empty");
  return {};
}

error relay_reader::read_tokens() {
  for (std::string& path : made_.token_files) {
    path = path_of(path);
    try {
      made_.tokens.push_back(read_token(path));
    } catch (const std::exception& problem) {
      return {errc::not_found, problem.what()};
    }
    if (const auto made = detail::token::make(as_bytes(made_.tokens.back())); !made)
      return {made.error().code(), path + ": " + std::string{made.error().text()}};
  }
  return {};
}

error relay_reader::check_addresses(const toml::table& root) const {
  const node_options all = made_.options_with_tokens();
  const auto check = [&](const char* key, const std::string& text) -> error {
    const result<address> where = address::parse(text);
    error bad = where ? all.lets_through(*where) : where.error();
    if (bad && where->kind() == address_kind::nats && all.carrier() == nullptr)
      bad = {errc::not_supported, std::string{no_nats}};
    return bad ? error{} : at(*root.get(key), text + ": " + std::string{bad.text()});
  };
  for (const std::string& one : made_.listen) {
    if (error bad = check("listen", one); !bad)
      return bad;
  }
  for (const auto& [id, one] : made_.connect) {
    if (error bad = check("connect", one); !bad)
      return bad;
  }
  for (const std::string& one : made_.options.parents()) {
    if (error bad = check("parent", one); !bad)
      return bad;
  }
  return {};
}

}  // namespace

node_options relay_config::options_with_tokens() const {
  node_options all = options;
  for (const std::string& one : tokens)
    all.token(one);
  return all;
}

result<relay_config> parse_relay_config(std::string_view text, const std::string& path) {
  return relay_reader{path}.read(text);
}

result<relay_config> read_relay_config(const std::string& path) {
  const auto text = detail::read_config_file(path);
  if (!text)
    return text.error();
  return parse_relay_config(*text, path);
}

std::vector<std::string> keys_that_need_a_restart(const relay_config& before,
                                                  const relay_config& after) {
  // The node itself looks at its files of access rules and of the directory.
  constexpr std::string_view can_change[] = {"connect", "token_file", "log", "drain"};
  std::vector<std::string> keys;
  const auto compare = [&](const relay_config& one, const relay_config& other) {
    for (const auto& [key, value] : one.raw) {
      const auto same = other.raw.find(key);
      const bool differs = same == other.raw.end() || same->second != value;
      if (differs && std::ranges::find(can_change, key) == std::end(can_change) &&
          std::ranges::find(keys, key) == keys.end())
        keys.push_back(key);
    }
  };
  compare(before, after);
  compare(after, before);
  // A node without a token can't get one, nor lose its last.
  if (before.tokens.empty() != after.tokens.empty())
    keys.emplace_back("token_file");
  return keys;
}

}  // namespace atbus::tool
