#include "atbus/bench/options.h"

#include <unistd.h>

#include <cstring>
#include <stdexcept>

#include "atbus/address.hpp"
#include "atbus/bench/cpus.h"
#include "atbus/channel_options.hpp"
#include "channel/shm/channel_address.h"

namespace atbus::bench {

std::vector<int> common_options::chosen_cpus() const {
  if (cpus.empty()) {
    return allowed_cpus();
  }
  try {
    return parse_cpus(cpus);
  } catch (const std::invalid_argument& problem) {
    throw CLI::ValidationError("--cpus", problem.what());
  }
}

void add_common_options(CLI::App& command, common_options& options) {
  command.add_option("--seconds", options.seconds, "how long a run lasts")
      ->check(CLI::Range(0.01, 86400.0))
      ->capture_default_str();
  command
      .add_option("--repeat", options.repeat,
                  "runs; the median counts, the smallest and largest are shown")
      ->check(CLI::Range(1U, 1000U))
      ->capture_default_str();
  add_json_option(command, options.json);
  command
      .add_option("--cpus", options.cpus,
                  "cores, such as 0,2-5: the first for the receiver, the rest for the senders "
                  "(default: all that are allowed)")
      ->type_name("LIST");
}

void add_json_option(CLI::App& command, std::string& json) {
  command.add_option("--json", json, "write the result there as JSON; - is standard output")
      ->type_name("FILE");
}

void add_check_option(CLI::App& command, check_kind& check) {
  add_choice<check_kind, check_kind>(
      command, "--check", check,
      "full: every byte is written and compared (default); sequence: the number alone; none",
      {{"full", check_kind::full}, {"sequence", check_kind::sequence}, {"none", check_kind::none}},
      "full|sequence|none");
}

void add_microseconds(CLI::App& command, const std::string& name, std::int64_t& ns,
                      const std::string& what) {
  command
      .add_option_function<double>(
          name, [&ns](double us) { ns = static_cast<std::int64_t>(us * 1e3); },
          what + ", in microseconds")
      ->check(CLI::Range(0.0, 1e6))
      ->type_name("US");
}

void add_prefault_flag(CLI::App& command, workload& work) {
  command.add_flag("--prefault", work.prefault, "touch all memory of the lanes at once");
}

CLI::Option* add_hops_option(CLI::App& command, workload& work, const std::string& what) {
  return add_number(command, "--hops", work.hops, what + ", each a process", 0U, 3U);
}

std::string own_address(const std::string& scheme) {
  return scheme + "://bench-" + std::to_string(getpid());
}

namespace {

error problem_of(const std::string& text) {
  const auto parsed = address::parse(text);
  if (!parsed) {
    return parsed.error();
  }
  if (parsed->kind() == address_kind::dns) {
    return {errc::invalid_address,
            "can't listen on a DNS name; use an address of this host, such as ipv6://[::1]:0"};
  }
  if (parsed->kind() == address_kind::mem || parsed->kind() == address_kind::shm) {
    const auto segment = atbus::detail::parse_segment_address(text, receiver_options{}.directory);
    return segment ? error{} : segment.error();
  }
  return {};
}

}  // namespace

void set_channel_address(const std::string& option, const std::string& address,
                         std::array<char, workload::most_address_bytes>& to) {
  if (address.size() >= workload::most_address_bytes) {
    throw CLI::ValidationError(
        option,
        "is longer than " + std::to_string(workload::most_address_bytes - 1) + " characters");
  }
  if (const error problem = problem_of(address); !problem) {
    throw CLI::ValidationError(option, problem.text());
  }
  std::memcpy(to.data(), address.c_str(), address.size() + 1);
}

void require_room_for_number(std::uint64_t shortest, check_kind check) {
  if (shortest < sizeof(std::uint64_t) && check != check_kind::none) {
    throw CLI::ValidationError("--size",
                               "messages below 8 bytes have no room for the number that is "
                               "checked; use --check none");
  }
}

}  // namespace atbus::bench
