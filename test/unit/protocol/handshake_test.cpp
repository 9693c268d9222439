// Two nodes that make sure of each other.
#include "protocol/handshake.h"

#include <limits>
#include <utility>

#include "handshake_pair.h"
#include "raw_body.h"
#include "test.h"

namespace atbus::detail {
namespace {

constexpr std::string_view old_secret = "the one of last year";
constexpr std::string_view new_secret = "the one of this year";

TEST(Handshake, IsDoneOnBothSidesWhenBothHaveTheToken) {
  handshake_pair pair;
  pair.run();
  EXPECT_TRUE(pair.is_done());
}

TEST(HandshakeBinding, HoldsOverOneEncryptedLinkAndNotOverTwo) {
  const byte_buffer one(32, std::byte{1});
  const byte_buffer another(32, std::byte{2});
  handshake_pair same;
  same.dialling.binding = same.accepting.binding = one;
  same.run();
  EXPECT_TRUE(same.is_done());
  // Someone in the middle of two links, or of an encrypted and a plain one.
  for (const auto& [of_dialling, of_accepting] :
       {std::pair{one, another}, std::pair{one, byte_buffer{}}, std::pair{byte_buffer{}, one}}) {
    handshake_pair pair;
    pair.dialling.binding = of_dialling;
    pair.accepting.binding = of_accepting;
    pair.run();
    EXPECT_FALSE(pair.is_done());
    EXPECT_EQ(pair.second->state(), handshake_state::failed);
    EXPECT_TRUE(pair.second->lacks_proof());
    EXPECT_TRUE(pair.accepting.asked.empty());
  }
}

// The example of doc/design/protocol.md, byte by byte.
TEST(Handshake, HasTheDocumentedBytes) {
  handshake_pair pair;
  pair.dialling = {.self = {.id = 1, .incarnation = 300, .nonce = nonce_of(0)},
                   .tokens = make_tokens("an example token"),
                   .knows = {.session = 1, .last = 7, .sole = true}};
  pair.accepting = {.self = {.id = 2, .incarnation = 70000, .nonce = nonce_of(32)},
                    .tokens = make_tokens("an example token"),
                    .knows = {.session = 4, .last = 1000}};
  pair.accepting.self.addresses = {"shm://b"};
  pair.accepting.self.range_length = 48;
  pair.dialling.self.as = relation::child;
  for (handshake_end* const end : {&pair.dialling, &pair.accepting}) {
    end->self.host.fill(std::byte{0xaa});
    end->self.message_limit = 65536;
  }
  pair.expected = 2;
  pair.run();
  ASSERT_TRUE(pair.is_done());
  EXPECT_EQ(pair.hello, from_hex("01 00 00 00 00 00 00 00"
                                 "8d 01 02 02 02 03 00 04 01 05 cd 01 2c"
                                 "06 c4 20 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f"
                                 "10 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d 1e 1f"
                                 "07 90 08 c4 10 aa aa aa aa aa aa aa aa aa aa aa aa aa aa aa aa"
                                 "09 ce 00 01 00 00 0a 02 0c 00 0d 00 0e 01"));
  EXPECT_EQ(pair.welcome, from_hex("02 00 00 00 00 00 00 00"
                                   "8d 01 02 02 02 03 00 04 02 05 ce 00 01 11 70"
                                   "06 c4 20 20 21 22 23 24 25 26 27 28 29 2a 2b 2c 2d 2e 2f"
                                   "30 31 32 33 34 35 36 37 38 39 3a 3b 3c 3d 3e 3f"
                                   "07 91 a7 73 68 6d 3a 2f 2f 62"
                                   "08 c4 10 aa aa aa aa aa aa aa aa aa aa aa aa aa aa aa aa"
                                   "09 ce 00 01 00 00 0b 02 0c 00 0d 30 0e 02"));
  EXPECT_EQ(pair.proof, from_hex("03 00 00 00 00 00 00 00"
                                 "84 01 01 02 07 03 c3 04 c2"
                                 "ce a8 d8 b6 24 e1 f4 f1 b6 9e 1e 84 bc e6 09 6c"
                                 "13 d2 e1 12 ba a1 0f 2f be 58 28 81 06 16 19 33"));
  EXPECT_EQ(pair.accept, from_hex("04 00 00 00 00 00 00 00"
                                  "84 01 04 02 cd 03 e8 03 c2 04 c2"
                                  "dc 9c 02 39 81 6b 79 cf 93 f3 69 22 b2 12 35 c0"
                                  "2a 8e dc 4f 08 5f eb 71 a5 65 16 8e c8 72 f9 22"));
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

TEST(Handshake, TellsEachSideWhatTheOtherIsToItAndTheRangeOfItsChildren) {
  handshake_pair pair;
  pair.dialling.self.as = relation::child;
  pair.accepting.self.as = relation::sibling;  // who dials says what they are to each other
  pair.accepting.self.range_first = 0x1200;
  pair.accepting.self.range_length = 56;
  pair.run();
  ASSERT_TRUE(pair.is_done());
  EXPECT_EQ(pair.first->peer().as, relation::parent);
  EXPECT_EQ(pair.first->peer().range, *id_range::parse("0x1200/56"));
  EXPECT_EQ(pair.second->peer().as, relation::child);
  EXPECT_EQ(pair.second->peer().range, std::nullopt);
}

TEST(Handshake, RefusesARangeThatIsNone) {
  const struct {
    std::uint64_t first;
    std::uint8_t length;
    std::string_view problem;
  } ranges[] = {{0x1201, 56, "range: "}, {0, 64, "range_length"}, {0, 65, "range: "}};
  for (const auto& [first, length, problem] : ranges) {
    handshake_pair pair;
    pair.dialling.self.range_first = first;
    pair.dialling.self.range_length = length;
    pair.run();
    EXPECT_EQ(pair.second->problem(), errc::protocol_error);
    EXPECT_NE(pair.second->problem().text().find(problem), std::string::npos)
        << pair.second->problem().text();
  }
}

// 0 stands for a node that has not been met yet.
TEST(Handshake, RefusesIncarnation0) {
  for (const bool is_dialling : {true, false}) {
    handshake_pair pair;
    (is_dialling ? pair.dialling : pair.accepting).self.incarnation = 0;
    pair.run();
    const handshake& refuses = is_dialling ? static_cast<handshake&>(*pair.second) : *pair.first;
    EXPECT_EQ(refuses.problem(), errc::protocol_error);
    EXPECT_NE(refuses.problem().text().find("incarnation 0"), std::string::npos)
        << refuses.problem().text();
  }
}

// No node has such a limit, and nothing could be said to it.
TEST(Handshake, RefusesALimitThatLetsNoMessageThrough) {
  for (const bool is_dialling : {true, false}) {
    handshake_pair pair;
    (is_dialling ? pair.dialling : pair.accepting).self.message_limit = 0;
    pair.run();
    const handshake& refuses = is_dialling ? static_cast<handshake&>(*pair.second) : *pair.first;
    EXPECT_EQ(refuses.problem(), errc::protocol_error);
    EXPECT_NE(refuses.problem().text().find("message_limit"), std::string::npos)
        << refuses.problem().text();
  }
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

// As when a link over other nodes is open at two lives of the acceptor.
TEST(Handshake, TakesNoProofForTheWelcomeOfAnotherIncarnation) {
  for (const bool with_tokens : {true, false}) {
    handshake_pair pair;
    if (!with_tokens) {
      pair.dialling.tokens.clear();
      pair.accepting.tokens.clear();
    }
    pair.run(2);
    handshake_end later{.self = introduction_of(2, 0x50), .tokens = {}, .knows = {}};
    later.self.incarnation += 1;
    const token_list tokens = with_tokens ? make_tokens("0123456789abcdef") : token_list{};
    handshake_acceptor other{later.self, tokens, later.admit()};
    (void)other.receive(pair.hello);
    EXPECT_EQ(other.receive(pair.proof).state, handshake_state::failed);
    EXPECT_EQ(other.problem(), errc::denied);
    EXPECT_TRUE(later.asked.empty());
  }
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
  pair.dialling.self.version_min = 1;
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
  const byte_buffer later = raw({0xff, 1, 2, 3, 4, 5, 6, 7, 8});
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
