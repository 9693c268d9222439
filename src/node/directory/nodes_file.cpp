#include "node/directory/nodes_file.h"

#include <utility>

#include "atbus/address.hpp"
#include "atbus/bus_id.hpp"
#include "core/text.h"
#include "node/files/toml_reader.h"

namespace atbus::detail {
namespace {

class nodes_reader : toml_reader {
 public:
  explicit nodes_reader(std::string_view name) noexcept : toml_reader(name) {}

  result<record_table::records> read(std::string_view text);

 private:
  // Each says what is wrong; no error: it was taken.
  error take_all(const toml::table& root);
  error take_node(const toml::table& entry);
  error take_addresses(const toml::node* value, const toml::table& entry,
                       std::vector<std::string>& into) const;
  error take_services(const toml::node* value, std::vector<std::string>& into) const;
  error take_labels(const toml::node* value, std::map<std::string, std::string>& into) const;
  [[nodiscard]] result<bus_id> id_of(const toml::node* value, const toml::table& entry) const;

  record_table::records nodes_;
  std::unordered_map<std::uint64_t, toml::source_index> lines_;  // of their entries
};

result<record_table::records> nodes_reader::read(std::string_view text) {
  const result<toml::table> root = parse(text);
  if (!root)
    return root.error();
  if (error bad = take_all(*root); !bad)
    return bad;
  return std::move(nodes_);
}

error nodes_reader::take_all(const toml::table& root) {
  for (const auto& [key, value] : root) {
    if (key.str() != "node") {
      return at(key.source().begin,
                in_quotes(key.str()) + " is unknown; each node begins with [[node]]");
    }
    const toml::array* const list = value.as_array();
    if (list == nullptr)
      return at(value, "\"node\" is not a list; each node begins with [[node]], in two brackets");
    if (list->size() > nodes_file_nodes_max)
      return at(value, "more than " + std::to_string(nodes_file_nodes_max) + " nodes");
    for (const toml::node& one : *list) {
      const toml::table* const entry = one.as_table();
      if (entry == nullptr)
        return at(one, "not a node; each node begins with [[node]]");
      if (error bad = take_node(*entry); !bad)
        return bad;
    }
  }
  return {};
}

error nodes_reader::take_node(const toml::table& entry) {
  for (const auto& [key, value] : entry) {
    if (key.str() != "id" && key.str() != "addresses" && key.str() != "services" &&
        key.str() != "labels") {
      return at(
          key.source().begin,
          in_quotes(key.str()) + " is unknown; a node has an id, addresses, services and labels");
    }
  }
  const result<bus_id> id = id_of(entry.get("id"), entry);
  if (!id)
    return id.error();
  const toml::source_index line = entry.get("id")->source().begin.line;
  if (const auto [known, fresh] = lines_.emplace(id->value(), line); !fresh) {
    return at(*entry.get("id"), "node " + id->to_string() + " is there already, in line " +
                                    std::to_string(known->second) +
                                    "; put all its addresses into one list");
  }
  directory_record& into = nodes_[id->value()];
  into.id = *id;
  if (error bad = take_addresses(entry.get("addresses"), entry, into.addresses); !bad)
    return bad;
  if (error bad = take_services(entry.get("services"), into.services); !bad)
    return bad;
  return take_labels(entry.get("labels"), into.labels);
}

result<bus_id> nodes_reader::id_of(const toml::node* value, const toml::table& entry) const {
  if (value == nullptr)
    return at(entry, "a node without an id");
  if (const auto* const number = value->as_integer(); number != nullptr && number->get() > 0)
    return bus_id{number->get()};
  if (const auto* const text = value->as_string(); text != nullptr) {
    result<bus_id> read = bus_id::parse(text->get());
    if (!read)
      return at(*value, read.error().text());
    if (*read != bus_id{})
      return read;
  }
  return at(*value, "an id is a number from 1 on, or a text such as \"0x12340007\" or \"1.2.3.4\"");
}

error nodes_reader::take_addresses(const toml::node* value, const toml::table& entry,
                                   std::vector<std::string>& into) const {
  const toml::array* const list = value != nullptr ? value->as_array() : nullptr;
  if (list == nullptr || list->empty()) {
    return at(value != nullptr ? *value : entry,
              "a node's addresses are a list of at least one text: addresses = "
              "[\"ipv4://10.0.0.7:7000\"]");
  }
  if (list->size() > nodes_file_addresses_max) {
    return at(*value,
              "more than " + std::to_string(nodes_file_addresses_max) + " addresses of one node");
  }
  for (const toml::node& one : *list) {
    const auto* const text = one.as_string();
    if (text == nullptr)
      return at(one, "an address is a text such as \"ipv4://10.0.0.7:7000\"");
    if (const result<address> read = address::parse(text->get()); !read)
      return at(one, read.error().text());
    into.push_back(text->get());
  }
  return {};
}

error nodes_reader::take_services(const toml::node* value, std::vector<std::string>& into) const {
  if (value == nullptr)
    return {};
  const toml::array* const list = value->as_array();
  if (list == nullptr)
    return at(*value, "services are a list of names: services = [\"chat\"]");
  if (list->size() > nodes_file_services_max)
    return at(*value, "more than " + std::to_string(nodes_file_services_max) + " services");
  for (const toml::node& one : *list) {
    const auto* const text = one.as_string();
    if (text == nullptr || text->get().empty())
      return at(one, "the name of a service is a text such as \"chat\"");
    into.push_back(text->get());
  }
  return {};
}

error nodes_reader::take_labels(const toml::node* value,
                                std::map<std::string, std::string>& into) const {
  if (value == nullptr)
    return {};
  const toml::table* const table = value->as_table();
  if (table == nullptr)
    return at(*value, "labels are names with texts: labels = { zone = \"a\" }");
  if (table->size() > nodes_file_labels_max)
    return at(*value, "more than " + std::to_string(nodes_file_labels_max) + " labels");
  for (const auto& [name, one] : *table) {
    const auto* const text = one.as_string();
    if (text == nullptr)
      return at(one, "a label is a text: labels = { zone = \"a\" }");
    into.emplace(name.str(), text->get());
  }
  return {};
}

}  // namespace

result<record_table::records> read_nodes_file(std::string_view text, std::string_view name) {
  return nodes_reader{name}.read(text);
}

}  // namespace atbus::detail
