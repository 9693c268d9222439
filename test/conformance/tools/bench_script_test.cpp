// The scripts that run benchmarks with arguments in a row.
#include "run_command.h"
#include "test.h"

namespace atbus {
namespace {

using test::command_result;
using test::run_script;

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
