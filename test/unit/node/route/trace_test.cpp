// Trace contexts that ride along with messages and requests.
#include <algorithm>

#include "protocol/message_head.h"
#include "tree_of_six.h"

namespace atbus::detail {
namespace {

constexpr std::string_view sampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
constexpr std::string_view not_sampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

trace_context context_of(std::string_view text) {
  const auto read = trace_context::parse(text);
  EXPECT_TRUE(read);
  return read ? *read : trace_context{};
}

std::ptrdiff_t lines_with(const party& of, std::string_view text) {
  return std::ranges::count_if(
      of.log, [&](const std::string& line) { return line.find(text) != line.npos; });
}

class Traces : public tree_of_six {
 protected:
  void SetUp() override {
    tree_of_six::SetUp();
    far->on_message = [this](const message& what) {
      traces.push_back(what.trace() ? what.trace()->to_string() : "none");
    };
  }
  status send(std::string_view text, std::string_view trace) {
    const status sent = one->node.user().send(97, 0, text, context_of(trace));
    one->node.wake();
    return sent;
  }
  std::vector<std::string> traces;
};

TEST_F(Traces, RideAlongWithAMessageAndLeaveItsBytesAsTheyAre) {
  EXPECT_TRUE(send("traced", sampled));
  EXPECT_TRUE(one->send(97, "plain"));
  EXPECT_TRUE(send("", not_sampled));
  ASSERT_TRUE(until([&] { return far->got.size() == 3; }));
  EXPECT_EQ(far->got, (std::vector<std::string>{"traced", "plain", ""}));
  EXPECT_EQ(traces,
            (std::vector<std::string>{std::string{sampled}, "none", std::string{not_sampled}}));
}

TEST_F(Traces, ThatAreSampledAreLoggedByEachNodeThatPassesThemOn) {
  EXPECT_TRUE(send("traced", sampled));
  EXPECT_TRUE(send("not recorded", not_sampled));
  ASSERT_TRUE(until([&] { return far->got.size() == 2 && lines_with(*relay_b, "trace ") != 0; }));
  for (const auto* by : {&relay_a, &root, &relay_b}) {
    EXPECT_EQ(lines_with(**by, "trace "), 1);
    EXPECT_EQ(lines_with(**by, std::string{sampled} + ": 81 to 97 by way of "), 1);
  }
  for (const auto* by : {&one, &two, &far})
    EXPECT_EQ(lines_with(**by, "trace "), 0);
}

TEST_F(Traces, OfANodeThatSendsManyAreLoggedWithinItsSixtyLinesAMinute) {
  for (int i = 0; i != 500; ++i) {
    EXPECT_TRUE(send("traced", sampled));
    net.run_for(10ms);
  }
  ASSERT_TRUE(until([&] { return far->got.size() == 500; }));
  EXPECT_EQ(lines_with(*relay_a, "trace "), 60);
}

TEST_F(Traces, LeaveTheOtherLinesAboutTheirSenderInTheLog) {
  for (int i = 0; i != 100; ++i) {
    EXPECT_TRUE(send("traced", sampled));
    net.run_for(10ms);
  }
  net.cut(80, 81, seen_by::both);
  EXPECT_TRUE(until([&] { return relay_a->logged("the link to 81 is lost") == 1; }));
}

TEST_F(Traces, InTheNamesOfManyNodesShareTheLinesOfTheLinkTheyComeBy) {
  hand_played relay{net, 112, 64, true, true, [](introduction& self) {
                      self.as = relation::child;
                      self.range_first = 112;
                      self.range_length = 60;
                    }};
  ASSERT_TRUE(until([&] { return relay.is_registered(); }));
  net.run_for(5ms);
  byte_buffer word(routed_head_size + trace_context::size);
  for (std::uint64_t round = 0; round != 60; ++round) {
    for (std::uint64_t id = 112; id != 128; ++id) {
      encode(
          routed_head{.step = circuit_step::traced, .destination = 81, .source = id, .number = 1},
          word.data());
      relay.say_bytes(word);
    }
    net.run_for(10ms);
  }
  EXPECT_TRUE(relay.is_open());
  EXPECT_EQ(root->logged("trace "), 600);
}

TEST_F(Traces, RideAlongWithARequestThatIsAnsweredLater) {
  std::optional<request> kept;
  far->node.user().on_request(7, [&](request& asked) { kept.emplace(asked.detach()); });
  std::string answer;
  const request_handle sent =
      one->node.user().request(97, 7, as_bytes("what"), 30s, context_of(sampled),
                               [&](const response& how) { answer = how.text(); });
  EXPECT_TRUE(sent);
  one->node.wake();
  ASSERT_TRUE(until([&] { return kept.has_value(); }));
  ASSERT_TRUE(kept->trace());
  EXPECT_EQ(kept->trace()->to_string(), sampled);
  EXPECT_TRUE(kept->reply("that"));
  far->node.wake();
  ASSERT_TRUE(until([&] { return answer == "that"; }));
  EXPECT_EQ(lines_with(*root, std::string{sampled}), 1);
}

TEST_F(Traces, AreNotPartOfWhatIsReportedAsUndelivered) {
  const status sent =
      one->node.user().send(99, 0, std::string_view{"to nobody"}, context_of(sampled));
  EXPECT_TRUE(sent);
  one->node.wake();
  ASSERT_TRUE(until([&] { return !one->reports.empty(); }));
  EXPECT_EQ(one->reports[0].text, "to nobody");
}

TEST_F(Traces, OfAMessageToOneselfComeBack) {
  std::string trace;
  one->on_message = [&](const message& what) {
    trace = what.trace() ? what.trace()->to_string() : "";
  };
  EXPECT_TRUE(one->node.user().send(81, 0, std::string_view{"me"}, context_of(sampled)));
  one->node.wake();
  ASSERT_TRUE(until([&] { return !one->got.empty(); }));
  EXPECT_EQ(one->got[0], "me");
  EXPECT_EQ(trace, sampled);
}

TEST_F(Traces, CountInTheLengthOfAMessage) {
  const std::size_t limit = plain().message_limit();
  const std::string longest(limit - trace_context::size, 'x');
  EXPECT_EQ(send(longest + "x", sampled), errc::message_too_large);
  EXPECT_TRUE(send(longest, sampled));
  ASSERT_TRUE(until([&] { return far->got.size() == 1; }));
  EXPECT_EQ(far->got[0].size(), longest.size());
}

TEST_F(Traces, ThatAreCutShortEndTheirLink) {
  hand_played peer{net, 200, 64, true};
  ASSERT_TRUE(until([&] { return peer.is_registered(); }));
  net.run_for(5ms);
  peer.say(flow_body{.next = 1});
  byte_buffer bad(message_head_size + trace_context::size - 1);
  encode(message_head{.flags = flag_traced, .type = 7}, bad.data());
  peer.say_bytes(bad);
  net.run_for(3s);
  EXPECT_TRUE(peer.has_ended());
  EXPECT_EQ(root->core().stats().violations, 1U);
  EXPECT_TRUE(root->got.empty());
}

}  // namespace
}  // namespace atbus::detail
