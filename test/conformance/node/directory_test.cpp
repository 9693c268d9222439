// Two real nodes and a file that names one of them to the other.
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "node_fixture.h"

namespace atbus::test {
namespace {

class NodeDirectory : public NodeFixture {
 protected:
  // As people's tools do it: written beside, then renamed.
  void replace(const std::string& text) const {
    std::ofstream{file_ + ".new"} << text;
    ASSERT_EQ(rename((file_ + ".new").c_str(), file_.c_str()), 0);
  }
  static std::string entry(const std::string& address) {
    return "[[node]]\nid = 2\naddresses = [\"" + address + "\"]\n";
  }
  [[nodiscard]] bool logged(std::string_view part) const {
    return std::any_of(first_log.lines.begin(), first_log.lines.end(),
                       [&](const auto& line) { return line.find(part) != std::string::npos; });
  }
  [[nodiscard]] bool arrives(const std::string& text) {
    EXPECT_TRUE(first->send(2, 0, text));
    return turn({&*first, &*second},
                [&] { return !second_log.messages.empty() && second_log.messages.back() == text; });
  }
  // Polls them in time for messages, and leaves the machine to others otherwise.
  [[nodiscard]] bool sleeps_until(const std::function<bool()>& done) {
    return turn({&*first, &*second}, [&] {
      (void)first->wait(std::chrono::milliseconds{100});
      return done();
    });
  }

  std::string file_ = directory_.path() + "/nodes.toml";
};

TEST_P(NodeDirectory, FollowsTheFileAndOutlivesItsLoss) {
  second.emplace(2, options());
  second_log.listen_to(*second);
  ASSERT_TRUE(second->listen(address()));
  first.emplace(1, options().directory(file_));
  first_log.listen_to(*first);
  ASSERT_TRUE(sleeps_until([&] { return logged("nodes.toml can't be read"); }));
  EXPECT_EQ(first->send(2, 0, "nobody knows"), errc::no_route);

  std::ofstream{file_} << entry(second->addresses().at(0));
  ASSERT_TRUE(sleeps_until([&] { return bool{first->send(2, 0, "found")}; }));
  ASSERT_TRUE(arrives("there"));

  replace("[[node]]\nid = 2\naddresses = here\n");
  ASSERT_TRUE(sleeps_until([&] { return logged("nodes.toml:3:"); }));
  ASSERT_TRUE(arrives("still there"));
  ASSERT_EQ(unlink(file_.c_str()), 0);
  ASSERT_TRUE(sleeps_until([&] {
    return std::count_if(first_log.lines.begin(), first_log.lines.end(), [](const auto& line) {
             return line.find("can't be read") != std::string::npos;
           }) == 2;
  }));
  ASSERT_TRUE(arrives("and now"));
  EXPECT_EQ(first->stats().links_lost, 0U);
  EXPECT_TRUE(first_log.undelivered.empty());
}

const node_kind unix_path = node_kinds()[2];  // one will do: it takes seconds

INSTANTIATE_TEST_SUITE_P(Node, NodeDirectory, ::testing::Values(unix_path),
                         [](const auto& kind) { return std::string{kind.param.name}; });

}  // namespace
}  // namespace atbus::test
