// Commands to nodes that are not linked.
#include "routed_message.h"
#include "tree_of_six.h"

namespace atbus::detail {
namespace {

class RoutedCommands : public tree_of_six {
 protected:
  struct told {
    int times = 0;
    status how;
    std::string text;
  };
  status ask(std::optional<party>& from, std::uint64_t whom, told& answer) {
    const status sent = from->node.user().command(
        whom, "who", 1min, [&answer](status how, const command_reply& reply) {
          ++answer.times;
          answer.how = how;
          answer.text = reply.text();
        });
    from->node.wake();
    return sent;
  }
};

TEST_F(RoutedCommands, AreAnsweredAsMessagesAreSent) {
  far->node.user().on_command([](command& c) { c.reply("asked by " + c.source().to_string()); });
  told answer;
  ASSERT_TRUE(ask(one, 97, answer));
  ASSERT_TRUE(until([&] { return answer.times == 1; }));
  EXPECT_TRUE(answer.how) << answer.how.text();
  EXPECT_EQ(answer.text, "asked by 81");
}

TEST_F(RoutedCommands, ToNobodySayThatThereIsNoWay) {
  told answer;
  EXPECT_EQ(ask(relay_a, 83, answer), errc::no_route);  // it would be below
  ASSERT_TRUE(ask(one, 99, answer));
  ASSERT_TRUE(until([&] { return answer.times != 0; }));
  EXPECT_EQ(answer.how, errc::no_route);
  net.run_for(2min);
  EXPECT_EQ(answer.times, 1);
  EXPECT_TRUE(one->reports.empty());
}

TEST_F(RoutedCommands, AreNotAnsweredToALaterIncarnation) {
  std::vector<command> kept;
  far->node.user().on_command([&](command& c) { kept.push_back(c.detach()); });
  told answer;
  ASSERT_TRUE(ask(one, 97, answer));
  ASSERT_TRUE(until([&] { return kept.size() == 1; }));
  one.reset();
  one.emplace(net, 81, leaf_options(80));
  ASSERT_TRUE(until([&] { return one->core().parent() == 80; }));
  ASSERT_TRUE(one->send(97, "here again"));
  ASSERT_TRUE(until([&] { return far->got.size() == 1; }));
  EXPECT_EQ(kept[0].reply("to somebody else"), errc::peer_closed);
}

}  // namespace
}  // namespace atbus::detail
