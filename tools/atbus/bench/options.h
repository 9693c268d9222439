// Command-line options that several benchmarks share.
#pragma once

#include <CLI/CLI.hpp>
#include <array>
#include <cstdint>
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

// --seconds, --repeat, --json, --cpus.
void add_common_options(CLI::App& command, common_options& options);
// --check.
void add_check_option(CLI::App& command, check_kind& check);

// Refuses an address that nothing can receive at; the rest becomes the workload's. Throws
// CLI::ValidationError that names the option.
void set_channel_address(const std::string& option, const std::string& address,
                         std::array<char, workload::most_address_bytes>& to);

// Refuses sizes that leave no room for what the receiver checks. Throws CLI::ValidationError.
void require_room_for_number(std::uint64_t shortest, check_kind check);

}  // namespace atbus::bench
