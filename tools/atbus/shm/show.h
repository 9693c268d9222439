// `atbus shm show NAME`: one segment, its lanes, and their records.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace atbus::tool {

void add_shm_show(CLI::App& shm);

// "shm://zone-1" or "zone-1": the name.
std::string name_of(const std::string& typed);

// `--directory` and `--json`, as every subcommand of `atbus shm` has them.
struct common_options {
  std::string directory = "/dev/shm";
  bool json = false;

  void add_to(CLI::App& command);
};

// Says why on standard error and ends with exit code 1.
[[noreturn]] void fail(const std::string& why);

}  // namespace atbus::tool
