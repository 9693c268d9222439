// The sample with a status server, and the dashboard made for what it says.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "http_client.h"
#include "sample_run.h"

namespace atbus {
namespace {

class StatusSample : public SampleRun {
 protected:
  void SetUp() override {
    SampleRun::SetUp();
    if (!std::filesystem::exists(std::string{ATBUS_TEST_PROGRAMS_DIR} + "/sample_status_monitored"))
      GTEST_SKIP() << "built without the status server";
    node_ = start("status_monitored", "127.0.0.1:0");
    const std::string said = read_line();  // "http://127.0.0.1:40000/"
    const std::string_view scheme = "http://";
    ASSERT_TRUE(said.starts_with(scheme)) << said;
    server_ = said.substr(scheme.size(), said.size() - scheme.size() - 1);
  }
  void TearDown() override {
    if (node_.running()) {
      kill(node_.pid(), SIGTERM);
      EXPECT_EQ(node_.wait_end(), "exit 0");
    }
    SampleRun::TearDown();
  }

  child_process node_;
  std::string server_;
};

TEST_F(StatusSample, AnswersUntilItIsEnded) {
  EXPECT_EQ(test::ask(server_, "/healthz").body, "node 7 is polled\n");
  EXPECT_EQ(test::ask(server_, "/readyz").code, 200);
}

// The names in `text` that begin as ours do, without what histograms append.
std::set<std::string> metrics_in(const std::string& text) {
  std::set<std::string> names;
  const std::regex name{"atbus_[a-z_]+"};
  for (std::sregex_iterator one{text.begin(), text.end(), name}, end; one != end; ++one)
    names.insert(std::regex_replace(one->str(), std::regex{"_(bucket|count|sum)$"}, ""));
  return names;
}

std::string read_dashboard() {
  const auto path =
      std::filesystem::path{ATBUS_TEST_SOURCE_DIR}.parent_path() / "packaging/grafana/atbus.json";
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, {}};
}

TEST_F(StatusSample, HasEachMetricOfTheDashboard) {
  const std::set<std::string> there = metrics_in(test::ask(server_, "/metrics").body);
  const std::set<std::string> shown = metrics_in(read_dashboard());
  EXPECT_GT(shown.size(), 15U);
  for (const std::string& one : shown)
    EXPECT_TRUE(there.contains(one)) << one;
}

}  // namespace
}  // namespace atbus
