// What stands in a file of access rules, what it allows, and where it says that something is wrong.
#include "node/access/access_file.h"

#include <arpa/inet.h>

#include "dice.h"
#include "test.h"

namespace atbus::detail {
namespace {

access_rules rules_of(const std::string& text) {
  auto read = read_access_file(text, "access.toml");
  EXPECT_TRUE(read) << read.error().text();
  return read ? *std::move(read) : access_rules{};
}

std::string fault_of(const std::string& text) {
  const auto read = read_access_file(text, "access.toml");
  return read ? "none" : read.error().text();
}

link_origin from_network(const char* address) {
  link_origin made{.where = link_origin::place::network};
  if (inet_pton(AF_INET6, address, made.address.data()) == 1)
    return made;
  made.address[10] = made.address[11] = std::byte{0xff};
  EXPECT_EQ(inet_pton(AF_INET, address, &made.address[12]), 1);
  return made;
}

link_origin from_user(std::uint32_t user) {
  return {.where = link_origin::place::host, .user = user};
}

constexpr std::string_view two_parts = R"(
[[register]]
ids = ["0x1200/56", 7]
from = ["10.1.0.0/16", "fd00::/8", "127.0.0.1", "user:1000"]

[[register]]
ids = ["clients"]
from = ["user:0"]

[[send]]
from = ["0x1200/56"]
to = [7]
messages = "any"
requests = [3, 1]

[[send]]
from = ["clients"]
to = "any"
commands = ["status", "stop"]

[[send]]
from = [7]
to = ["0x1200/56"]
messages = "any"
requests = "any"
broadcasts = [9]
)";

TEST(AccessFile, SaysWhoMayRegisterFromWhere) {
  const access_rules rules = rules_of(std::string{two_parts});
  const auto may = [&](std::uint64_t id, const link_origin& from) {
    return rules.may_register(bus_id{id}, std::nullopt, from);
  };
  EXPECT_EQ(may(0x1234, from_network("10.1.2.3")), access_line{2});
  EXPECT_EQ(may(7, from_network("fd12::1")), access_line{2});
  EXPECT_TRUE(may(7, from_network("127.0.0.1")));
  EXPECT_FALSE(may(7, from_network("127.0.0.2")));
  EXPECT_FALSE(may(7, from_network("10.2.2.3")));
  EXPECT_FALSE(may(7, from_network("fe80::1")));
  EXPECT_FALSE(may(8, from_network("10.1.2.3")));
  EXPECT_TRUE(may(7, from_user(1000)));
  EXPECT_FALSE(may(7, from_user(0)));
  EXPECT_EQ(may(0, from_user(0)), access_line{6});
  EXPECT_FALSE(may(0, from_user(1000)));
  EXPECT_FALSE(may(7, {}));
}

TEST(AccessFile, AsksForNamesInACertificate) {
  const access_rules rules = rules_of(
      "send = []\n[[register]]\nids = [7]\nfrom = \"any\"\n"
      "certificate = [\"DNS:a*b*c\", \"CN:seven\"]\n");
  const auto may = [&](std::vector<std::string> names) {
    link_origin from = from_network("10.1.2.3");
    from.names = std::move(names);
    return rules.may_register(7, std::nullopt, from).has_value();
  };
  EXPECT_TRUE(may({"CN:seven"}));
  EXPECT_TRUE(may({"CN:eight", "DNS:abc"}));
  EXPECT_TRUE(may({"DNS:a-bb-b-cc-c"}));
  EXPECT_FALSE(may({"DNS:ab"}));
  EXPECT_FALSE(may({"DNS:xabc"}));
  EXPECT_FALSE(may({"DNS:abcd"}));
  EXPECT_FALSE(may({"CN:abc"}));
  EXPECT_FALSE(may({"CN:seven "}));
  EXPECT_FALSE(may({}));
}

TEST(AccessFile, LeavesItToTheFirstRelayWhereANodeIs) {
  const access_rules rules = rules_of(std::string{two_parts});
  const link_origin relayed{.where = link_origin::place::relayed};
  EXPECT_TRUE(rules.may_register(7, std::nullopt, relayed));
  EXPECT_FALSE(rules.may_register(8, std::nullopt, relayed));
}

TEST(AccessFile, ChecksTheIdsThatANodeSpeaksFor) {
  const access_rules rules = rules_of(std::string{two_parts});
  const auto from = from_network("10.1.2.3");
  EXPECT_TRUE(rules.may_register(0x1234, *id_range::parse("0x1230/60"), from));
  EXPECT_FALSE(rules.may_register(0x1234, *id_range::parse("0x1000/52"), from));
}

TEST(AccessFile, SaysWhoMaySendWhatToWhom) {
  const access_rules rules = rules_of(std::string{two_parts});
  const auto message = message_class::message;
  const auto request = message_class::request;
  EXPECT_EQ(rules.may_send(0x1234, 7, message, 99), access_line{10});
  EXPECT_TRUE(rules.may_send(0x1234, 7, request, 1));
  EXPECT_TRUE(rules.may_send(0x1234, 7, request, 3));
  EXPECT_FALSE(rules.may_send(0x1234, 7, request, 2));
  EXPECT_FALSE(rules.may_send(0x1234, 8, message, 99));
  EXPECT_FALSE(rules.may_send(8, 7, message, 99));
  EXPECT_TRUE(rules.may_command(0, 7, "status"));
  EXPECT_TRUE(rules.may_command(0, 0x9999, "stop"));
  EXPECT_FALSE(rules.may_command(0, 7, "statu"));
  EXPECT_FALSE(rules.may_command(7, 0x1234, "status"));
  EXPECT_TRUE(rules.may_broadcast(7, *id_range::parse("0x1230/60"), 9));
  EXPECT_FALSE(rules.may_broadcast(7, *id_range::parse("0x1000/52"), 9));
  EXPECT_FALSE(rules.may_broadcast(7, *id_range::parse("0x1230/60"), 8));
}

TEST(AccessFile, KnowsPairsWithoutACheckAndPairsThatMayNotMeet) {
  const access_rules rules = rules_of(std::string{two_parts});
  EXPECT_TRUE(rules.may_send_all(7, 0x1234));
  EXPECT_FALSE(rules.may_send_all(0x1234, 7));
  EXPECT_TRUE(rules.may_meet(7, 0x1234));
  EXPECT_TRUE(rules.may_meet(0x1234, 7));
  EXPECT_FALSE(rules.may_meet(0x1234, 0x1235));
}

TEST(AccessFile, LiftsARestrictionOnlyInSoManyWords) {
  const access_rules rules = rules_of("register = \"any\"\nsend = \"any\"\n");
  EXPECT_EQ(rules.may_register(99, std::nullopt, {}), access_line{1});
  EXPECT_EQ(rules.may_send(1, 2, message_class::message, 3), access_line{2});
  EXPECT_TRUE(rules.may_send_all(1, 2));
  EXPECT_TRUE(rules.may_broadcast(1, id_range{}, 3));
  EXPECT_EQ(fault_of(""),
            "access.toml:1:1: there is no 'register'; write [[register]] entries, "
            "or register = \"any\"");
  EXPECT_EQ(fault_of("register = \"any\"\n"),
            "access.toml:1:1: there is no 'send'; write [[send]] entries, or send = \"any\"");
  EXPECT_EQ(fault_of("register = []\nsend = []\n"), "none");  // nobody, nothing
}

TEST(AccessFile, NamesWhatIsWrongAndWhere) {
  struct wrong {
    const char* text;
    const char* where;
    const char* what;
  };
  constexpr const char* before = "send = \"any\"\n[[register]]\n";
  for (const wrong& one : std::initializer_list<wrong>{
           {"from = \"any\"\n", ":2:1", "an entry without 'ids'"},
           {"ids = \"any\"\n", ":2:1", "an entry without 'from'"},
           {"ids = []\nfrom = \"any\"\n", ":3:7", "at least one value"},
           {"ids = [0]\nfrom = \"any\"\n", ":3:8", "an id is a number from 1 on"},
           {"ids = [\"0\"]\nfrom = \"any\"\n", ":3:8", "clients are \"clients\""},
           {"ids = [\"x/3\"]\nfrom = \"any\"\n", ":3:8", "x"},
           {"ids = [\"0x1234/40\"]\nfrom = \"any\"\n", ":3:8", "0x1234"},
           {"ids = [7.5]\nfrom = \"any\"\n", ":3:8", "an id is a number from 1 on"},
           {"ids = [7]\nfrom = [\"10.0.0.1/8\"]\n", ":4:9", "no bits below its prefix"},
           {"ids = [7]\nfrom = [\"10.0.0.0/33\"]\n", ":4:9", "an origin is a network"},
           {"ids = [7]\nfrom = [\"10.0.0.0/\"]\n", ":4:9", "an origin is a network"},
           {"ids = [7]\nfrom = [\"user:x\"]\n", ":4:9", "an origin is a network"},
           {"ids = [7]\nfrom = [\"user:4294967296\"]\n", ":4:9", "an origin is a network"},
           {"ids = [7]\nfrom = [7]\n", ":4:9", "an origin is a network"},
           {"ids = [7]\nfrom = \"all\"\n", ":4:8", "or the text \"any\""},
           {"ids = [7]\nfrom = \"any\"\ncertificate = [\"zone\"]\n", ":5:16",
            "DNS:, IP:, URI: or CN:"},
           {"ids = [7]\nfrom = \"any\"\ncertificate = [\"DNS:\"]\n", ":5:16", "and the name"},
           {"ids = [7]\nfrom = \"any\"\ncertificate = [\"DNS:***\"]\n", ":5:16", "at most 2 *"},
           {"ids = [7]\nform = \"any\"\n", ":4:1", "'form' is unknown"}}) {
    const std::string fault = fault_of(std::string{before} + one.text);
    EXPECT_TRUE(fault.starts_with(std::string{"access.toml"} + one.where + ": "))
        << one.text << fault;
    EXPECT_NE(fault.find(one.what), std::string::npos) << one.text << fault;
  }
  constexpr const char* sending = "register = \"any\"\n[[send]]\nfrom = \"any\"\nto = \"any\"\n";
  for (const wrong& one : std::initializer_list<wrong>{
           {"", ":2:1", "an entry that allows nothing"},
           {"messages = [-1]\n", ":5:13", "a type is a number from 0 to 4294967295"},
           {"messages = [4294967296]\n", ":5:13", "a type is a number"},
           {"requests = [\"a\"]\n", ":5:13", "a type is a number"},
           {"commands = [\"\"]\n", ":5:13", "a command's name is a text"},
           {"commands = [1]\n", ":5:13", "a command's name is a text"},
           {"broadcasts = true\n", ":5:14", "a list of at least one value"},
           {"what = \"any\"\n", ":5:1", "'what' is unknown"}}) {
    const std::string fault = fault_of(std::string{sending} + one.text);
    EXPECT_TRUE(fault.starts_with(std::string{"access.toml"} + one.where + ": "))
        << one.text << fault;
    EXPECT_NE(fault.find(one.what), std::string::npos) << one.text << fault;
  }
  EXPECT_NE(fault_of("register = 7\nsend = \"any\"\n").find(":1:12: 'register' is a list"),
            std::string::npos);
  EXPECT_NE(fault_of("[register]\n[send]\n").find("'register' is a list"), std::string::npos);
  EXPECT_NE(fault_of("send = [7]\nregister = \"any\"\n").find(":1:9: not an entry"),
            std::string::npos);
}

// A file that was cut off or changed anywhere is read as a whole or refused, and never ends the process.
TEST(AccessFile, IsRefusedOrReadWhateverIsInIt) {
  test::dice random{1};
  const std::string good{two_parts};
  unsigned refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string text = good;
    for (std::uint64_t changes = random.below(4); changes != 0; --changes)
      text[random.below(text.size())] = static_cast<char>(random.below(256));
    text.resize(random.below(4) == 0 ? random.below(text.size() + 1) : text.size());
    refused += fault_of(text) != "none" ? 1U : 0U;
  }
  EXPECT_GT(refused, 1000U);
}

}  // namespace
}  // namespace atbus::detail
