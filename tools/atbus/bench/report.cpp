#include "atbus/bench/report.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <set>

namespace atbus::bench {
namespace {

// Three significant digits.
std::string digits(double value) {
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}", value, decimals);
}

struct scaled_value {
  std::string digits;
  std::string prefix;
};

scaled_value scale(double value) {
  if (value >= 999.5e6) {
    return {digits(value / 1e9), "G"};
  }
  if (value >= 999.5e3) {
    return {digits(value / 1e6), "M"};
  }
  if (value >= 999.5) {
    return {digits(value / 1e3), "K"};
  }
  return {digits(value), ""};
}

double median(const spread& of) noexcept {
  return of.median;
}
double smallest(const spread& of) noexcept {
  return of.min;
}
double largest(const spread& of) noexcept {
  return of.max;
}

using choice = double (*)(const spread&) noexcept;

// One figure of every run, reduced to a number.
template <class Figure>
double pick(const run_series& series, choice choose, Figure figure) {
  return choose(spread_of(series.runs, figure));
}

template <class Figure>
std::uint64_t pick_count(const run_series& series, choice choose, Figure figure) {
  return static_cast<std::uint64_t>(std::llround(pick(series, choose, figure)));
}

nlohmann::json side_json(const run_series& series, choice choose, side_figures run_figures::*side) {
  const auto count = [&](std::uint64_t side_figures::*figure) {
    return pick_count(series, choose,
                      [side, figure](const run_figures& run) { return run.*side.*figure; });
  };
  const auto cpu = [side](const run_figures& run) { return (run.*side).cpu_percent; };
  return {{"cpu_percent", pick(series, choose, cpu)},
          {"max_rss_kib", count(&side_figures::max_rss_kib)},
          {"minor_faults", count(&side_figures::minor_faults)},
          {"major_faults", count(&side_figures::major_faults)}};
}

latency_figures choose_latency(const run_series& series, choice choose) {
  const auto one = [&](double latency_figures::*figure) {
    std::vector<double> values;
    for (const run_figures& run : series.runs) {
      if (run.latency) {
        values.push_back((*run.latency).*figure);
      }
    }
    return choose(spread_of(std::move(values)));
  };
  return {one(&latency_figures::p50_us), one(&latency_figures::p90_us),
          one(&latency_figures::p99_us), one(&latency_figures::p999_us),
          one(&latency_figures::max_us)};
}

nlohmann::json figures_json(const run_series& series, choice choose) {
  const auto count = [&](std::uint64_t run_figures::*figure) {
    return pick_count(series, choose, [figure](const run_figures& run) { return run.*figure; });
  };
  nlohmann::json result{
      {"seconds", pick(series, choose, [](const run_figures& run) { return run.seconds; })},
      {"messages", count(&run_figures::messages)},
      {"bytes", count(&run_figures::bytes)},
      {"messages_per_second", choose(series.messages_per_second())},
      {"bytes_per_second", choose(series.bytes_per_second())},
      {"lost", count(&run_figures::lost)},
      {"corrupt", count(&run_figures::corrupt)},
      {"reordered", count(&run_figures::reordered)},
      {"sender", side_json(series, choose, &run_figures::sender)},
      {"receiver", side_json(series, choose, &run_figures::receiver)}};
  for (const run_figures& run : series.runs) {
    if (run.latency) {
      result["latency_us"] = json_of(choose_latency(series, choose));
      break;
    }
  }
  return result;
}

// Each problem once.
void print_problems(const std::vector<std::string>& problems) {
  std::set<std::string> said;
  for (const std::string& problem : problems) {
    if (said.insert(problem).second) {
      fmt::print(stderr, "error: {}\n", problem);
    }
  }
}

std::uint64_t sum(const run_series& series, std::uint64_t run_figures::*figure) noexcept {
  std::uint64_t all = 0;
  for (const run_figures& run : series.runs) {
    all += run.*figure;
  }
  return all;
}

}  // namespace

std::string length_text(const workload& work) {
  const message_lengths lengths = work.lengths();
  return lengths.shortest() == lengths.longest()
             ? fmt::format("{} B", lengths.longest())
             : fmt::format("{}-{} B", lengths.shortest(), lengths.longest());
}

const char* name_of(api_kind api) noexcept {
  return api == api_kind::claim ? "claim" : "send";
}

const char* name_of(check_kind check) noexcept {
  return check == check_kind::full ? "full" : check == check_kind::sequence ? "sequence" : "none";
}

std::string sender_text(const workload& work) {
  if (work.nodes != 0) {
    return fmt::format("{} nodes", work.nodes);
  }
  if (work.connections != work.senders) {
    return fmt::format("{} connections", work.connections);
  }
  return fmt::format("{} sender{}", work.senders, work.senders == 1 ? "" : "s");
}

