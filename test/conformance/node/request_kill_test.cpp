// Requests to a process that is killed and started again in mid traffic: each has exactly one outcome.
#include <deque>
#include <map>

#include "child_process.h"
#include "node_fixture.h"

namespace atbus::test {
namespace {

constexpr std::uint32_t echo_type = 7;

class NodeRequestsFork : public NodeFixture {
 protected:
  // The latest requests wait for the next ones, so that the process dies with requests in hand. A message
  // makes it answer them all.
  int serve() {
    constexpr std::size_t kept = 8;
    struct unanswered {
      request what;
      std::string text;
    };
    node service{2, options()};
    require(static_cast<bool>(service.listen(where_)), "the service listens");
    std::deque<unanswered> in_hand;
    const auto answer = [&in_hand](std::size_t all_but) {
      for (; in_hand.size() > all_but; in_hand.pop_front())
        in_hand.front().what.reply(in_hand.front().text);
    };
    service.on_request(echo_type, [&](request& r) {
      std::string text{r.text()};  // not kept by detach()
      in_hand.push_back({r.detach(), std::move(text)});
      answer(kept);
    });
    service.on_message([&answer](const message&) { answer(0); });
    static_cast<void>(service.run());
    return 0;
  }
  // Keeps that many requests in flight.
  void ask(std::uint64_t most) {
    while (asked_ - ended_ < most) {
      const std::uint64_t number = asked_;
      const request_handle sent = first->request(2, echo_type, std::to_string(number), 3s,
                                                 [this, number](const response& r) {
                                                   ++ended_;
                                                   ++outcomes_[number];
                                                   ++counts_[r.how().code()];
                                                   if (r && r.text() != std::to_string(number))
                                                     ++wrong_;
                                                 });
      if (!sent)
        return;
      ++asked_;
    }
  }
  void ask_for(std::chrono::nanoseconds time, std::uint64_t most = 64) {
    for (const auto end = now() + time; now() < end;) {
      ask(most);
      first->poll();
      first->wait(1ms);
    }
  }

  const std::string where_ = address();  // also of a child, whose process id is another
  std::uint64_t asked_ = 0;
  std::uint64_t ended_ = 0;
  std::uint64_t wrong_ = 0;  // replies
  std::map<std::uint64_t, int> outcomes_;
  std::map<errc, std::uint64_t> counts_;
};

TEST_P(NodeRequestsFork, HaveOneOutcomeEachThoughTheServiceIsKilled) {
  constexpr int kills = 12;
  child_process service{[this] { return serve(); }};
  first.emplace(1, options());
  ASSERT_TRUE(first->connect(2, where_));
  ask_for(100ms);
  for (int kill = 0; kill != kills; ++kill) {
    service.kill_and_wait();
    ask_for(5ms);
    service = child_process{[this] { return serve(); }};
    ask_for(40ms);
  }
  for (const auto end = now() + 20s; counts_[errc::ok] < 1000 && now() < end;)
    ask_for(20ms);
  ASSERT_TRUE(first->send(2, 0, "answer all"));
  ASSERT_TRUE(turn({&*first}, [this] { return ended_ == asked_; }));
  EXPECT_EQ(outcomes_.size(), asked_);
  for (const auto& [number, times] : outcomes_)
    EXPECT_EQ(times, 1) << number;
  EXPECT_EQ(wrong_, 0U);
  EXPECT_GE(counts_[errc::ok], 1000U);
  // What the service had in hand, or what its end took with it.
  EXPECT_LE(asked_ - counts_[errc::ok], 64U * kills);
}

std::vector<node_kind> kinds_with_one_address() {
  std::vector<node_kind> kinds = node_kinds();
  std::erase_if(kinds,
                [](const node_kind& kind) { return kind.tcp || std::string{kind.name} == "mem"; });
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Kinds, NodeRequestsFork, ::testing::ValuesIn(kinds_with_one_address()),
                         [](const auto& kind) { return std::string{kind.param.name}; });

}  // namespace
}  // namespace atbus::test
