// Runs a benchmark and reads what it reports.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace atbus::test {

// Generous: for machines that are slow and busy.
inline constexpr std::chrono::seconds bench_patience{60};

// Runs `atbus bench`; its JSON goes to standard output. Where others keep the machine from measuring
// anything in so short a time, it has a longer one.
nlohmann::json run_bench(std::vector<std::string> arguments);

// All fields that a throughput benchmark reports, and nothing lost, corrupt or out of order.
void expect_complete(const nlohmann::json& found);
void expect_latency(const nlohmann::json& found);

}  // namespace atbus::test
