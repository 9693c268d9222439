// `atbus command`: a node is asked from a shell.
#include <unistd.h>

#include <fstream>

#include "atbus/atbus.hpp"
#include "run_command.h"
#include "scratch_directory.h"
#include "test.h"

namespace atbus {
namespace {

using test::command_result;
using test::run_command;

constexpr std::string_view secret = "a secret of the tests";

// A node with commands, in a thread of its own until it is told to stop.
class Ask : public ::testing::Test {
 protected:
  void start(const std::string& address) {
    node_.on_command("join", [](command& c) {
      std::string all;
      for (const std::string& one : c.arguments())
        all += one;
      c.reply({all, std::to_string(c.arguments().size())});
    });
    node_.on_command("refuse", [](command& c) { c.fail("not today"); });
    node_.on_command("stop", [this](command& c) {
      c.reply({});
      node_.stop();
    });
    ASSERT_TRUE(node_.listen(address));
    address_ = node_.addresses().at(0);
    std::ofstream{token_file_} << secret << '\n';
    thread_ = std::thread{[this] { (void)node_.run(); }};
  }
  void TearDown() override {
    if (thread_.joinable()) {
      EXPECT_EQ(ask({"stop"}).exit_code, 0);
      thread_.join();
    }
  }
  command_result ask(std::vector<std::string> words) {
    words.insert(words.begin(), {"command", address_, "--token-file", token_file_});
    return run_command(words);
  }

  test::scratch_directory directory_;
  std::string token_file_ = directory_.path() + "/token";
  std::string address_;
  node node_{7, node_options{}.token(secret)};
  std::thread thread_;
};

TEST_F(Ask, PrintsTheReply) {
  start("ipv6://[::1]:0");
  const command_result result = ask({"join", "a", "bc", ""});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.output, "abc\n3\n");
}

TEST_F(Ask, SaysWhyThereIsNone) {
  start("unix://" + directory_.path() + "/socket");
  const auto expect = [&](const command_result& result, const std::string& about) {
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(result.output, "");
    EXPECT_NE(result.errors.find(about), std::string::npos) << result.errors;
  };
  expect(ask({"refuse"}), "command_failed: not today");
  expect(ask({"dance"}), "unknown_command");
  const auto began = now();
  expect(run_command({"command", address_, "join", "--timeout", "60"}), "denied");
  EXPECT_LT(now() - began, std::chrono::seconds{4}) << "it has drained what nobody takes";
  expect(run_command(
             {"command", "unix://" + directory_.path() + "/nobody", "join", "--timeout", "0.2"}),
         "timed_out");
  expect(run_command({"command", "pigeon://roof", "join"}), "invalid_address");
  expect(run_command({"command", address_, "join", "--token-file", "/nonexistent"}),
         "--token-file /nonexistent: can't read it: No such file");
  expect(run_command({"command", address_, "join", "--token-file", directory_.path()}),
         "--token-file " + directory_.path() + ": it is a directory");
  std::ofstream{token_file_} << "short";
  expect(ask({"join"}), "--token-file " + token_file_ + ": a token has 5 bytes");
  std::ofstream{token_file_} << secret;
}

}  // namespace
}  // namespace atbus
