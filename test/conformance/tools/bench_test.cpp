// Short real runs: what they report, and how they end.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "run_bench.h"
#include "run_command.h"

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

// Files whose names end so in the folder of segments: the segment and its doorbell.
std::size_t files_left(const std::string& name) {
  std::size_t count = 0;
  for (const auto& file : std::filesystem::directory_iterator{"/dev/shm"}) {
    count += file.path().filename().string().ends_with("." + name) ? 1 : 0;
  }
  return count;
}

TEST(BenchLimit, ReportsWhatTheMachineAllows) {
  const json found = run_bench({"limit", "--seconds", "0.1"});
  SCOPED_TRACE(found.dump());
  ASSERT_TRUE(found.is_object());
  EXPECT_GT(found["copy"]["into_1_mib"]["bytes_per_second"], 0);
  EXPECT_GT(found["copy"]["into_32_mib"]["bytes_per_second"], 0);
  EXPECT_GT(found["cache_line_round_trip_us"], 0);
  ASSERT_EQ(found["bare_ring"].size(), 8U);
  for (const json& ring : found["bare_ring"]) {
    EXPECT_GT(ring["messages_per_second"], 0);
    EXPECT_EQ(ring["lost"], 0);
    EXPECT_EQ(ring["corrupt"], 0);
  }
  expect_latency(found["bare_ring_round_trip"]);
  expect_latency(found["eventfd_round_trip"]);
}

void expect_buffers(const json& found) {
  EXPECT_GT(found["buffers"]["send_bytes"], 0);
  EXPECT_GT(found["buffers"]["receive_bytes"], 0);
}

TEST(BenchLimit, ReportsWhatSocketsAllow) {
  const json found = run_bench(
      {"limit", "--seconds", "0.05", "--address", "unix", "--address", "ipv4://127.0.0.1"});
  SCOPED_TRACE(found.dump());
  ASSERT_EQ(found["socket"].size(), 4U);
  for (const json& one : found["socket"]) {
    EXPECT_GT(one["bytes_per_second"], 0);
    expect_buffers(one);
  }
  EXPECT_EQ(found["socket"][0]["address"], "ipv4://127.0.0.1");
  EXPECT_EQ(found["socket"][0]["write_bytes"], 256 * 1024);
  EXPECT_EQ(found["socket"][3]["address"], "unix");
  EXPECT_EQ(found["socket"][3]["write_bytes"], 16 * 1024);
  ASSERT_EQ(found["socket_round_trip"].size(), 4U);
  for (const json& one : found["socket_round_trip"]) {
    expect_latency(one);
    EXPECT_EQ(one["size"], 64);
  }
}

