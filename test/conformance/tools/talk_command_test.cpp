// `atbus send`, `listen`, `request` and `reply`: two commands talk to each other, and a command to a node.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "atbus/clock.hpp"
#include "atbus/node_report.hpp"
#include "atbus/talk/talk.h"
#include "run_command.h"
#include "scratch_directory.h"
#include "test.h"

namespace atbus {
namespace {

using test::command_result;
using test::run_command;
using test::running_command;

class Talk : public ::testing::Test {
 protected:
  test::scratch_directory directory_;
  std::string address_ = "unix://" + directory_.path() + "/socket";
  // From a file.
  std::string send_lines_ =
      "exec " + std::string{ATBUS_TEST_PROGRAMS_DIR} + "/atbus send " + address_ + " 7 --lines <";
};

TEST_F(Talk, AMessageIsSentAndPrinted) {
  running_command listening{{"listen", address_, "--id", "0x99", "--count", "2"}};
  ASSERT_TRUE(listening.has_said(" at unix://", 20s));
  const command_result first = run_command({"send", address_, "7", "hello \\ world", "--id", "5"});
  EXPECT_EQ(first.exit_code, 0) << first.errors;
  const command_result second = run_command({"send", address_, "8", "\x1b[2J"});
  EXPECT_EQ(second.exit_code, 0) << second.errors;
  const command_result heard = listening.finish(20s);
  EXPECT_EQ(heard.exit_code, 0) << heard.errors;
  EXPECT_TRUE(heard.output.starts_with("5 7 hello \\\\ world\n")) << heard.output;
  EXPECT_NE(heard.output.find(" 8 \\x1b[2J\n"), std::string::npos) << heard.output;
  EXPECT_NE(heard.errors.find("node 153 listens at unix://"), std::string::npos) << heard.errors;
}

TEST_F(Talk, ALineIsSentThoughTheNextOneIsNotThere) {
  running_command listening{{"listen", address_, "--count", "1"}};
  ASSERT_TRUE(listening.has_said(" at unix://", 20s));
  const std::string input = directory_.path() + "/input";
  ASSERT_EQ(mkfifo(input.c_str(), 0600), 0);
  const int writer =
      open(input.c_str(), O_RDWR | O_CLOEXEC);  // so that neither end waits for the other
  const running_command sending{"/bin/sh", {"-c", send_lines_ + input}};
  ASSERT_EQ(write(writer, "first\nsec", 9), 9);
  const command_result heard = listening.finish(20s);
  EXPECT_EQ(heard.exit_code, 0) << heard.errors;
  EXPECT_TRUE(heard.output.ends_with(" 7 first\n")) << heard.output;
  close(writer);
}

TEST_F(Talk, LinesOfAFileAreSentInOrder) {
  running_command listening{{"listen", address_, "--count", "3", "--raw"}};
  ASSERT_TRUE(listening.has_said(" at unix://", 20s));
  const std::string input = directory_.path() + "/input";
  std::ofstream{input} << "first\n\n" << std::string(60'000, 'x');
  running_command sending{"/bin/sh", {"-c", send_lines_ + input}};
  EXPECT_EQ(listening.finish(20s).output, "first" + std::string(60'000, 'x'));
  const command_result sent = sending.finish(20s);
  EXPECT_EQ(sent.exit_code, 0) << sent.errors;
}

TEST_F(Talk, ARequestHasTheBytesOfItsResponse) {
  running_command answering{{"reply", address_, "7", "--echo"}};
  ASSERT_TRUE(answering.has_said(" at unix://", 20s));
  const command_result asked = run_command({"request", address_, "7", "what"});
  EXPECT_EQ(asked.exit_code, 0) << asked.errors;
  EXPECT_EQ(asked.output, "what");
  const command_result other = run_command({"request", address_, "8", "what"});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_NE(other.errors.find("unknown_request"), std::string::npos) << other.errors;
  answering.send_signal(SIGINT);
  const command_result ended = answering.finish(20s);
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_EQ(ended.output, "0 what\n");
}

// No other process will have its id, and remove the report.
TEST_F(Talk, ANodeOfARandomIdLeavesNoReport) {
  running_command answering{{"reply", address_, "7"}};
  const auto pid = static_cast<std::uint32_t>(answering.pid());
  ASSERT_TRUE(answering.has_said(" at unix://", 20s));
  answering.send_signal(SIGKILL);
  (void)answering.finish(20s);
  const auto all = list_node_reports();
  ASSERT_TRUE(all) << all.error().text();
  for (const node_report_file& one : *all)
    EXPECT_NE(one.report.pid, pid) << one.path;
}

TEST_F(Talk, SaysWhyItIsRefused) {
  std::ofstream{directory_.path() + "/access"}
      << "send = \"any\"\n[[register]]\nids = [\"clients\", 5]\nfrom = \"any\"\n";
  std::ofstream{directory_.path() + "/relay.toml"} << "id = 7\nlisten = \"" << address_
                                                   << "\"\naccess = \"access\"\n"
                                                   << "report_directory = \"\"\n";
  const running_command asked{{"relay", "--config", directory_.path() + "/relay.toml"}};
  ASSERT_TRUE(asked.has_said("node 7 relays", 20s));
  const command_result sent = run_command({"send", address_, "1", "x", "--id", "5"});
  EXPECT_EQ(sent.exit_code, 0) << sent.errors;
  const command_result refused =
      run_command({"send", address_, "1", "x", "--id", "6", "--timeout", "1"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.errors.find("node 6 may not register"), std::string::npos) << refused.errors;
}

TEST_F(Talk, SaysThatNobodyListens) {
  for (const char* const verb : {"send", "request"}) {
    const auto begun = std::chrono::steady_clock::now();
    const command_result result = run_command({verb, address_, "7", "x", "--timeout", "60"});
    EXPECT_LT(std::chrono::steady_clock::now() - begun, 20s) << "it waits for nobody";
    EXPECT_EQ(result.exit_code, 1) << verb;
    EXPECT_NE(result.errors.find("nothing listens there"), std::string::npos) << result.errors;
  }
  const command_result result = run_command({"listen", "unix:///nonexistent/socket"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.errors.find("/nonexistent"), std::string::npos) << result.errors;
}

TEST_F(Talk, RefusesWhatIsNoType) {
  EXPECT_EQ(run_command({"send", address_, "seven"}).exit_code, 2);
  EXPECT_EQ(run_command({"send", address_, "-1"}).exit_code, 2);
  EXPECT_EQ(run_command({"listen", address_, "--id", "nobody"}).exit_code, 2);
}

TEST(Shown, IsSafeForATerminal) {
  EXPECT_EQ(tool::shown(as_bytes("a b~")), "a b~");
  EXPECT_EQ(tool::shown(as_bytes("\n\x7f\xff\\")), "\\x0a\\x7f\\xff\\\\");
}

}  // namespace
}  // namespace atbus
