// Blobs between two nodes, through each kind of address.
#include <cstring>
#include <map>

#include "node_fixture.h"

namespace atbus::test {
namespace {

constexpr std::uint32_t blob_type = 7;
constexpr std::size_t mib = std::size_t{1} << 20;

// No two places of it look alike.
std::shared_ptr<std::vector<std::byte>> make_bytes(std::size_t size) {
  auto made = std::make_shared<std::vector<std::byte>>(size);
  std::uint64_t word = 88172645463325252U;
  for (std::byte& one : *made) {
    word ^= word << 13;
    word ^= word >> 7;
    word ^= word << 17;
    one = static_cast<std::byte>(word);
  }
  return made;
}

class NodeBlobs : public NodeFixture {
 protected:
  void collect_at_second() {
    second->on_blob(blob_type, [this](incoming_blob& blob) {
      EXPECT_EQ(blob.source(), bus_id{1});
      note = blob.note();
      blob.collect(64 * mib, [this](status how, std::vector<std::byte> bytes) {
        ended = how;
        got = std::move(bytes);
      });
    });
  }
  void send(blob_source source, const blob_options& how = {}) {
    const blob_handle sent = first->send_blob(
        2, blob_type, std::move(source),
        [this](const blob_outcome& o) {
          ++outcomes;
          outcome = o.how();
          text = o.text();
        },
        how);
    ASSERT_TRUE(sent) << sent.why().text();
  }
  bool turn_both(const std::function<bool()>& done) { return turn({&*first, &*second}, done); }

