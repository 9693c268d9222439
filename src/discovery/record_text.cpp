#include "discovery/record_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "atbus/address.hpp"
#include "core/text.h"
#include "discovery/bounded_json.h"

namespace atbus::detail {
namespace {

using nlohmann::json;

constexpr std::size_t key_digits = 16;
constexpr std::size_t label_max = 4096;

constexpr std::array<std::pair<tree_place, std::string_view>, 4> place_names{
    {{tree_place::none, "none"},
     {tree_place::leaf, "leaf"},
     {tree_place::relay, "relay"},
     {tree_place::root, "root"}}};

std::string_view name_of(tree_place place) noexcept {
  const auto* const found =
      std::ranges::find(place_names, place, &decltype(place_names)::value_type::first);
  return found != place_names.end() ? found->second : "none";
}

error malformed(std::string_view what) {
  return {errc::malformed, std::string{what}};
}

bool is_service(std::string_view name) {
  return !name.empty() && name.size() <= service_name_max &&
         std::ranges::all_of(name, is_printable);
}

// Null: it is no list of texts.
bool is_list_of_texts(const json& value, std::size_t most) {
  return value.is_array() && value.size() <= most &&
         std::ranges::all_of(value, [](const json& one) { return one.is_string(); });
}

error take_addresses(const json& from, read_record_result& into) {
  const auto found = from.find("addresses");
  if (found == from.end())
    return {};
  if (!is_list_of_texts(*found, record_addresses_max))
    return malformed("its addresses are no list of at most 16 texts");
  for (const json& one : *found) {
    const auto& text = one.get_ref<const std::string&>();
    if (address::parse(text))
      into.record.addresses.push_back(text);
    else
      ++into.wrong_addresses;
  }
  return {};
}

error take_services(const json& from, directory_record& into) {
  const auto found = from.find("services");
  if (found == from.end())
    return {};
  if (!is_list_of_texts(*found, record_services_max))
    return malformed("its services are no list of at most 256 texts");
  for (const json& one : *found) {
    const auto& name = one.get_ref<const std::string&>();
    if (!is_service(name))
      return malformed("the name of a service has 1 to 128 printable characters");
    if (std::ranges::find(into.services, name) == into.services.end())
      into.services.push_back(name);
  }
  return {};
}

error take_labels(const json& from, directory_record& into) {
  const auto found = from.find("labels");
  if (found == from.end())
    return {};
  if (!found->is_object() || found->size() > record_labels_max)
    return malformed("its labels are no object of at most 64 texts");
  for (const auto& [name, value] : found->items()) {
    const auto* const text = value.get_ptr<const std::string*>();
    if (text == nullptr || name.size() > label_max || text->size() > label_max)
      return malformed("a label is a text of at most 4096 bytes");
    into.labels.emplace(name, *text);
  }
  return {};
}

error take_place(const json& from, directory_record& into) {
  const auto found = from.find("place");
  if (found == from.end())
    return {};
  const auto* const text = found->get_ptr<const std::string*>();
  for (const auto& [place, name] : place_names) {
    if (text != nullptr && *text == name) {
      into.place = place;
      return {};
    }
  }
  return malformed("its place in the tree is none that there is");
}

}  // namespace

std::string to_key(bus_id id) {
  std::array<char, key_digits> digits;
  char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), id.value(), 16).ptr;
  const auto count = static_cast<std::size_t>(end - digits.data());
  return std::string(key_digits - count, '0').append(digits.data(), count);
}

std::optional<bus_id> from_key(std::string_view key) {
  const auto is_lower_digit = [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); };
  if (key.size() != key_digits || !std::ranges::all_of(key, is_lower_digit))
    return std::nullopt;
  std::uint64_t value = 0;
  (void)std::from_chars(key.data(), key.data() + key.size(), value, 16);
  return value != 0 ? std::optional{bus_id{value}} : std::nullopt;
}

result<std::string> write_record(const directory_record& record) {
  const json all{{"version", record_version},
                 {"addresses", record.addresses},
                 {"services", record.services},
                 {"labels", record.labels},
                 {"place", name_of(record.place)}};
  std::string text = all.dump(-1, ' ', false, json::error_handler_t::replace);
  const result<read_record_result> read = read_record(record.id, text);
  std::string why;
  if (record.id == bus_id{})
    why = "no node has the id 0";
  else if (!read)
    why = read.error().text();
  else if (read->wrong_addresses != 0)
    why = "one of its addresses can't be understood";
  else if (read->record.labels != record.labels)
    why = "its labels are no UTF-8";
  if (!why.empty()) {
    return error{errc::invalid_argument,
                 "the record of node " + record.id.to_string() + " can't be announced: " + why};
  }
  return text;
}

result<read_record_result> read_record(bus_id id, std::string_view text) {
  if (text.size() > record_bytes_max) {
    return error{errc::message_too_large, "a record has at most 64 KiB, and this one has " +
                                              std::to_string(text.size()) + " bytes"};
  }
  const std::optional<json> all = read_json(text);
  if (!all || !all->is_object())
    return malformed("it is no JSON object");
  const auto version = all->find("version");
  if (version == all->end() || !version->is_number_integer())
    return malformed("it has no version");
  if (*version != record_version)
    return error{errc::version_mismatch, "it is of another version than 1"};
  read_record_result read;
  read.record.id = id;
  for (error bad : {take_addresses(*all, read), take_services(*all, read.record),
                    take_labels(*all, read.record), take_place(*all, read.record)}) {
    if (!bad)
      return bad;
  }
  return read;
}

}  // namespace atbus::detail
