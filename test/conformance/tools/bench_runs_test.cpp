// Short real runs of benchmarks: what they report, and how they end.
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

#include "run_bench.h"
#include "run_command.h"
#include "test.h"

namespace atbus {
namespace {

using nlohmann::json;
using test::bench_patience;
using test::command_result;
using test::expect_complete;
using test::expect_latency;
using test::run_bench;
using test::run_command;
using test::running_command;

using words = std::vector<std::string>;

// In the name of every file that these runs make.
std::string name() {
  return "atbus-bench-test-" + std::to_string(getpid());
}
const std::string shm_address = "shm://" + name();
const std::string mem_address = "mem://" + name();
const std::string lanes_address = "unix:///tmp/" + name();
const std::string unix_address = lanes_address + "?shm=false";  // messages stay with the socket
const std::string ipv4_address = "ipv4://127.0.0.1:0";
const std::string ipv6_address = "ipv6://::1:0";

std::size_t files_left() {
  std::size_t count = 0;
  for (const char* const where : {"/dev/shm", "/tmp"}) {
    for (const auto& entry : std::filesystem::directory_iterator{where}) {
      if (entry.path().filename().string().find(name()) != std::string::npos)
        ++count;
    }
  }
  return count;
}

struct bench_case {
  const char* name;
  words arguments;
  json reports = json::object();
  double cpu_percent_below = 1e9;

