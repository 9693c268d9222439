// Peers that want to be taken for somebody else, or to learn something, or to get a handshake out of
// step.
#include "handshake_pair.h"
#include "protocol/handshake.h"
#include "raw_body.h"
#include "test.h"

namespace atbus::detail {
namespace {

constexpr std::string_view wrong_secret = "0123456789abcdeg";

refuse_body refusal_in(bytes_view message) {
  refuse_body refusal{.reason = errc::ok, .text = {}};
  const error problem = decode(message, refusal);
  EXPECT_TRUE(problem) << problem.text();
  return refusal;
}

template <class Body>
byte_buffer encoded(const Body& body) {
  byte_buffer message;
  encode(body, message);
  return message;
}

// One message of every kind, as good as it can be without having been part of the handshake.
std::vector<byte_buffer> one_of_each_kind() {
  handshake_pair other;
  other.run();
  return {raw({0, 0, 0, 0, 1, 0, 0, 0, 'd', 'a', 't', 'a'}),
          other.hello,
          other.welcome,
          other.proof,
          other.accept,
          encoded(refuse_body{}),
          encoded(acknowledge_body{}),
          encoded(ping_body{}),
          encoded(pong_body{}),
          encoded(flow_body{}),
          encoded(bye_body{}),
          encoded(addresses_body{}),
          raw({12, 0, 0, 0, 0, 0, 0, 0}),
          raw({13, 0, 0, 0, 0, 0, 0, 0}),
          encoded(where_body{}),
          encoded(found_body{}),
          encoded(cancel_body{}),
          encoded(in_hand_body{}),
          encoded(turned_away_body{})};
}

void expect_refused(handshake& by, const byte_buffer& message, const std::string& where) {
  const handshake_step step = by.receive(message);
  EXPECT_EQ(step.state, handshake_state::failed) << where;
  EXPECT_EQ(refusal_in(step.send).reason, errc::protocol_error) << where;
  EXPECT_EQ(by.problem(), errc::protocol_error) << where;
}

TEST(HandshakeAttack, EachKindIsRefusedInEachStateWhereItDoesNotBelong) {
  const auto messages = one_of_each_kind();
  ASSERT_EQ(messages.size(), message_kind_count + 5);  // and those that have the high bit
  for (const byte_buffer& message : messages) {
    const auto kind = static_cast<message_kind>(message[0]);
    if (kind == message_kind::refuse)
      continue;
    const std::string name{atbus::detail::name(kind)};
    struct place {
      std::size_t messages;
      bool at_acceptor;
      message_kind awaited;
    };
    for (const place at :
         {place{0, true, message_kind::hello}, place{1, true, message_kind::proof},
          place{3, true, message_kind::data}, place{0, false, message_kind::welcome},
          place{2, false, message_kind::accept}, place{4, false, message_kind::data}}) {
      // Once done nothing belongs there, data neither: it is the node's from then on.
      if (kind == at.awaited && at.awaited != message_kind::data)
        continue;
      handshake_pair pair;
      pair.run(at.messages);
      expect_refused(pair.reader_of(at.at_acceptor ? 0 : 1), message,
                     name + " after " + std::to_string(at.messages));
    }
  }
}

TEST(HandshakeAttack, AnInitiatorThatHasSaidNothingTakesNoAnswer) {
  handshake_pair pair;
  pair.run(1);
  handshake_initiator silent{pair.dialling.self, 0, pair.dialling.tokens, pair.dialling.admit()};
  expect_refused(silent, pair.welcome, "not started");
}

TEST(HandshakeAttack, ARefusalEndsItInEveryStateWithoutAnAnswer) {
  const byte_buffer refusal = encoded(refuse_body{.reason = errc::denied, .text = "no"});
  for (std::size_t messages = 0; messages <= 4; ++messages) {
    handshake_pair pair;
    pair.run(messages);
    for (const std::size_t which : {0U, 1U}) {
      handshake& by = pair.reader_of(which);
      const handshake_step step = by.receive(refusal);
      EXPECT_EQ(step.state, handshake_state::failed);
      EXPECT_TRUE(step.send.empty());
      EXPECT_EQ(by.problem(), errc::denied);
    }
  }
}

TEST(HandshakeAttack, AWrongTokenIsDeniedWithoutAHint) {
  handshake_pair pair;
  pair.dialling.tokens = make_tokens(wrong_secret);
  pair.run();
  EXPECT_EQ(pair.second->state(), handshake_state::failed);
  EXPECT_EQ(pair.second->problem(), errc::denied);
  EXPECT_EQ(refusal_in(pair.accept), (refuse_body{.reason = errc::denied, .text = {}}));
  EXPECT_TRUE(pair.accepting.asked.empty()) << "it was asked about a peer that proved nothing";
}

TEST(HandshakeAttack, OneSideWithoutTokensIsDeniedAsIfItsTokenWereWrong) {
  for (const bool dialling_has_one : {false, true}) {
    handshake_pair pair;
    (dialling_has_one ? pair.accepting : pair.dialling).tokens.clear();
    pair.run();
    EXPECT_EQ(pair.second->state(), handshake_state::failed);
    EXPECT_EQ(refusal_in(pair.accept), (refuse_body{.reason = errc::denied, .text = {}}));
    EXPECT_TRUE(pair.accepting.asked.empty());
  }
}

TEST(HandshakeAttack, AnAcceptorWithoutTheTokenIsDenied) {
  for (const bool has_another : {false, true}) {
    handshake_pair pair;
    pair.run(2);
    // It can say what it likes; here it takes the proof for good.
    message_mac mac{};
    if (has_another)
      mac = hmac_sha256(as_bytes(wrong_secret), {as_bytes("atbus acceptor v1")}).value();
    const handshake_step step =
        pair.first->receive(encoded(accept_body{.resume = {.session = 1}, .mac = mac}));
    EXPECT_EQ(step.state, handshake_state::failed);
    EXPECT_EQ(refusal_in(step.send), (refuse_body{.reason = errc::denied, .text = {}}));
  }
}

byte_buffer said(bytes_view message) {
  byte_buffer length = big_endian(0, message.size(), 4);
  return joined({raw({std::to_integer<int>(length[4]), std::to_integer<int>(length[3]),
                      std::to_integer<int>(length[2]), std::to_integer<int>(length[1])}),
                 message});
}

// As the page says, for an answer to the proof.
byte_buffer accept_with(std::string_view secret, const handshake_pair& pair) {
  accept_body body{.resume = {.session = 1}};
  const byte_buffer entry = said(encoded(body));
  body.mac =
      hmac_sha256(as_bytes(secret),
                  {as_bytes("atbus acceptor v1"), raw({0}), said(pair.hello), said(pair.welcome),
                   said(pair.proof), bytes_view{entry}.first(entry.size() - body.mac.size())})
          .value();
  return encoded(body);
}

TEST(HandshakeAttack, AnAcceptorIsDeniedThatHasAnotherTokenOfOursThanTheOneItWasShown) {
  for (const std::string_view secret : {wrong_secret, std::string_view{"0123456789abcdef"}}) {
    handshake_pair pair;
    pair.dialling.tokens = make_tokens("0123456789abcdef", wrong_secret);
    pair.run(2);
    const bool denied = secret == wrong_secret;
    EXPECT_EQ(pair.first->receive(accept_with(secret, pair)).state,
              denied ? handshake_state::failed : handshake_state::done);
    EXPECT_EQ(pair.first->problem(), denied ? errc::denied : errc::ok);
  }
}

TEST(HandshakeAttack, ARecordedHandshakeIsOfNoUseToAFreshAcceptor) {
  handshake_pair recorded;
  recorded.run();
  ASSERT_TRUE(recorded.is_done());
  // The same node later or after a restart: all that is new is its nonce.
  handshake_end later{.self = introduction_of(2, 0x90),
                      .tokens = make_tokens("0123456789abcdef"),
                      .knows = {.session = 5, .last = 10}};
  handshake_acceptor fresh{later.self, later.tokens, later.admit()};
  EXPECT_EQ(fresh.receive(recorded.hello).state, handshake_state::going_on);
  const handshake_step step = fresh.receive(recorded.proof);
  EXPECT_EQ(step.state, handshake_state::failed);
  EXPECT_EQ(refusal_in(step.send).reason, errc::denied);
  EXPECT_TRUE(later.asked.empty());
}

TEST(HandshakeAttack, ARecordedHandshakeIsOfNoUseToAFreshInitiator) {
  handshake_pair recorded;
  recorded.run();
  handshake_end later{.self = introduction_of(1, 0x20),
                      .tokens = make_tokens("0123456789abcdef"),
                      .knows = {.session = 3, .last = 20}};
  handshake_initiator fresh{later.self, 0, later.tokens, later.admit()};
  static_cast<void>(fresh.start());
  EXPECT_EQ(fresh.receive(recorded.welcome).state, handshake_state::going_on);
  const handshake_step step = fresh.receive(recorded.accept);
  EXPECT_EQ(step.state, handshake_state::failed);
  EXPECT_EQ(refusal_in(step.send).reason, errc::denied);
}

TEST(HandshakeAttack, ANodeDoesNotShakeHandsWithItsOwnWords) {
  handshake_pair pair;
  const byte_buffer hello = copy_of(pair.begin().send);
  // An echo, with the kind changed so that it belongs there.
  introduction own = pair.dialling.self;
  own.id = 7;
  const handshake_step step =
      pair.first->receive(encoded(welcome_body{.self = own, .version = protocol_version}));
  EXPECT_EQ(step.state, handshake_state::failed);
  EXPECT_EQ(pair.first->problem(), errc::protocol_error);
  EXPECT_NE(pair.first->problem().text().find("own nonce"), std::string::npos);
  introduction of_acceptor = pair.accepting.self;
  of_acceptor.id = 7;
  EXPECT_EQ(pair.second->receive(encoded(hello_body{.self = of_acceptor, .expected = {}})).state,
            handshake_state::failed);
  EXPECT_NE(pair.second->problem().text().find("own nonce"), std::string::npos);
}

TEST(HandshakeAttack, NobodyTakesTheIdOfTheNodeItTalksTo) {
  handshake_pair pair;
  pair.dialling.self.id = 2;
  pair.run();
  EXPECT_EQ(pair.second->problem(), errc::denied);
  handshake_pair other;
  other.run(1);
  const handshake_step step = other.first->receive(
      encoded(welcome_body{.self = introduction_of(1, 0x80), .version = protocol_version}));
  EXPECT_EQ(step.state, handshake_state::failed);
  EXPECT_EQ(other.first->problem(), errc::denied);
}

// Who has no token, but a node that has: it dials the node and is dialled by it at once, and hands the
// messages of one handshake to the other.
TEST(HandshakeAttack, TheProofOfOneRoleIsNoneInTheOther) {
  handshake_end node{.self = introduction_of(1, 0x10),
                     .tokens = make_tokens("0123456789abcdef"),
                     .knows = {.session = 1, .last = 0}};
  handshake_initiator dialling{node.self, 0, node.tokens, node.admit()};
  introduction listening = node.self;
  listening.nonce = nonce_of(0x50);
  handshake_acceptor accepting{listening, node.tokens, node.admit()};
  // As 9 it repeats the nonces of each to the other.
  introduction nine = introduction_of(9, 0);
  const hello_body hello{.self = node.self, .expected = 0};
  static_cast<void>(dialling.start());
  nine.nonce = hello.self.nonce;
  const byte_buffer welcome =
      copy_of(accepting.receive(encoded(hello_body{.self = nine, .expected = {}})).send);
  nine.nonce = listening.nonce;
  const byte_buffer proof = copy_of(
      dialling.receive(encoded(welcome_body{.self = nine, .version = protocol_version})).send);
  ASSERT_FALSE(welcome.empty() || proof.empty());
  // The proof it got, shown to the other one; and shown back as an accept.
  EXPECT_EQ(accepting.receive(proof).state, handshake_state::failed);
  EXPECT_EQ(accepting.problem(), errc::denied);
  byte_buffer as_accept = proof;
  as_accept[0] = static_cast<std::byte>(message_kind::accept);
  EXPECT_EQ(dialling.receive(as_accept).state, handshake_state::failed);
  EXPECT_EQ(dialling.problem(), errc::denied);
}

// Whoever sits in between may change any bit of any message: both ends never come to different ends,
// and what they are done with is what was said.
TEST(HandshakeAttack, EveryByteThatIsChangedOnTheWayIsNoticed) {
  handshake_pair clean;
  clean.run();
  const std::vector<byte_buffer> said{clean.hello, clean.welcome, clean.proof, clean.accept};
  for (std::size_t which = 0; which < said.size(); ++which) {
    for (std::size_t at = 0; at < said[which].size(); ++at) {
      for (const int bit : {1, 2, 0x10, 0x80}) {
        handshake_pair pair;
        byte_buffer next = copy_of(pair.begin().send);
        for (std::size_t i = 0; i < said.size() && !next.empty(); ++i) {
          if (i == which)
            next[at] ^= static_cast<std::byte>(bit);
          handshake& to = pair.reader_of(i);
          next = copy_of(to.receive(next).send);
          if (to.state() == handshake_state::failed)
            next.clear();
        }
        EXPECT_NE(pair.first->state(), handshake_state::done) << which << " byte " << at;
        // The last message is its last word: it can't know that it did not arrive.
        EXPECT_EQ(pair.second->state() == handshake_state::done, which == 3)
            << which << " byte " << at;
      }
    }
  }
}

TEST(HandshakeAttack, AVersionIsNotTalkedDown) {
  handshake_pair pair;
  pair.dialling.self.version_min = 1;
  pair.dialling.self.version_max = 3;
  pair.accepting.self.version_min = 1;
  pair.accepting.self.version_max = 3;
  static_cast<void>(pair.begin());
  const handshake_step step =
      pair.first->receive(encoded(welcome_body{.self = pair.accepting.self, .version = 2}));
  EXPECT_EQ(step.state, handshake_state::failed);
  EXPECT_EQ(pair.first->problem(), errc::protocol_error);
  // Nor by changing what the other end says that it speaks: that is proven at the end.
  handshake_pair other;
  other.dialling.self.version_min = 1;
  other.dialling.self.version_max = 3;
  other.accepting.self.version_min = 1;
  other.accepting.self.version_max = 3;
  static_cast<void>(other.begin());
  introduction less = other.dialling.self;
  less.version_max = 1;
  const byte_buffer welcome =
      copy_of(other.second->receive(encoded(hello_body{.self = less, .expected = {}})).send);
  introduction agreed = other.accepting.self;
  agreed.version_max = 1;
  const byte_buffer proof =
      copy_of(other.first->receive(encoded(welcome_body{.self = agreed, .version = 1})).send);
  ASSERT_FALSE(welcome.empty() || proof.empty());
  EXPECT_EQ(other.second->receive(proof).state, handshake_state::failed);
  EXPECT_EQ(other.second->problem(), errc::denied);
}

TEST(HandshakeAttack, WhoIsDialledAsAParentAnswersAsOne) {
  for (const relation as : {relation::peer, relation::child, relation::sibling}) {
    handshake_pair pair;
    pair.dialling.self.as = relation::child;
    static_cast<void>(pair.begin());
    introduction other = pair.accepting.self;
    other.as = as;
    const handshake_step step =
        pair.first->receive(encoded(welcome_body{.self = other, .version = protocol_version}));
    EXPECT_EQ(refusal_in(step.send).reason, errc::protocol_error);
    EXPECT_NE(pair.first->problem().text().find("dialled as a parent"), std::string::npos);
    EXPECT_TRUE(pair.dialling.asked.empty());
  }
}

TEST(HandshakeAttack, VersionsThatAreNoRangeAreRefused) {
  for (const auto& [least, most] : {std::pair{0, 0}, {0, 1}, {2, 1}}) {
    handshake_pair pair;
    pair.run(0);
    introduction self = pair.dialling.self;
    self.version_min = static_cast<std::uint16_t>(least);
    self.version_max = static_cast<std::uint16_t>(most);
    expect_refused(*pair.second, encoded(hello_body{.self = self, .expected = {}}), "hello");
    expect_refused(*pair.first, encoded(welcome_body{.self = self, .version = protocol_version}),
                   "welcome");
  }
}

TEST(HandshakeAttack, ASessionThatIsNoneIsRefused) {
  handshake_pair pair;
  pair.dialling.knows.session = 0;
  pair.run();
  EXPECT_EQ(pair.second->problem(), errc::protocol_error);
  handshake_pair other;
  other.accepting.knows.session = 0;
  other.run();
  EXPECT_EQ(other.first->problem(), errc::protocol_error);
}

TEST(HandshakeAttack, AnotherNodeThanTheOneDialledIsRefusedByTheInitiator) {
  handshake_pair pair;
  pair.expected = 3;
  static_cast<void>(pair.begin());
  const handshake_step step = pair.first->receive(
      encoded(welcome_body{.self = pair.accepting.self, .version = protocol_version}));
  EXPECT_EQ(refusal_in(step.send).reason, errc::not_found);
  EXPECT_TRUE(pair.dialling.asked.empty());
}

TEST(HandshakeAttack, OtherProtocolsAreRefused) {
  for (const std::string_view text :
       {"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x01\x01\xfc\x03\x03", "", "x"}) {
    handshake_pair pair;
    pair.run(0);
    const handshake_step step = pair.second->receive(as_bytes(text));
    EXPECT_EQ(step.state, handshake_state::failed);
    EXPECT_EQ(pair.second->problem(), errc::protocol_error);
  }
}

}  // namespace
}  // namespace atbus::detail
