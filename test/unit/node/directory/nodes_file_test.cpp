// What stands in a nodes file, and where it says that something is wrong.
#include "node/directory/nodes_file.h"
#include "node/files/watched_file.h"

#include "sanitizer.h"
#include "test.h"

namespace atbus::detail {
namespace {

std::string problem_of(const std::string& text) {
  const result<record_table::records> read = read_nodes_file(text, "nodes.toml");
  return read ? "none" : read.error().text();
}

bool says(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::string entry(const std::string& id) {
  return "[[node]]\nid = " + id + "\naddresses = [\"unix://@zone\"]\n";
}

TEST(NodesFile, HasIdsInEachOfTheirForms) {
  const auto read = read_nodes_file(entry("7") + entry("0x12340000") + entry("\"0x12340001\"") +
                                        entry("\"1.2.3.4\"") + entry("\"18446744073709551615\""),
                                    "nodes.toml");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->size(), 5U);
  for (const std::uint64_t id :
       {std::uint64_t{7}, std::uint64_t{0x12340000}, std::uint64_t{0x12340001},
        std::uint64_t{0x0102000300000004}, ~std::uint64_t{0}})
    EXPECT_EQ(read->count(id), 1U) << id;
}

TEST(NodesFile, KeepsAllAddressesOfANodeInTheirOrder) {
  const auto read = read_nodes_file(
      "# a comment\n[[node]]\naddresses = [\n  \"unix:///run/zone.sock\",  # on this host\n"
      "  \"ipv4://10.0.0.7:7000\",\n]\nid = 7\n",
      "nodes.toml");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->at(7).addresses,
            (std::vector<std::string>{"unix:///run/zone.sock", "ipv4://10.0.0.7:7000"}));
}

TEST(NodesFile, MayNameServicesAndLabelsOfANode) {
  const auto read = read_nodes_file(
      entry("7") + "services = [\"chat\", \"match\"]\nlabels = { zone = \"a\", rack = \"7\" }\n",
      "nodes.toml");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->at(7).services, (std::vector<std::string>{"chat", "match"}));
  EXPECT_EQ(read->at(7).labels, (std::map<std::string, std::string>{{"rack", "7"}, {"zone", "a"}}));
}

TEST(NodesFile, SaysWhatServicesAndLabelsLookLike) {
  EXPECT_TRUE(
      says(problem_of(entry("7") + "services = \"chat\"\n"), "nodes.toml:4:12: services are"));
  EXPECT_TRUE(says(problem_of(entry("7") + "services = [7]\n"), "nodes.toml:4:13: the name of"));
  EXPECT_TRUE(says(problem_of(entry("7") + "services = [\"\"]\n"), "nodes.toml:4:13: the name of"));
  EXPECT_TRUE(says(problem_of(entry("7") + "labels = [\"a\"]\n"), "nodes.toml:4:10: labels are"));
  EXPECT_TRUE(says(problem_of(entry("7") + "labels = { zone = 7 }\n"), "nodes.toml:4:"));
  std::string many = entry("7") + "services = [";
  for (std::size_t i = 0; i <= nodes_file_services_max; ++i)
    many += "\"s\",\n";
  EXPECT_TRUE(says(problem_of(many + "]\n"), "more than 256 services"));
  many = entry("7") + "[node.labels]\n";
  for (std::size_t i = 0; i <= nodes_file_labels_max; ++i)
    many += "l" + std::to_string(i) + " = \"\"\n";
  EXPECT_TRUE(says(problem_of(many), "more than 64 labels"));
}

TEST(NodesFile, MayBeEmpty) {
  const auto read = read_nodes_file("", "nodes.toml");
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->empty());
}