TEST(BenchLimit, TableForPeopleHasSockets) {
  const command_result result =
      run_command({"bench", "limit", "--seconds", "0.02", "--address", "unix"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  for (const char* const row :
       {" bare ring, 64 B there and back", " unix, writes of 256 KiB", " unix, writes of 16 KiB",
        " unix, 64 B there and back, sleeping", " unix, 64 B there and back, spinning"}) {
    EXPECT_NE(result.output.find(row), std::string::npos) << row << '\n' << result.output;
  }
  EXPECT_EQ(result.output.find("ipv6"), std::string::npos) << result.output;
}

// Every kind of message over one kind of socket.
void expect_framed(const std::string& address) {
  const json found = run_bench({"limit", "--framed", "--seconds", "0.05", "--address", address});
  SCOPED_TRACE(found.dump());
  ASSERT_EQ(found["framed"].size(), 8U);
  for (const json& one : found["framed"]) {
    EXPECT_EQ(one["address"], address);
    EXPECT_GT(one["messages_per_second"], 0);
    EXPECT_GT(one["bytes"], one["messages"].get<std::uint64_t>() * 8);
    EXPECT_EQ(one["lost"], 0);
    EXPECT_EQ(one["corrupt"], 0);
    EXPECT_EQ(one["reordered"], 0);
    for (const char* const field : {"unit_size", "api", "crc", "write_bytes", "read_bytes",
                                    "spin_us", "sender", "receiver"}) {
      EXPECT_TRUE(one.contains(field)) << field;
    }
    expect_buffers(one);
  }
}

TEST(BenchLimit, CarriesFramesOverTcp) {
  expect_framed("ipv4://127.0.0.1");
}

TEST(BenchLimit, CarriesFramesOverUnixSockets) {
  expect_framed("unix");
}

TEST(BenchLimit, CarriesOneKindOfFramesOnly) {
  const json found = run_bench({"limit", "--framed", "--seconds", "0.05", "--address", "unix",
                                "--unit-size", "100", "--api", "send", "--crc", "on"});
  ASSERT_EQ(found["framed"].size(), 1U) << found.dump();
  EXPECT_EQ(found["framed"][0]["unit_size"], 100);
  EXPECT_EQ(found["framed"][0]["api"], "send");
  EXPECT_EQ(found["framed"][0]["crc"], true);
}

// Frames larger than what is read or written at once, and a receiver that sleeps at once.
TEST(BenchLimit, CarriesFramesLargerThanItsBuffers) {
  const json found = run_bench({"limit", "--framed", "--seconds", "0.1", "--address", "unix",
                                "--unit-size", "2048", "--write-bytes", "1024", "--read-bytes",
                                "1024", "--socket-buffer", "4096", "--spin", "0"});
  ASSERT_EQ(found["framed"].size(), 4U) << found.dump();
  for (const json& one : found["framed"]) {
    EXPECT_GT(one["messages"], 0);
    EXPECT_EQ(one["lost"].get<int>() + one["corrupt"].get<int>(), 0);
    EXPECT_LT(one["buffers"]["send_bytes"], 65536);
  }
}

TEST(BenchLimit, TableOfFramesNamesEachKind) {
  const command_result result = run_command({"bench", "limit", "--framed", "--seconds", "0.02",
                                             "--address", "unix", "--unit-size", "16"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  for (const char* const word : {"8-128 B", "claim", "send", "CRC", "no CRC", "msg/s"}) {
    EXPECT_NE(result.output.find(word), std::string::npos) << word << '\n' << result.output;
  }
}

TEST(BenchLimit, ReportsASocketWorkerThatDies) {
  for (const std::size_t victim : {0U, 1U}) {
    running_command command{{"bench", "limit", "--framed", "--seconds", "600", "--address", "unix",
                             "--unit-size", "16", "--api", "claim", "--crc", "on"}};
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

TEST(BenchLimit, EndsWithResultsSoFarWhenFramesAreInterrupted) {
  running_command command{
      {"bench", "limit", "--framed", "--seconds", "600", "--address", "unix", "--json", "-"}};
  ASSERT_TRUE(command.children_have_worked(bench_patience));
  command.send_signal(SIGINT);
  const command_result result = command.finish(bench_patience);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  const json found = json::parse(result.output, nullptr, false);
  ASSERT_FALSE(found.is_discarded());
  EXPECT_GT(found["framed"][0]["messages"], 0);
  EXPECT_EQ(found["framed"][0]["lost"], 0);
}

TEST(BenchShm, CountsEveryMessage) {
  const json found = run_bench({"shm", "--seconds", "0.2"});
  expect_complete(found);
  EXPECT_EQ(found["workload"], "shm");
  EXPECT_EQ(found["unit_size"], 16);
  EXPECT_FALSE(found.contains("latency_us"));
  EXPECT_FALSE(found.contains("limit"));
}

TEST(BenchShm, ClaimsInPlace) {
  const json found =
      run_bench({"shm", "--seconds", "0.2", "--api", "claim", "--unit-size", "2048"});
  expect_complete(found);
  EXPECT_EQ(found["unit_size"], 2048);
}

TEST(BenchShm, CarriesOneFixedSize) {
  const json found = run_bench({"shm", "--seconds", "0.2", "--size", "100"});
  expect_complete(found);
  EXPECT_FALSE(found.contains("unit_size"));
  EXPECT_EQ(found["bytes"], found["messages"].get<std::uint64_t>() * 100);
}

TEST(BenchShm, CarriesMessagesAboveTheDefaultLimit) {
  expect_complete(run_bench({"shm", "--seconds", "0.2", "--size", "1000000"}));
}

TEST(BenchShm, RunsSeveralSenders) {
  const json found = run_bench({"shm", "--seconds", "0.3", "--senders", "4"});
  expect_complete(found);
  EXPECT_EQ(found["senders"], 4);
}

TEST(BenchShm, PublishesInBatches) {
  expect_complete(run_bench({"shm", "--seconds", "0.2", "--batch", "32"}));
}

TEST(BenchShm, SleepsWhenAskedTo) {
  const json found =
      run_bench({"shm", "--seconds", "0.5", "--sleep", "--spin", "0", "--rate", "200"});
  expect_complete(found);
  EXPECT_LT(found["receiver"]["cpu_percent"], 50);
}

TEST(BenchShm, PacesAndMeasuresLatency) {
  const json found = run_bench({"shm", "--seconds", "0.5", "--rate", "1000"});
  expect_complete(found);
  expect_latency(found);
  // As many as the rate allows, however long the run became.
  EXPECT_LE(found["messages"], 1000 * found["seconds"].get<double>() + 2);
}

TEST(BenchShm, ChecksAsLittleAsAskedTo) {
  expect_complete(run_bench({"shm", "--seconds", "0.1", "--check", "sequence"}));
  expect_complete(run_bench({"shm", "--seconds", "0.1", "--check", "none"}));
}

TEST(BenchShm, ComparesItselfWithTheBareRing) {
  const json found = run_bench({"shm", "--seconds", "0.1", "--limit"});
  expect_complete(found);
  EXPECT_GT(found["limit"]["messages_per_second"], 0);
  EXPECT_GT(found["limit"]["bytes_per_second"], 0);
  EXPECT_GT(found["limit"]["share"], 0);
}

TEST(BenchShm, ReportsTheSpreadOfSeveralRuns) {
  const json found = run_bench({"shm", "--seconds", "0.1", "--repeat", "3"});
  expect_complete(found);
  EXPECT_EQ(found["runs"], 3);
  EXPECT_LE(found["min"]["messages_per_second"], found["messages_per_second"]);
  EXPECT_LE(found["messages_per_second"], found["max"]["messages_per_second"]);
  expect_complete([&] {
    json smallest = found["min"];
    smallest.update({{"workload", "shm"}, {"address", ""}, {"senders", 1}});
    return smallest;
  }());
}

TEST(BenchShm, LeavesNoSegmentBehind) {
  const std::string name = "bench-test-" + std::to_string(getpid());
  running_command command{{"bench", "shm", "--seconds", "600", "--address", "shm://" + name}};
  ASSERT_TRUE(command.children_have_worked(bench_patience));
  EXPECT_EQ(files_left(name), 2U);
  command.send_signal(SIGINT);
  EXPECT_EQ(command.finish(bench_patience).exit_code, 0);
  EXPECT_EQ(files_left(name), 0U);
}

TEST(BenchShm, LeavesNoSegmentBehindWhenItsReceiverDies) {
  const std::string name = "bench-test-" + std::to_string(getpid());
  running_command command{{"bench", "shm", "--seconds", "600", "--address", "shm://" + name}};
  ASSERT_TRUE(command.children_have_worked(bench_patience));
  kill(command.children(2, bench_patience).front(), SIGKILL);
  EXPECT_EQ(command.finish(bench_patience).exit_code, 1);
  EXPECT_EQ(files_left(name), 0U);
}

TEST(BenchShm, RowForPeopleNamesWhatWasLost) {
  const command_result result = run_command({"bench", "shm", "--seconds", "0.1"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.output.find("8-128 B"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("lost 0  corrupt 0"), std::string::npos) << result.output;
}

TEST(BenchShm, EndsWithResultsSoFarWhenInterrupted) {
  running_command command{{"bench", "shm", "--seconds", "600", "--json", "-"}};
  ASSERT_TRUE(command.children_have_worked(bench_patience));
  command.send_signal(SIGINT);
  const command_result result = command.finish(bench_patience);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  const json found = json::parse(result.output, nullptr, false);
  expect_complete(found);
  EXPECT_LT(found["seconds"], 500);
}

TEST(BenchShm, ReportsASenderThatDies) {
  running_command command{{"bench", "shm", "--seconds", "600"}};
  const std::vector<pid_t> workers = command.children(2, bench_patience);
  ASSERT_EQ(workers.size(), 2U);
  kill(workers.back(), SIGKILL);
  const command_result result = command.finish(bench_patience);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.errors.find("killed by signal 9"), std::string::npos) << result.errors;
}

TEST(BenchShm, ReportsAReceiverThatDies) {
  running_command command{{"bench", "shm", "--seconds", "600"}};
  const std::vector<pid_t> workers = command.children(2, bench_patience);
  ASSERT_EQ(workers.size(), 2U);
  kill(workers.front(), SIGKILL);
  const command_result result = command.finish(bench_patience);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.errors.find("killed by signal 9"), std::string::npos) << result.errors;
}

TEST(BenchMem, RunsThreadsOfOneProcess) {
  const json found = run_bench({"mem", "--seconds", "0.2", "--senders", "2"});
  expect_complete(found);
  EXPECT_EQ(found["workload"], "mem");
}

TEST(BenchLatency, MeasuresARoundTrip) {
  const json found = run_bench({"latency", "--seconds", "0.2", "--limit"});
  EXPECT_EQ(found["workload"], "latency");
  EXPECT_EQ(found["size"], 64);
  EXPECT_EQ(found["corrupt"], 0);
  expect_latency(found);
  expect_latency(found["limit"]);
  EXPECT_GT(found["limit"]["share"], 0);
}

TEST(BenchLatency, EndsAfterACount) {
  const json found = run_bench({"latency", "--seconds", "100", "--count", "100"});
  EXPECT_EQ(found["messages"], 100);
  EXPECT_LT(found["seconds"], 100);
}

TEST(BenchLatency, MeasuresSleepingSides) {
  expect_latency(run_bench({"latency", "--seconds", "0.2", "--sleep", "--spin", "0", "--limit"}));
}

TEST(BenchLatency, MeasuresAnyTwoAddresses) {
  const std::string id = std::to_string(getpid());
  expect_latency(
      run_bench({"latency", "mem://there-" + id, "mem://back-" + id, "--seconds", "0.2"}));
  expect_latency(
      run_bench({"latency", "shm://there-" + id, "shm://back-" + id, "--seconds", "0.2"}));
}

}  // namespace
}  // namespace atbus
