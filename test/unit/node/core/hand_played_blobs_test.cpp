// What a node does with blobs of a peer that is played by hand, whom nothing holds to the rules.
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "protocol/blob_body.h"
#include "unit/node/core/blobs_fixture.h"

namespace atbus::detail {
namespace {

// A peer that says what it likes.
class HandPlayedBlobs : public Blobs {
 protected:
  void register_peer() {
    ASSERT_TRUE(net.run_until([&] { return peer.is_registered(); }, 5s));
    net.run_for(5ms);
    peer.say(flow_body{.next = 1, .before = 0, .turn = 1});
  }
  void say(unsigned flags, const blob_head& head, bytes_view rest = {}) {
    byte_buffer made(message_head_size + blob_head_size);
    encode(message_head{message_kind::data, static_cast<std::uint8_t>(flags), 0, wanted_type},
           made.data());
    encode_blob(made.data() + message_head_size, head);
    made.insert(made.end(), rest.begin(), rest.end());
    peer.say_bytes(made);
    net.run_for(5ms);
  }
  void begin(std::uint64_t size, std::uint64_t number = 5) {
    say(flags_blob, {.number = number, .step = blob_step::begin, .value = size});
  }
  void chunk(std::uint64_t position, std::size_t size, std::uint64_t number = 5) {
    const byte_buffer bytes(size);
    say(flags_blob, {.number = number, .step = blob_step::chunk, .value = position}, bytes);
  }
  void grant(std::uint64_t number, std::uint64_t taken, std::uint64_t limit) {
    std::array<std::byte, 8> rest{};
    store_little_endian(rest.data(), limit);
    say(flags_blob | flag_reply, {.number = number, .step = blob_step::grant, .value = taken},
        rest);
  }
  // What it was told of blobs, and forgets.
  std::vector<blob_head> heard_by_peer() { return heard_by(peer); }
  static std::vector<blob_head> heard_by(hand_played& whom) {
    std::vector<blob_head> all;
    for (const byte_buffer& message : whom.got) {
      message_head head;
      blob_head of;
      if (decode(message, head) == head_fault::none && head.kind == message_kind::data &&
          is_blob(head.flags) && decode_blob(payload_of(message), of))
        all.push_back(of);
    }
    whom.got.clear();
    return all;
  }
  void expect_end(errc how) {
    const std::vector<blob_head> all = heard_by_peer();
    ASSERT_FALSE(all.empty());
    EXPECT_EQ(all.back().step, blob_step::end);
    EXPECT_EQ(all.back().status, how) << name(all.back().status);
    EXPECT_TRUE(peer.is_open());
    EXPECT_EQ(two.core().stats().violations, 0U);
  }
  // Node 2 sends it a blob. Returns its number.
  std::uint64_t send_to_peer(std::string_view bytes, told& outcome) {
    EXPECT_TRUE(
        two.node.user().send_blob(9, wanted_type, {nullptr, as_bytes(bytes)}, outcome.write()));
    two.node.wake();
    net.run_for(5ms);
    const std::vector<blob_head> all = heard_by_peer();
    EXPECT_FALSE(all.empty());
    return all.empty() ? 0 : all.back().number;
  }

  hand_played peer{net,  9,    2,
                   true, true, [](introduction& self) { self.capabilities = capability_blobs; }};
};

TEST_F(HandPlayedBlobs, GetAWindowOfCredit) {
  register_peer();
  begin(1000000);
  const std::vector<blob_head> all = heard_by_peer();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].step, blob_step::grant);
  chunk(0, 500);
  EXPECT_EQ(got.bytes.size(), 500U);
}

TEST_F(HandPlayedBlobs, ChunksOutOfOrderEndTheBlob) {
  register_peer();
  begin(1000);
  chunk(0, 10);
  chunk(11, 10);
  expect_end(errc::protocol_error);
  EXPECT_EQ(got.ends, 1);
  EXPECT_EQ(got.how.code(), errc::protocol_error);
  chunk(10, 10);
  EXPECT_EQ(got.bytes.size(), 10U) << "nothing is told after the end";
}