TEST(NodesFile, TakesTenThousandNodes) {
  std::string text;
  for (int id = 1; id <= 10'000; ++id)
    text += entry(std::to_string(id));
  const auto read = read_nodes_file(text, "nodes.toml");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->size(), 10'000U);
}

TEST(NodesFile, NamesFileLineAndColumnOfWhatIsWrong) {
  EXPECT_EQ(problem_of("[[node]]\nid = = 7\n").find("nodes.toml:2:6: "), 0U)
      << problem_of("[[node]]\nid = = 7\n");
  EXPECT_EQ(problem_of("[[node]]\nid = 7\nadress = []\n").find("nodes.toml:3:1: 'adress'"), 0U)
      << problem_of("[[node]]\nid = 7\nadress = []\n");
}

TEST(NodesFile, NamesBothLinesOfAnIdThatIsThereTwice) {
  const std::string problem = problem_of(entry("7") + entry("8") + entry("\"0x7\""));
  EXPECT_EQ(problem.find("nodes.toml:8:6: node 7"), 0U) << problem;
  EXPECT_TRUE(says(problem, "in line 2")) << problem;
}

TEST(NodesFile, RefusesWhatIsNoId) {
  for (const char* const id : {"0", "-7", "\"0\"", "\"x\"", "7.5", "true", "9223372036854775808",
                               "[7]", "{}", "2026-01-01"})
    EXPECT_TRUE(says(problem_of(entry(id)), "nodes.toml:2:")) << id << problem_of(entry(id));
  EXPECT_TRUE(says(problem_of("[[node]]\naddresses = [\"unix://@zone\"]\n"), "without an id"));
}

TEST(NodesFile, RefusesWhatAreNoAddresses) {
  for (const char* const wrong :
       {"\"unix://@zone\"", "[]", "[7]", "[\"zone7:7000\"]", "[[\"unix://@zone\"]]", "{}"}) {
    const std::string problem = problem_of("[[node]]\nid = 7\naddresses = " + std::string{wrong});
    EXPECT_TRUE(says(problem, "nodes.toml:3:")) << wrong << problem;
  }
  EXPECT_TRUE(says(problem_of("[[node]]\nid = 7\n"), "nodes.toml:1:"));
}

TEST(NodesFile, RefusesAnotherShape) {
  for (const char* const wrong : {"[node]\nid = 7\n", "node = 7", "node = [7]", "nodes = []",
                                  "id = 7", "[[node]]\nid = 7\nrange = 1\n"})
    EXPECT_TRUE(says(problem_of(wrong), "nodes.toml:")) << wrong;
}

TEST(NodesFile, RefusesLettersBeyondAsciiOutsideOfTextsAndComments) {
  const std::string entry = "[[node]]\nid = 1\naddresses = [\"shm://a\"]";
  EXPECT_TRUE(read_nodes_file("# \xc3\xb5\n" + entry + " # \xc3\xb5\n", "f"));
  for (const char* stray :
       {" \xc3\xb5", "\n\xc3\xb5 = 1", "\n[[\xc3\xb5]]", "\nx = \"\\\"\" \xc3\xb5",
        "\nx = \"\"\"a\n\"\"\" \xc3\xb5", "\nx = '''a''' \xc3\xb5"}) {
    const auto read = read_nodes_file(entry + stray, "f");
    ASSERT_FALSE(read) << stray;
    EXPECT_NE(read.error().text().find("ASCII only"), std::string::npos) << read.error().text();
  }
}

TEST(NodesFile, RefusesMoreThanItsLimits) {
  std::string many = "[[node]]\nid = 7\naddresses = [\n";
  for (std::size_t i = 0; i <= nodes_file_addresses_max; ++i)
    many += "\"unix://@" + std::to_string(i) + "\",\n";
  EXPECT_TRUE(says(problem_of(many + "]"), "more than 16 addresses"));
  EXPECT_TRUE(says(problem_of("\n#" + std::string(watched_file_line_max, ' ')), "nodes.toml:2:1"));
  std::string crowd = "node = [\n";
  for (std::size_t i = 0; i <= nodes_file_nodes_max; ++i)
    crowd += "1,\n";
  EXPECT_TRUE(says(problem_of(crowd + "]"), "more than 65536 nodes"));
}

// toml++ destroys nested tables by recursion.
TEST(NodesFile, StandsTheDeepestNestingThatItsLinesAllow) {
  std::string deep;
#if defined(ATBUS_TEST_SANITIZER)
  constexpr int levels = 12;  // frames of instrumented code are many times as large
#else
  constexpr int levels = 127;
#endif
  for (int level = 0; level < levels; ++level) {
    deep += level == 0 ? "a" : "{a";
    for (std::size_t i = 0; i < watched_file_line_max / 2 - 3; ++i)
      deep += ".a";
    deep += "=[\n";
  }
  for (int level = 1; level < levels; ++level)
    deep += "]}";
  EXPECT_TRUE(says(problem_of(deep + "]"), "'a' is unknown")) << problem_of(deep + "]");
}

}  // namespace
}  // namespace atbus::detail
