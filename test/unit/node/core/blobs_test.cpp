// Blobs between two nodes of a simulated network, and what a node does with those of a peer that is played by
// hand, whom nothing holds to the rules.
#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "protocol/blob_body.h"
#include "unit/node/simulated_party.h"

namespace atbus::detail {
namespace {

constexpr std::uint32_t wanted_type = 7;
constexpr std::size_t window = node_options::blob_window_min;

node_options narrow() {
  return plain().blob_window(window);
}

class Blobs : public ::testing::Test {
 protected:
  // What the sender of one was told. A blob that has no outcome yet gets one when the nodes go.
  class told {
   public:
    struct facts {
      int times = 0;
      status how;
      std::string text;
      std::uint64_t taken = 0;
    };
    [[nodiscard]] auto write() const {
      return [all = all_](const blob_outcome& o) {
        const foreign_code here;
        ++all->times;
        all->how = o.how();
        all->text = o.text();
        all->taken = o.taken();
      };
    }
    const facts* operator->() const { return all_.get(); }

   private:
    std::shared_ptr<facts> all_ = std::make_shared<facts>();
  };
  // What a receiver was told.
  struct heard {
    std::string bytes;
    int ends = 0;
    status how;
    std::optional<blob_id> id;
  };

  Blobs() {
    two.node.user().on_blob(wanted_type, [this](incoming_blob& blob) {
      const foreign_code here;
      ++begun;
      if (on_begin)
        return on_begin(blob);
      accept(blob);
    });
  }
  void accept(incoming_blob& blob) {
    blob.accept([this](const blob_part& part) {
      const foreign_code here;
      if (part.ended()) {
        ++got.ends;
        got.how = part.how();
        return;
      }
      EXPECT_EQ(part.position(), got.bytes.size());
      got.id = part.id();
      got.bytes += part.text();
      if (on_part)
        on_part(part);
    });
  }
  void connect() {
    one.connect(2);
    ASSERT_TRUE(net.run_until([&] { return one.is_connected(2) && two.is_connected(1); }, 5s));
    net.run_for(5ms);
  }
  blob_handle send(std::string_view bytes, told& to, std::uint64_t whom = 2,
                   std::uint32_t type = wanted_type, const blob_options& options = {}) {
    const auto owned = std::make_shared<const std::string>(bytes);
    const blob_handle sent =
        one.node.user().send_blob(whom, type, {owned, as_bytes(*owned)}, to.write(), options);
    one.node.wake();
    return sent;
  }
  static void expect(const told& of, errc how, std::string_view text = {}) {
    EXPECT_EQ(of->times, 1);
    EXPECT_EQ(of->how.code(), how) << name(of->how.code());
    EXPECT_EQ(of->text, text);
  }
  static std::string long_text(std::size_t size) {
    std::string made(size, ' ');
    for (std::size_t i = 0; i != size; ++i)
      made[i] = static_cast<char>('a' + (i * 7 + i / 1000) % 26);
    return made;
  }

