// `atbus shm` on real segments of real processes: a living one, one whose processes were killed,
// and files that are no segments.
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
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
using test::shared;
using test::shared_counter;

class ShmCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    // Lives until the end of the test: a receiver, and a sender whose message waits.
    alive_ = child_process{[this] {
      auto inbox = open_receiver("alive");
      auto out = sender::open("shm://alive", {.directory = directory_.path()});
      test::require(static_cast<bool>(out), "sender");
      inbox.poll([](bytes_view) {});
      out->send(as_bytes("one"));
      inbox.poll([](bytes_view) {});
      out->send(as_bytes("waits"));
      ready_->add();
      pause();
      return 0;
    }};
    // Is killed with two messages undelivered.
    child_process orphaned{[this] {
      auto inbox = open_receiver("orphaned");
      auto out = sender::open("shm://orphaned", {.directory = directory_.path()});
      test::require(static_cast<bool>(out), "sender");
      out->send(as_bytes("lost"));
      out->send(as_bytes("as well"));
      ready_->add();
      pause();
      return 0;
    }};
    ASSERT_TRUE(ready_->wait(2));
    orphaned.kill_and_wait();
    std::ofstream{path("atbus-segment.garbage")} << "garbage";
    ASSERT_EQ(chmod(path("atbus-segment.garbage").c_str(), 0600), 0);
  }

  receiver open_receiver(const std::string& name) const {
    auto opened = receiver::open(
        "shm://" + name,
        {.lanes = 4, .lane_size = 4096, .message_limit = 1024, .directory = directory_.path()});
    test::require(static_cast<bool>(opened), "receiver");
    return std::move(opened).value();
  }
  [[nodiscard]] std::string path(const std::string& file_name) const {
    return directory_.path() + "/" + file_name;
  }
  [[nodiscard]] bool has(const std::string& file_name) const {
    const auto files = directory_.files();
    return std::find(files.begin(), files.end(), file_name) != files.end();
  }
  [[nodiscard]] command_result run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "shm");
    arguments.insert(arguments.end(), {"--directory", directory_.path()});
    return test::run_command(arguments);
  }
  [[nodiscard]] json run_json(std::vector<std::string> arguments) const {
    arguments.push_back("--json");
    const auto result = run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return json::parse(result.output, nullptr, false);
  }
  // The line of a table that begins with `name`.
  [[nodiscard]] static std::string line_of(const std::string& text, const std::string& name) {
    const auto at = text.find("\n " + name + " ");
    if (at == std::string::npos)
      return {};
    return text.substr(at + 1, text.find('\n', at + 1) - at - 1);
  }

  test::scratch_directory directory_;
  shared<shared_counter> ready_;
  child_process alive_;
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(ShmCommand, ListsWhoOwnsWhat) {
  const auto result = run({"ls"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(result.output.starts_with(" NAME")) << result.output;
  const std::string alive = line_of(result.output, "alive");
  EXPECT_TRUE(contains(alive, std::to_string(alive_.pid()))) << result.output;
  EXPECT_TRUE(contains(alive, "1/4") && contains(alive, "live")) << alive;
  const std::string orphaned = line_of(result.output, "orphaned");
  EXPECT_TRUE(contains(orphaned, "(gone)") && contains(orphaned, "0/4")) << orphaned;
  EXPECT_TRUE(contains(orphaned, "orphan: start its receiver") &&
              contains(orphaned, "`atbus shm clean orphaned --directory " + directory_.path()))
      << orphaned;
  EXPECT_TRUE(contains(line_of(result.output, "garbage"), "not_a_segment")) << result.output;
}

TEST_F(ShmCommand, ListsAsJson) {
  const json all = run_json({"ls"});
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0]["name"], "alive");
  EXPECT_EQ(all[0]["state"], "live");
  EXPECT_EQ(all[0]["receiver"]["pid"], alive_.pid());
  EXPECT_EQ(all[0]["stats"]["messages"], 1);
  EXPECT_EQ(all[0]["held_lanes"], 1);
  EXPECT_EQ(all[1]["state"], "invalid");
  EXPECT_EQ(all[1]["problem"]["code"], "not_a_segment");
  EXPECT_EQ(all[2]["state"], "orphan");
}

TEST_F(ShmCommand, ListOfAnEmptyDirectoryIsNoError) {
  const test::scratch_directory empty;
  const auto result = test::run_command({"shm", "ls", "--directory", empty.path()});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(contains(result.output, "no segments"));
  EXPECT_EQ(test::run_command({"shm", "ls", "--directory", empty.path() + "/none"}).exit_code, 1);
}