TEST_F(HandPlayedBlobs, MoreThanTheSizeThatWasSaidEndsTheBlob) {
  register_peer();
  begin(10);
  chunk(0, 11);
  expect_end(errc::protocol_error);
  EXPECT_TRUE(got.bytes.empty());
}

TEST_F(HandPlayedBlobs, MoreThanWasGrantedEndsTheBlob) {
  register_peer();
  on_part = [](const blob_part& part) { part.pause(); };
  begin(1000000);
  std::uint64_t sent = 0;
  for (; sent + 500 <= window; sent += 500)
    chunk(sent, 500);
  EXPECT_EQ(got.bytes.size(), sent);
  EXPECT_EQ(got.ends, 0);
  chunk(sent, 500);
  expect_end(errc::protocol_error);
  EXPECT_EQ(got.bytes.size(), sent);
}

TEST_F(HandPlayedBlobs, ASizeThatCannotBeIsRefused) {
  register_peer();
  begin(std::numeric_limits<std::uint64_t>::max());
  expect_end(errc::protocol_error);
  EXPECT_EQ(begun, 0);
}

TEST_F(HandPlayedBlobs, ASecondBeginningEndsTheBlob) {
  register_peer();
  begin(1000);
  begin(1000);
  expect_end(errc::protocol_error);
  EXPECT_EQ(begun, 1);
  EXPECT_EQ(got.ends, 1);
}

TEST_F(HandPlayedBlobs, TooManyAtOnceAreRefused) {
  register_peer();
  for (std::uint64_t number = 1; number != 65; ++number)
    begin(1000, number);
  EXPECT_EQ(begun, 64);
  (void)heard_by_peer();
  begin(1000, 65);
  expect_end(errc::would_block);
  EXPECT_EQ(begun, 64);
  // There is room again when one is over.
  say(flags_blob, {.number = 1, .step = blob_step::end, .status = errc::cancelled});
  begin(1000, 66);
  EXPECT_EQ(begun, 65);
}

TEST_F(HandPlayedBlobs, PartsOfUnknownBlobsAreDroppedWithoutAnAnswer) {
  register_peer();
  chunk(0, 10, 77);
  say(flags_blob, {.number = 77, .step = blob_step::end, .status = errc::cancelled});
  grant(77, 0, 10);
  say(flags_blob | flag_reply, {.number = 77, .step = blob_step::end});
  EXPECT_TRUE(heard_by_peer().empty());
  EXPECT_TRUE(peer.is_open());
  EXPECT_EQ(two.core().stats().violations, 0U);
}

TEST_F(HandPlayedBlobs, AQuestionAboutAnUnknownOneIsAnswered) {
  register_peer();
  say(flags_blob, {.number = 77, .step = blob_step::query});
  expect_end(errc::not_found);
  say(flags_blob | flag_reply, {.number = 77, .step = blob_step::query});
  expect_end(errc::peer_closed);
}

TEST_F(HandPlayedBlobs, APartThatCannotBeReadEndsTheLink) {
  register_peer();
  say(flags_blob, {.number = 5, .step = static_cast<blob_step>(9)});
  EXPECT_EQ(two.core().stats().violations, 1U);
}

TEST_F(HandPlayedBlobs, AGrantBeyondTheSizeEndsTheBlob) {
  register_peer();
  told outcome;
  const std::uint64_t number = send_to_peer("some bytes", outcome);
  grant(number, 0, 11);
  net.run_for(5ms);
  expect(outcome, errc::protocol_error);
  expect_end(errc::protocol_error);
}

