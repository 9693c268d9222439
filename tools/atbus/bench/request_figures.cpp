#include "atbus/bench/request_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "atbus/bench/report.h"

namespace atbus::bench {
namespace {

double percent(std::int64_t cpu_ns, std::int64_t elapsed_ns) noexcept {
  return elapsed_ns == 0 ? 0
                         : 100.0 * static_cast<double>(cpu_ns) / static_cast<double>(elapsed_ns);
}

nlohmann::json spread_json(const request_series& series, double (*figure)(const request_run&)) {
  const spread found = series.of(figure);
  if (series.runs.size() < 2) {
    return found.median;
  }
  return {{"median", found.median}, {"min", found.min}, {"max", found.max}};
}

double median_of(const request_series& series, double latency_figures::*figure) {
  return series.of([figure](const request_run& run) { return run.latency.*figure; }).median;
}

}  // namespace

void request_failures::add(const request_failures& other) noexcept {
  refused += other.refused;
  timed_out += other.timed_out;
  failed += other.failed;
  unanswered += other.unanswered;
  unsent += other.unsent;
  blocked += other.blocked;
  corrupt += other.corrupt;
  out_of_memory += other.out_of_memory;
}

double request_run::per_second() const noexcept {
  return seconds > 0 ? static_cast<double>(answered) / seconds : 0;
}

double request_run::per_cpu_second() const noexcept {
  return service_cpu_percent > 0 ? per_second() * 100 / service_cpu_percent : 0;
}

double request_run::per_mib() const noexcept {
  return service_rss_kib > 0 ? per_second() * 1024 / static_cast<double>(service_rss_kib) : 0;
}

request_run read_request_run(control_block& block) {
  request_run run;
  const service_tally& service = tally_of_service(block);
  run.service_cpu_percent = percent(service.cpu_ns, service.elapsed_ns);
  run.in_hand_max = service.in_hand_max;
  run.in_hand_limit = service.in_hand_limit;
  run.data_bytes_max = service.data_bytes_max;
  run.failures.out_of_memory = service.out_of_memory;
  histogram latency;
  std::array<std::uint64_t, client_tally::parts> parts{};
  for (std::size_t worker = 1; worker != block.workers; ++worker) {
    const client_tally& client = tally_of_client(block, worker);
    run.seconds = std::max(run.seconds, static_cast<double>(client.elapsed_ns) / 1e9);
    run.answered += client.answered;
    run.client_cpu_percent += percent(client.cpu_ns, client.elapsed_ns);
    run.failures.add({.refused = client.refused,
                      .timed_out = client.timed_out,
                      .failed = client.failed,
                      .unanswered = client.unanswered,
                      .unsent = client.unsent,
                      .blocked = client.blocked,
                      .corrupt = client.corrupt});
    latency.add(client.latency);
    for (std::size_t part = 0; part != parts.size(); ++part) {
      parts[part] += client.answered_in_part[part];
    }
  }
  run.latency = latency_of(latency);
  run.peak_per_second = static_cast<double>(*std::max_element(parts.begin(), parts.end())) *
                        client_tally::parts * 1e9 / static_cast<double>(block.work.duration_ns);
  return run;
}

void complete(request_run& run, const run_outcome& outcome) {
  for (const worker_figures& one : outcome.workers) {
    if (&one == &outcome.workers.front()) {
      run.service_rss_kib = one.max_rss_kib;
      run.failures.corrupt += one.corrupt;
    } else {
      run.client_rss_kib = std::max(run.client_rss_kib, one.max_rss_kib);
    }
  }
}

std::string request_series::memory_text() const {
  if (memory_bytes == request_workload::no_limit) {
    return "no limit";
  }
  return memory_bytes % (1 << 20) == 0 ? fmt::format("{} MiB", memory_bytes >> 20)
                                       : fmt::format("{} KiB", memory_bytes >> 10);
}

request_failures request_series::failures() const noexcept {
  request_failures all;
  for (const request_run& run : runs) {
    all.add(run.failures);
  }
  return all;
}

std::string failure_text(const request_failures& failures) {
  std::string text;
  for (const auto& [count, what] : {std::pair{failures.refused, "refused"},
                                    {failures.timed_out, "timed out"},
                                    {failures.failed, "failed"},
                                    {failures.unanswered, "without an outcome at the end"},
                                    {failures.unsent, "due and never sent"},
                                    {failures.corrupt, "corrupt"},
                                    {failures.out_of_memory, "failed allocations"},
                                    {failures.blocked, "times would_block"}}) {
    if (count != 0) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, what);
    }
  }
  return text;
}

nlohmann::json json_of(const request_series& series) {
  using run = request_run;
  nlohmann::json json{{"runs", series.runs.size()}};
  if (series.memory_bytes == request_workload::no_limit) {
    json["memory_limit"] = nullptr;
  } else {
    json["memory_limit"] = series.memory_bytes;
    json["limited_by"] = "RLIMIT_DATA";
  }
  if (series.runs.empty()) {
    return json;
  }
  const auto put = [&](const char* name, double (*figure)(const run&)) {
    json[name] = spread_json(series, figure);
  };
  put("seconds", [](const run& one) { return one.seconds; });
  put("messages", [](const run& one) { return static_cast<double>(one.answered); });
  put("messages_per_second", [](const run& one) { return one.per_second(); });
  put("peak_per_second", [](const run& one) { return one.peak_per_second; });
  put("per_cpu_second", [](const run& one) { return one.per_cpu_second(); });
  put("per_mib", [](const run& one) { return one.per_mib(); });
  put("in_hand_max", [](const run& one) { return static_cast<double>(one.in_hand_max); });
  put("in_hand_limit", [](const run& one) { return static_cast<double>(one.in_hand_limit); });
  put("data_bytes_max", [](const run& one) { return static_cast<double>(one.data_bytes_max); });
  const auto median = [&](double (*figure)(const run&)) { return series.of(figure).median; };
  json["service"] = {
      {"cpu_percent", median([](const run& one) { return one.service_cpu_percent; })},
      {"max_rss_kib", median([](const run& one) { return double(one.service_rss_kib); })}};
  json["clients"] = {
      {"cpu_percent", median([](const run& one) { return one.client_cpu_percent; })},
      {"max_rss_kib", median([](const run& one) { return double(one.client_rss_kib); })}};
  json["latency_us"] = bench::json_of(latency_figures{
      median_of(series, &latency_figures::p50_us), median_of(series, &latency_figures::p90_us),
      median_of(series, &latency_figures::p99_us), median_of(series, &latency_figures::p999_us),
      median_of(series, &latency_figures::max_us)});
  const request_failures failures = series.failures();
  json["failures"] = {{"refused", failures.refused}, {"timed_out", failures.timed_out},
                      {"failed", failures.failed},   {"unanswered", failures.unanswered},
                      {"unsent", failures.unsent},   {"out_of_memory", failures.out_of_memory},
                      {"corrupt", failures.corrupt}};
  json["would_block"] = failures.blocked;
  return json;
}

}  // namespace atbus::bench