  std::vector<std::byte> got;
  std::string note;
  std::string text;
  std::optional<status> ended;
  std::optional<status> outcome;
  int outcomes = 0;
};

TEST_P(NodeBlobs, ArriveWholeThoughTheyAreLongerThanAnyMessage) {
  connect_both();
  collect_at_second();
  const auto bytes = make_bytes(24 * mib + 5);
  send({bytes, *bytes}, {.note = "a note"});
  ASSERT_TRUE(turn_both([&] { return outcome.has_value(); }));
  EXPECT_TRUE(*outcome) << outcome->text();
  EXPECT_EQ(note, "a note");
  EXPECT_TRUE(got == *bytes);
  ASSERT_TRUE(turn_both([&] { return ended.has_value(); }));
  EXPECT_TRUE(*ended);
  EXPECT_EQ(outcomes, 1);
  EXPECT_EQ(first->stats().blobs_sent, 1U);
  EXPECT_EQ(second->stats().blobs_received, 1U);
}

TEST_P(NodeBlobs, AreMadeInTheChannelByAFunction) {
  connect_both();
  collect_at_second();
  const auto bytes = make_bytes(3 * mib + 1);
  std::size_t made = 0;
  send({bytes->size(), [&](mutable_bytes room) {
          std::memcpy(room.data(), bytes->data() + made, room.size());
          made += room.size();
          return status{};
        }});
  ASSERT_TRUE(turn_both([&] { return outcome.has_value(); }));
  EXPECT_TRUE(*outcome) << outcome->text();
  EXPECT_TRUE(got == *bytes);
}

TEST_P(NodeBlobs, DoNotHoldMessagesBack) {
  connect_both();
  collect_at_second();
  const auto bytes = make_bytes(32 * mib);
  send({bytes, *bytes});
  ASSERT_TRUE(turn_both([&] { return second->stats().delivered_bytes > mib; }));
  ASSERT_TRUE(first->send(2, 0, "small"));
  ASSERT_TRUE(turn_both([&] { return !second_log.messages.empty(); }));
  // It has waited behind a window at most, and not for the blob.
  EXPECT_FALSE(outcome.has_value());
  ASSERT_TRUE(turn_both([&] { return outcome.has_value(); }));
  EXPECT_TRUE(got == *bytes);
}

TEST_P(NodeBlobs, AReceiverThatPausesGetsAWindowAtMost) {
  connect_both();
  std::uint64_t taken = 0;
  std::optional<blob_id> paused;
  second->on_blob(blob_type, [&](incoming_blob& blob) {
    blob.accept([&](const blob_part& part) {
      taken += part.bytes().size();
      if (!paused)
        part.pause();
      paused = part.id();
    });
  });
  const auto bytes = make_bytes(8 * mib);
  send({bytes, *bytes});
  // A message that is sent later overtakes nothing.
  ASSERT_TRUE(turn_both([&] { return paused.has_value(); }));
  for (int round = 0; round != 20; ++round) {
    second_log.messages.clear();
    ASSERT_TRUE(first->send(2, 0, "round"));
    ASSERT_TRUE(turn_both([&] { return !second_log.messages.empty(); }));
  }
  EXPECT_LE(taken, node_options{}.blob_window());
  EXPECT_FALSE(outcome.has_value());
  ASSERT_TRUE(second->resume_blob(*paused));
  ASSERT_TRUE(turn_both([&] { return outcome.has_value(); }));
  EXPECT_TRUE(*outcome);
  EXPECT_EQ(taken, bytes->size());
}

// Between two children of one parent, which passes them on and knows nothing of blobs.
TEST_P(NodeBlobs, PassThroughARelay) {
  constexpr std::string_view all_ids = "0x1200/56";
  node relay{0x1200, options().children(all_ids)};
  ASSERT_TRUE(relay.listen(address()));
  const std::string where = relay.addresses().at(0);
  first.emplace(0x1201, options().parent(where));
  second.emplace(0x1202, options().parent(where));
  const auto turn_all = [&](const std::function<bool()>& done) {
    return turn({&*first, &*second, &relay}, done);
  };
  ASSERT_TRUE(turn_all(
      [&] { return first->parent() == bus_id{0x1200} && second->parent() == bus_id{0x1200}; }));
  second->on_blob(blob_type, [this](incoming_blob& blob) {
    blob.collect(64 * mib, [this](status how, std::vector<std::byte> bytes) {
      ended = how;
      got = std::move(bytes);
    });
  });
  second_log.listen_to(*second);
  const auto bytes = make_bytes(5 * mib + 3);
  ASSERT_TRUE(first->send_blob(0x1202, blob_type, {bytes, *bytes},
                               [this](const blob_outcome& o) { outcome = o.how(); }));
  ASSERT_TRUE(turn_all([&] { return second->stats().delivered_bytes > mib; }));
  ASSERT_TRUE(first->send(0x1202, 0, "small"));
  ASSERT_TRUE(turn_all([&] { return !second_log.messages.empty(); }));
  EXPECT_FALSE(outcome.has_value()) << "the message has waited for the blob";
  ASSERT_TRUE(turn_all([&] { return outcome.has_value(); }));
  EXPECT_TRUE(*outcome) << outcome->text();
  EXPECT_TRUE(got == *bytes);
  EXPECT_NE(relay.stats().relayed, 0U);
}

// A blob that is longer than the one beside it does not keep it waiting.
TEST_P(NodeBlobs, ShareTheLinkInTurn) {
  connect_both();
  std::map<std::string, std::uint64_t> taken;
  std::vector<std::string> order;
  second->on_blob(blob_type, [&](incoming_blob& blob) {
    blob.accept([&, name = std::string{blob.note()}](const blob_part& part) {
      taken[name] += part.bytes().size();
      if (part.ended())
        order.push_back(name);
    });
  });
  const auto bytes = make_bytes(16 * mib);
  const bytes_view all{*bytes};
  send({bytes, all}, {.note = "long"});
  send({bytes, all.first(4 * mib)}, {.note = "short"});
  send({bytes, all.first(4 * mib)}, {.note = "other"});
  ASSERT_TRUE(turn_both([&] { return outcomes == 2; }));
  EXPECT_LT(taken["long"], 8 * mib);
  ASSERT_TRUE(turn_both([&] { return outcomes == 3; }));
  ASSERT_EQ(order.size(), 3U);
  EXPECT_EQ(order.back(), "long");
}

INSTANTIATE_TEST_SUITE_P(Kinds, NodeBlobs, ::testing::ValuesIn(node_kinds()),
                         [](const auto& kind) { return std::string{kind.param.name}; });

}  // namespace
}  // namespace atbus::test