TEST_F(Blobs, AreNotSentToANodeThatDoesNotKnowThem) {
  told held;
  one.connect(9);
  ASSERT_TRUE(send("x", held, 9));  // nobody knows yet
  hand_played old{net, 9, 1, true};
  ASSERT_TRUE(net.run_until([&] { return old.is_registered(); }, 5s));
  net.run_for(5ms);
  expect(held, errc::not_supported);
  told later;
  EXPECT_EQ(send("x", later, 9).why().code(), errc::not_supported);
  net.run_for(5ms);
  EXPECT_TRUE(old.is_open());
  EXPECT_EQ(old.heard(message_kind::data), 0);
}

// What is sent again first when a peer comes back with a limit of a byte is the beginning of another blob, which ends.
TEST_F(HandPlayedBlobs, AnEndThatEndsOthersIsNoEndOfTheNode) {
  const auto introduce = [](std::uint64_t incarnation, std::uint64_t limit) {
    return [=](introduction& self) {
      self.capabilities = capability_blobs;
      self.incarnation = incarnation;
      self.message_limit = limit;
    };
  };
  std::optional<hand_played> liar;
  liar.emplace(net, 8, 2, true, true, introduce(77, 1024));
  ASSERT_TRUE(net.run_until([&] { return liar->is_registered(); }, 5s));
  net.run_for(5ms);
  liar->say(flow_body{.next = 1, .before = 0, .turn = 1});
  const auto send_to_it = [&](told& to) {
    EXPECT_TRUE(two.node.user().send_blob(
        8, wanted_type, {nullptr, as_bytes(std::string_view{"bytes"})}, to.write()));
    two.node.wake();
  };
  std::array<told, 4> outcomes;
  send_to_it(outcomes[0]);
  net.run_for(5ms);
  const std::vector<blob_head> first = heard_by(*liar);
  ASSERT_EQ(first.size(), 1U);
  net.conditions.queue_size = 2000;
  net.conditions.kernel_holds = 1000;
  liar->stop_reading();
  for (int i = 0; i != 200; ++i)
    ASSERT_TRUE(two.send(8, std::string(1000, 'm')));
  for (std::size_t i = 1; i != outcomes.size(); ++i)
    send_to_it(outcomes.at(i));
  two.node.wake();
  net.run_for(5ms);
  byte_buffer query(message_head_size + blob_head_size);
  encode(message_head{message_kind::data, flags_blob | flag_reply, 0, wanted_type}, query.data());
  encode_blob(query.data() + message_head_size,
              {.number = first[0].number + 1, .step = blob_step::query});
  liar->say_bytes(query);
  net.run_for(5ms);
  liar.emplace(net, 8, 2, true, true, introduce(78, 1));
  ASSERT_TRUE(net.run_until([&] { return liar->is_registered(); }, 60s));
  net.run_for(100ms);
  for (const told& each : outcomes)
    expect(each, errc::message_too_large);
}

TEST_F(Blobs, KeepNobodyWaitingWhoHasSentNothing) {
  std::optional<hand_played> dies;
  dies.emplace(net, 8, 2, true, true,
               [](introduction& self) { self.capabilities = capability_blobs; });
  ASSERT_TRUE(net.run_until([&] { return dies->is_registered(); }, 5s));
  net.run_for(5ms);
  dies->say(flow_body{.next = 1, .before = 0, .turn = 1});
  byte_buffer made(message_head_size + blob_head_size);
  encode(message_head{message_kind::data, flags_blob, 0, wanted_type}, made.data());
  encode_blob(made.data() + message_head_size,
              {.number = 5, .step = blob_step::begin, .value = 1000});
  dies->say_bytes(made);
  net.run_for(5ms);
  ASSERT_EQ(begun, 1);
  dies.reset();
  net.run_for(5ms);
  EXPECT_TRUE(two.core().settled());
  net.run_for(60s);
  EXPECT_EQ(got.ends, 1);
  EXPECT_EQ(got.how.code(), errc::peer_closed);
}

