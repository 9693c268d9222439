// What `atbus bench limit` measures of the machine.
#include <signal.h>

#include <nlohmann/json.hpp>

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
using test::running_command;

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

TEST(BenchLimit, ReportsACacheLineAlone) {
  const json found = run_bench({"limit", "--cache-line", "--seconds", "0.02"});
  EXPECT_GT(found["cache_line_round_trip_us"], 0);
  EXPECT_FALSE(found.contains("bare_ring")) << found.dump();
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

}  // namespace
}  // namespace atbus
