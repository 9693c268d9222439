// Short real runs of `atbus bench request`.
#include <signal.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "run_bench.h"
#include "run_command.h"
#include "test.h"

namespace atbus {
namespace {

using nlohmann::json;
using test::bench_patience;
using test::command_result;
using test::expect_latency;
using test::run_bench;
using test::run_command;
using test::running_command;

struct request_case {
  const char* name;
  std::vector<std::string> arguments;
  json reports = json::object();
};

void PrintTo(const request_case& one, std::ostream* out) {
  *out << one.name;
}

void expect_row(const json& row) {
  EXPECT_GT(row["messages_per_second"], 0);
  EXPECT_GT(row["peak_per_second"], 0);
  EXPECT_GT(row["per_cpu_second"], 0);
  EXPECT_GT(row["per_mib"], 0);
  for (const char* const side : {"service", "clients"}) {
    EXPECT_GT(row[side]["cpu_percent"], 0) << side;
    EXPECT_GT(row[side]["max_rss_kib"], 0) << side;
  }
  expect_latency(row);
  EXPECT_EQ(row["failures"]["corrupt"], 0);
}

void expect_no_failure(const json& row) {
  for (const auto& [what, count] : row["failures"].items()) {
    // A machine that is busy sends late; that is no failure of a request.
    if (what != "unsent") {
      EXPECT_EQ(count, 0) << what;
    }
  }
}

class BenchRequest : public ::testing::TestWithParam<request_case> {};

TEST_P(BenchRequest, AnswersEveryRequest) {
  std::vector<std::string> arguments{"request"};
  arguments.insert(arguments.end(), GetParam().arguments.begin(), GetParam().arguments.end());
  arguments.insert(arguments.end(), {"--seconds", "0.3"});
  const json found = run_bench(arguments);
  SCOPED_TRACE(found.dump());
  EXPECT_EQ(found["workload"], "request");
  for (const auto& [key, value] : GetParam().reports.items())
    EXPECT_EQ(found[key], value) << key;
  ASSERT_EQ(found["rows"].size(), 1U);
  expect_row(found["rows"][0]);
  expect_no_failure(found["rows"][0]);
}

const request_case request_runs[] = {
    {"AsItIs", {}, {{"over", "shm"}, {"size", 64}, {"reply_size", 64}, {"in_flight", 64}}},
    {"OverUnixSockets", {"--over", "unix"}, {{"over", "unix"}}},
    {"OverTcp", {"--over", "tcp"}, {{"over", "tcp"}}},
    {"LargeReplies", {"--size", "8", "--reply-size", "100000"}, {{"reply_size", 100000}}},
    {"OneAtATime", {"--in-flight", "1", "--poll"}, {{"in_flight", 1}, {"sleep", false}}},
    {"SeveralClients", {"--clients", "3", "--over", "tcp"}, {{"clients", 3}}},
    {"Paces", {"--rate", "1000", "--clients", "2"}, {{"rate", 1000}, {"in_flight", 16384}}},
    {"FansOut",
     {"--fan-out", "3", "--delay", "1..3ms"},
     {{"fan_out", 3}, {"size", 256}, {"delay_us", {{"min", 1000}, {"max", 3000}}}}},
    {"FansOutAtARate", {"--fan-out", "10", "--delay", "2ms", "--rate", "500", "--over", "unix"}},
    {"Repeats", {"--repeat", "2"}, {{"repeat", 2}}},
};

INSTANTIATE_TEST_SUITE_P(All, BenchRequest, ::testing::ValuesIn(request_runs),
                         [](const auto& of) { return std::string{of.param.name}; });

TEST(BenchRequestDelay, IsInTheLatency) {
  const json found = run_bench(
      {"request", "--fan-out", "2", "--delay", "20..30ms", "--in-flight", "4", "--seconds", "0.3"});
  EXPECT_GE(found["rows"][0]["latency_us"]["p50"], 19'800) << found.dump();
}

// More than the memory is for: what has no place waits, and the service lives.
TEST(BenchRequestMemory, IsBackPressureAtItsLimit) {
  const json found =
      run_bench({"request", "--fan-out", "100", "--delay", "100..200ms", "--size", "16K",
                 "--in-flight", "2000", "--memory", "16M,24M", "--seconds", "1"});
  SCOPED_TRACE(found.dump());
  ASSERT_EQ(found["rows"].size(), 2U);
  for (const json& row : found["rows"]) {
    expect_row(row);
    EXPECT_EQ(row["limited_by"], "RLIMIT_DATA");
    EXPECT_LT(row["in_hand_max"], 1000);
    EXPECT_GT(row["in_hand_limit"], 0);
    EXPECT_LE(row["data_bytes_max"], row["memory_limit"]);
  }
  EXPECT_EQ(found["rows"][0]["memory_limit"], 16 << 20);
}

TEST(BenchRequestTable, HasAColumnForEachFigure) {
  const command_result result = run_command({"bench", "request", "--fan-out", "2", "--delay",
                                             "1..2ms", "--memory", "50M", "--seconds", "0.1"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  for (const char* const word : {"2 tasks", "req/s", "peak", "cpu", "per cpu s", "rss MiB",
                                 "per MiB", "p50", "p99.9", "50 MiB", "RLIMIT_DATA"}) {
    EXPECT_NE(result.output.find(word), std::string::npos) << word << '\n' << result.output;
  }
}

TEST(BenchRequestDeath, OfEitherSideIsReported) {
  for (const std::size_t victim : {0U, 1U}) {
    running_command command{{"bench", "request", "--poll", "--seconds", "600"}};
    ASSERT_TRUE(command.children_have_worked(bench_patience));
    const std::vector<pid_t> workers = command.children(2, bench_patience);
    ASSERT_EQ(workers.size(), 2U);
    kill(workers[victim], SIGKILL);
    const command_result result = command.finish(bench_patience);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_NE(result.errors.find("killed by signal 9"), std::string::npos) << result.errors;
    EXPECT_EQ(result.errors.find("did not end"), std::string::npos) << result.errors;
  }
}

}  // namespace
}  // namespace atbus