TEST_F(HandPlayedBlobs, NothingIsSentBeforeItIsGranted) {
  register_peer();
  told outcome;
  const std::uint64_t number = send_to_peer("some bytes", outcome);
  net.run_for(1s);
  EXPECT_TRUE(heard_by_peer().empty());
  grant(number, 0, 4);
  const std::vector<blob_head> all = heard_by_peer();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].step, blob_step::chunk);
}

TEST_F(HandPlayedBlobs, ThatMoreWasTakenThanWasSentEndsTheBlob) {
  register_peer();
  told outcome;
  const std::uint64_t number = send_to_peer("some bytes", outcome);
  grant(number, 1, 10);
  net.run_for(5ms);
  expect(outcome, errc::protocol_error);
}

TEST_F(HandPlayedBlobs, ThatAllWasTakenBeforeItWasSentEndsTheBlob) {
  register_peer();
  told outcome;
  const std::uint64_t number = send_to_peer("some bytes", outcome);
  say(flags_blob | flag_reply,
      {.number = number, .step = blob_step::end, .status = errc::ok, .value = 10});
  net.run_for(5ms);
  expect(outcome, errc::protocol_error);
}

TEST_F(HandPlayedBlobs, NobodyElseMaySpeakForTheReceiver) {
  register_peer();
  connect();
  on_part = [](const blob_part& part) { part.pause(); };
  const std::string text = long_text(400000);
  told outcome;
  // Node 2 sends to node 1, and the peer says that it was taken.
  one.node.user().on_blob(wanted_type, [this](incoming_blob& blob) { accept(blob); });
  ASSERT_TRUE(
      two.node.user().send_blob(1, wanted_type, {nullptr, as_bytes(text)}, outcome.write()));
  two.node.wake();
  net.run_for(100ms);
  ASSERT_TRUE(got.id);
  say(flags_blob | flag_reply,
      {.number = got.id->number, .step = blob_step::end, .status = errc::request_failed});
  net.run_for(100ms);
  EXPECT_EQ(outcome->times, 0);
  EXPECT_TRUE(one.node.user().resume_blob(*got.id));
}

// Nor does it count what its user never sent.
TEST_F(HandPlayedBlobs, AGrantForWhichThereIsNoRoomKeepsTheNodeFromNoSleep) {
  net.conditions.queue_size = 2000;
  net.conditions.kernel_holds = 1000;
  party asked{net, 3, plain().blob_window(window).send_buffer_size(2000)};
  asked.node.user().on_blob(wanted_type,
                            [](incoming_blob& blob) { blob.accept([](const blob_part&) {}); });
  hand_played asks{net,  8,    3,
                   true, true, [](introduction& self) { self.capabilities = capability_blobs; }};
  ASSERT_TRUE(net.run_until([&] { return asks.is_registered(); }, 5s));
  net.run_for(5ms);
  asks.say(flow_body{.next = 1, .before = 0, .turn = 1});
  const auto tell = [&](const blob_head& head, bytes_view rest = {}) {
    byte_buffer made(message_head_size + blob_head_size);
    encode(message_head{message_kind::data, flags_blob, 0, wanted_type}, made.data());
    encode_blob(made.data() + message_head_size, head);
    made.insert(made.end(), rest.begin(), rest.end());
    asks.say_bytes(made);
    net.run_for(200us);
  };
  tell({.number = 5, .step = blob_step::begin, .value = 1000});
  asks.stop_reading();
  for (int i = 0; i != 2000; ++i)
    tell({.number = 5, .step = blob_step::query});
  tell({.number = 5, .step = blob_step::chunk}, byte_buffer(100));
  net.run_for(5ms);
  const auto before = asked.node.polls;
  net.run_for(100ms);
  EXPECT_LE(asked.node.polls - before, 20U);
  EXPECT_EQ(asked.core().stats().would_block, 0U);
  EXPECT_EQ(asked.writable, 0);
}

}  // namespace
}  // namespace atbus::detail
