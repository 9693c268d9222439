// Blobs beside more messages than there is room for: policies are for messages, and no blob loses its end.
#include <fstream>
#include <list>
#include <string>
#include <vector>

#include "scratch_directory.h"
#include "unit/node/core/blobs_fixture.h"

namespace atbus::detail {
namespace {

constexpr std::size_t held_most = 8000;

node_options with(const peer_policy& policy) {
  return plain()
      .blob_window(node_options::blob_window_min)
      .send_buffer_size(held_most)
      .overflow(policy.overflow)
      .message_deadline(policy.message_deadline);
}

class BlobPolicies : public Blobs {
 protected:
  blob_handle send_from(party& from, std::uint64_t to, std::string_view bytes, told& outcome,
                        const blob_options& options = {}) {
    const auto owned = std::make_shared<const std::string>(bytes);
    const blob_handle sent = from.node.user().send_blob(to, wanted_type, {owned, as_bytes(*owned)},
                                                        outcome.write(), options);
    from.node.wake();
    return sent;
  }
  void take_at(party& receiver) {
    receiver.node.user().on_blob(wanted_type, [this](incoming_blob& blob) {
      const foreign_code here;
      if (on_begin)
        return on_begin(blob);
      accept(blob);
    });
  }
  // Of messages, for one that has drop_newest.
  static void fill_what_is_held(party& of, std::uint64_t to) {
    const std::uint64_t before = of.core().stats().overflow_drops;
    while (of.core().stats().overflow_drops == before)
      ASSERT_TRUE(of.send(to, "telemetry"));
  }
  void connect(party& from, party& to, std::uint64_t id, std::uint64_t to_id) {
    from.connect(to_id);
    ASSERT_TRUE(net.run_until([&] { return from.is_connected(to_id) && to.is_connected(id); }, 5s));
    net.run_for(5ms);
  }
};

TEST_F(BlobPolicies, AWaitingOneBeginsWhenAllThatIsHeldIsTaken) {
  party three{net, 3, with({.overflow = overflow_policy::drop_newest})};
  three.connect(9);
  std::list<told> outcomes(18);
  std::vector<blob_handle> sent;
  for (told& outcome : outcomes) {
    const std::string note(sent.size() < 16 ? 0 : 1000, 'n');
    sent.push_back(send_from(three, 9, "some bytes", outcome, {.note = note}));
    ASSERT_TRUE(sent.back());
  }
  fill_what_is_held(three, 9);
  EXPECT_TRUE(three.node.user().cancel_blob(sent.front()));
  three.node.wake();
  net.run_for(1s);
  expect(outcomes.front(), errc::cancelled);
  party nine{net, 9};
  nine.node.user().on_blob(wanted_type,
                           [](incoming_blob& blob) { blob.accept([](const blob_part&) {}); });
  net.run_for(10s);
  outcomes.pop_front();
  for (const told& outcome : outcomes)
    expect(outcome, errc::ok);
}

TEST_F(BlobPolicies, ThoseThatAreSentWhileAllThatIsHeldIsTakenHaveOneOutcome) {
  party three{net, 3, with({.overflow = overflow_policy::drop_newest})};
  three.connect(9);
  fill_what_is_held(three, 9);
  told cancelled;
  told first;
  told second;
  const blob_handle sent = send_from(three, 9, "some bytes", cancelled);
  ASSERT_TRUE(send_from(three, 9, "some bytes", first));
  EXPECT_TRUE(three.node.user().cancel_blob(sent));
  net.run_for(1s);
  ASSERT_TRUE(send_from(three, 9, "some bytes", second));
  party nine{net, 9};
  nine.node.user().on_blob(wanted_type,
                           [](incoming_blob& blob) { blob.accept([](const blob_part&) {}); });
  net.run_for(10s);
  expect(cancelled, errc::cancelled);
  expect(first, errc::ok);
  expect(second, errc::ok);
}

class BlobsBesideTelemetry : public BlobPolicies,
                             public ::testing::WithParamInterface<peer_policy> {
 protected:
  BlobsBesideTelemetry() {
    net.conditions.queue_size = 4000;
    net.conditions.kernel_holds = 1000;
    take_at(busy);
    other.on_message = [this](const message&) { ++got_by_other; };
  }
  // More than the other one gets, from now on.
  void send_telemetry() {
    for (int i = 0; i != 40; ++i)
      (void)busy.send(4, std::string(300, 't'));
    net.at(net.now() + 200us, [this] {
      if (!stopped)
        send_telemetry();
    });
  }

  bool stopped = false;
  int got_by_other = 0;
  party busy{net, 3, with(GetParam())};
  party other{net, 4, plain().blob_window(window)};
};

TEST_P(BlobsBesideTelemetry, AreTakenByANodeThatSendsMoreThanTheOtherOneGets) {
  take_at(busy);
  connect(other, busy, 4, 3);
  send_telemetry();
  net.run_for(50ms);
  const std::string text = long_text(300000);
  told outcome;
  ASSERT_TRUE(send_from(other, 3, text, outcome));
  net.run_until([&] { return outcome->times != 0; }, 10s);
  expect(outcome, errc::ok);
  EXPECT_TRUE(got.bytes == text);
  EXPECT_EQ(got.ends, 1);
  EXPECT_TRUE(got.how);
  EXPECT_GT(got_by_other, 0);
  EXPECT_FALSE(busy.reports.empty()) << "it had room for all";
  EXPECT_EQ(busy.count(endpoint_event::disconnected), 0);
  stopped = true;
}

TEST_P(BlobsBesideTelemetry, AreEndedByANodeThatSendsMoreThanTheOtherOneGets) {
  take_at(other);
  connect(other, busy, 4, 3);
  on_part = [](const blob_part& part) { part.pause(); };
  told outcome;
  const blob_handle sent = send_from(busy, 4, long_text(300000), outcome);
  net.run_for(50ms);
  ASSERT_TRUE(got.id);
  send_telemetry();
  net.run_for(50ms);
  EXPECT_TRUE(busy.node.user().cancel_blob(sent));
  net.run_until([&] { return got.ends != 0; }, 1s);
  expect(outcome, errc::cancelled);
  EXPECT_EQ(got.ends, 1);
  EXPECT_EQ(got.how.code(), errc::cancelled);
  EXPECT_EQ(busy.count(endpoint_event::disconnected), 0);
  stopped = true;
}

INSTANTIATE_TEST_SUITE_P(With, BlobsBesideTelemetry,
                         ::testing::Values(peer_policy{.overflow = overflow_policy::drop_newest},
                                           peer_policy{.overflow = overflow_policy::drop_oldest},
                                           peer_policy{.message_deadline = 1ms}),
                         [](const auto& of) {
                           return std::string{of.param.overflow == overflow_policy::drop_newest
                                                  ? "drop_newest"
                                              : of.param.overflow == overflow_policy::drop_oldest
                                                  ? "drop_oldest"
                                                  : "message_deadline"};
                         });

// Its sender is stopped, and hears of each later.
TEST_F(BlobPolicies, RefusalsForWhichThereIsNoRoomAreSaidLater) {
  net.conditions.queue_size = 1000;
  net.conditions.kernel_holds = 200;
  party refuses{net, 3, plain().send_buffer_size(400)};
  refuses.node.user().on_blob(wanted_type,
                              [](incoming_blob& blob) { blob.refuse(std::string(200, 'r')); });
  connect(one, refuses, 1, 3);
  std::list<told> outcomes(16);
  for (told& outcome : outcomes)
    ASSERT_TRUE(send_from(one, 3, "some bytes", outcome));
  ASSERT_TRUE(net.run_until([&] { return refuses.core().stats().blobs_refused != 0; }, 1s));
  one.node.stop_until(net.now() + 100ms);
  net.run_for(5s);
  for (const told& outcome : outcomes)
    expect(outcome, errc::request_failed, std::string(200, 'r'));
}

TEST_F(BlobPolicies, AnEndWaitsForRoomAndBreaksNoLink) {
  net.conditions.queue_size = 4000;
  net.conditions.kernel_holds = 1000;
  party strict{net, 3, with({.overflow = overflow_policy::disconnect})};
  take_at(strict);
  connect(one, strict, 1, 3);
  on_part = [](const blob_part& part) { part.pause(); };
  told outcome;
  ASSERT_TRUE(send_from(one, 3, long_text(300000), outcome));
  net.run_for(50ms);
  ASSERT_TRUE(got.id);
  one.node.stop_until(net.now() + 20ms);
  for (int i = 0; i != 40 && strict.node.channels().links().at(0)->queued() < 3400; ++i) {
    ASSERT_TRUE(strict.send(1, std::string(200, 'x')));
    net.run_for(10us);
  }
  const std::string why(900, 'w');
  EXPECT_TRUE(strict.node.user().refuse_blob(*got.id, why));
  strict.node.wake();
  net.run_for(1s);
  expect(outcome, errc::request_failed, why);
  EXPECT_EQ(strict.count(endpoint_event::disconnected), 0);
}

TEST_F(BlobPolicies, TheRulesOfTheSenderDoNotKeepItsEndBack) {
  const test::scratch_directory scratch;
  const std::string path = scratch.path() + "/access.toml";
  const auto write = [&](const char* messages) {
    std::ofstream{path} << "register = \"any\"\n[[send]]\nfrom = [3]\nto = [2]\nmessages = "
                        << messages << '\n';
    net.run_for(6s);  // what has changed is read at the second look
  };
  write("[7]");
  party ruled{net, 3, plain().access(path).blob_window(window)};
  connect(ruled, two, 3, 2);
  on_part = [](const blob_part& part) { part.pause(); };
  told outcome;
  const blob_handle sent = send_from(ruled, 2, long_text(300000), outcome);
  net.run_for(50ms);
  ASSERT_TRUE(got.id);
  write("[8]");
  told denied;
  EXPECT_EQ(send_from(ruled, 2, "x", denied).why().code(), errc::denied);
  EXPECT_TRUE(ruled.node.user().cancel_blob(sent));
  ruled.node.wake();
  net.run_for(50ms);
  expect(outcome, errc::cancelled);
  EXPECT_EQ(got.ends, 1);
  EXPECT_EQ(got.how.code(), errc::cancelled);
}

// The text of a refusal is cut to what both ends allow.
TEST_F(BlobPolicies, ARefusalFitsIntoTheLimitsOfBothEnds) {
  const std::string why = long_text(600);
  on_begin = [&](incoming_blob& blob) { blob.refuse(why); };
  party small{net, 3, plain().message_limit(512)};
  party tiny{net, 4, plain().message_limit(40)};
  take_at(small);
  connect(one, small, 1, 3);
  connect(small, two, 3, 2);
  connect(one, tiny, 1, 4);
  told to_small;
  told from_small;
  told to_tiny;
  ASSERT_TRUE(send_from(one, 3, "some bytes", to_small));
  ASSERT_TRUE(send_from(small, 2, "some bytes", from_small));
  tiny.node.user().on_blob(wanted_type, [](incoming_blob&) {});
  ASSERT_TRUE(send_from(one, 4, "some bytes", to_tiny));
  net.run_for(1s);
  expect(to_small, errc::request_failed, std::string_view{why}.substr(0, 512 - 24));
  expect(from_small, errc::request_failed, std::string_view{why}.substr(0, 512 - 24));
  expect(to_tiny, errc::request_failed, "the handler did ");  // 16 bytes are left
}

TEST_F(BlobPolicies, NoneIsSentWhereNoGrantFits) {
  party tiny{net, 3, plain().message_limit(28)};
  take_at(tiny);
  told from_tiny;
  tiny.connect(2);
  EXPECT_EQ(send_from(tiny, 2, "", from_tiny).why().code(), errc::message_too_large);
  told early;
  one.connect(3);
  ASSERT_TRUE(send_from(one, 3, "some bytes", early));  // its limit is not known yet
  net.run_for(1s);
  expect(early, errc::message_too_large);
  told later;
  EXPECT_EQ(send_from(one, 3, "some bytes", later).why().code(), errc::message_too_large);
}

TEST_F(BlobPolicies, ASourceWithoutAFunctionIsRefused) {
  told outcome;
  const std::function<status(mutable_bytes)> none;
  EXPECT_EQ(two.node.user()
                .send_blob(2, wanted_type, {std::uint64_t{5}, none}, outcome.write())
                .why()
                .code(),
            errc::invalid_argument);
}

}  // namespace
}  // namespace atbus::detail
