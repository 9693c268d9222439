// Short real runs through sockets: what they report, and how they end.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

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
using test::run_script;
using test::running_command;

std::string socket_path() {
  return "/tmp/atbus-bench-test-" + std::to_string(getpid());
}

// Messages stay with the socket.
std::string unix_address() {
  return "unix://" + socket_path() + "?shm=false";
}

// Sends so many seconds' worth over 127.0.0.1.
json run_stream(std::vector<std::string> options) {
  options.insert(options.begin(),
                 {"stream", "--seconds", "0.2", "--address", "ipv4://127.0.0.1:0"});
  return run_bench(std::move(options));
}

TEST(BenchStream, CountsEveryMessage) {
  const json found = run_bench({"stream", "--seconds", "0.2"});
  expect_complete(found);
  EXPECT_EQ(found["workload"], "stream");
  EXPECT_EQ(found["address"], "ipv6://::1:0");
  EXPECT_EQ(found["unit_size"], 16);
  EXPECT_EQ(found["connections"], 1);
  EXPECT_EQ(found["buffer"], "static");
  EXPECT_EQ(found["sleep"], true);
  EXPECT_EQ(found["crc"], true);
  EXPECT_FALSE(found.contains("limit"));
}

TEST(BenchStream, CarriesMessagesOverUnixSockets) {
  const json found = run_bench({"stream", "--seconds", "0.2", "--address", unix_address(), "--api",
                                "claim", "--unit-size", "2048"});
  expect_complete(found);
  EXPECT_EQ(found["crc"], false);
  EXPECT_EQ(found["shm"], false);
  EXPECT_EQ(found["unit_size"], 2048);
  EXPECT_FALSE(std::filesystem::exists(socket_path()));
}

