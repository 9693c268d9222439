// Results for people and for programs.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "atbus/bench/figures.h"
#include "atbus/bench/workload.h"

namespace atbus::bench {

// "8-128 B", "8-16384 B", "64 B".
std::string length_text(const workload& work);
// As the options have them: "claim", "send"; "full", "sequence", "none".
const char* name_of(api_kind api) noexcept;
const char* name_of(check_kind check) noexcept;
// "1 sender", "4 senders"; "10 connections" if they are more, "8 nodes" that all send.
std::string sender_text(const workload& work);
// Three significant digits: "58.2 M msg/s", "730 msg/s"; "1.94 GB/s".
std::string message_rate_text(double per_second);
std::string byte_rate_text(double per_second);
// A duration of so many microseconds with three significant digits: "0.42 us", "79.1 us".
std::string us_text(double microseconds);

// "1.2 K msg/s to 1.4 K msg/s" of message_rate_text.
std::string range_text(const spread& of, std::string (*text)(double));
// "  (" and the range ")" for several runs, empty for one.
std::string range_text(const run_series& series, const spread& of, std::string (*text)(double));

// "p50 0.42  p90 0.45  p99 0.65  p99.9 1.8  max 31 us".
std::string latency_text(const latency_figures& latency);
// The medians of several.
latency_figures median_latency(const run_series& series);
// A bar for each span of times, finer up to p99 than beyond; empty if nothing was recorded.
std::string histogram_text(const histogram& latency);

// The figures of a series by the names that programs read: medians, sums for what was lost, corrupt
// or out of order; for several runs also "min" and "max" with the same names.
nlohmann::json json_of(const run_series& series);
nlohmann::json json_of(const latency_figures& latency);

// Where --json goes. Opened before the run, so that a path that can't be written is known at once.
class json_output {
 public:
  // `path` empty: nowhere. Throws CLI::ValidationError.
  explicit json_output(const std::string& path);
  ~json_output();
  json_output(const json_output&) = delete;
  json_output& operator=(const json_output&) = delete;

  // True if standard output belongs to the JSON.
  bool takes_stdout() const noexcept { return to_stdout_; }
  // False: it could not be written completely; said on standard error.
  [[nodiscard]] bool write(const nlohmann::json& result);

 private:
  bool to_stdout_ = false;
  std::FILE* file_ = nullptr;
  std::string path_;
};

// A line of its own, unless the note is empty.
void print_note(const std::string& note);

// Ends a command: says each problem once on standard error and writes the result. Throws
// CLI::RuntimeError if there is a problem or the result can't be written.
void conclude(json_output& output, const nlohmann::json& result,
              const std::vector<std::string>& problems);
// The same of a series and its yardstick, which is empty if there is none. Nothing is written if
// nothing was measured; messages lost, corrupt or out of order are a failure too.
void conclude(json_output& output, const run_series& ours, const run_series& yardstick,
              const std::function<nlohmann::json()>& result);

}  // namespace atbus::bench
