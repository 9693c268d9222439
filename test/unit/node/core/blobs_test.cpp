// Blobs between two nodes of a simulated network.
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "unit/node/core/blobs_fixture.h"

namespace atbus::detail {
namespace {

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

TEST_F(Blobs, AreSettledOnceTheNodeThatTookThemIsGone) {
  std::optional<party> three;
  three.emplace(net, 3, plain().blob_window(window));
  three->node.user().on_blob(wanted_type, [](incoming_blob& blob) {
    blob.accept([](const blob_part& part) { part.pause(); });
  });
  one.connect(3);
  told outcome;
  ASSERT_TRUE(send(long_text(500000), outcome, 3));
  net.run_for(100ms);
  EXPECT_EQ(outcome->times, 0);
  net.cut(1, 3, seen_by::both);
  three.reset();
  EXPECT_FALSE(one.core().settled());
  net.run_for(120s);
  expect(outcome, errc::peer_closed);
  EXPECT_TRUE(one.core().settled());
}

// The window that a lane gives back leaves no room for what is said of a blob that was cancelled meanwhile.
TEST_F(Blobs, AreSettledThoughTheirEndsFoundNoRoom) {
  std::optional<party> three;
  three.emplace(net, 3, plain().blob_window(window));
  three->node.user().on_blob(wanted_type, [&](incoming_blob& blob) {
    blob.accept([&](const blob_part& part) {
      if (!part.ended())
        three->node.stop_until(net.now() + 1h);  // the rest stays in the link
    });
  });
  party four{net, 4, plain().blob_window(window).send_buffer_size(2000)};
  four.connect(3);
  told outcome;
  const std::string text = long_text(500000);
  const blob_handle sent =
      four.node.user().send_blob(3, wanted_type, {nullptr, as_bytes(text)}, outcome.write());
  ASSERT_TRUE(sent);
  four.node.wake();
  net.run_for(100ms);
  EXPECT_EQ(outcome->times, 0);
  net.cut(4, 3, seen_by::both);
  three.reset();
  net.run_for(1s);
  ASSERT_TRUE(four.node.user().cancel_blob(sent));
  four.node.wake();
  net.run_for(1s);
  EXPECT_TRUE(four.core().settled());
  net.run_for(120s);
  expect(outcome, errc::cancelled);
  EXPECT_TRUE(four.core().settled());
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

TEST_F(Blobs, AHandlerMayDisconnectTheSenderAndCloseItsNode) {
  connect();
  on_part = [this](const blob_part&) {
    EXPECT_TRUE(two.core().disconnect(1));
    two.core().close();
  };
  told outcome;
  ASSERT_TRUE(send("some bytes", outcome));
  net.run_for(100ms);
  EXPECT_EQ(got.ends, 1);
}

TEST_F(Blobs, AHandlerMayRefuseAndCloseItsNode) {
  connect();
  on_part = [this](const blob_part& part) {
    part.refuse("enough");
    two.core().close();
  };
  told outcome;
  ASSERT_TRUE(send("some bytes", outcome));
  net.run_for(100ms);
  EXPECT_EQ(got.ends, 0);
}

TEST_F(Blobs, AHandlerMayRefuseAndDisconnectTheSender) {
  connect();
  on_part = [this](const blob_part& part) {
    part.refuse("enough");
    EXPECT_TRUE(two.core().disconnect(1));
  };
  told outcome;
  ASSERT_TRUE(send("some bytes", outcome));
  net.run_for(100ms);
  EXPECT_EQ(got.ends, 0);
  EXPECT_EQ(outcome->times, 1);
}

TEST_F(Blobs, AHandlerMayDisconnectTheSenderAndThrow) {
  connect();
  on_part = [this](const blob_part&) {
    EXPECT_TRUE(two.core().disconnect(1));
    throw std::runtime_error{"thrown"};
  };
  told outcome;
  ASSERT_TRUE(send("some bytes", outcome));
  EXPECT_THROW(net.run_for(100ms), std::runtime_error);
  net.run_for(100ms);
  EXPECT_EQ(got.ends, 0);
  EXPECT_EQ(outcome->times, 1);
}

TEST_F(Blobs, AHandlerMayDisconnectTheSenderOfTheOneThatBegins) {
  for (const bool accepts : {true, false}) {
    connect();
    const int ends = got.ends;
    on_begin = [&](incoming_blob& blob) {
      EXPECT_TRUE(two.core().disconnect(1));
      if (accepts)
        accept(blob);
    };
    told outcome;
    ASSERT_TRUE(send("some bytes", outcome));
    net.run_for(100ms);
    EXPECT_EQ(got.ends - ends, accepts ? 1 : 0);
    EXPECT_EQ(outcome->times, 1);
    EXPECT_FALSE(outcome->how);
  }
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

}  // namespace
}  // namespace atbus::detail
