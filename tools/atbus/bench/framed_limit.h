// The part of `atbus bench limit` that carries framed messages over sockets: --framed.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "atbus/bench/options.h"
#include "atbus/bench/socket_limit.h"

namespace atbus::bench {

// What to measure; what is not chosen is measured in all its kinds.
struct framed_options {
  std::vector<socket_kind> addresses;
  std::optional<std::uint32_t> unit_size;
  std::optional<api_kind> api;
  std::optional<bool> checksum;
  socket_shape shape;
};

// Adds the options that only make sense together with --framed, which the command has already.
void add_framed_options(CLI::App& command, framed_options& options);

class framed_limits {
 public:
  // `base` has the duration and the check.
  framed_limits(const framed_options& options, const workload& base);

  // Runs each once. False: a run did not come to its end; those after it were not made.
  [[nodiscard]] bool measure(const std::vector<int>& cpus);

  void print() const;
  nlohmann::json json() const;
  std::vector<std::string> problems() const;

 private:
  struct row {
    workload work;
    socket_limit limit;
  };
  std::vector<row> rows_;
};

}  // namespace atbus::bench
