// The command as a whole: exit codes and what it says to mistakes.
#include <gtest/gtest.h>

#include "atbus/build_settings.hpp"
#include "atbus/status.hpp"
#include "run_command.h"

namespace atbus {
namespace {

using test::command_result;
using test::run_command;

void expect_refusal(const std::vector<std::string>& arguments, const std::string& about) {
  const command_result result = run_command(arguments);
  EXPECT_EQ(result.exit_code, 2) << result.errors;
  EXPECT_NE(result.errors.find(about), std::string::npos) << result.errors;
  EXPECT_EQ(result.output, "");
}

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

TEST(Command, RefusesAnErrorCodeThatDoesNotExist) {
  expect_refusal({"errors", "no_such_code"}, "no_such_code");
}

TEST(Command, WantsASubcommand) {
  expect_refusal({}, "subcommand");
}

TEST(Command, RefusesAnUnknownOption) {
  expect_refusal({"bench", "limit", "--secnods", "1"}, "--secnods");
}

TEST(Command, RefusesAnUnknownSubcommand) {
  expect_refusal({"bench", "shn"}, "shn");
}

TEST(Command, RefusesAValueThatIsNoNumber) {
  expect_refusal({"bench", "shm", "--seconds", "soon"}, "--seconds");
}

TEST(Command, RefusesAValueOutOfRange) {
  expect_refusal({"bench", "shm", "--unit-size", "0"}, "--unit-size");
  expect_refusal({"bench", "shm", "--senders", "0"}, "--senders");
  expect_refusal({"bench", "limit", "--repeat", "0"}, "--repeat");
}

TEST(Command, RefusesAWordThatIsNoChoice) {
  expect_refusal({"bench", "shm", "--check", "some"}, "--check");
  expect_refusal({"bench", "shm", "--api", "throw"}, "--api");
}

TEST(Command, RefusesMessagesTooShortToCheck) {
  expect_refusal({"bench", "shm", "--size", "7"}, "--check none");
}

TEST(Command, RefusesSizeAndUnitSizeTogether) {
  expect_refusal({"bench", "shm", "--size", "64", "--unit-size", "16"}, "--size");
}

TEST(Command, RefusesACoreThatDoesNotExist) {
  expect_refusal({"bench", "shm", "--cpus", "0,4000"}, "4000");
  expect_refusal({"bench", "shm", "--cpus", "zero"}, "zero");
}

TEST(Command, RefusesFewerLanesThanSenders) {
  expect_refusal({"bench", "shm", "--senders", "4", "--lanes", "3"}, "--lanes");
}

TEST(Command, RefusesAnAddressOfAnotherKind) {
  expect_refusal({"bench", "shm", "--address", "mem://x"}, "mem://x");
  expect_refusal({"bench", "latency", "mem://x", "shm://y"}, "mem://");
}

TEST(Command, RefusesAnAddressThatNoChannelCanHave) {
  expect_refusal({"bench", "shm", "--address", "shm://../x"}, "../x");
  expect_refusal({"bench", "shm", "--address", "shm://x?lanes=many"}, "many");
  expect_refusal({"bench", "latency", "shm://x", "nowhere"}, "nowhere");
}

TEST(Command, RefusesASocketThatIsNotMeasured) {
  expect_refusal({"bench", "limit", "--address", "ipv7://::1"}, "ipv7://::1");
  expect_refusal({"bench", "limit", "--framed", "--address", "ipv4://192.0.2.1"}, "192.0.2.1");
}

TEST(Command, RefusesOptionsOfFramesWithoutFrames) {
  expect_refusal({"bench", "limit", "--crc", "on"}, "--framed");
  expect_refusal({"bench", "limit", "--unit-size", "16"}, "--framed");
  expect_refusal({"bench", "limit", "--framed", "--crc", "maybe"}, "maybe");
  expect_refusal({"bench", "limit", "--framed", "--read-bytes", "12"}, "--read-bytes");
}

TEST(Command, RefusesAPathThatCannotBeWritten) {
  expect_refusal({"bench", "limit", "--json", "/no/such/folder/x.json"}, "/no/such/folder");
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
