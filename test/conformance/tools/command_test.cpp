// The command as a whole: exit codes and what it says to mistakes.
#include "atbus/build_settings.hpp"
#include "atbus/status.hpp"
#include "run_command.h"
#include "test.h"

namespace atbus {
namespace {

using test::command_result;
using test::run_command;

TEST(Command, ExplainsAnErrorCode) {
  const command_result result = run_command({"errors", "would_block"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.output.find("would_block"), std::string::npos);
  EXPECT_GT(result.output.size(), std::string{"would_block"}.size() + 40);
}

TEST(Command, ListsEveryErrorCode) {
  const command_result result = run_command({"errors"});
  EXPECT_EQ(result.exit_code, 0);
  for (std::size_t code = 0; code != errc_count; ++code) {
    const std::string wanted = " " + std::string{name(static_cast<errc>(code))} + " ";
    EXPECT_NE(result.output.find(wanted), std::string::npos) << wanted;
  }
}

struct mistake {
  std::vector<std::string> arguments;
  const char* about;  // what the refusal names
};

TEST(Command, RefusesMistakesAndNamesThem) {
  const mistake mistakes[] = {
      {{"errors", "no_such_code"}, "no_such_code"},
      {{}, "subcommand"},
      {{"bench", "limit", "--secnods", "1"}, "--secnods"},
      {{"bench", "shn"}, "shn"},
      // No number, or out of range.
      {{"bench", "shm", "--seconds", "soon"}, "--seconds"},
      {{"bench", "shm", "--unit-size", "0"}, "--unit-size"},
      {{"bench", "shm", "--senders", "0"}, "--senders"},
      {{"bench", "limit", "--repeat", "0"}, "--repeat"},
      // No choice.
      {{"bench", "shm", "--check", "some"}, "--check"},
      {{"bench", "shm", "--api", "throw"}, "--api"},
      // Too short to check; of two lengths; more senders than lanes.
      {{"bench", "shm", "--size", "7"}, "--check none"},
      {{"bench", "shm", "--size", "64", "--unit-size", "16"}, "--size"},
      {{"bench", "shm", "--senders", "4", "--lanes", "3"}, "--lanes"},
      // No such core.
      {{"bench", "shm", "--cpus", "0,4000"}, "4000"},
      {{"bench", "shm", "--cpus", "zero"}, "zero"},
      // Addresses of another kind, that no channel can have, that nothing can listen at.
      {{"bench", "shm", "--address", "mem://x"}, "mem://x"},
      {{"bench", "latency", "mem://x", "shm://y"}, "mem://"},
      {{"bench", "shm", "--address", "shm://../x"}, "../x"},
      {{"bench", "shm", "--address", "shm://x?lanes=many"}, "many"},
      {{"bench", "latency", "shm://x", "nowhere"}, "nowhere"},
      {{"bench", "stream", "--address", "shm://a"}, "--address"},
      {{"bench", "stream", "--address", "dns://localhost:0"}, "--address"},
      {{"bench", "stream", "--address", "ipv6://::1"}, "--address"},
      {{"bench", "stream", "--address", "nonsense"}, "--address"},
      {{"bench", "node", "--address", "dns://localhost:0"}, "--address"},
      {{"bench", "node", "--address", "ipv6://::1"}, "--address"},
      {{"bench", "node", "--address", "nonsense"}, "--address"},
      // Sockets that are not measured.
      {{"bench", "limit", "--address", "ipv7://::1"}, "ipv7://::1"},
      {{"bench", "limit", "--framed", "--address", "ipv4://192.0.2.1"}, "192.0.2.1"},
      // Options of frames without frames, and wrong ones.
      {{"bench", "limit", "--crc", "on"}, "--framed"},
      {{"bench", "limit", "--cache-line", "--framed"}, "--framed"},
      {{"bench", "limit", "--unit-size", "16"}, "--framed"},
      {{"bench", "limit", "--framed", "--crc", "maybe"}, "maybe"},
      {{"bench", "limit", "--framed", "--read-bytes", "12"}, "--read-bytes"},
      // Nodes are compared with the channel, channels with the limit.
      {{"bench", "latency", "--channel"}, "--channel"},
      {{"bench", "latency", "--node", "--limit"}, "--limit"},
      // Requests.
      {{"bench", "request", "--over", "mem"}, "--over"},
      {{"bench", "request", "--size", "7"}, "--size"},
      {{"bench", "request", "--size", "63", "--fan-out", "1"}, "JSON"},
      {{"bench", "request", "--reply-size", "64", "--fan-out", "1"}, "--reply-size"},
      {{"bench", "request", "--in-flight", "0"}, "--in-flight"},
      {{"bench", "request", "--in-flight", "1048577"}, "--in-flight"},
      {{"bench", "request", "--clients", "0"}, "--clients"},
      {{"bench", "request", "--rate", "none"}, "--rate"},
      {{"bench", "request", "--delay", "1..2ms"}, "--fan-out"},
      {{"bench", "request", "--fan-out", "2", "--delay", "2..1ms"}, "2..1ms"},
      {{"bench", "request", "--fan-out", "2", "--delay", "6s"}, "--timeout"},
      {{"bench", "request", "--fan-out", "10001"}, "--fan-out"},
      {{"bench", "request", "--memory", "50M,little"}, "little"},
      {{"bench", "request", "--memory", "1M"}, "--memory"},
      {{"bench", "request", "--timeout", "0"}, "--timeout"},
      {{"bench", "limit", "--json", "/no/such/folder/x.json"}, "/no/such/folder"},
  };
  for (const auto& [arguments, about] : mistakes) {
    const command_result result = run_command(arguments);
    EXPECT_EQ(result.exit_code, 2) << about << ": " << result.errors;
    EXPECT_NE(result.errors.find(about), std::string::npos) << about << ": " << result.errors;
    EXPECT_EQ(result.output, "") << about;
  }
}

TEST(Command, SaysItsVersion) {
  const command_result result = run_command({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output, "atbus " + std::string{build_settings::version} + "\n");
}

TEST(Command, HelpIsNoMistake) {
  const command_result result = run_command({"bench", "shm", "--help"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.output.find("--unit-size"), std::string::npos);
}

}  // namespace
}  // namespace atbus
