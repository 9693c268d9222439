// `atbus ls`, `show` and `top` on real nodes: two living ones that exchange messages, and one that was killed.
#include <signal.h>
#include <sys/stat.h>

#include <unistd.h>

#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "atbus/clock.hpp"
#include "atbus/format.h"
#include "atbus/node.hpp"
#include "atbus/nodes/reports.h"
#include "child_process.h"
#include "run_command.h"
#include "scratch_directory.h"
#include "shared_memory.h"
#include "test.h"

namespace atbus {
namespace {

using nlohmann::json;
using test::child_process;
using test::command_result;

class NodesCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    child_process killed{[this] {
      node one{9, options()};
      ready_->add();
      pause();
      return 0;
    }};
    alive_ = child_process{[this]() -> int {
      node one{1, options()};
      node other{2, options()};
      const std::string where = "unix://" + directory_.path() + "/socket";
      test::require(static_cast<bool>(other.listen(where)), "listen");
      test::require(static_cast<bool>(one.connect(2, where)), "connect");
      other.on_message([](const message&) {});
      bool told = false;
      const auto begun = now();
      while (true) {
        (void)one.send(2, 7, "message");
        one.poll();
        other.poll();
        // By then each has reported what there is to report of the link.
        if (!told && other.stats().delivered > 1000 && now() > begun + 600ms) {
          told = true;
          ready_->add();
        }
      }
    }};
    ASSERT_TRUE(ready_->wait(2));
    killed.kill_and_wait();
  }

  [[nodiscard]] node_options options() const {
    return node_options{}.report_directory(directory_.path());
  }
  [[nodiscard]] command_result run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--directory", directory_.path()});
    return test::run_command(arguments);
  }
  [[nodiscard]] json run_json(std::vector<std::string> arguments) const {
    arguments.emplace_back("--json");
    const command_result result = run(std::move(arguments));
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return json::parse(result.output);
  }
  [[nodiscard]] json run_json_of_a_problem(std::vector<std::string> arguments) const {
    arguments.emplace_back("--json");
    return json::parse(run(std::move(arguments)).output);
  }
  // The row of that node: the words of its line.
  static std::string row_of(const command_result& result, const std::string& id) {
    std::istringstream lines{result.output};
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(" " + id + " "))
        return line;
    }
    return {};
  }

  test::scratch_directory directory_;
  test::shared<test::shared_counter> ready_;
  child_process alive_;
};

TEST_F(NodesCommand, ListsLivingAndDeadNodes) {
  const command_result result = run({"ls"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(row_of(result, "1").find("live"), std::string::npos) << result.output;
  EXPECT_NE(row_of(result, "1").find("1/1"), std::string::npos) << result.output;
  EXPECT_NE(row_of(result, "9").find("dead"), std::string::npos) << result.output;
  const json all = run_json({"ls"});
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0]["id"], "1");
  EXPECT_EQ(all[0]["alive"], true);
  EXPECT_EQ(all[2]["id"], "9");
  EXPECT_EQ(all[2]["alive"], false);
}

TEST_F(NodesCommand, ShowsOneNodeWithItsPeers) {
  const command_result result = run({"show", "0x2"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.output.find("node 2  live"), std::string::npos) << result.output;
  EXPECT_NE(row_of(result, "1").find("lanes"), std::string::npos) << result.output;
  const json all = run_json({"show", "2"});
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0]["peers"][0]["id"], "1");
  EXPECT_EQ(all[0]["peers"][0]["channel"], "lanes");
  EXPECT_GT(all[0]["stats"]["delivered"], 0);
}