TEST_F(ShmCommand, ShowsLanesAndRecords) {
  const auto plain = run({"show", "shm://alive"});
  EXPECT_EQ(plain.exit_code, 0) << plain.errors;
  EXPECT_TRUE(contains(plain.output, "shm://alive  live"));
  EXPECT_TRUE(contains(plain.output, "held"));
  EXPECT_FALSE(contains(plain.output, "|waits|"));
  const auto with_records = run({"show", "alive", "--records"});
  EXPECT_TRUE(contains(with_records.output, "77 61 69 74 73  |waits|")) << with_records.output;
  EXPECT_TRUE(contains(with_records.output, "lane 0: 1 message with 5 bytes waits"));
}

TEST_F(ShmCommand, ShowsAsJson) {
  const json found = run_json({"show", "orphaned", "--records", "--lane", "0"});
  EXPECT_EQ(found["state"], "orphan");
  ASSERT_EQ(found["lanes"].size(), 1U);
  EXPECT_EQ(found["lanes"][0]["state"], "orphan");
  EXPECT_EQ(run_json({"show", "orphaned", "--lane", "1"})["lanes"][0]["state"], "unused");
  EXPECT_EQ(run_json({"show", "orphaned", "--all"})["lanes"].size(), 4U);
  ASSERT_EQ(found["records"].size(), 1U);
  EXPECT_EQ(found["records"][0]["waiting_messages"], 2);
  EXPECT_EQ(found["records"][0]["near_head"][1]["first_bytes"], "6c6f7374");
}

TEST_F(ShmCommand, ShowSaysWhatItCantShow) {
  for (const char* const name : {"garbage", "missing", "../alive"}) {
    const auto result = run({"show", name});
    EXPECT_EQ(result.exit_code, 1) << name;
    EXPECT_TRUE(result.errors.starts_with("error: ")) << result.errors;
    EXPECT_TRUE(contains(result.errors, name)) << result.errors;
  }
  EXPECT_EQ(run({"show", "alive", "--lane", "4"}).exit_code, 1);
  EXPECT_EQ(run({"show"}).exit_code, 2);
  EXPECT_EQ(run({"bow"}).exit_code, 2);
}

TEST_F(ShmCommand, CleanRemovesOnlyWhatNobodyHolds) {
  const auto result = run({"clean"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(contains(result.output, "orphaned: removed, with 2 undelivered messages (11 bytes)"))
      << result.output;
  EXPECT_TRUE(contains(result.output, path("atbus-segment.orphaned")));
  EXPECT_TRUE(contains(result.output, "alive: left alone: held by receiver '"));
  EXPECT_TRUE(contains(result.output, "garbage: left alone: "));
  EXPECT_FALSE(has("atbus-segment.orphaned"));
  EXPECT_FALSE(has("atbus-bell.orphaned"));
  EXPECT_TRUE(has("atbus-segment.alive") && has("atbus-bell.alive"));
  EXPECT_TRUE(has("atbus-segment.garbage"));
}

TEST_F(ShmCommand, CleanOfOneNameSaysIfItWasLeftAlone) {
  EXPECT_EQ(run({"clean", "alive", "--force"}).exit_code, 1);
  EXPECT_EQ(run({"clean", "garbage"}).exit_code, 1);
  EXPECT_EQ(run({"clean", "garbage", "--force"}).exit_code, 0);
  EXPECT_FALSE(has("atbus-segment.garbage"));
  EXPECT_EQ(run({"clean", "missing"}).exit_code, 1);
  EXPECT_EQ(run({"clean", "orphaned", "--dry-run"}).exit_code, 0);
  EXPECT_TRUE(has("atbus-segment.orphaned"));
  const json report = run_json({"clean", "orphaned"});
  EXPECT_EQ(report[0]["outcome"], "removed");
  EXPECT_EQ(report[0]["undelivered_messages"], 2);
}

TEST_F(ShmCommand, StoppedProcessesKeepTheirSegment) {
  alive_.stop();
  const auto result = run({"clean", "--force"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(has("atbus-segment.alive") && has("atbus-bell.alive"));
  alive_.resume();
  alive_.kill_and_wait();
  EXPECT_EQ(run({"clean", "alive"}).exit_code, 0);
  EXPECT_FALSE(has("atbus-segment.alive"));
}

}  // namespace
}  // namespace atbus
