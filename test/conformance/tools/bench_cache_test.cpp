// What `atbus bench cache` reports, with small numbers.
#include <stdlib.h>

#include <nlohmann/json.hpp>

#include "run_bench.h"
#include "run_command.h"
#include "test.h"

namespace atbus {
namespace {

using nlohmann::json;
using test::command_result;
using test::run_command;

json run_cache_bench(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"bench", "cache"});
  arguments.insert(arguments.end(), {"--json", "-"});
  const command_result result = run_command(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  return json::parse(result.output, nullptr, false);
}

// `gets`: what was asked for.
void expect_cache_row(const json& row, std::uint64_t gets) {
  SCOPED_TRACE(row.dump());
  EXPECT_EQ(row["gets"], gets);
  EXPECT_GT(row["hits"], 0);
  EXPECT_GT(row["hot_hits"], 0);
  // Each miss is followed by a set.
  EXPECT_EQ(row["gets"].get<double>() - row["hits"].get<double>(),
            row["sets"].get<double>() + row["sets_refused"].get<double>());
  EXPECT_NEAR(row["hit_percent"].get<double>(),
              100 * row["hits"].get<double>() / row["gets"].get<double>(), 0.01);
  EXPECT_GT(row["hot_hit_percent"], row["hit_percent"]);
  EXPECT_GT(row["hit_percent_per_gib"], 0);
  EXPECT_GT(row["ns_per_operation"], 0);
  EXPECT_GT(row["bytes_per_second"], 0);
  EXPECT_GT(row["peak_kib"], 1024);
  EXPECT_EQ(row["corrupt"], 0);
  EXPECT_EQ(row["failed"], 0);
}

TEST(BenchCache, MeasuresLargeValuesOverEachKindOfChannel) {
  const json found = run_cache_bench({"--system", "atbus", "--memory", "16M", "--value-size",
                                      "256K", "--gets", "600", "--clients", "2"});
  ASSERT_EQ(found["rows"].size(), 3U) << found.dump();
  EXPECT_EQ(found["workload"], "cache");
  EXPECT_EQ(found["cases"], 256);
  EXPECT_EQ(found["hot_cases"], 51);
  for (const json& row : found["rows"]) {
    expect_cache_row(row, 600);
    // It is full, and has little besides.
    EXPECT_GT(row["peak_kib"], 16 * 1024);
  }
  EXPECT_EQ(found["rows"][0]["over"], "shm");
  EXPECT_EQ(found["rows"][1]["over"], "unix");
  EXPECT_EQ(found["rows"][2]["over"], "tcp");
}

TEST(BenchCache, MeasuresTheSizesOfAWebCache) {
  const json found = run_cache_bench({"--system", "atbus", "--over", "shm", "--memory", "16M",
                                      "--mix", "web", "--gets", "40000", "--in-flight", "64"});
  ASSERT_EQ(found["rows"].size(), 1U) << found.dump();
  expect_cache_row(found["rows"][0], 40'000);
  EXPECT_FALSE(found.contains("value_size"));
}

// One client and one access at a time: the order is that of the seed.
TEST(BenchCache, RepeatsItsAccesses) {
  const std::vector<std::string> arguments{
      "--system",     "atbus", "--over",   "shm",  "--memory", "16M",
      "--value-size", "64K",   "--gets",   "1000", "--cases",  "200",
      "--in-flight",  "1",     "--repeat", "2",    "--seed",   "7"};
  const json found = run_cache_bench(arguments);
  ASSERT_EQ(found["rows"].size(), 1U) << found.dump();
  const json& row = found["rows"][0];
  // Everything fits: each key is missed once.
  EXPECT_EQ(row["min"]["hits"], row["max"]["hits"]);
  EXPECT_EQ(row["min"]["hot_gets"], row["max"]["hot_gets"]);
  EXPECT_GE(row["hits"], 800);
}

// Those that are installed are measured, and the others are named.
TEST(BenchCache, PutsOtherServersBeside) {
  const json found =
      run_cache_bench({"--system", "memcached,redis", "--over", "unix,tcp", "--memory", "16M",
                       "--value-size", "64K", "--gets", "3000", "--clients", "2"});
  ASSERT_EQ(found["rows"].size(), 4U) << found.dump();
  for (const json& row : found["rows"]) {
    if (row["installed"] == true) {
      expect_cache_row(row, 3000);
    } else {
      EXPECT_NE(row["install"].get<std::string>().find("apt-get install "), std::string::npos);
      EXPECT_FALSE(row.contains("gets"));
    }
  }
}

TEST(BenchCache, SaysWhatIsNotInstalled) {
  const std::string path = getenv("PATH");
  ASSERT_EQ(setenv("PATH", "/nowhere", 1), 0);
  const command_result result =
      run_command({"bench", "cache", "--system", "redis", "--over", "unix", "--gets", "10"});
  setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.output.find("not installed"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("To install redis: apt-get install redis-server"), std::string::npos)
      << result.output;
}

TEST(BenchCache, SaysWhenTimeWasUp) {
  const command_result result =
      run_command({"bench", "cache", "--system", "atbus", "--over", "unix", "--timeout", "0.05"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.errors.find("not done after 0.05 s; see --timeout"), std::string::npos)
      << result.errors;
}

TEST(BenchCache, RefusesWhatMakesNoSense) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong{
      {{"--memory", "17000001"}, "--memory: must be a whole number of MiB"},
      {{"--memory", "1M"}, "--memory"},
      {{"--memory", "16M", "--value-size", "5M"}, "at most a quarter of --memory"},
      {{"--value-size", "32"}, "--value-size"},
      {{"--mix", "web", "--value-size", "1K"}, "--mix web has its own sizes"},
      {{"--mix", "videos"}, "--mix"},
      {{"--cases", "1"}, "--cases"},
      {{"--gets", "0"}, "--gets"},
      {{"--hot", "0"}, "--hot"},
      {{"--hot", "100"}, "--hot"},
      {{"--hot-access", "101"}, "--hot-access"},
      {{"--clients", "17"}, "--clients"},
      {{"--in-flight", "0"}, "--in-flight"},
      {{"--system", "varnish"}, "--system"},
      {{"--over", "udp"}, "--over"},
      {{"--system", "redis", "--over", "shm"}, "shm is for atbus alone"},
      {{"--seconds", "1"}, "--seconds"}};
  for (const auto& [arguments, why] : wrong) {
    std::vector<std::string> all{"bench", "cache"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const command_result result = run_command(all);
    EXPECT_EQ(result.exit_code, 2) << arguments[0] << ' ' << arguments[1];
    EXPECT_NE(result.errors.find(why), std::string::npos) << result.errors;
  }
}

}  // namespace
}  // namespace atbus
