// Short real runs from node to node: what they report, and how they end.
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
using test::running_command;

std::string name() {
  return "bench-node-test-" + std::to_string(getpid());
}

std::string unix_node_address() {
  return "unix:///tmp/atbus-" + name() + "?shm=false";
}

std::vector<std::string> all_addresses() {
  return {"shm://" + name(), "mem://" + name(), unix_node_address(), "ipv6://::1:0",
          "ipv4://127.0.0.1:0"};
}

bool left_something() {
  for (const char* const where : {"/dev/shm", "/tmp"}) {
    for (const auto& entry : std::filesystem::directory_iterator{where}) {
      if (entry.path().filename().string().find(name()) != std::string::npos)
        return true;
    }
  }
  return false;
}

TEST(BenchNode, CountsEveryMessageOverEachKindOfAddress) {
  for (const std::string& address : all_addresses()) {
    SCOPED_TRACE(address);
    const json found = run_bench({"node", "--address", address, "--seconds", "0.2"});
    expect_complete(found);
    EXPECT_EQ(found["workload"], "node");
    EXPECT_EQ(found["address"], address);
    EXPECT_EQ(found["senders"], 1);
    EXPECT_EQ(found["buffer"], "malloc");
    EXPECT_FALSE(found.contains("channel"));
    EXPECT_FALSE(left_something());
  }
}

TEST(BenchNode, CountsEveryMessageOverRelays) {
  for (const std::string& address :
       {"shm://" + name(), unix_node_address(), std::string{"ipv6://::1:0"}}) {
    SCOPED_TRACE(address);
    const json found = run_bench({"node", "--address", address, "--hops", "2", "--senders", "2",
                                  "--rate", "20000", "--sleep", "--seconds", "0.3"});
    expect_complete(found);
    EXPECT_EQ(found["hops"], 2);
    EXPECT_GT(found["cpu_ns_a_message"], 0);
    EXPECT_FALSE(left_something());
  }
}

TEST(BenchNode, CountsEveryMessageBetweenNodesThatAllSend) {
  for (const std::string& address :
       {"shm://" + name(), "mem://" + name(), unix_node_address(), std::string{"ipv6://::1:0"}}) {
    SCOPED_TRACE(address);
    const json found =
        run_bench({"node", "--address", address, "--nodes", "4", "--seconds", "0.2"});
    expect_complete(found);
    EXPECT_EQ(found["nodes"], 4);
    EXPECT_FALSE(left_something());
  }
  const json found = run_bench(
      {"node", "--nodes", "5", "--hops", "2", "--rate", "20000", "--sleep", "--seconds", "0.3"});
  expect_complete(found);
  EXPECT_FALSE(left_something());
}

TEST(BenchNode, RunsSeveralSendersThatClaim) {
  const json found = run_bench({"node", "--seconds", "0.2", "--senders", "3", "--api", "claim",
                                "--unit-size", "2048", "--batch", "5"});
  expect_complete(found);
  EXPECT_EQ(found["senders"], 3);
  EXPECT_EQ(found["api"], "claim");
  EXPECT_EQ(found["unit_size"], 2048);
}

// Buffers that are full all the time.
TEST(BenchNode, WaitsForRoomInSmallBuffers) {
  const json found =
      run_bench({"node", "--address", "ipv6://::1:0", "--seconds", "0.2", "--size", "10000",
                 "--buffer", "static", "--send-buffer-bytes", "64K", "--sleep"});
  expect_complete(found);
  EXPECT_EQ(found["buffer"], "static");
  EXPECT_EQ(found["send_buffer_bytes"], 64 * 1024);
  EXPECT_EQ(found["sleep"], true);
}

TEST(BenchNode, CarriesMessagesAboveTheDefaultLimit) {
  expect_complete(run_bench({"node", "--address", "ipv4://127.0.0.1:0", "--seconds", "0.2",
                             "--size", "1000000", "--poll"}));
}

TEST(BenchNode, ComparesItselfWithTheBareChannel) {
  for (const std::string& address : all_addresses()) {
    SCOPED_TRACE(address);
    const json found =
        run_bench({"node", "--address", address, "--seconds", "0.1", "--channel", "--repeat", "2"});
    expect_complete(found);
    EXPECT_GT(found["channel"]["messages_per_second"], 0);
    EXPECT_GT(found["channel"]["share"], 0);
    EXPECT_GE(found["max"]["channel"]["share"], found["min"]["channel"]["share"]);
  }
  EXPECT_FALSE(left_something());
}

TEST(BenchNode, RowForPeopleNamesTheChannel) {
  const command_result result = run_command({"bench", "node", "--seconds", "0.1", "--channel"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  for (const char* const words :
       {"8-128 B", "1 sender", "% of the bare channel", "cpu ", "lost 0  corrupt 0"}) {
    EXPECT_NE(result.output.find(words), std::string::npos) << words << '\n' << result.output;
  }
}

TEST(BenchNode, ReportsAWorkerThatDiesAndLeavesNothingBehind) {
  for (const std::size_t victim : {0U, 1U}) {
    running_command command{
        {"bench", "node", "--seconds", "600", "--poll", "--address", "shm://" + name()}};
    ASSERT_TRUE(command.children_have_worked(bench_patience));
    const std::vector<pid_t> workers = command.children(2, bench_patience);
    ASSERT_EQ(workers.size(), 2U);
    kill(workers[victim], SIGKILL);
    const command_result result = command.finish(bench_patience);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_NE(result.errors.find("killed by signal 9"), std::string::npos) << result.errors;
    EXPECT_FALSE(left_something());
  }
}

TEST(BenchNode, RefusesAddressesThatNothingCanListenAt) {
  for (const char* const address : {"dns://localhost:0", "ipv6://::1", "nonsense"}) {
    const command_result result = run_command({"bench", "node", "--address", address});
    EXPECT_EQ(result.exit_code, 2) << address;
    EXPECT_NE(result.errors.find("--address"), std::string::npos) << result.errors;
  }
}

TEST(BenchLatency, MeasuresNodesBesideTheChannel) {
  for (const std::string& address : all_addresses()) {
    SCOPED_TRACE(address);
    const json found =
        run_bench({"latency", "--node", "--channel", "--address", address, "--seconds", "0.2"});
    EXPECT_EQ(found["nodes"], true);
    EXPECT_EQ(found["corrupt"], 0);
    expect_latency(found);
    expect_latency(found["channel"]);
  }
  EXPECT_FALSE(left_something());
}

TEST(BenchLatency, MeasuresNodesOfOneProcessOverARelay) {
  for (const char* const hops : {"0", "1"}) {
    const json found = run_bench({"latency", "shm://" + name(), "--hops", hops, "--count", "1000"});
    expect_latency(found);
    EXPECT_EQ(found["hops"], std::stoi(hops));
    EXPECT_FALSE(left_something());
  }
}

TEST(BenchLatency, MeasuresSleepingNodes) {
  const json found =
      run_bench({"latency", "--node", "--sleep", "--seconds", "0.2", "--count", "1000"});
  expect_latency(found);
  EXPECT_LE(found["messages"], 1000);
}

TEST(BenchLatency, ComparesNodesWithTheChannelAndChannelsWithTheLimit) {
  for (const auto& options : {std::vector<std::string>{"--channel"}, {"--node", "--limit"}}) {
    std::vector<std::string> arguments{"bench", "latency"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    EXPECT_EQ(run_command(arguments).exit_code, 2);
  }
}

}  // namespace
}  // namespace atbus
