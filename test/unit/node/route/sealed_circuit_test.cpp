// Circuits that are encrypted from end to end.
#include <set>

#include "circuit_fixture.h"
#include "tree_of_six.h"

namespace atbus::detail {
namespace {

constexpr std::string_view end_secret = "a secret that no relay has";
constexpr std::string_view other_end_secret = "another one that no relay has";

circuit_options with_secret(std::string_view secret) {
  return {.message_limit = std::size_t{256} * 1024,
          .queue_size = std::size_t{1024} * 1024,
          .secret = as_bytes(secret)};
}

// Lengths around those of batches and fragments.
std::size_t mixed_size(std::uint64_t number) {
  constexpr std::size_t edges[] = {16,     100,    4'056,  4'088,  12'248, 12'288, 16'344,
                                   16'352, 16'376, 16'384, 24'568, 28'640, 65'536, 200'000};
  return number % 7 != 0 ? 16 + number % 500 : edges[number / 7 % std::size(edges)];
}

struct faults {
  unsigned drops;
  unsigned fails;
  unsigned changes;
  bool reorders;
};

class SealedCircuitRuns : public ::testing::TestWithParam<faults> {};

TEST_P(SealedCircuitRuns, LoseNothing) {
  for (std::uint64_t seed = 1; seed != 6; ++seed) {
    network net{seed};
    end one{net, 1, with_secret(end_secret)};
    end two{net, 2, with_secret(end_secret)};
    one.size_of = two.size_of = mixed_size;
    two.is_told_all = true;
    one.call(2);
    net.run_for(5ms);
    ASSERT_EQ(two.accepts, 1);
    one.at()->confirm({});
    two.at()->confirm({});
    net.drops = GetParam().drops;
    net.fails = GetParam().fails;
    net.changes = GetParam().changes;
    net.reorders = GetParam().reorders;
    constexpr std::uint64_t count = 300;
    std::uint64_t sent = 0;
    for (int i = 0; i != 20'000 && two.got.size() != count; ++i) {
      net.run_for(1ms, [&] {
        while (sent != count && one.send_data(sent))
          ++sent;
      });
    }
    ASSERT_EQ(two.got.size(), count);
    for (std::uint64_t i = 0; i != count; ++i)
      ASSERT_EQ(two.got[i], i);
    EXPECT_EQ(one.problems + two.problems != 0, net.changes != 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Each, SealedCircuitRuns,
                         ::testing::Values(faults{0, 0, 0, false}, faults{10, 0, 0, false},
                                           faults{0, 10, 0, false}, faults{0, 0, 10, false},
                                           faults{5, 5, 5, true}));

TEST(SealedCircuit, IsRefusedWithAnotherSecret) {
  network net{1};
  end one{net, 1, with_secret(other_end_secret)};
  end two{net, 2, with_secret(end_secret)};
  one.call(2);
  net.run_for(50ms);
  EXPECT_EQ(two.accepts, 0);
  EXPECT_EQ(one.ended, errc::denied);
  EXPECT_EQ(two.problems, 1);
}

TEST(SealedCircuit, IsRefusedWithoutASecret) {
  network net{1};
  end one{net, 1};
  end two{net, 2, with_secret(end_secret)};
  one.call(2);
  net.run_for(50ms);
  EXPECT_EQ(two.accepts, 0);
  EXPECT_EQ(one.ended, errc::denied);
  two.call(1);
  net.run_for(50ms);
  EXPECT_EQ(one.accepts, 0);
  EXPECT_EQ(two.ended, errc::peer_closed);
}

// Whoever has recorded a call can make it again. It is answered with another key.
TEST(SealedCircuit, AnswersACallThatIsMadeAgainWithANewSalt) {
  network net{1};
  end one{net, 1, with_secret(end_secret)};
  end two{net, 2, with_secret(end_secret)};
  std::vector<std::byte> call;
  std::set<std::uint64_t> salts;
  int answers = 0;
  net.carries = [&](const routed_head& head, bytes_view message) {
    if (head.step != circuit_step::carry)
      return;
    if (head.source == bus_id{2}) {
      salts.insert(batch_cipher::salt_of(message.subspan(routed_head_size)));
      ++answers;
    } else if (call.empty()) {
      call.assign(message.begin(), message.end());
    }
  };
  one.call(2);
  net.run_for(50ms);
  ASSERT_EQ(two.accepts, 1);
  routed_head head;
  ASSERT_TRUE(decode(call, head));
  for (int again = 1; again != 4; ++again) {
    if (two.at() != nullptr)
      two.at()->close({});
    net.run_for(50ms);
    two.all.arrived(head, call, link_trust::same_user);
    ASSERT_EQ(two.accepts, 1 + again);
    ASSERT_TRUE(two.send_data(0));
    net.run_for(5ms);
  }
  EXPECT_GE(answers, 3);
  EXPECT_GE(salts.size(), 3U);
}

// The relays of that tree have no secret; its leaves do, or some of them.
class SealedTree : public tree_of_six {
 protected:
  void restart(std::optional<party>& leaf, std::uint64_t id, std::uint64_t parent,
               std::string_view secret) {
    leaf.reset();
    leaf.emplace(net, id, leaf_options(parent).circuit_secret(secret).message_limit(200'000));
    ASSERT_TRUE(until([&] { return leaf->core().parent() == bus_id{parent}; }));
  }
};

TEST_F(SealedTree, CarriesMessagesOfEachLengthThroughRelaysWithoutTheSecret) {
  restart(one, 81, 80, end_secret);
  restart(far, 97, 96, end_secret);
  std::vector<std::string> sent;
  for (const std::size_t size : {0U, 1U, 4000U, 4090U, 12300U, 16300U, 50000U, 200000U}) {
    sent.emplace_back(size, 'x');
    ASSERT_TRUE(one->send(97, sent.back()));
  }
  ASSERT_TRUE(until([&] { return far->got.size() == sent.size(); }));
  EXPECT_EQ(far->got, sent);
  EXPECT_TRUE(far->send(81, "back"));
  EXPECT_TRUE(until([&] { return one->got.size() == 1; }));
}

TEST_F(SealedTree, ReportsWhatGoesToANodeWithoutTheSecret) {
  restart(one, 81, 80, end_secret);
  ASSERT_TRUE(one->send(97, "no"));
  ASSERT_TRUE(until([&] { return !one->reports.empty(); }));
  EXPECT_EQ(one->reports[0].outcome, errc::not_delivered);
  EXPECT_TRUE(far->got.empty());
}

TEST_F(SealedTree, ReportsWhatComesFromANodeWithoutTheSecret) {
  restart(one, 81, 80, end_secret);
  ASSERT_TRUE(far->send(81, "no"));
  ASSERT_TRUE(until([&] { return !far->reports.empty(); }));
  EXPECT_EQ(far->reports[0].reason, errc::denied);
  EXPECT_TRUE(one->got.empty());
  EXPECT_GE(one->logged("what was not encrypted with the secret"), 1);
}

}  // namespace
}  // namespace atbus::detail
