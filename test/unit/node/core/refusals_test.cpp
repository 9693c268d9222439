#include "node/core/refusals.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "unit/node/core/link_parts_fixture.h"

namespace atbus::detail {
namespace {

class Refusals : public link_parts {
 protected:
  void SetUp() override {
    owed.make_room(2);
    one.registration = 1;
    other.registration = 2;
    use(one);
  }
  // Its messages come on that link from here on.
  void use(session& by) {
    by.of = &of;
    of.in_from = &by;
    ASSERT_TRUE(of.in.announce(std::max<std::uint64_t>(of.in.next(), 1), ++turn));
  }
  static void refuse_words(session& by, errc why) {
    link_of(by).has_room = why == errc::ok;
    link_of(by).refuses_with = why;
  }
  struct word {
    std::uint64_t number;
    std::uint64_t handled;
    bool operator==(const word&) const = default;
  };
  static std::vector<word> said(session& to) {
    std::vector<word> all;
    for (const auto& message : link_of(to).sent) {
      if (turned_away_body body; decode(message, body))
        all.push_back({body.number, body.handled});
    }
    return all;
  }
  using words = std::vector<word>;

  access_control access{node, events};
  peer_table peers{node};
  acknowledgements owed{node, output};
  session_set all{node, listed, events, peers, output, owed, relayed};
  refusals tested{events, access, output, all, owed};
  peer of{2, 0, node.timers};
  session& one = add_session();
  session& other = add_session();
  std::uint64_t turn = 0;
};

TEST_F(Refusals, AcknowledgeTheMessageThatTheySpeakOf) {
  EXPECT_TRUE(tested.turn_away(one, 7, false));
  EXPECT_TRUE(tested.turn_away(one, 7, false));
  EXPECT_EQ(said(one), (words{{1, 1}, {2, 2}}));
  EXPECT_EQ(one.told, 2U);
}

TEST_F(Refusals, WaitForRoom) {
  refuse_words(one, errc::would_block);
  EXPECT_TRUE(tested.turn_away(one, 7, false));
  EXPECT_TRUE(tested.turn_away(one, 7, false));
  EXPECT_EQ(owed.done(one), 0U);
  refuse_words(one, errc::ok);
  tested.tell(one);
  EXPECT_EQ(said(one), (words{{1, 1}, {2, 2}}));
  EXPECT_EQ(owed.done(one), 2U);
}

// Nothing tells when there is memory again, so a word that waited for some would stop its flow.
TEST_F(Refusals, EndALinkThatHasNoMemoryForTheWord) {
  refuse_words(one, errc::out_of_memory);
  EXPECT_FALSE(tested.turn_away(one, 7, false));
  EXPECT_EQ(one.stage, session_stage::dropped);
  EXPECT_EQ(one.handled, 0U);
  EXPECT_EQ(of.in.next(), 1U) << "its sender sends it again";
  EXPECT_FALSE(of.in.owes_words());
}

TEST_F(Refusals, EndALinkThatHasNoMemoryForWordsThatHaveWaited) {
  refuse_words(one, errc::would_block);
  EXPECT_TRUE(tested.turn_away(one, 7, false));
  refuse_words(one, errc::out_of_memory);
  tested.tell(one);
  EXPECT_EQ(one.stage, session_stage::dropped);
  use(other);
  tested.tell(other);
  EXPECT_EQ(said(other), (words{{1, 0}}));
}

TEST_F(Refusals, EndALinkThatDoesNotTakeThem) {
  refuse_words(one, errc::would_block);
  for (std::size_t i = 0; i != refusals::words_max; ++i)
    ASSERT_TRUE(tested.turn_away(one, 7, false));
  EXPECT_FALSE(tested.turn_away(one, 7, false));
  EXPECT_EQ(one.stage, session_stage::dropped);
  EXPECT_EQ(one.handled, refusals::words_max);
  EXPECT_EQ(of.in.next(), refusals::words_max + 1) << "its sender sends it again";
  EXPECT_EQ(of.in.words_owed(), refusals::words_max);
}

// Its sender takes that for a violation.
TEST_F(Refusals, NeverAcknowledgeLessThanBefore) {
  refuse_words(one, errc::would_block);
  EXPECT_TRUE(tested.turn_away(one, 7, false));
  const auto of_a_lost_link = std::exchange(of.in.words(), {});
  use(other);
  EXPECT_TRUE(tested.turn_away(other, 7, false));
  of.in.words() = of_a_lost_link;
  tested.tell(other);
  EXPECT_EQ(said(other), (words{{2, 1}, {1, 1}}));
}

}  // namespace
}  // namespace atbus::detail
