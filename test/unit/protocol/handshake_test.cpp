// Two nodes that make sure of each other.
#include "protocol/handshake.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "handshake_pair.h"
#include "raw_body.h"

namespace atbus::detail {
namespace {

constexpr std::string_view old_secret = "the one of last year";
constexpr std::string_view new_secret = "the one of this year";

TEST(Handshake, IsDoneOnBothSidesWhenBothHaveTheToken) {
  handshake_pair pair;
  pair.run();
  EXPECT_TRUE(pair.is_done());
}

TEST(Handshake, TellsEachSideWhoTheOtherIs) {
  handshake_pair pair;
  pair.dialling.self.capabilities = 6;
  pair.accepting.self.message_limit = 1;
  pair.run();
  const peer_identity& accepting = pair.first->peer();
  EXPECT_EQ(accepting.id, 2);
  EXPECT_EQ(accepting.incarnation, 1002U);
  EXPECT_EQ(accepting.version, protocol_version);
  EXPECT_EQ(accepting.capabilities, 2U) << "what both have";
  EXPECT_EQ(accepting.addresses, pair.accepting.self.addresses);
  EXPECT_EQ(accepting.host, pair.accepting.self.host);
  EXPECT_EQ(accepting.message_limit, 1U);
  EXPECT_TRUE(accepting.by_token);
  const peer_identity& dialling = pair.second->peer();
  EXPECT_EQ(dialling.id, 1);
  EXPECT_EQ(dialling.incarnation, 1001U);
  EXPECT_EQ(dialling.capabilities, 2U);
  EXPECT_EQ(dialling.message_limit, 65536U);
  EXPECT_TRUE(dialling.by_token);
}

TEST(Handshake, TellsEachSideHowFarTheOtherHasComeWithItsFlow) {
  handshake_pair pair;
  pair.run();
  EXPECT_EQ(pair.first->resume(), pair.accepting.knows);
  EXPECT_EQ(pair.second->resume(), pair.dialling.knows);
}

TEST(Handshake, AsksOnceOnEachSideWhetherThePeerIsWanted) {
  handshake_pair pair;
  pair.run();
  ASSERT_EQ(pair.dialling.asked.size(), 1U);
  EXPECT_EQ(pair.dialling.asked[0].id, 2);
  ASSERT_EQ(pair.accepting.asked.size(), 1U);
  EXPECT_EQ(pair.accepting.asked[0].id, 1);
  EXPECT_EQ(pair.accepting.asked[0].addresses, pair.dialling.self.addresses);
}

TEST(Handshake, FailsOnBothSidesWhenTheAcceptorDoesNotWantThePeer) {
  handshake_pair pair;
  pair.accepting.unwanted = {errc::superseded, "node 1 lives elsewhere"};
  pair.run();
  EXPECT_EQ(pair.second->state(), handshake_state::failed);
  EXPECT_EQ(pair.second->problem(), errc::superseded);
  const handshake_step last = pair.first->receive(pair.accept);
  EXPECT_EQ(last.state, handshake_state::failed);
  EXPECT_TRUE(last.send.empty());
  EXPECT_EQ(pair.first->problem(), errc::superseded);
  EXPECT_NE(pair.first->problem().text().find("'node 1 lives elsewhere'"), std::string::npos);
}

TEST(Handshake, FailsOnBothSidesWhenTheInitiatorDoesNotWantThePeer) {
  handshake_pair pair;
  pair.dialling.unwanted = {errc::denied, "tokens are needed"};
  pair.run();
  EXPECT_EQ(pair.first->state(), handshake_state::failed);
  EXPECT_EQ(pair.second->receive(pair.proof).state, handshake_state::failed);
  EXPECT_EQ(pair.second->problem(), errc::denied);
  EXPECT_TRUE(pair.accepting.asked.empty());
}

TEST(Handshake, IsDoneWithoutTokensIfNeitherSideHasAny) {
  handshake_pair pair;
  pair.dialling.tokens.clear();
  pair.accepting.tokens.clear();
  pair.run();
  EXPECT_TRUE(pair.is_done());
  EXPECT_FALSE(pair.dialling.asked.at(0).by_token);
  EXPECT_FALSE(pair.accepting.asked.at(0).by_token);
}

TEST(Handshake, TakesAnyTokenOfTheAcceptorSoThatTokensCanBeReplaced) {
  for (const bool dialling_is_first : {false, true}) {
    handshake_pair pair;
    token_list& replaced = dialling_is_first ? pair.dialling.tokens : pair.accepting.tokens;
    token_list& waiting = dialling_is_first ? pair.accepting.tokens : pair.dialling.tokens;
    // Who is replaced first proves itself with the new one, and the others know both already.
    replaced = make_tokens(new_secret, old_secret);
    waiting = dialling_is_first ? make_tokens(old_secret, new_secret) : make_tokens(old_secret);
    pair.run();
    EXPECT_TRUE(pair.is_done());
  }
}

TEST(Handshake, UsesTheHighestVersionThatBothSpeak) {
  handshake_pair pair;
  pair.dialling.self.version_max = 5;
  pair.accepting.self.version_min = 2;
  pair.accepting.self.version_max = 9;
  pair.run();
  ASSERT_TRUE(pair.is_done());
  EXPECT_EQ(pair.first->peer().version, 5);
  EXPECT_EQ(pair.second->peer().version, 5);
}

TEST(Handshake, NamesBothRangesWhenThereIsNoCommonVersion) {
  handshake_pair pair;
  pair.dialling.self.version_max = 2;
  pair.accepting.self.version_min = 3;
  pair.accepting.self.version_max = 4;
  pair.run();
  ASSERT_EQ(pair.first->receive(pair.welcome).state, handshake_state::failed);
  for (const error& problem : {pair.first->problem(), pair.second->problem()}) {
    EXPECT_EQ(problem, errc::version_mismatch);
    EXPECT_NE(problem.text().find("1 to 2"), std::string::npos) << problem.text();
    EXPECT_NE(problem.text().find("3 to 4"), std::string::npos) << problem.text();
  }
}

TEST(Handshake, ReachesTheNodeThatWasDialledOrNone) {
  handshake_pair right;
  right.expected = 2;
  right.run();
  EXPECT_TRUE(right.is_done());
  handshake_pair wrong;
  wrong.expected = 3;
  wrong.run();
  EXPECT_EQ(wrong.second->problem(), errc::not_found);
  EXPECT_EQ(wrong.first->receive(wrong.welcome).state, handshake_state::failed);
  EXPECT_EQ(wrong.first->problem(), errc::not_found);
}

TEST(Handshake, LetsTemporaryNodesWithoutAnIdMeet) {
  handshake_pair pair;
  pair.dialling.self.id = 0;
  pair.accepting.self.id = 0;
  pair.run();
  EXPECT_TRUE(pair.is_done());
}

TEST(Handshake, PassesOverMessagesOfLaterVersions) {
  handshake_pair pair;
  pair.hello = copy_of(pair.begin().send);
  const byte_buffer later = raw({0x80, 1, 2, 3, 4, 5, 6, 7, 8});
  const handshake_step step = pair.second->receive(later);
  EXPECT_EQ(step.state, handshake_state::going_on);
  EXPECT_TRUE(step.send.empty());
  pair.welcome = copy_of(pair.second->receive(pair.hello).send);
  EXPECT_EQ(pair.first->receive(later).state, handshake_state::going_on);
  pair.proof = copy_of(pair.first->receive(pair.welcome).send);
  pair.accept = copy_of(pair.second->receive(pair.proof).send);
  EXPECT_EQ(pair.first->receive(pair.accept).state, handshake_state::done);
  EXPECT_EQ(pair.first->receive(later).state, handshake_state::done);
}

TEST(Handshake, EndsWithTheFirstRefusalAndSaysItOnce) {
  handshake_pair pair;
  pair.hello = copy_of(pair.begin().send);
  const handshake_step refused = pair.second->receive(raw({0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(refused.state, handshake_state::failed);
  refuse_body said;
  ASSERT_TRUE(decode(refused.send, said));
  EXPECT_EQ(said.reason, errc::protocol_error);
  for (int i = 0; i < 3; ++i) {
    const handshake_step after = pair.second->receive(pair.hello);
    EXPECT_EQ(after.state, handshake_state::failed);
    EXPECT_TRUE(after.send.empty());
  }
}

TEST(Handshake, MakesNoCodeOfAReasonThatIsNone) {
  for (const std::uint16_t reason : {std::uint16_t{0}, std::uint16_t{0xffff}}) {
    handshake_pair pair;
    pair.begin();
    byte_buffer refusal;
    encode(refuse_body{.reason = static_cast<errc>(reason), .text = "\x1b[31m\n"}, refusal);
    EXPECT_EQ(pair.first->receive(refusal).state, handshake_state::failed);
    EXPECT_EQ(pair.first->problem(), errc::protocol_error);
    EXPECT_NE(pair.first->problem().text().find("'\\x1b[31m\\x0a'"), std::string::npos);
  }
}

}  // namespace
}  // namespace atbus::detail
