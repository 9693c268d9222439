// `atbus access check` says what a file of access rules allows.
#include <fstream>

#include "run_command.h"
#include "scratch_directory.h"
#include "test.h"

namespace atbus {
namespace {

using test::command_result;

class AccessCommand : public ::testing::Test {
 protected:
  command_result check(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"access", "check", file});
    return test::run_command(arguments);
  }
  void write(const std::string& rules) const { std::ofstream{file} << rules; }

  test::scratch_directory scratch;
  std::string file = scratch.path() + "/access.toml";
};

TEST_F(AccessCommand, NamesTheEntryThatAllowsSomething) {
  write(R"(
[[register]]
ids = ["0x1200/56"]
from = ["10.1.0.0/16", "user:1000"]
[[register]]
ids = [7]
from = "any"
certificate = ["DNS:z-*.b"]

[[send]]
from = ["0x1200/56"]
to = [7]
requests = [1, 3]
commands = ["status"]
broadcasts = [9]
)");
  struct asked {
    std::vector<std::string> arguments;
    int exit_code;
    std::string says;
  };
  for (const asked& one : std::initializer_list<asked>{
           {{}, 0, "2 entries for who may register, 1 for who may send; no error"},
           {{"--from", "0x1234", "--at", "10.1.2.3"}, 0, "allowed by " + file + ":2"},
           {{"--from", "0x1234", "--at", "user:1000"}, 0, "allowed by " + file + ":2"},
           {{"--from", "0x1234", "--at", "10.1.2.3", "--children", "0x1230/60"},
            0,
            "with the ids 0x1230/60: allowed by " + file + ":2"},
           {{"--from", "0x1234", "--at", "10.1.2.3", "--children", "0x1000/52"}, 1, "refused"},
           {{"--from", "7", "--at", "::1", "--certificate", "DNS:a.example"}, 1, "refused"},
           {{"--from", "7", "--at", "::1", "--certificate", "DNS:a", "--certificate", "DNS:z-1.b"},
            0,
            "allowed by " + file + ":5"},
           {{"--from", "0x1234", "--at", "::1"}, 1, "refused, no entry allows it"},
           {{"--from", "0x1300", "--at", "10.1.2.3"}, 1, "refused, no entry allows it"},
           {{"--from", "0x1234", "--to", "7"}, 0, "requests of type   1, 3"},
           {{"--from", "7", "--to", "0x1234"}, 0, "no entry allows anything from 7 to 0x1234"},
           {{"--from", "0x1234", "--to", "7", "--request", "3"}, 0, file + ":10"},
           {{"--from", "0x1234", "--to", "7", "--request", "2"}, 1, "refused"},
           {{"--from", "0x1234", "--to", "7", "--message", "3"}, 1, "refused"},
           {{"--from", "0x1234", "--to", "7", "--command", "status"}, 0, file + ":10"},
           {{"--from", "client", "--to", "7", "--command", "status"}, 1, "refused"},
           {{"--from", "0x1234", "--to", "7/64", "--broadcast", "9"}, 0, file + ":10"},
           {{"--from", "0x1234", "--to", "0/56", "--broadcast", "9"}, 1, "refused"}}) {
    const command_result result = check(one.arguments);
    EXPECT_EQ(result.exit_code, one.exit_code) << result.output << result.errors;
    EXPECT_NE(result.output.find(one.says), std::string::npos) << one.says << '\n' << result.output;
  }
}

TEST_F(AccessCommand, SaysWhatIsWrong) {
  EXPECT_NE(check({}).errors.find(file + " can't be read"), std::string::npos);
  write("register = \"any\"\nsend = \"all\"\n");
  const command_result invalid = check({});
  EXPECT_EQ(invalid.exit_code, 1);
  EXPECT_NE(invalid.errors.find(file + ":2:8: 'send' is a list of entries"), std::string::npos)
      << invalid.errors;
  write("register = \"any\"\nsend = \"any\"\n");
  struct wrong {
    std::vector<std::string> arguments;
    const char* says;
  };
  for (const wrong& one : std::initializer_list<wrong>{
           {{"--to", "7"}, "--from"},
           {{"--from", "7"}, "--at"},
           {{"--from", "7", "--to", "8", "--children", "8/61"}, "--at"},
           {{"--certificate", "DNS:a"}, "--from"},
           {{"--from", "seven", "--to", "7"}, "seven"},
           {{"--from", "7", "--at", "here"}, "'here' is no address"},
           {{"--from", "7", "--to", "8", "--request", "-1"}, "--request"}}) {
    const command_result result = check(one.arguments);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_NE(result.errors.find(one.says), std::string::npos) << result.errors;
  }
}

}  // namespace
}  // namespace atbus
