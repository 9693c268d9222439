#include "atbus/bench/framed_limit.h"

#include <fmt/format.h>

#include "atbus/bench/crc32c.h"
#include "atbus/bench/report.h"

namespace atbus::bench {
namespace {

template <class Value>
std::vector<Value> chosen(const std::optional<Value>& one, std::vector<Value> all) {
  return one ? std::vector<Value>{*one} : std::move(all);
}

const char* checksum_text(bool checksum) noexcept {
  if (!checksum) {
    return "no CRC";
  }
  return crc32c_in_hardware() ? "CRC" : "slow CRC";
}

}  // namespace

void add_framed_options(CLI::App& command, framed_options& options) {
  constexpr std::uint32_t least_bytes = 1024;
  constexpr std::uint32_t most_bytes = 64U << 20;
  add_number(command, "--unit-size", options.unit_size,
             "frames: messages are 8 x uniform 1..N bytes long (default: 16 and 2048)", 1U,
             1U << 20);
  add_api_option(command, options.api,
                 "frames: claim fills messages in the batch, send copies them there (default: "
                 "both)");
  add_crc_option(command, options.checksum, "frames: with a CRC-32C each (default: both)");
  add_bytes(command, "--write-bytes", options.shape.write_bytes,
            "frames: so many are written at once, such as 128K", least_bytes, most_bytes);
  add_bytes(command, "--read-bytes", options.shape.read_bytes,
            "frames: at most so many are read at once", least_bytes, most_bytes);
  for (const char* const name :
       {"--unit-size", "--api", "--crc", "--write-bytes", "--read-bytes"}) {
    command.get_option(name)->needs("--framed");
  }
}

framed_limits::framed_limits(const framed_options& options, const workload& base) {
  for (const socket_kind kind : options.addresses) {
    for (const std::uint32_t unit_size : chosen(options.unit_size, {16U, 2048U})) {
      for (const api_kind api : chosen(options.api, {api_kind::claim, api_kind::send})) {
        for (const bool checksum : chosen(options.checksum, {true, false})) {
          workload work = base;
          work.unit_size = unit_size;
          work.api = api;
          work.checksum = checksum;
          rows_.push_back({work, {kind, options.shape}});
        }
      }
    }
  }
}

bool framed_limits::measure(const std::vector<int>& cpus) {
  for (row& one : rows_) {
    one.limit.measure(one.work, cpus);
    if (!one.limit.best().problems.empty()) {
      return false;
    }
  }
  return true;
}

void framed_limits::print() const {
  for (const row& one : rows_) {
    const run_series& best = one.limit.best();
    if (best.runs.empty()) {
      continue;
    }
    const spread rate = best.messages_per_second();
    fmt::print(" {:<16} {:<10} {:<5} {:<8} {:>12}  {}{}\n", address_of(one.limit.kind()),
               length_text(one.work), name_of(one.work.api), checksum_text(one.work.checksum),
               message_rate_text(rate.median), byte_rate_text(best.bytes_per_second().median),
               range_text(best, rate, message_rate_text));
  }
}

nlohmann::json framed_limits::json() const {
  nlohmann::json all = nlohmann::json::array();
  for (const row& one : rows_) {
    nlohmann::json result = bench::json_of(one.limit.best());
    result.update(json_of(one.limit.kind(), one.limit.shape(), one.limit.buffers()));
    result["unit_size"] = one.work.unit_size;
    result["api"] = name_of(one.work.api);
    result["crc"] = one.work.checksum;
    all.push_back(std::move(result));
  }
  return all;
}

std::vector<std::string> framed_limits::problems() const {
  std::vector<std::string> all;
  for (const row& one : rows_) {
    add_problems(one.limit.best(), all);
  }
  return all;
}

}  // namespace atbus::bench
