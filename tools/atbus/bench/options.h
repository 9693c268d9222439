// Command-line options that several benchmarks share.
#pragma once

#include <CLI/CLI.hpp>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "atbus/bench/workload.h"

namespace atbus::bench {

struct common_options {
  double seconds = 1;
  std::uint32_t repeat = 1;
  std::string json;
  std::string cpus;

  std::int64_t duration_ns() const noexcept { return static_cast<std::int64_t>(seconds * 1e9); }
  // The cores to use. Throws CLI::ValidationError.
  std::vector<int> chosen_cpus() const;
};

// A whole number from `least` to `most`.
template <class Value, class Bound>
CLI::Option* add_number(CLI::App& command, const char* name, Value& to, const std::string& what,
                        Bound least, Bound most, const char* type = "N") {
  return command.add_option(name, to, what)->check(CLI::Range(least, most))->type_name(type);
}

// The same of bytes, which may be written as 4M.
template <class Value, class Bound>
CLI::Option* add_bytes(CLI::App& command, const char* name, Value& to, const std::string& what,
                       Bound least, Bound most) {
  return command.add_option(name, to, what)
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(least, most))
      ->type_name("BYTES");
}

// One of the names. `type` lists them in the order of the help.
template <class Value, class Choice>
CLI::Option* add_choice(CLI::App& command, const char* name, Value& to, const std::string& what,
                        const std::map<std::string, Choice>& names, const char* type) {
  return command.add_option(name, to, what)
      ->transform(CLI::CheckedTransformer(names).description(""))
      ->type_name(type);
}

inline constexpr std::uint64_t most_message_bytes = std::uint64_t{64} << 20;
inline constexpr std::uint64_t most_buffer_bytes = std::uint64_t{1} << 30;

// --seconds, --repeat, --json, --cpus.
void add_common_options(CLI::App& command, common_options& options);
void add_json_option(CLI::App& command, std::string& json);
void add_check_option(CLI::App& command, check_kind& check);
// Microseconds, kept as nanoseconds.
void add_microseconds(CLI::App& command, const std::string& name, std::int64_t& ns,
                      const std::string& what);
void add_prefault_flag(CLI::App& command, workload& work);
CLI::Option* add_hops_option(CLI::App& command, workload& work, const std::string& what);

template <class Api>
void add_api_option(CLI::App& command, Api& api, const std::string& what) {
  add_choice<Api, api_kind>(command, "--api", api, what,
                            {{"claim", api_kind::claim}, {"send", api_kind::send}}, "claim|send");
}
template <class Switch>
void add_crc_option(CLI::App& command, Switch& checksum, const std::string& what) {
  add_choice<Switch, bool>(command, "--crc", checksum, what, {{"on", true}, {"off", false}},
                           "on|off");
}

// The name of a channel or a segment that no other run has.
std::string own_address(const std::string& scheme);

// Refuses an address that nothing can receive at; the rest becomes the workload's. Throws
// CLI::ValidationError that names the option.
void set_channel_address(const std::string& option, const std::string& address,
                         std::array<char, workload::most_address_bytes>& to);

// Refuses sizes that leave no room for what the receiver checks. Throws CLI::ValidationError.
void require_room_for_number(std::uint64_t shortest, check_kind check);

}  // namespace atbus::bench
