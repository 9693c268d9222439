#include "atbus/relay/discovery_config.h"

#include <array>
#include <utility>

#include "core/text.h"
#include "node/files/watched_file.h"

namespace atbus::tool {

result<std::shared_ptr<directory>> discovery_reader::read(const toml::node& value) const {
  const toml::table* const entry = value.as_table();
  if (entry == nullptr || !entry->contains("etcd")) {
    return at(value,
              "[discovery] has \"etcd\", the servers of an etcd such as "
              "[\"http://10.0.0.2:2379\"]");
  }
  etcd_options options;
  for (const auto& [key, one] : *entry) {
    if (error bad = take(key.str(), one, options); !bad)
      return bad;
  }
#if defined(ATBUS_HAS_DISCOVERY)
  auto made = etcd_directory::open(options);
  if (!made)
    return at(value, made.error().text());
  return std::shared_ptr<directory>{*std::move(made)};
#else
  return at(value, "this command was built without discovery (ATBUS_BUILD_DISCOVERY)");
#endif
}

error discovery_reader::take(std::string_view key, const toml::node& value,
                             etcd_options& into) const {
  const std::array<std::pair<std::string_view, std::string*>, 3> files{
      {{"authority", &into.authority}, {"certificate", &into.certificate}, {"key", &into.key}}};
  for (const auto& [name, path] : files) {
    if (name != key)
      continue;
    error bad = take_text(value, *path);
    *path = (folder_ / *path).string();
    return bad;
  }
  if (key == "etcd")
    return take_endpoints(value, into);
  if (key == "user_file")
    return take_user(value, into);
  if (key == "prefix")
    return take_text(value, into.prefix);
  if (key == "host")
    return take_text(value, into.host);
  if (key != "lease_time") {
    return at(value, detail::in_quotes(key) +
                         " is unknown; [discovery] has etcd, prefix, host, lease_time, user_file, "
                         "authority, certificate and key");
  }
  const auto* const seconds = value.as_integer();
  if (seconds == nullptr)
    return at(value, "a whole number of seconds is expected");
  into.lease_time = std::chrono::seconds{seconds->get()};
  return {};
}

error discovery_reader::take_text(const toml::node& value, std::string& into) const {
  const auto* const text = value.as_string();
  if (text == nullptr)
    return at(value, "a text is expected");
  into = text->get();
  return {};
}

error discovery_reader::take_endpoints(const toml::node& value, etcd_options& into) const {
  if (value.as_array() == nullptr)
    return take_text(value, into.endpoints.emplace_back());
  for (const toml::node& one : *value.as_array()) {
    if (error bad = take_text(one, into.endpoints.emplace_back()); !bad)
      return bad;
  }
  return {};
}

error discovery_reader::take_user(const toml::node& value, etcd_options& into) const {
  std::string path;
  if (error bad = take_text(value, path); !bad)
    return bad;
  const result<std::string> text = detail::read_config_file((folder_ / path).string());
  if (!text)
    return at(value, text.error().text());
  std::string_view rest{*text};
  into.user = detail::take_part(rest, '\n');
  into.password = detail::take_part(rest, '\n');
  return into.user.empty() ? at(value, "the file has no user in its first line") : error{};
}

}  // namespace atbus::tool