std::string message_rate_text(double per_second) {
  const scaled_value value = scale(per_second);
  return value.digits + " " + value.prefix + (value.prefix.empty() ? "msg/s" : " msg/s");
}

std::string byte_rate_text(double per_second) {
  const scaled_value value = scale(per_second);
  return value.digits + " " + value.prefix + "B/s";
}

std::string us_text(double microseconds) {
  return digits(microseconds) + " us";
}

std::string range_text(const spread& of, std::string (*text)(double)) {
  return text(of.min) + " to " + text(of.max);
}

std::string range_text(const run_series& series, const spread& of, std::string (*text)(double)) {
  return series.runs.size() < 2 ? std::string{} : "  (" + range_text(of, text) + ")";
}

std::string latency_text(const latency_figures& latency) {
  return fmt::format("p50 {}  p90 {}  p99 {}  p99.9 {}  max {}", digits(latency.p50_us),
                     digits(latency.p90_us), digits(latency.p99_us), digits(latency.p999_us),
                     us_text(latency.max_us));
}

latency_figures median_latency(const run_series& series) {
  return choose_latency(series, median);
}

std::string histogram_text(const histogram& latency) {
  if (latency.total() == 0) {
    return {};
  }
  // Up to p99 a factor of two spans four rows, beyond it one: the body in detail, the tail in
  // short.
  constexpr double fine = 1.189207115002721;
  constexpr double coarse = 2;
  constexpr double width = 50;
  struct row {
    double to_ns;
    std::uint64_t count;
  };
  const auto total = static_cast<double>(latency.total());
  const auto body_ends = static_cast<double>(latency.percentile(0.99));
  std::vector<row> rows;
  std::uint64_t most = 1;
  std::uint64_t begin = 0;
  for (double to = 16; begin <= latency.max(); to *= to < body_ends ? fine : coarse) {
    const auto end = static_cast<std::uint64_t>(to);
    const std::uint64_t count = latency.count_between(begin, end);
    if (!rows.empty() || count != 0) {
      rows.push_back({to, count});
    }
    most = std::max(most, count);
    begin = end;
  }
  std::string text;
  for (const row& one : rows) {
    const auto count = static_cast<double>(one.count);
    const auto bar =
        static_cast<std::size_t>(std::lround(width * count / static_cast<double>(most)));
    text += fmt::format(" < {:>9} {:7.3f} % {}\n", us_text(one.to_ns / 1e3), 100 * count / total,
                        std::string(bar, '#'));
  }
  return text;
}

nlohmann::json json_of(const latency_figures& latency) {
  return {{"p50", latency.p50_us},
          {"p90", latency.p90_us},
          {"p99", latency.p99_us},
          {"p999", latency.p999_us},
          {"max", latency.max_us}};
}

nlohmann::json json_of(const run_series& series) {
  nlohmann::json result = figures_json(series, median);
  result["lost"] = sum(series, &run_figures::lost);
  result["corrupt"] = sum(series, &run_figures::corrupt);
  result["reordered"] = sum(series, &run_figures::reordered);
  if (series.runs.size() > 1) {
    result["runs"] = series.runs.size();
    result["min"] = figures_json(series, smallest);
    result["max"] = figures_json(series, largest);
  }
  return result;
}

json_output::json_output(const std::string& path) : to_stdout_{path == "-"}, path_{path} {
  if (path.empty()) {
    return;
  }
  file_ = to_stdout_ ? stdout : std::fopen(path.c_str(), "we");
  if (file_ == nullptr) {
    throw CLI::ValidationError("--json", path + ": " + std::strerror(errno));
  }
}

json_output::~json_output() {
  if (file_ != nullptr && !to_stdout_) {
    std::fclose(file_);
  }
}

bool json_output::write(const nlohmann::json& result) {
  if (file_ == nullptr) {
    return true;
  }
  const std::string text = result.dump(2) + "\n";
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size() || std::fflush(file_) != 0) {
    fmt::print(stderr, "--json: {}: {}\n", path_, std::strerror(errno));
    return false;
  }
  return true;
}

void print_note(const std::string& note) {
  if (!note.empty()) {
    fmt::print(" note: {}\n", note);
  }
}

void conclude(json_output& output, const nlohmann::json& result,
              const std::vector<std::string>& problems) {
  print_problems(problems);
  if (!output.write(result) || !problems.empty()) {
    throw CLI::RuntimeError(1);
  }
}

void conclude(json_output& output, const run_series& ours, const run_series& yardstick,
              const std::function<nlohmann::json()>& result) {
  print_problems(ours.problems);
  print_problems(yardstick.problems);
  const bool written = ours.runs.empty() || output.write(result());
  if (!written || ours.runs.empty() || ours.failed() || yardstick.failed()) {
    throw CLI::RuntimeError(1);
  }
}

}  // namespace atbus::bench