  [[nodiscard]] bool has(const std::string& option) const {
    return std::find(arguments.begin(), arguments.end(), option) != arguments.end();
  }
  [[nodiscard]] std::uint64_t value(const std::string& option) const {
    return std::stoull(*(std::find(arguments.begin(), arguments.end(), option) + 1));
  }
};

void PrintTo(const bench_case& one, std::ostream* out) {
  *out << one.name;
}

std::string name_of_case(const ::testing::TestParamInfo<bench_case>& of) {
  return of.param.name;
}

void expect_fields(const json& found, const json& reports) {
  for (const auto& [key, value] : reports.items())
    EXPECT_EQ(found[key], value) << key;
}

class BenchRun : public ::testing::TestWithParam<bench_case> {};

TEST_P(BenchRun, CountsEveryMessageAndReportsWhatItWasAskedFor) {
  const bench_case& run = GetParam();
  words arguments = run.arguments;
  arguments.insert(arguments.end(), {"--seconds", "0.2"});
  const json found = run_bench(arguments);
  expect_complete(found);
  EXPECT_EQ(found["workload"], run.arguments.front());
  expect_fields(found, run.reports);
  EXPECT_LT(found["receiver"]["cpu_percent"], run.cpu_percent_below);
  EXPECT_EQ(found.contains("unit_size"), !run.has("--size"));
  if (run.has("--size")) {
    EXPECT_EQ(found["bytes"], found["messages"].get<std::uint64_t>() * run.value("--size"));
  }
  if (run.has("--hops")) {
    EXPECT_GT(found["cpu_ns_a_message"], 0);
  }
  const bool measures = run.has("--rate") && !run.has("--hops");
  EXPECT_EQ(found.contains("latency_us"), measures);
  if (measures) {
    expect_latency(found);
    // As many as the rate allows, however long the run became.
    const std::uint64_t sources = run.has("--connections") ? run.value("--connections") : 1;
    EXPECT_LE(found["messages"],
              static_cast<double>(run.value("--rate")) * found["seconds"].get<double>() +
                  static_cast<double>(sources) + 1);
  }
  for (const char* const part : {"limit", "channel"}) {
    EXPECT_EQ(found.contains(part), run.has(std::string{"--"} + part));
    if (found.contains(part)) {
      EXPECT_GT(found[part]["messages_per_second"], 0);
      EXPECT_GT(found[part]["bytes_per_second"], 0);
      EXPECT_GT(found[part]["share"], 0);
      if (run.has("--limit") && run.has("stream")) {
        EXPECT_GT(found["limit"]["buffers"]["send_bytes"], 0);
      }
      if (found.contains("runs")) {
        EXPECT_GE(found["max"][part]["share"], found["min"][part]["share"]);
      }
    }
  }
  EXPECT_EQ(files_left(), 0U);
}

const bench_case runs_of_shm[] = {
    {"AsItIs", {"shm"}, {{"unit_size", 16}}},
    {"ClaimsInPlace", {"shm", "--api", "claim", "--unit-size", "2048"}, {{"unit_size", 2048}}},
    {"OneFixedSize", {"shm", "--size", "100"}},
    {"AboveTheDefaultLimit", {"shm", "--size", "1000000"}},
    {"SeveralSenders", {"shm", "--senders", "4"}, {{"senders", 4}}},
    {"SeveralReceivingThreads", {"shm", "--senders", "3", "--receivers", "2"}, {{"receivers", 2}}},
    {"Batches", {"shm", "--batch", "32"}},
    {"Sleeps", {"shm", "--sleep", "--spin", "0", "--rate", "200"}, {}, 50},
    {"Paces", {"shm", "--rate", "1000"}},
    {"ChecksTheSequence", {"shm", "--check", "sequence"}},
    {"ChecksNothing", {"shm", "--check", "none"}},
    {"BesideTheBareRing", {"shm", "--limit"}},
    {"ThreadsOfOneProcess", {"mem", "--senders", "2"}},
};

const bench_case runs_of_streams[] = {
    {"AsItIs",
     {"stream"},
     {{"address", "ipv6://::1:0"},
      {"unit_size", 16},
      {"connections", 1},
      {"buffer", "static"},
      {"sleep", true},
      {"crc", true}}},
    {"OverUnixSockets",
     {"stream", "--address", unix_address, "--api", "claim", "--unit-size", "2048"},
     {{"crc", false}, {"shm", false}, {"unit_size", 2048}}},
    {"MovesOnToLanes",
     {"stream", "--address", lanes_address, "--senders", "3", "--sleep"},
     {{"shm", true}}},
    {"ReceivesWithSeveralThreads",
     {"stream", "--address", ipv4_address, "--senders", "3", "--receivers", "2"},
     {{"receivers", 2}}},
    {"GrowsItsBuffer",
     {"stream", "--address", ipv4_address, "--buffer", "malloc", "--send-buffer-bytes", "1M"},
     {{"buffer", "malloc"}, {"send_buffer_bytes", 1 << 20}}},
    {"SmallBuffers",  // full all the time
     {"stream", "--address", ipv4_address, "--send-buffer-blocks", "64", "--socket-buffer", "4096",
      "--unit-size", "2048", "--crc", "off"},
     {{"send_buffer_blocks", 64}, {"socket_buffer", 4096}, {"crc", false}}},
    {"ManyConnectionsInTurns",
     {"stream", "--address", ipv4_address, "--connections", "10", "--send-buffer-bytes", "512K"},
     {{"connections", 10}, {"senders", 1}}},
    {"SharesConnections",
     {"stream", "--address", ipv4_address, "--connections", "5", "--senders", "2"},
     {{"connections", 5}, {"senders", 2}}},
    {"AboveTheDefaultLimit", {"stream", "--address", ipv4_address, "--size", "1000000"}},
    {"OneByOne", {"stream", "--address", ipv4_address, "--batch", "1", "--check", "sequence"}},
    {"PollsWithoutSleep",
     {"stream", "--address", ipv4_address, "--poll", "--check", "none"},
     {{"sleep", false}}},
    {"SleepsAtOnce", {"stream", "--address", ipv4_address, "--spin", "0", "--rate", "200"}, {}, 50},
    {"IdleSenders",
     {"stream", "--address", ipv4_address, "--idle-senders", "300"},
     {{"idle_senders", 300}}},
    {"Paces", {"stream", "--address", ipv4_address, "--connections", "3", "--rate", "1000"}},
    {"BesideABareSocket",
     {"stream", "--address", ipv4_address, "--limit", "--repeat", "2"},
     {{"all_runs", 2}}},
};

const bench_case runs_of_nodes[] = {
    {"RelaysInSharedMemory",
     {"node", "--address", shm_address, "--hops", "2", "--senders", "2", "--rate", "20000",
      "--sleep"},
     {{"hops", 2}}},
    {"RelaysOverUnixSockets",
     {"node", "--address", unix_address, "--hops", "2", "--senders", "2", "--rate", "20000",
      "--sleep"},
     {{"hops", 2}}},
    {"RelaysOverTcp",
     {"node", "--address", ipv6_address, "--hops", "2", "--senders", "2", "--rate", "20000",
      "--sleep"},
     {{"hops", 2}}},
    {"AllSendInSharedMemory", {"node", "--address", shm_address, "--nodes", "4"}, {{"nodes", 4}}},
    {"AllSendInOneProcess", {"node", "--address", mem_address, "--nodes", "4"}, {{"nodes", 4}}},
    {"AllSendOverUnixSockets", {"node", "--address", unix_address, "--nodes", "4"}, {{"nodes", 4}}},
    {"AllSendOverTcp", {"node", "--address", ipv6_address, "--nodes", "4"}, {{"nodes", 4}}},
    {"AllSendOverRelays",
     {"node", "--nodes", "5", "--hops", "2", "--rate", "20000", "--sleep"},
     {{"nodes", 5}}},
    {"SeveralSendersThatClaim",
     {"node", "--senders", "3", "--api", "claim", "--unit-size", "2048", "--batch", "5"},
     {{"senders", 3}, {"api", "claim"}, {"unit_size", 2048}}},
    {"SmallBuffers",  // full all the time
     {"node", "--address", ipv6_address, "--size", "10000", "--buffer", "static",
      "--send-buffer-bytes", "64K", "--sleep"},
     {{"buffer", "static"}, {"send_buffer_bytes", 64 * 1024}, {"sleep", true}}},
    {"AboveTheDefaultLimit",
     {"node", "--address", ipv4_address, "--size", "1000000", "--poll"},
     {}},
};

std::vector<bench_case> runs_beside_the_channel() {
  const std::pair<const char*, std::string> all[] = {{"Shm", shm_address},
                                                     {"Mem", mem_address},
                                                     {"Unix", unix_address},
                                                     {"Ipv6", ipv6_address},
                                                     {"Ipv4", ipv4_address}};
  std::vector<bench_case> runs;
  for (const auto& [kind, address] : all)
    runs.push_back({kind, {"node", "--address", address, "--channel", "--repeat", "2"}});
  for (bench_case& run : runs)
    run.reports = {{"address", run.arguments[2]}, {"senders", 1}, {"buffer", "malloc"}};
  return runs;
}

INSTANTIATE_TEST_SUITE_P(Shm, BenchRun, ::testing::ValuesIn(runs_of_shm), name_of_case);
INSTANTIATE_TEST_SUITE_P(Stream, BenchRun, ::testing::ValuesIn(runs_of_streams), name_of_case);
INSTANTIATE_TEST_SUITE_P(Node, BenchRun, ::testing::ValuesIn(runs_of_nodes), name_of_case);
INSTANTIATE_TEST_SUITE_P(NodeBesideChannel, BenchRun,
                         ::testing::ValuesIn(runs_beside_the_channel()), name_of_case);

TEST(BenchShm, ReportsTheSpreadOfSeveralRuns) {
  const json found = run_bench({"shm", "--seconds", "0.1", "--repeat", "3"});
  expect_complete(found);
  EXPECT_EQ(found["all_runs"], 3);
  if (!found.contains("min"))
    GTEST_SKIP() << "the cores were elsewhere in each run";
  EXPECT_LE(found["min"]["messages_per_second"], found["messages_per_second"]);
  EXPECT_LE(found["messages_per_second"], found["max"]["messages_per_second"]);
  json smallest = found["min"];
  smallest.update({{"workload", "shm"}, {"address", ""}, {"senders", 1}});
  expect_complete(smallest);
}

class BenchLatency : public ::testing::TestWithParam<bench_case> {};

TEST_P(BenchLatency, MeasuresARoundTrip) {
  const bench_case& run = GetParam();
  words arguments{"latency"};
  arguments.insert(arguments.end(), run.arguments.begin(), run.arguments.end());
  arguments.insert(arguments.end(), {"--seconds", "0.2"});
  const json found = run_bench(arguments);
  EXPECT_EQ(found["workload"], "latency");
  EXPECT_EQ(found["corrupt"], 0);
  expect_latency(found);
  expect_fields(found, run.reports);
  for (const char* const part : {"limit", "channel"}) {
    EXPECT_EQ(found.contains(part), run.has(std::string{"--"} + part));
    if (found.contains(part))
      expect_latency(found[part]);
  }
  if (run.has("--limit")) {
    EXPECT_GT(found["limit"]["share"], 0);
  }
  if (run.has("--count")) {
    EXPECT_LE(found["messages"], run.value("--count"));
  }
  EXPECT_EQ(files_left(), 0U);
}

const bench_case round_trips[] = {
    {"AsItIs", {"--limit"}, {{"size", 64}}},
    {"Sleeps", {"--sleep", "--spin", "0", "--limit"}},
    {"InOneProcess", {mem_address, mem_address + "-back"}},
    {"BetweenProcesses", {shm_address, shm_address + "-back"}},
    {"Tcp", {"--address", ipv4_address, "--limit"}},
    {"Unix", {"--address", unix_address, "--limit"}},
    {"UnixWithLanes", {"--address", lanes_address, "--limit"}},
    {"TcpSleeps", {ipv4_address, "--sleep", "--spin", "0", "--limit"}},
    {"NodesInSharedMemory", {"--node", "--channel", "--address", shm_address}, {{"nodes", true}}},
    {"NodesInOneProcess", {"--node", "--channel", "--address", mem_address}, {{"nodes", true}}},
    {"NodesOverUnix", {"--node", "--channel", "--address", unix_address}, {{"nodes", true}}},
    {"NodesOverIpv6", {"--node", "--channel", "--address", ipv6_address}, {{"nodes", true}}},
    {"NodesOverIpv4", {"--node", "--channel", "--address", ipv4_address}, {{"nodes", true}}},
    {"NodesOfOneProcess", {shm_address, "--hops", "0", "--count", "1000"}, {{"hops", 0}}},
    {"NodesOverARelay", {shm_address, "--hops", "1", "--count", "1000"}, {{"hops", 1}}},
    {"NodesSleep", {"--node", "--sleep", "--count", "1000"}},
};

INSTANTIATE_TEST_SUITE_P(All, BenchLatency, ::testing::ValuesIn(round_trips), name_of_case);

TEST(BenchLatencyCount, EndsARun) {
  const json found = run_bench({"latency", "--seconds", "100", "--count", "100"});
  EXPECT_EQ(found["messages"], 100);
  EXPECT_LT(found["seconds"], 100);
}

// What people are shown; each of `reports` is a word of it.
class BenchTable : public ::testing::TestWithParam<bench_case> {};

TEST_P(BenchTable, HasTheseWords) {
  words arguments{"bench"};
  arguments.insert(arguments.end(), GetParam().arguments.begin(), GetParam().arguments.end());
  const command_result result = run_command(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  for (const std::string word : GetParam().reports)
    EXPECT_NE(result.output.find(word), std::string::npos) << word << '\n' << result.output;
  // A socket that nobody asked for.
  EXPECT_EQ(result.output.find("ipv6"), std::string::npos) << result.output;
}

const bench_case tables[] = {
    {"Limit",
     {"limit", "--seconds", "0.02", "--address", "unix"},
     {" bare ring, 64 B there and back", " unix, writes of 256 KiB", " unix, writes of 16 KiB",
      " unix, 64 B there and back, sleeping", " unix, 64 B there and back, spinning"}},
    {"Frames",
     {"limit", "--framed", "--seconds", "0.02", "--address", "unix", "--unit-size", "16"},
     {"8-128 B", "claim", "send", "CRC", "no CRC", "msg/s"}},
    {"Shm", {"shm", "--seconds", "0.1"}, {"8-128 B", "lost 0  corrupt 0"}},
    {"Lanes",
     {"stream", "--seconds", "0.1", "--address", lanes_address, "--limit"},
     {"% of the bare ring"}},
    {"Stream",
     {"stream", "--seconds", "0.1", "--address", unix_address, "--connections", "2", "--limit"},
     {"8-128 B", "2 connections", "% of the bare socket", "lost 0  corrupt 0", "over unix: "}},
    {"Node",
     {"node", "--seconds", "0.1", "--channel"},
     {"8-128 B", "1 sender", "% of the bare channel", "cpu ", "lost 0  corrupt 0"}},
};

INSTANTIATE_TEST_SUITE_P(All, BenchTable, ::testing::ValuesIn(tables), name_of_case);

// Benchmarks that would run for ten minutes.
class LongBench : public ::testing::TestWithParam<bench_case> {
 protected:
  static words arguments(const words& more = {}) {
    words all{"bench"};
    all.insert(all.end(), GetParam().arguments.begin(), GetParam().arguments.end());
    all.insert(all.end(), {"--seconds", "600"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // Kills one of two workers of what runs.
  static void expect_death_of(std::size_t victim, running_command& command) {
    const std::vector<pid_t> workers = command.children(2, bench_patience);
    ASSERT_EQ(workers.size(), 2U);
    kill(workers[victim], SIGKILL);
    const command_result result = command.finish(bench_patience);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_NE(result.errors.find("killed by signal 9"), std::string::npos) << result.errors;
    EXPECT_EQ(result.errors.find("did not end"), std::string::npos) << result.errors;
    EXPECT_EQ(files_left(), 0U);
  }
};

TEST_P(LongBench, ReportsAWorkerThatDiesAndLeavesNothingBehind) {
  for (const std::size_t victim : {0U, 1U}) {
    running_command command{arguments()};
    ASSERT_TRUE(command.children_have_worked(bench_patience));
    expect_death_of(victim, command);
  }
}

TEST_P(LongBench, ReportsAWorkerThatDiesAtOnce) {
  for (const std::size_t victim : {0U, 1U}) {
    running_command command{arguments()};
    expect_death_of(victim, command);
  }
}

TEST_P(LongBench, EndsWithResultsSoFarWhenInterrupted) {
  running_command command{arguments({"--json", "-"})};
  ASSERT_TRUE(command.children_have_worked(bench_patience));
  if (GetParam().has("shm")) {
    EXPECT_EQ(files_left(), 2U) << "the segment and its doorbell";
  }
  command.send_signal(SIGINT);
  const command_result result = command.finish(bench_patience);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  const json found = json::parse(result.output, nullptr, false);
  ASSERT_FALSE(found.is_discarded());
  if (GetParam().has("limit")) {
    EXPECT_GT(found["framed"][0]["messages"], 0);
    EXPECT_EQ(found["framed"][0]["lost"], 0);
  } else {
    expect_complete(found);
    EXPECT_LT(found["seconds"], 500);
  }
  EXPECT_EQ(files_left(), 0U);
}

const bench_case long_runs[] = {
    // The first of all kinds runs when a worker dies.
    {"Frames", {"limit", "--framed", "--address", "unix"}},
    {"Shm", {"shm", "--address", shm_address}},
    {"Stream", {"stream", "--poll", "--address", unix_address, "--connections", "3"}},
    {"Node", {"node", "--poll", "--address", shm_address}},
};

INSTANTIATE_TEST_SUITE_P(All, LongBench, ::testing::ValuesIn(long_runs), name_of_case);

}  // namespace
}  // namespace atbus