TEST_F(NodesCommand, SaysThatNoSuchNodeReports) {
  const command_result result = run({"show", "77"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.errors.find("node 77"), std::string::npos) << result.errors;
  EXPECT_EQ(run({"show", "nonsense"}).exit_code, 2);
}

TEST_F(NodesCommand, ShowsRates) {
  const json all = run_json({"top", "--once", "--sort", "received"});
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0]["id"], "2");
  EXPECT_GT(all[0]["rates"]["received"], 0);
  EXPECT_EQ(all[2]["rates"]["received"], 0);
  const command_result result = run({"top", "--once", "--interval", "0.5", "--filter", "1"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(row_of(result, "1"), "") << result.output;
  EXPECT_EQ(row_of(result, "2"), "") << result.output;
  EXPECT_EQ(result.output.find('\x1b'), std::string::npos);
}

// A parent and two children in one process; only the first child and the parent listen.
class NodesBehindAnAddress : public ::testing::Test {
 protected:
  void SetUp() override {
    tree_ = child_process{[this]() -> int {
      node parent{0x10000, node_options{}.report_directory("").children("0x10000/48")};
      test::require(static_cast<bool>(parent.listen(address_of("parent"))), "listen");
      const auto below = [&] {
        return node_options{}.report_directory("").parent(address_of("parent"));
      };
      node asked{0x10001, below()};
      node silent{0x10002, below().built_in_commands(false)};
      node last{0x10003, below()};
      test::require(static_cast<bool>(asked.listen(address_of("asked"))), "listen");
      while (true) {
        for (node* const one : {&parent, &asked, &silent, &last})
          one->poll();
        if (parent.report().peers.size() == 3 && asked.parent() != bus_id{} &&
            silent.parent() != bus_id{} && last.parent() != bus_id{})
          ready_->add();
        (void)parent.wait(1ms);
      }
    }};
    ASSERT_TRUE(ready_->wait(1));
  }
  [[nodiscard]] std::string address_of(const std::string& name) const {
    return "unix://" + directory_.path() + "/" + name;
  }

  test::scratch_directory directory_;
  test::shared<test::shared_counter> ready_;
  child_process tree_;
};

TEST_F(NodesBehindAnAddress, AnswerAPing) {
  const command_result near =
      test::run_command({"ping", address_of("asked"), "--count", "2", "--interval", "0"});
  EXPECT_EQ(near.exit_code, 0) << near.errors;
  EXPECT_NE(near.output.find("65537 answered 2 times"), std::string::npos) << near.output;
  const command_result far =
      test::run_command({"ping", address_of("asked"), "0x10003", "--count", "1", "--json"});
  EXPECT_EQ(far.exit_code, 0) << far.errors;
  EXPECT_EQ(json::parse(far.output)["id"], "65539");
  EXPECT_GT(json::parse(far.output)["min"], 0);
}

TEST_F(NodesBehindAnAddress, AreFoundHopByHop) {
  const command_result result =
      test::run_command({"trace", address_of("asked"), "0x10003", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const json hops = json::parse(result.output);
  ASSERT_EQ(hops.size(), 2U) << result.output;
  EXPECT_EQ(hops[0]["by"], "relay");
  EXPECT_EQ(hops[0]["to"], "65536");
  EXPECT_EQ(hops[1]["by"], "link");
  EXPECT_EQ(hops[1]["to"], "65539");
  EXPECT_EQ(hops[1]["channel"], "lanes");
}

TEST_F(NodesBehindAnAddress, AreShownWithoutTheirFiles) {
  const command_result one =
      test::run_command({"show", "0x10000", "--at", address_of("asked"), "--json"});
  ASSERT_EQ(one.exit_code, 0) << one.errors;
  EXPECT_EQ(json::parse(one.output)[0]["peers"].size(), 3U);
  const command_result all = test::run_command(
      {"top", "--once", "--interval", "0.2", "--at", address_of("asked"), "--json"});
  ASSERT_EQ(all.exit_code, 0) << all.errors;
  std::set<std::string> answered;
  std::string refused;
  for (const json& node : json::parse(all.output)) {
    if (node["alive"])
      answered.insert(node["id"]);
    else
      refused = node["path"];
  }
  EXPECT_EQ(answered, (std::set<std::string>{"65536", "65537", "65539"}));
  EXPECT_EQ(refused, "node 65538");
}

TEST_F(NodesBehindAnAddress, ThatAnswerNothingAreNamed) {
  const command_result unknown = test::run_command({"trace", address_of("asked"), "0x10009"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_NE(unknown.errors.find("65545"), std::string::npos) << unknown.errors;
  const command_result off = test::run_command({"ping", address_of("asked"), "0x10002"});
  EXPECT_EQ(off.exit_code, 1);
  EXPECT_FALSE(off.errors.empty());
}

// Whoever may ask a node for nothing else may not do so through it either.
TEST_F(NodesBehindAnAddress, PassOnNoOtherCommands) {
  const command_result result =
      test::run_command({"command", address_of("asked"), "atbus.ask", "0x10003", "stop"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.errors.find("atbus.ask takes"), std::string::npos) << result.errors;
}

// A node whose answers would change the terminal of whoever asks.
class NodeOfControlCharacters : public ::testing::Test {
 protected:
  void SetUp() override {
    node_ = child_process{[this]() -> int {
      node one{7, node_options{}.report_directory("").built_in_commands(false)};
      test::require(static_cast<bool>(one.listen(address_)), "listen");
      one.on_command([](command& asked) {
        if (asked.name() == "atbus.ping")
          (void)asked.reply({"7", "1\x1b[2J"});
        else if (asked.name() == "atbus.route")
          (void)asked.reply({"link\x1b[2J", "9", "tcp\x9b\x32J", "\x1b]0;title\x07"});
        else if (asked.name() == "atbus.ask")
          (void)asked.reply({"9", "1"});
        else
          (void)asked.fail("no\x1b[2J");
      });
      one.on_request(1, [](request& asked) { (void)asked.fail("no\x1b[2J"); });
      ready_->add();
      while (true) {
        one.poll();
        (void)one.wait(1s);
      }
    }};
    ASSERT_TRUE(ready_->wait(1));
  }
  // Nothing but printable lines.
  static void expect_printable(const std::string& text) {
    for (const char c : text)
      EXPECT_TRUE((c >= ' ' && c <= '~') || c == '\n') << static_cast<int>(c) << " in " << text;
  }

  test::scratch_directory directory_;
  const std::string address_ = "unix://" + directory_.path() + "/socket";
  test::shared<test::shared_counter> ready_;
  child_process node_;
};

TEST_F(NodeOfControlCharacters, IsShownWithoutThem) {
  for (const auto& [exit_code, arguments] :
       {std::pair{0, std::vector<std::string>{"ping", address_, "--count", "1"}},
        {0, {"trace", address_, "9"}},
        {0, {"trace", address_, "9", "--json"}},
        {1, {"show", "7", "--at", address_}},
        {1, {"request", address_, "1"}}}) {
    const command_result result = test::run_command(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.errors;
    EXPECT_FALSE(result.output.empty() && result.errors.empty());
    expect_printable(result.output);
    expect_printable(result.errors);
  }
}

TEST(NodeLife, IsSilentAfterThreeMissingReports) {
  node_report_file file;
  file.alive = true;
  file.report.updated_at = 100'000'000'000;
  EXPECT_EQ(tool::life_of(file, 114'000'000'000), tool::node_life::live);
  EXPECT_EQ(tool::life_of(file, 116'000'000'000), tool::node_life::silent);
  EXPECT_NE(tool::words_for_life(file, 116'000'000'000).find("silent for 16.0 s"),
            std::string::npos);
  // The clock was set back meanwhile.
  EXPECT_EQ(tool::life_of(file, 1), tool::node_life::live);
  file.alive = false;
  EXPECT_EQ(tool::life_of(file, 116'000'000'000), tool::node_life::dead);
  file.problem = errc::not_a_segment;
  EXPECT_EQ(tool::life_of(file, 116'000'000'000), tool::node_life::unreadable);
}

TEST(NodeRates, AreNeverBelowZero) {
  node_report before;
  node_report after;
  before.updated_at = 1'000'000'000;
  after.updated_at = 3'000'000'000;
  before.stats.delivered = 100;
  after.stats.delivered = 300;
  before.stats.accepted = 50;  // of a file that somebody has changed
  const auto rates = tool::rates_between(before, after);
  ASSERT_TRUE(rates);
  EXPECT_EQ(rates->received, 100);
  EXPECT_EQ(rates->sent, 0);
  EXPECT_FALSE(tool::rates_between(after, before));
  after.incarnation = 1;
  EXPECT_FALSE(tool::rates_between(before, after));
}

TEST(Figures, AreShort) {
  EXPECT_EQ(tool::scaled(0), "0");
  EXPECT_EQ(tool::scaled(999.4), "999");
  EXPECT_EQ(tool::scaled(12'345), "12.3 k");
  EXPECT_EQ(tool::scaled(5'250'000), "5.25 M");
  EXPECT_EQ(tool::duration(0ns), "-");
  EXPECT_EQ(tool::duration(350ns), "350 ns");
  EXPECT_EQ(tool::duration(12'300ns), "12.3 us");
  EXPECT_EQ(tool::duration(16s), "16.0 s");
  EXPECT_EQ(tool::duration(49h), "2 d");
}

TEST_F(NodesCommand, ChecksNodesForMonitoring) {
  const command_result well = run({"check", "1", "2", "--links"});
  EXPECT_EQ(well.exit_code, 0) << well.output;
  EXPECT_NE(well.output.find("2 nodes are well"), std::string::npos) << well.output;
  const command_result killed = run({"check"});
  EXPECT_EQ(killed.exit_code, 1);
  EXPECT_NE(killed.output.find("node 9: dead"), std::string::npos) << killed.output;
  const command_result missing = run({"check", "1", "77"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_NE(missing.output.find("node 77: it does not report"), std::string::npos)
      << missing.output;
  EXPECT_EQ(run_json_of_a_problem({"check", "9"})["problems"].size(), 1U);
}

TEST_F(NodesCommand, ChecksNoDeadIncarnationOfANodeThatRunsAgain) {
  const node again{9, options()};
  const command_result all = run({"check"});
  EXPECT_EQ(all.exit_code, 0) << all.output;
  EXPECT_NE(all.output.find("3 nodes are well"), std::string::npos) << all.output;
  EXPECT_EQ(run_json({"top", "--once"}).size(), 3U);
  EXPECT_EQ(run_json({"ls"}).size(), 4U);
}

TEST(Completion, KnowsEachSubcommandAndItsOptions) {
  const command_result script = test::run_command({"completion", "bash"});
  ASSERT_EQ(script.exit_code, 0);
  EXPECT_NE(script.output.find("\"atbus shm show\") words=\"--help"), std::string::npos)
      << script.output;
  // As bash would ask for it.
  const test::scratch_directory directory;
  std::ofstream{directory.path() + "/script"}
      << script.output << "\nCOMP_WORDS=(atbus to) COMP_CWORD=1; _atbus; echo ${COMPREPLY[@]}\n"
      << "COMP_WORDS=(atbus top --on) COMP_CWORD=2; _atbus; echo ${COMPREPLY[@]}\n";
  test::running_command bash{"/bin/bash", {directory.path() + "/script"}};
  const command_result completed = bash.finish(20s);
  EXPECT_EQ(completed.output, "top\n--once\n") << completed.errors;
}

TEST_F(NodesCommand, NamesAFileThatIsNoReport) {
  const std::string path = directory_.path() + "/atbus-node.0x3-0x3";
  std::ofstream{path} << "garbage";
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  const command_result result = run({"ls"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.output.find("not_a_segment: " + path), std::string::npos) << result.output;
}

// In that interval the node would give up a client that says nothing.
TEST(Ping, KeepsItsLinkForLongerThanASilentOneLasts) {
  const test::scratch_directory directory;
  const std::string secret = "a secret of the tests";
  std::ofstream{directory.path() + "/token"} << secret;
  node asked{
      7, node_options{}.token(secret).ping_interval(500ms).fault_tolerance(2).report_directory("")};
  ASSERT_TRUE(asked.listen("ipv4://127.0.0.1:0"));
  test::running_command pinging{{"ping", asked.addresses().front(), "--token-file",
                                 directory.path() + "/token", "--count", "2", "--interval", "4"}};
  auto result = std::async(std::launch::async, [&] { return pinging.finish(20s); });
  while (result.wait_for(0s) != std::future_status::ready) {
    asked.poll();
    (void)asked.wait(10ms);
  }
  const command_result ended = result.get();
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_NE(ended.output.find("7 answered 2 times"), std::string::npos) << ended.output;
}

// Each service of a host may run as a user of its own.
TEST(NodesOfAnotherUser, AreNoneOfThisOnes) {
  const test::scratch_directory directory;
  const std::string path = directory.path() + "/atbus-node.0x3-0x3";
  std::ofstream{path} << "garbage";
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  if (chown(path.c_str(), geteuid() + 1, static_cast<gid_t>(-1)) != 0)
    GTEST_SKIP() << "only root may give files away";
  const command_result checked = test::run_command({"check", "--directory", directory.path()});
  EXPECT_EQ(checked.exit_code, 0) << checked.output;
  const command_result listed = test::run_command({"ls", "--directory", directory.path()});
  EXPECT_NE(listed.output.find("no nodes of this user"), std::string::npos) << listed.output;
}

TEST_F(NodesCommand, SaysThatTheDirectoryCannotBeRead) {
  const command_result result = test::run_command({"ls", "--directory", "/nonexistent"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.errors.find("/nonexistent"), std::string::npos) << result.errors;
}

}  // namespace
}  // namespace atbus
