#include "run_bench.h"

#include "run_command.h"
#include "test.h"

namespace atbus::test {

using nlohmann::json;

namespace {

// Whether every part of a result, however deep, had time for one message at least.
bool has_measured(const json& found) {
  for (const auto& [key, value] : found.items()) {
    const bool counts = key == "messages" || key == "messages_per_second" ||
                        key == "bytes_per_second" || key == "p50";
    if (value.is_structured() ? !has_measured(value) : counts && value == 0)
      return false;
  }
  return true;
}

}  // namespace

json run_bench(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "bench");
  arguments.insert(arguments.end(), {"--json", "-"});
  const auto option = std::find(arguments.begin(), arguments.end(), "--seconds");
  for (int tries = 3;; --tries) {
    const command_result result = run_command(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    json found = json::parse(result.output, nullptr, false);
    if (result.exit_code != 0 || tries == 1 || has_measured(found))
      return found;
    option[1] = std::to_string(5 * std::stod(option[1]));
  }
}

void expect_complete(const json& found) {
  ASSERT_TRUE(found.is_object());
  for (const char* const field :
       {"workload", "address", "senders", "seconds", "messages", "bytes", "messages_per_second",
        "bytes_per_second", "lost", "corrupt", "reordered", "sender", "receiver"}) {
    EXPECT_TRUE(found.contains(field)) << field;
  }
  for (const char* const side : {"sender", "receiver"}) {
    for (const char* const field : {"cpu_percent", "max_rss_kib", "minor_faults", "major_faults"}) {
      EXPECT_TRUE(found[side].contains(field)) << side << '.' << field;
    }
    EXPECT_GT(found[side]["max_rss_kib"], 0);
  }
  EXPECT_GT(found["messages"], 0);
  EXPECT_GE(found["bytes"], found["messages"].get<std::uint64_t>() * 8);
  EXPECT_EQ(found["lost"], 0);
  EXPECT_EQ(found["corrupt"], 0);
  EXPECT_EQ(found["reordered"], 0);
}

void expect_latency(const json& found) {
  ASSERT_TRUE(found.contains("latency_us"));
  const json& us = found["latency_us"];
  EXPECT_GT(us["p50"], 0);
  EXPECT_LE(us["p50"], us["p90"]);
  EXPECT_LE(us["p90"], us["p99"]);
  EXPECT_LE(us["p99"], us["p999"]);
  EXPECT_LE(us["p999"], us["max"]);
}

}  // namespace atbus::test
