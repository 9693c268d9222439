// Commands through every kind of address.
#include "node_fixture.h"

namespace atbus::test {
namespace {

class Command : public NodeFixture {
 protected:
  struct told {
    int times = 0;
    status how;
    std::vector<std::string> values;
  };
  [[nodiscard]] static auto write(told& into) {
    return [&into](status s, const command_reply& r) {
      ++into.times;
      into.how = s;
      into.values = r.values();
    };
  }
};

TEST_P(Command, IsAnsweredBothWays) {
  connect_both();
  first->on_command("who", [](command& c) { c.reply("the first"); });
  second->on_command([](command& c) {
    c.reply(std::vector<std::string>(c.arguments().begin(), c.arguments().end()));
  });
  told of_first;
  told of_second;
  const std::string longest(60000, 'x');
  ASSERT_TRUE(second->command(1, {"who"}, 20s, write(of_first)));
  ASSERT_TRUE(first->command(2, {"repeat", "a", "", longest}, 20s, write(of_second)));
  ASSERT_TRUE(turn({&*first, &*second}, [&] { return of_first.times + of_second.times == 2; }));
  EXPECT_TRUE(of_first.how) << of_first.how.text();
  EXPECT_EQ(of_first.values, std::vector<std::string>{"the first"});
  EXPECT_TRUE(of_second.how) << of_second.how.text();
  EXPECT_EQ(of_second.values, (std::vector<std::string>{"a", "", longest}));
}

TEST_P(Command, OutlivesTheProcessThatItIsAskedOf) {
  connect_both();
  const std::string where = second->addresses().at(0);
  told answer;
  ASSERT_TRUE(first->command(2, {"x"}, 60s, write(answer)));
  first->poll();
  second.reset();
  second.emplace(2, options());
  second->on_command([](command& c) { c.reply("the second incarnation"); });
  ASSERT_TRUE(second->listen(where));
  ASSERT_TRUE(turn({&*first, &*second}, [&] { return answer.times == 1; }));
  EXPECT_TRUE(answer.how) << answer.how.text();
  EXPECT_EQ(answer.values, std::vector<std::string>{"the second incarnation"});
}

TEST_P(Command, EndsAsClosedWithItsNode) {
  connect_both();
  std::vector<command> kept;
  second->on_command([&](command& c) { kept.push_back(c.detach()); });
  told answer;
  ASSERT_TRUE(first->command(2, {"x"}, 60s, write(answer)));
  ASSERT_TRUE(turn({&*first, &*second}, [&] { return kept.size() == 1; }));
  first.reset();
  EXPECT_EQ(answer.times, 1);
  EXPECT_EQ(answer.how, errc::closed);
  second.reset();
  EXPECT_EQ(kept[0].reply("nobody is there"), errc::closed);
}

TEST_P(Command, MayBeAVisitors) {
  second.emplace(2, options().clients(2));  // those who have gone make room
  second->on_command([this](command& c) {
    EXPECT_EQ(c.source(), bus_id{0});
    c.reply({"hello", c.name()});
    EXPECT_EQ(second->send(0, 0, "x"), errc::no_route);
  });
  ASSERT_TRUE(second->listen(address()));
  for (int i = 0; i < 3; ++i) {
    node client{0, options()};
    node beside{0, options()};
    told answer;
    told other;
    ASSERT_TRUE(client.connect(0, second->addresses().at(0)));
    ASSERT_TRUE(beside.connect(0, second->addresses().at(0)));
    ASSERT_TRUE(client.command(0, "one", 20s, write(answer)));
    ASSERT_TRUE(beside.command(0, "two", 20s, write(other)));
    ASSERT_TRUE(
        turn({&client, &beside, &*second}, [&] { return answer.times + other.times == 2; }));
    EXPECT_EQ(answer.values, (std::vector<std::string>{"hello", "one"}));
    EXPECT_EQ(other.values, (std::vector<std::string>{"hello", "two"}));
    for (int times = 2; times != 10; ++times) {
      ASSERT_TRUE(client.command(0, "again", 20s, write(answer)));
      EXPECT_EQ(client.send(0, 0, "x"), errc::not_supported);  // where a command has just gone
      ASSERT_TRUE(turn({&client, &*second}, [&] { return answer.times == times; }));
    }
  }
  EXPECT_TRUE(second->endpoints().empty());
}

INSTANTIATE_TEST_SUITE_P(Kinds, Command, ::testing::ValuesIn(node_kinds()),
                         [](const auto& kind) { return std::string{kind.param.name}; });

}  // namespace
}  // namespace atbus::test