TEST(BenchStream, ComparesLanesOfAUnixSocketWithTheBareRing) {
  const command_result result = run_command(
      {"bench", "stream", "--seconds", "0.1", "--address", "unix://" + socket_path(), "--limit"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.output.find("% of the bare ring"), std::string::npos) << result.output;
}

TEST(BenchStream, CountsMessagesOfSendersThatMoveOnToLanes) {
  const json found = run_bench({"stream", "--seconds", "0.2", "--address",
                                "unix://" + socket_path(), "--senders", "3", "--sleep"});
  expect_complete(found);
  EXPECT_EQ(found["shm"], true);
}

TEST(BenchStream, GrowsItsBufferWhenAskedTo) {
  const json found = run_stream({"--buffer", "malloc", "--send-buffer-bytes", "1M"});
  expect_complete(found);
  EXPECT_EQ(found["buffer"], "malloc");
  EXPECT_EQ(found["send_buffer_bytes"], 1 << 20);
}

// Buffers that are full all the time.
TEST(BenchStream, WaitsForRoomInSmallBuffers) {
  const json found = run_stream({"--send-buffer-blocks", "64", "--socket-buffer", "4096",
                                 "--unit-size", "2048", "--crc", "off"});
  expect_complete(found);
  EXPECT_EQ(found["send_buffer_blocks"], 64);
  EXPECT_EQ(found["socket_buffer"], 4096);
  EXPECT_EQ(found["crc"], false);
}

TEST(BenchStream, ServesManyConnectionsInTurns) {
  const json found = run_stream({"--connections", "10", "--send-buffer-bytes", "512K"});
  expect_complete(found);
  EXPECT_EQ(found["connections"], 10);
  EXPECT_EQ(found["senders"], 1);
}

TEST(BenchStream, SharesConnectionsAmongSenders) {
  const json found = run_stream({"--connections", "5", "--senders", "2"});
  expect_complete(found);
  EXPECT_EQ(found["connections"], 5);
  EXPECT_EQ(found["senders"], 2);
}

TEST(BenchStream, CarriesMessagesAboveTheDefaultLimit) {
  expect_complete(run_stream({"--size", "1000000"}));
}

TEST(BenchStream, SendsOneByOneWhenAskedTo) {
  expect_complete(run_stream({"--batch", "1", "--check", "sequence"}));
}

TEST(BenchStream, PollsWithoutSleepWhenAskedTo) {
  const json found = run_stream({"--poll", "--check", "none"});
  expect_complete(found);
  EXPECT_EQ(found["sleep"], false);
}

TEST(BenchStream, SleepsAtOnceWhenAskedTo) {
  const json found = run_stream({"--spin", "0", "--rate", "200"});
  expect_complete(found);
  EXPECT_LT(found["receiver"]["cpu_percent"], 50);
}

TEST(BenchStream, HoldsConnectionsThatNeverSend) {
  const json found = run_stream({"--idle-senders", "300"});
  expect_complete(found);
  EXPECT_EQ(found["idle_senders"], 300);
}

TEST(BenchStream, PacesAndMeasuresLatency) {
  const json found = run_stream({"--connections", "3", "--rate", "1000"});
  expect_complete(found);
  expect_latency(found);
  // As many as the rate allows, however long the run became.
  EXPECT_LE(found["messages"], 1000 * found["seconds"].get<double>() + 4);
}

TEST(BenchStream, ComparesItselfWithABareSocket) {
  const json found = run_stream({"--limit", "--repeat", "2"});
  expect_complete(found);
  EXPECT_EQ(found["runs"], 2);
  const json& limit = found["limit"];
  EXPECT_GT(limit["messages_per_second"], 0);
  EXPECT_GT(limit["bytes_per_second"], 0);
  EXPECT_GT(limit["share"], 0);
  EXPECT_GT(limit["buffers"]["send_bytes"], 0);
}

TEST(BenchStream, RowForPeopleNamesConnectionsAndTheLimit) {
  const command_result result = run_command({"bench", "stream", "--seconds", "0.1", "--address",
                                             unix_address(), "--connections", "2", "--limit"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  for (const char* const words :
       {"8-128 B", "2 connections", "% of the bare socket", "lost 0  corrupt 0", "over unix: "}) {
    EXPECT_NE(result.output.find(words), std::string::npos) << words << '\n' << result.output;
  }
}

TEST(BenchStream, EndsWithResultsSoFarWhenInterrupted) {
  running_command command{{"bench", "stream", "--seconds", "600", "--connections", "3", "--poll",
                           "--address", unix_address(), "--json", "-"}};
  ASSERT_TRUE(command.children_have_worked(bench_patience));
  command.send_signal(SIGINT);
  const command_result result = command.finish(bench_patience);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  const json found = json::parse(result.output, nullptr, false);
  expect_complete(found);
  EXPECT_LT(found["seconds"], 500);
}

TEST(BenchStream, ReportsAWorkerThatDiesAndLeavesNoSocketBehind) {
  for (const std::size_t victim : {0U, 1U}) {
    running_command command{
        {"bench", "stream", "--seconds", "600", "--poll", "--address", unix_address()}};
    ASSERT_TRUE(command.children_have_worked(bench_patience));
    const std::vector<pid_t> workers = command.children(2, bench_patience);
    ASSERT_EQ(workers.size(), 2U);
    kill(workers[victim], SIGKILL);
    const command_result result = command.finish(bench_patience);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_NE(result.errors.find("killed by signal 9"), std::string::npos) << result.errors;
    EXPECT_EQ(result.errors.find("did not end"), std::string::npos) << result.errors;
    EXPECT_FALSE(std::filesystem::exists(socket_path()));
  }
}

TEST(BenchStream, RefusesAddressesThatNothingCanListenAt) {
  for (const char* const address : {"shm://a", "dns://localhost:0", "ipv6://::1", "nonsense"}) {
    const command_result result = run_command({"bench", "stream", "--address", address});
    EXPECT_EQ(result.exit_code, 2) << address;
    EXPECT_NE(result.errors.find("--address"), std::string::npos) << result.errors;
  }
}

TEST(BenchLatency, MeasuresStreams) {
  for (const std::string& address :
       {std::string{"ipv4://127.0.0.1:0"}, unix_address(), "unix://" + socket_path()}) {
    SCOPED_TRACE(address);
    const json found = run_bench({"latency", "--address", address, "--seconds", "0.2", "--limit"});
    EXPECT_EQ(found["corrupt"], 0);
    expect_latency(found);
    expect_latency(found["limit"]);
  }
}

TEST(BenchLatency, MeasuresSleepingStreams) {
  const json found = run_bench(
      {"latency", "ipv4://127.0.0.1:0", "--seconds", "0.2", "--sleep", "--spin", "0", "--limit"});
  expect_latency(found);
  expect_latency(found["limit"]);
}

TEST(BenchStreamScript, ExplainsItself) {
  const command_result help = run_script("startup_benchmark_io_stream.sh", {"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_NE(help.output.find("ADDRESS UNIT_SIZE LIMIT_SIZE STATIC_BLOCKS [SECONDS=10]"),
            std::string::npos)
      << help.output;
  const command_result nothing = run_script("startup_benchmark_io_stream.sh", {});
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_EQ(nothing.errors, help.output);
}

TEST(BenchStreamScript, NamesTheArgumentThatMakesNoSense) {
  const std::vector<std::string> good{"ipv6://::1:0", "16", "4194304", "8096", "1"};
  const std::vector<std::pair<const char*, std::vector<std::string>>> wrong{
      {"ADDRESS", {"tcp://::1:0", "::1:0", "shm://12345679", "unix://", ""}},
      {"UNIT_SIZE", {"0", "-1", "1x", "8388609", "016"}},
      {"LIMIT_SIZE", {"0", "4M", "99999999999"}},
      {"STATIC_BLOCKS", {"-1", "x", "8388609"}},
      {"SECONDS", {"0", "86401", "1.5"}}};
  for (std::size_t place = 0; place != wrong.size(); ++place) {
    for (const std::string& value : wrong[place].second) {
      std::vector<std::string> arguments = good;
      arguments[place] = value;
      const command_result result = run_script("startup_benchmark_io_stream.sh", arguments);
      EXPECT_EQ(result.exit_code, 1) << value;
      EXPECT_NE(result.errors.find(std::string{"error: "} + wrong[place].first + " is \"" + value),
                std::string::npos)
          << result.errors;
    }
  }
}

TEST(BenchShmScript, NamesTheArgumentThatMakesNoSense) {
  EXPECT_EQ(run_script("startup_benchmark_shm.sh", {"a"}).exit_code, 2);
  const command_result result = run_script("startup_benchmark_shm.sh", {"a", "0"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.errors.find("error: UNIT_SIZE is \"0\""), std::string::npos) << result.errors;
}

}  // namespace
}  // namespace atbus
