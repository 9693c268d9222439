#include "options.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace atbus_python {
namespace {

// C takes 0 for the default. Of these options it means none, or no limit.
bool is_none(const std::string& name, nb::handle value) {
  const char* const names[] = {"clients", "drain", "strangers_bytes",
                               "strangers_handshakes_per_second", "strangers_first_byte_timeout"};
  return std::ranges::any_of(names, [&](const char* one) { return name == one; }) &&
         nb::cast<double>(value) == 0;
}

// What is given as a number is one: C takes the largest of 32 bits for none, or no limit.
template <class Amount>
Amount amount_of(const std::string& name, nb::handle value) {
  if (is_none(name, value))
    return ATBUS_NONE;
  const auto amount = nb::cast<Amount>(value);
  return amount == ATBUS_NONE ? amount - 1 : amount;
}

// Whether one of the places has that name; then it gets the value.
template <class Value, std::size_t count, class Read>
bool set_one(const std::pair<const char*, Value*> (&places)[count], const std::string& name,
             Read&& read) {
  for (const auto& [key, place] : places) {
    if (name == key) {
      *place = read();
      return true;
    }
  }
  return false;
}

std::vector<std::string> texts_of(nb::handle value) {
  if (nb::isinstance<nb::str>(value))
    return {nb::cast<std::string>(value)};
  return nb::cast<std::vector<std::string>>(value);
}

bool set_text(atbus_node_options& to, const std::string& name, nb::handle value,
              option_texts& all) {
  const std::pair<const char*, const char**> places[] = {
      {"circuit_secret", &to.circuit_secret},
      {"certificate_chain", &to.certificate_chain},
      {"certificate_key", &to.certificate_key},
      {"certificate_authority", &to.certificate_authority},
      {"access", &to.access},
      {"directory", &to.directory},
      {"report_directory", &to.report_directory},
      {"children", &to.children}};
  return set_one(places, name, [&] { return all.keep(value); });
}

bool set_time(atbus_node_options& to, const std::string& name, nb::handle value) {
  const std::pair<const char*, std::int64_t*> places[] = {
      {"first_idle_timeout", &to.first_idle_timeout_ns},
      {"ping_interval", &to.ping_interval_ns},
      {"retry_first", &to.retry_first_ns},
      {"retry_longest", &to.retry_longest_ns},
      {"message_deadline", &to.message_deadline_ns},
      {"drain", &to.drain_ns},
      {"write_delay", &to.write_delay_ns},
      {"strangers_first_byte_timeout", &to.strangers_first_byte_timeout_ns}};
  return set_one(places, name, [&] {
    if (!is_none(name, value))
      return to_ns(nb::cast<double>(value));
    return name == "drain" ? std::int64_t{-1} : ATBUS_FOR_EVER;
  });
}

bool set_amount(atbus_node_options& to, const std::string& name, nb::handle value) {
  const std::pair<const char*, std::uint64_t*> large[] = {
      {"message_limit", &to.message_limit},
      {"send_buffer_size", &to.send_buffer_size},
      {"send_buffer_number", &to.send_buffer_number},
      {"sessions", &to.sessions},
      {"clients", &to.clients},
      {"requests", &to.requests},
      {"strangers_bytes", &to.strangers_bytes}};
  const std::pair<const char*, std::uint32_t*> small[] = {
      {"fault_tolerance", &to.fault_tolerance},
      {"connections", &to.connections},
      {"unconfirmed", &to.unconfirmed},
      {"strangers_per_address", &to.strangers_per_address},
      {"strangers_handshakes_per_second", &to.strangers_handshakes_per_second}};
  const std::pair<const char*, int*> flags[] = {
      {"allow_unauthenticated", &to.allow_unauthenticated},
      {"allow_unencrypted", &to.allow_unencrypted},
      {"no_built_in_commands", &to.no_built_in_commands},
      {"allow_tap", &to.allow_tap},
      {"overflow", &to.overflow},
      {"restart", &to.restart}};
  return set_one(large, name, [&] { return amount_of<std::uint64_t>(name, value); }) ||
         set_one(small, name, [&] { return amount_of<std::uint32_t>(name, value); }) ||
         set_one(flags, name, [&] { return nb::cast<int>(value); });
}

void set_list(std::vector<std::string>& texts, std::vector<const char*>& list,
              const char* const*& place, nb::handle value) {
  texts = texts_of(value);
  list = pointers_to(texts);
  list.push_back(nullptr);
  place = list.data();
}

void set_option(atbus_node_options& to, const std::string& name, nb::handle value,
                option_texts& all) {
  try {
    if (name == "token")
      return set_list(all.tokens, all.token_list, to.tokens, value);
    if (name == "parent")
      return set_list(all.parents, all.parent_list, to.parents, value);
    if (set_text(to, name, value, all) || set_time(to, name, value) || set_amount(to, name, value))
      return;
  } catch (const nb::cast_error&) {
    raise(ATBUS_INVALID_ARGUMENT, "the option " + name + " has a value of the wrong type");
  }
  raise(ATBUS_INVALID_ARGUMENT, "there is no option " + name);
}

}  // namespace

void set_options(atbus_node_options& to, const nb::dict& given, option_texts& all) {
  atbus_node_options_init(&to);
  for (const auto& [name, value] : given) {
    if (!value.is_none())
      set_option(to, nb::cast<std::string>(name), value, all);
  }
}

}  // namespace atbus_python