  int begun = 0;
  heard got;
  std::function<void(incoming_blob&)> on_begin;
  std::function<void(const blob_part&)> on_part;
  simulated_network net{1};
  party one{net, 1, narrow()};
  party two{net, 2, narrow()};
};

TEST_F(Blobs, ArriveWholeAndEndOnceAtBothEnds) {
  connect();
  const std::string text = long_text(500000);
  told outcome;
  ASSERT_TRUE(send(text, outcome));
  net.run_for(1s);
  expect(outcome, errc::ok);
  EXPECT_EQ(outcome->taken, text.size());
  EXPECT_TRUE(got.bytes == text);
  EXPECT_EQ(got.ends, 1);
  EXPECT_TRUE(got.how);
}

TEST_F(Blobs, AnEmptyOneHasABeginningAndAnEnd) {
  connect();
  told outcome;
  ASSERT_TRUE(send("", outcome));
  net.run_for(100ms);
  expect(outcome, errc::ok);
  EXPECT_EQ(begun, 1);
  EXPECT_EQ(got.ends, 1);
}

TEST_F(Blobs, GoToTheNodeItself) {
  two.node.user().on_blob(wanted_type, {});
  one.node.user().on_blob(wanted_type, [this](incoming_blob& blob) { accept(blob); });
  const std::string text = long_text(300000);
  told outcome;
  ASSERT_TRUE(send(text, outcome, 1));
  net.run_for(100ms);
  expect(outcome, errc::ok);
  EXPECT_TRUE(got.bytes == text);
}

TEST_F(Blobs, WaitForALink) {
  told outcome;
  one.connect(2);
  ASSERT_TRUE(send("early", outcome));
  net.run_for(1s);
  expect(outcome, errc::ok);
  EXPECT_EQ(got.bytes, "early");
}

TEST_F(Blobs, ToNobodyAreRefusedAtOnce) {
  told outcome;
  EXPECT_EQ(send("x", outcome, 99).why().code(), errc::no_route);
  net.run_for(1s);
  EXPECT_EQ(outcome->times, 0);
}

TEST_F(Blobs, WithoutAHandlerFail) {
  connect();
  told outcome;
  ASSERT_TRUE(send("x", outcome, 2, wanted_type + 1));
  net.run_for(100ms);
  expect(outcome, errc::unknown_request);
  EXPECT_EQ(two.core().stats().blobs_refused, 1U);
}

TEST_F(Blobs, AHandlerMayRefuseTheBeginning) {
  connect();
  on_begin = [](incoming_blob& blob) { blob.refuse("the disk is full"); };
  told outcome;
  ASSERT_TRUE(send("x", outcome));
  net.run_for(100ms);
  expect(outcome, errc::request_failed, "the disk is full");
}

TEST_F(Blobs, AHandlerThatDoesNothingRefuses) {
  connect();
  on_begin = [](incoming_blob&) {};
  told outcome;
  ASSERT_TRUE(send("x", outcome));
  net.run_for(100ms);
  expect(outcome, errc::request_failed, "the handler did not accept the blob");
}

TEST_F(Blobs, AReceiverMayRefuseTheRest) {
  connect();
  on_part = [](const blob_part& part) {
    if (part.position() != 0)
      part.refuse(std::string{"enough "} + "of that");
  };
  told outcome;
  ASSERT_TRUE(send(long_text(400000), outcome));
  net.run_for(1s);
  expect(outcome, errc::request_failed, "enough of that");
  EXPECT_EQ(got.ends, 0) << "whoever refuses knows that it is over";
  EXPECT_LT(got.bytes.size(), 400000U);
}

TEST_F(Blobs, AreRefusedByTheirNameAtAnyTime) {
  connect();
  on_part = [](const blob_part& part) { part.pause(); };
  const std::string text = long_text(400000);
  told outcome;
  ASSERT_TRUE(send(text, outcome));
  net.run_for(100ms);
  ASSERT_TRUE(got.id);
  EXPECT_EQ(outcome->times, 0);
  EXPECT_TRUE(two.node.user().refuse_blob(*got.id, "later"));
  EXPECT_EQ(two.node.user().refuse_blob(*got.id, "again").code(), errc::not_found);
  EXPECT_EQ(two.node.user().resume_blob(*got.id).code(), errc::not_found);
  two.node.wake();
  net.run_for(100ms);
  expect(outcome, errc::request_failed, "later");
}

TEST_F(Blobs, APausedReceiverGetsAWindowAndTheRestWhenItGoesOn) {
  connect();
  on_part = [](const blob_part& part) {
    if (part.position() == 0)
      part.pause();
  };
  const std::string text = long_text(400000);
  told outcome;
  ASSERT_TRUE(send(text, outcome));
  net.run_for(10s);
  EXPECT_EQ(got.bytes.size(), window);
  EXPECT_TRUE(two.node.user().resume_blob(*got.id));
  two.node.wake();
  net.run_for(1s);
  expect(outcome, errc::ok);
  EXPECT_TRUE(got.bytes == text);
}

TEST_F(Blobs, APauseInTheLastPartHoldsTheOutcomeBack) {
  connect();
  on_part = [](const blob_part& part) {
    if (part.is_last())
      part.pause();
  };
  told outcome;
  ASSERT_TRUE(send("all of it", outcome));
  net.run_for(10s);
  EXPECT_EQ(got.bytes, "all of it");
  EXPECT_EQ(outcome->times, 0);
  EXPECT_EQ(got.ends, 0);
  EXPECT_TRUE(two.node.user().resume_blob(*got.id));
  two.node.wake();
  net.run_for(100ms);
  expect(outcome, errc::ok);
  EXPECT_EQ(got.ends, 1);
}

TEST_F(Blobs, ACancelledOneBreaksOffAtItsReceiver) {
  connect();
  on_part = [](const blob_part& part) { part.pause(); };
  told outcome;
  const std::string text = long_text(400000);
  const blob_handle sent = send(text, outcome);
  net.run_for(100ms);
  EXPECT_TRUE(one.node.user().cancel_blob(sent));
  EXPECT_EQ(one.node.user().cancel_blob(sent).code(), errc::not_found);
  one.node.wake();
  net.run_for(100ms);
  expect(outcome, errc::cancelled);
  EXPECT_EQ(got.ends, 1);
  EXPECT_EQ(got.how.code(), errc::cancelled);
}

TEST_F(Blobs, OneThatIsCancelledBeforeThereIsALinkIsNeverHeardOf) {
  told outcome;
  one.connect(2);
  const blob_handle sent = send("x", outcome);
  EXPECT_TRUE(one.node.user().cancel_blob(sent));
  net.run_for(1s);
  expect(outcome, errc::cancelled);
  EXPECT_TRUE(one.is_connected(2));
  EXPECT_EQ(begun, 0);
}

TEST_F(Blobs, ASourceMayFail) {
  connect();
  told outcome;
  std::size_t made = 0;
  ASSERT_TRUE(one.node.user().send_blob(2, wanted_type,
                                        {400000,
                                         [&made](mutable_bytes room) {
                                           made += room.size();
                                           return made > 100000 ? status{errc::no_space} : status{};
                                         }},
                                        outcome.write()));
  one.node.wake();
  net.run_for(1s);
  expect(outcome, errc::no_space);
  EXPECT_EQ(got.ends, 1);
  EXPECT_EQ(got.how.code(), errc::cancelled);
}

TEST_F(Blobs, ASourceThatSendsEndsItsBlob) {
  connect();
  told outcome;
  ASSERT_TRUE(one.node.user().send_blob(
      2, wanted_type,
      {400000, [this](mutable_bytes) { return one.node.user().send(2, 0, "from a source"); }},
      outcome.write()));
  one.node.wake();
  net.run_for(1s);
  expect(outcome, errc::invalid_argument);
  EXPECT_EQ(two.got, std::vector<std::string>{"from a source"});
  EXPECT_TRUE(got.bytes.empty());
}

TEST_F(Blobs, ManyAreUnderWayTogetherAndTheRestWait) {
  connect();
  on_part = [](const blob_part& part) { part.pause(); };
  on_begin = [this](incoming_blob& blob) {
    blob.accept([this](const blob_part& part) {
      if (!part.ended())
        got.bytes += part.text();
    });
  };
  constexpr int all = 100;
  const std::string text = long_text(50000);
  std::vector<told> outcomes(all);
  for (told& outcome : outcomes)
    ASSERT_TRUE(send(text, outcome));
  net.run_for(5s);
  for (const told& outcome : outcomes)
    expect(outcome, errc::ok);
  EXPECT_EQ(got.bytes.size(), all * text.size());
}

TEST_F(Blobs, NeverHaveMoreThanAWindowUnderWayToOneNode) {
  connect();
  std::uint64_t made = 0;
  std::uint64_t taken = 0;
  std::uint64_t most = 0;
  on_begin = [&](incoming_blob& blob) {
    blob.accept([&](const blob_part& part) { taken += part.bytes().size(); });
  };
  std::vector<told> outcomes(8);
  for (told& outcome : outcomes) {
    ASSERT_TRUE(one.node.user().send_blob(2, wanted_type,
                                          {200000,
                                           [&](mutable_bytes room) {
                                             made += room.size();
                                             most = std::max(most, made - taken);
                                             return status{};
                                           }},
                                          outcome.write()));
  }
  one.node.wake();
  net.run_for(5s);
  for (const told& outcome : outcomes)
    expect(outcome, errc::ok);
  EXPECT_LE(most, window);
  EXPECT_GT(most, window / 2) << "it has sent one after the other";
}

TEST_F(Blobs, EndWhenTheirNodeCloses) {
  connect();
  on_part = [](const blob_part& part) { part.pause(); };
  const std::string text = long_text(400000);
  told outcome;
  ASSERT_TRUE(send(text, outcome));
  net.run_for(100ms);
  one.node.user().close();
  expect(outcome, errc::closed);
  two.node.user().close();
  EXPECT_EQ(got.ends, 1);
}

TEST_F(Blobs, EndAtBothEndsWhenTheReceiverDisconnects) {
  connect();
  on_part = [](const blob_part& part) { part.pause(); };
  const std::string text = long_text(400000);
  told outcome;
  ASSERT_TRUE(send(text, outcome));
  net.run_for(100ms);
  EXPECT_TRUE(two.core().disconnect(1));
  two.node.wake();
  net.run_for(1s);
  expect(outcome, errc::peer_closed);
  EXPECT_EQ(got.ends, 1);
  EXPECT_EQ(got.how.code(), errc::closed);
}

TEST_F(Blobs, AHandlerMayCloseItsNode) {
  connect();
  on_part = [this](const blob_part&) { two.core().close(); };
  const std::string text = long_text(400000);
  told outcome;
  ASSERT_TRUE(send(text, outcome));
  net.run_for(100ms);
  EXPECT_EQ(got.ends, 1);
  EXPECT_EQ(got.how.code(), errc::closed);
}

TEST_F(Blobs, TooLongForTheLimitAreNotCollected) {
  connect();
  int calls = 0;
  on_begin = [&](incoming_blob& blob) {
    blob.collect(10, [&](status, const std::vector<std::byte>&) { ++calls; });
  };
  told outcome;
  ASSERT_TRUE(send("eleven bytes", outcome));
  net.run_for(100ms);
  expect(outcome, errc::request_failed, "the blob has 12 bytes, and 10 are taken here at most");
  EXPECT_EQ(calls, 0);
}

TEST_F(Blobs, NoArgumentThatCannotBeIsAccepted) {
  connect();
  told outcome;
  node& user = one.node.user();
  EXPECT_EQ(user.send_blob(2, wanted_type, {nullptr, {}}, {}).why().code(), errc::invalid_argument);
  EXPECT_EQ(send("x", outcome, 2, wanted_type, {.note = long_text(blob_note_max + 1)}).why().code(),
            errc::invalid_argument);
  const auto none = [](mutable_bytes) { return status{}; };
  EXPECT_EQ(
      user.send_blob(2, wanted_type, {std::uint64_t{1} << 63, none}, outcome.write()).why().code(),
      errc::invalid_argument);
  EXPECT_EQ(user.cancel_blob(blob_handle{}).code(), errc::not_found);
  EXPECT_FALSE(node_options{}.blob_window(window - 1).check());
}

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
  std::vector<blob_head> heard_by_peer() {
    std::vector<blob_head> all;
    for (const byte_buffer& message : peer.got) {
      message_head head;
      blob_head of;
      if (decode(message, head) == head_fault::none && head.kind == message_kind::data &&
          is_blob(head.flags) && decode_blob(payload_of(message), of))
        all.push_back(of);
    }
    peer.got.clear();
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

}  // namespace
}  // namespace atbus::detail
