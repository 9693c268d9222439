// Circuits between two nodes over relays that drop, delay, reorder and refuse.
#include "node/circuit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <vector>

#include "atbus/core/clock.hpp"
#include "raw_body.h"
#include "routed_message.h"

namespace atbus::detail {
namespace {

using namespace std::chrono_literals;

constexpr std::byte data_kind{0};
constexpr std::byte call_kind{1};  // hello
constexpr std::byte told_kind{6};  // acknowledge

class test_random final : public random_source {
 public:
  explicit test_random(std::uint64_t seed) : engine_(seed) {}
  void fill(std::span<std::byte> bytes) noexcept override {
    for (std::byte& one : bytes)
      one = static_cast<std::byte>(engine_());
  }

 private:
  std::mt19937_64 engine_;
};

class end;

struct network {
  explicit network(std::uint64_t seed) : random(seed), clock(1s) {}

  [[nodiscard]] bool happens(unsigned percent) { return random() % 100 < percent; }
  void run_for(std::chrono::nanoseconds time, const std::function<void()>& each = {});

  std::mt19937_64 random;
  manual_clock clock;
  std::multimap<std::chrono::nanoseconds, std::function<void()>> under_way;
  std::vector<end*> ends;
  unsigned drops = 0;  // of a hundred
  unsigned fails = 0;  // dropped, and the origin is told
  errc reason = errc::would_block;
  unsigned blocks = 0;             // has no room
  std::size_t capacity = 1 << 30;  // bytes under way to an end: what is more fails
  std::uint64_t failed = 0;
  bool reorders = false;
  std::uint64_t carried = 0;  // by relays: batches, and words about them
};

// A node as circuits see it: hops, events, and a session that counts and acknowledges.
class end final : public next_hops, public link_events {
 public:
  end(network& net, std::uint64_t id)
      : random(id),
        all(id, {.message_limit = 16 * 1024, .queue_size = 64 * 1024}, *this, *this, timers,
            net.clock, random, progress),
        id_(id),
        net_(net) {
    net.ends.push_back(this);
  }

  status pass_on(const routed_head& head, bytes_view batch) noexcept override {
    if (net_.happens(net_.blocks)) {
      blocked = true;
      return errc::would_block;
    }
    if (no_way)
      return errc::no_route;
    ++net_.carried;
    std::vector<std::byte> message(routed_head_size);
    encode(head, message.data());
    message.insert(message.end(), batch.begin(), batch.end());
    routed_head read;
    EXPECT_TRUE(decode(message, read));
    called_as = read.circuit;
    messages_sent += read.messages;
    EXPECT_TRUE(read.messages < 2 || batch.size() <= 4096) << "more than every node takes";
    if (net_.happens(net_.drops))
      return {};
    const bool full = under_way_ + batch.size() > net_.capacity;
    if (read.step == circuit_step::carry && (net_.happens(net_.fails) || full)) {
      ++net_.failed;
      read.step = circuit_step::failed;
      read.reason = net_.reason;
      std::swap(read.source, read.destination);
      std::vector<std::byte> bytes(routed_head_size);
      encode(read, bytes.data());
      send(read, std::move(bytes), this);
      return {};
    }
    for (end* one : net_.ends) {
      if (one->id_ == head.destination)
        send(read, message, one);
    }
    return {};
  }
  link_trust trust_towards(bus_id) const noexcept override { return link_trust::same_user; }
  std::string way_to(bus_id) const override { return "a way"; }
  void end_poll() noexcept override { ++polls_ended; }

  void opened(link& at, bool accepted) override {
    EXPECT_EQ(at.kind(), link_kind::relayed);
    if (accepted) {
      ++accepts;
      at_ = &at;
    } else {
      put(at, call_kind, 0);
    }
  }
  void received_other(link& from, bytes_view message, bool) override {
    if (expect_many)
      return;
    ASSERT_EQ(&from, at_);
    if (message.empty()) {
      ++breaches;
      return;
    }
    if (message[0] == told_kind) {
      ++handled;
      from.release(number_in(message) - released);
      released = number_in(message);
      return;
    }
    ++handled;
    if (message[0] == data_kind) {
      owes = true;
      got.push_back(number_in(message));
      if ((message[1] & std::byte{flag_acknowledge}) != std::byte{})
        asked = true;
      ++progress.told;
      if (on_data)
        on_data();
    }
  }
  void writable(link&) override { ++writables; }
  void closed(link& at, const error& why) override {
    EXPECT_EQ(&at, at_);
    ended = why.code();
    at.take_unreleased([this](bytes_view message, errc fate) {
      if (message[0] == data_kind)
        not_released.emplace_back(number_in(message), fate);
    });
    at_ = nullptr;
  }
  void problem(const error&) override {}
  void left(link&) override {}
  void recalling(link&) override {}
  void returned(link&) override {}
  void inherited(const node_life&, bytes_view, bool, bool) override {}

  void call(std::uint64_t whom) { at_ = all.open(whom); }
  // Data with that number; false: no room.
  bool send_data(std::uint64_t number) { return put(*at_, data_kind, number); }
  // Then messages come.
  void begin_poll() {
    progress = {.most = most, .deadline = deadline};
    timers.run(net_.clock.now());
    all.poll_rests();
  }
  void poll() {
    if (std::exchange(blocked, false))
      all.writable();
    all.poll();
    const bool due = net_.clock.now() - told_at >= 20ms;
    if (at_ != nullptr && owes && (due || std::exchange(asked, false)) &&
        put(*at_, told_kind, handled)) {
      owes = false;
      told_at = net_.clock.now();
    }
    all.flush();
  }
  [[nodiscard]] link* at() const { return at_; }

  test_random random;
  timer_queue timers;
  std::size_t most = 4096;  // messages that a poll tells
  std::chrono::nanoseconds deadline{0};
  poll_progress progress{.most = most};
  circuits all;
  std::function<void()> on_data;
  int polls_ended = 0;
  int breaches = 0;  // of the protocol
  std::uint64_t messages_sent = 0;
  bool blocked = false;
  bool no_way = false;
  bool owes = false;  // an acknowledgement
  bool asked = false;
  bool expect_many = false;     // circuits
  std::uint64_t called_as = 0;  // the circuit that was spoken in last
  int accepts = 0;
  int writables = 0;
  std::uint64_t handled = 0;
  std::uint64_t released = 0;
  std::chrono::nanoseconds told_at{0};
  std::vector<std::uint64_t> got;
  std::vector<std::pair<std::uint64_t, errc>> not_released;
  std::optional<errc> ended;

 private:
  static std::uint64_t number_in(bytes_view message) {
    return load_little_endian<std::uint64_t>(message.data() + 8);
  }
  static bool put(link& to, std::byte kind, std::uint64_t number) {
    const auto purpose = kind == data_kind ? message_purpose::data : message_purpose::control;
    const std::size_t size = kind == data_kind ? 16 + number % 500 : 16;
    status why;
    std::byte* const at = to.claim(size, purpose, why);
    if (at == nullptr)
      return false;
    std::memset(at, 0, size);
    at[0] = kind;
    store_little_endian(at + 8, number);
    to.commit(size);
    return true;
  }
  void send(const routed_head& head, std::vector<std::byte> bytes, end* to) {
    auto when = net_.clock.now() + std::chrono::microseconds{50 + net_.random() % 450};
    if (!net_.reorders)
      when = last_arrival_ = std::max(when, last_arrival_);
    under_way_ += bytes.size();
    net_.under_way.emplace(when, [this, head, bytes = std::move(bytes), to] {
      under_way_ -= bytes.size();
      to->all.arrived(head, bytes, link_trust::same_user);
    });
  }

  bus_id id_;
  network& net_;
  std::size_t under_way_ = 0;
  link* at_ = nullptr;
  std::chrono::nanoseconds last_arrival_{0};
};

void network::run_for(std::chrono::nanoseconds time, const std::function<void()>& each) {
  for (const auto until = clock.now() + time; clock.now() < until;) {
    clock.advance(100us);
    for (end* one : ends)
      one->begin_poll();
    while (!under_way.empty() && under_way.begin()->first <= clock.now()) {
      const auto what = std::move(under_way.begin()->second);
      under_way.erase(under_way.begin());
      what();
    }
    for (end* one : ends)
      one->poll();
    if (each)
      each();
  }
}

class Circuit : public ::testing::Test {
 protected:
  void open() {
    one.call(2);
    net.run_for(5ms);
    ASSERT_EQ(two.accepts, 1);
  }
  // Sends so many from `from`, as fast as there is room; then all that is under way arrives.
  void send(end& from, std::uint64_t count) {
    std::uint64_t sent = 0;
    const auto more = [&] {
      while (sent != count && from.at() != nullptr && from.send_data(sent))
        ++sent;
    };
    for (int i = 0; i != 3000 && sent != count; ++i)
      net.run_for(10ms, more);
    net.run_for(1s);
    EXPECT_EQ(sent, count);
  }
  static void expect_all(const end& at, std::uint64_t count) {
    ASSERT_EQ(at.got.size(), count);
    for (std::uint64_t i = 0; i != count; ++i)
      ASSERT_EQ(at.got[i], i);
  }

  network net{1};
  end one{net, 1};
  end two{net, 2};
};

TEST_F(Circuit, CarriesMessagesBothWaysInOrder) {
  open();
  send(one, 1000);
  send(two, 1000);
  expect_all(two, 1000);
  expect_all(one, 1000);
}

TEST_F(Circuit, SendsAMessageOnceWhereNothingIsLost) {
  open();
  const std::uint64_t before = one.messages_sent;
  send(one, 1000);
  EXPECT_LT(one.messages_sent - before, 1001U);
}

TEST_F(Circuit, SendsManyMessagesInABatch) {
  open();
  const std::uint64_t before = net.carried;
  send(one, 1000);                        // 282 KB, as fast as there is room
  EXPECT_LT(net.carried - before, 200U);  // acknowledgements too
}

// Else each acknowledgement of the session above would wake all nodes on the way once more.
TEST_F(Circuit, AnswersWhatIsNotDataOnceInAWhile) {
  open();
  net.run_for(1s);
  const std::uint64_t before = net.carried;
  for (int i = 0; i != 10; ++i) {
    status why;
    std::byte* const at = one.at()->claim(16, message_purpose::control, why);
    ASSERT_NE(at, nullptr);
    std::memset(at, 0, 16);
    at[0] = told_kind;
    one.at()->commit(16);
    net.run_for(1ms);
  }
  EXPECT_EQ(net.carried - before, 10U);
  net.run_for(100ms);
  EXPECT_EQ(net.carried - before, 11U);
}

TEST_F(Circuit, TellsOfRoomAfterItHadNone) {
  open();
  while (one.send_data(1)) {
  }
  EXPECT_EQ(one.writables, 0);
  net.run_for(1s);
  EXPECT_EQ(one.writables, 1);
}

TEST_F(Circuit, KeepsWhatTheNextLinkHasNoRoomFor) {
  open();
  net.blocks = 100;
  EXPECT_TRUE(one.send_data(0));
  net.run_for(1s);
  EXPECT_TRUE(two.got.empty());
  net.blocks = 0;
  net.run_for(1s);
  expect_all(two, 1);
}

TEST_F(Circuit, WaitsLongerEachTimeARelayHasNoRoom) {
  open();
  net.fails = 100;
  const std::uint64_t before = net.carried;
  EXPECT_TRUE(one.send_data(0));
  net.run_for(10s);
  EXPECT_LT(net.carried - before, 60U);
  net.fails = 0;
  net.run_for(2s);
  expect_all(two, 1);
}

// Else it would have the window again that was too much as soon as the relay has room.
TEST_F(Circuit, FindsOutHowMuchARelayHasRoomFor) {
  open();
  net.capacity = 40 * 1024;
  std::uint64_t sent = 0;
  net.run_for(5s, [&] {
    while (one.send_data(sent))
      ++sent;
  });
  EXPECT_GT(sent, 30000U);
  EXPECT_LT(net.failed, 200U);
}

TEST_F(Circuit, EndsWhereThereIsNoWayAndSaysWhatNeverLeft) {
  open();
  EXPECT_TRUE(one.send_data(0));
  one.all.flush();
  one.no_way = true;
  EXPECT_TRUE(one.send_data(1));
  net.run_for(10ms);
  EXPECT_EQ(one.ended, errc::no_route);
  using fates = std::vector<std::pair<std::uint64_t, errc>>;
  EXPECT_EQ(one.not_released, (fates{{0, errc::outcome_unknown}, {1, errc::not_delivered}}));
  EXPECT_EQ(one.all.size(), 0U);
}

TEST_F(Circuit, EndsWhenARelayKnowsNoWay) {
  open();
  net.fails = 100;
  net.reason = errc::hop_limit;
  EXPECT_TRUE(one.send_data(0));
  net.run_for(10ms);
  EXPECT_EQ(one.ended, errc::hop_limit);
}

TEST_F(Circuit, LeavesWithTheNextFlushAndNotBefore) {
  open();
  const std::uint64_t before = net.carried;
  EXPECT_TRUE(one.send_data(0));
  EXPECT_TRUE(one.send_data(1));
  EXPECT_TRUE(one.all.has_unflushed());
  EXPECT_EQ(net.carried, before);
  one.all.flush();
  EXPECT_FALSE(one.all.has_unflushed());
  EXPECT_EQ(net.carried, before + 1);  // in one batch
}

TEST_F(Circuit, TakesWhatIsPutInItsStretchBetweenItsOwnMessages) {
  open();
  for (std::uint64_t i = 0; i != 2000; i += 2) {
    ASSERT_TRUE(one.send_data(i));
    const direct_place place = one.at()->place();
    ASSERT_NE(place.stretch, nullptr);
    if (place.stretch->room() >= frame_size(16)) {
      std::byte* const at = place.stretch->claim(16);
      std::memset(at, 0, 16);
      store_little_endian(at + 8, i + 1);
      place.stretch->append(16, 16);
    } else {
      ASSERT_TRUE(one.send_data(i + 1));
    }
    if (i % 20 == 0)
      net.run_for(25ms);
  }
  net.run_for(1s);
  expect_all(two, 2000);
}

TEST_F(Circuit, LeavesAnOpenClaimInItsStretchWhereItIs) {
  open();
  status why;
  ASSERT_TRUE(one.send_data(0));
  std::byte* const at = one.at()->claim(16, message_purpose::data, why);
  ASSERT_NE(at, nullptr);
  const std::uint64_t before = net.carried;
  one.at()->release(0);  // which sends what there is
  EXPECT_EQ(net.carried, before + 1);
  std::memset(at, 0, 16);
  store_little_endian(at + 8, std::uint64_t{1});
  one.at()->commit(16);
  net.run_for(1s);
  expect_all(two, 2);
}

TEST_F(Circuit, GivesUpAnOpenClaimWhenItIsFlushed) {
  open();
  status why;
  ASSERT_NE(one.at()->claim(16, message_purpose::data, why), nullptr);
  one.all.flush();
  EXPECT_FALSE(one.all.has_unflushed());
  const std::uint64_t before = net.carried;
  one.at()->commit(16);
  one.all.flush();
  EXPECT_EQ(net.carried, before);
  EXPECT_TRUE(one.send_data(0));
  net.run_for(1s);
  expect_all(two, 1);
}

// Each message has a place in the ring, which a long claim is none the less one of.
TEST_F(Circuit, KeepsWhatIsSentBehindALongClaimOfAShortMessage) {
  open();
  std::uint64_t number = 0;
  for (int round = 0; round != 10; ++round) {
    status why;
    std::byte* const at = one.at()->claim(16 * 1024, message_purpose::data, why);
    ASSERT_NE(at, nullptr);
    std::memset(at, 0, 16);
    store_little_endian(at + 8, number++);
    one.at()->commit(16);
    for (frame_stretch* more = one.at()->place().stretch;
         more != nullptr && more->room() >= frame_size(16);) {
      std::byte* const next = more->claim(16);
      std::memset(next, 0, 16);
      store_little_endian(next + 8, number++);
      more->append(16, 16);
    }
    net.run_for(100ms);
  }
  expect_all(two, number);
}

TEST_F(Circuit, HandsBackWhatWasPutInItsStretch) {
  open();
  ASSERT_TRUE(one.send_data(0));
  one.all.flush();
  ASSERT_TRUE(one.send_data(1));
  one.at()->abort();
  net.run_for(10ms);
  using fates = std::vector<std::pair<std::uint64_t, errc>>;
  EXPECT_EQ(one.not_released, (fates{{0, errc::outcome_unknown}, {1, errc::not_delivered}}));
}

TEST_F(Circuit, EndsAtTheOtherEndToo) {
  open();
  one.at()->abort();
  net.run_for(10ms);
  EXPECT_EQ(one.ended, errc::closed);
  EXPECT_EQ(two.ended, errc::peer_closed);
}

TEST_F(Circuit, LetsLeaveWhatWasCommittedBeforeItCloses) {
  open();
  net.blocks = 100;
  for (std::uint64_t i = 0; i != 20; ++i)
    EXPECT_TRUE(one.send_data(i));
  one.at()->close(10s);
  net.run_for(1s);
  EXPECT_FALSE(one.ended);
  net.blocks = 0;
  net.run_for(1s);
  EXPECT_EQ(one.ended, errc::closed);
  expect_all(two, 20);
}

TEST_F(Circuit, ClosesWhenItsTimeIsOver) {
  open();
  net.blocks = 100;
  EXPECT_TRUE(one.send_data(0));
  one.at()->close(1s);
  net.run_for(2s);
  EXPECT_EQ(one.ended, errc::timed_out);
}

TEST_F(Circuit, HandsNothingUpWhilePausedAndAllAfterwards) {
  open();
  two.at()->pause();
  EXPECT_TRUE(one.send_data(0));
  EXPECT_TRUE(one.send_data(1));
  net.run_for(1s);
  EXPECT_TRUE(two.got.empty());
  two.at()->resume();
  net.run_for(1s);
  expect_all(two, 2);
}

// So many short messages that they leave in one batch.
constexpr std::uint64_t short_batch = 10;

TEST_F(Circuit, StopsInABatchWhereThePollHasToldEnough) {
  open();
  for (std::uint64_t i = 0; i != short_batch; ++i)
    EXPECT_TRUE(one.send_data(i));
  two.most = 3;
  std::vector<std::size_t> seen;
  net.run_for(5ms, [&] {
    if (!two.got.empty() && (seen.empty() || seen.back() != short_batch))
      seen.push_back(two.got.size());
  });
  EXPECT_EQ(seen, (std::vector<std::size_t>{3, 6, 9, 10}));
  expect_all(two, short_batch);
  EXPECT_EQ(one.messages_sent, 1 + short_batch) << "the call, and each once";
}

TEST_F(Circuit, HasSomethingDueWhileABatchIsNotToldToItsEnd) {
  open();
  net.run_for(100ms);
  for (std::uint64_t i = 0; i != short_batch; ++i)
    EXPECT_TRUE(one.send_data(i));
  two.most = 1;
  bool seen = false;
  net.run_for(5ms, [&] {
    if (!two.got.empty() && two.got.size() != short_batch) {
      EXPECT_TRUE(two.all.has_due());
    }
    seen = seen || two.got.size() == short_batch / 2;
  });
  EXPECT_TRUE(seen);
  EXPECT_FALSE(two.all.has_due());
}

TEST_F(Circuit, LooksAtTheClockWithinABatch) {
  open();
  two.on_data = [&] { net.clock.advance(1us); };
  for (std::uint64_t i = 0; i != 100; ++i)
    EXPECT_TRUE(one.send_data(500 * i));  // of 16 bytes
  two.deadline = 1ns;
  net.run_for(200us);
  std::size_t before = two.got.size();
  net.run_for(400us, [&] {
    EXPECT_LE(two.got.size() - before, 32U);
    before = two.got.size();
  });
  net.run_for(5ms);
  EXPECT_EQ(two.got.size(), 100U);
  EXPECT_EQ(two.polls_ended, 3);
}

// What comes while the rest waits is not kept, but asked for again.
TEST_F(Circuit, KeepsOrderWhereBatchesComeFasterThanTheyAreTold) {
  open();
  two.most = 1;
  std::uint64_t sent = 0;
  net.run_for(100ms, [&] {
    for (int i = 0; i != 5 && sent != 300 && one.send_data(sent); ++i)
      ++sent;
  });
  net.run_for(10s);
  EXPECT_EQ(sent, 300U);
  expect_all(two, 300);
}

TEST_F(Circuit, HandsUpTheRestOfABatchAfterAPause) {
  open();
  two.on_data = [&] {
    if (two.got.size() == 4)
      two.at()->pause();
  };
  for (std::uint64_t i = 0; i != short_batch; ++i)
    EXPECT_TRUE(one.send_data(i));
  net.run_for(1s);
  EXPECT_EQ(two.got.size(), 4U);
  EXPECT_FALSE(two.all.has_due()) << "it may sleep";
  EXPECT_TRUE(one.send_data(short_batch));
  net.run_for(1s);
  two.at()->resume();
  net.run_for(1s);
  expect_all(two, short_batch + 1);
}

TEST_F(Circuit, HandsUpTheRestOfABatchAfterAHandlerThrew) {
  open();
  two.on_data = [&] {
    if (two.got.size() == 4)
      throw std::runtime_error("a handler's");
  };
  for (std::uint64_t i = 0; i != short_batch; ++i)
    EXPECT_TRUE(one.send_data(i));
  EXPECT_THROW(net.run_for(5ms), std::runtime_error);
  EXPECT_EQ(two.got.size(), 4U);
  net.run_for(5ms);
  expect_all(two, short_batch);
}

TEST_F(Circuit, HandsUpNothingMoreOfABatchOnceItIsAborted) {
  open();
  two.on_data = [&] {
    if (two.got.size() == 4)
      two.at()->abort();
  };
  for (std::uint64_t i = 0; i != short_batch; ++i)
    EXPECT_TRUE(one.send_data(i));
  net.run_for(1s);
  EXPECT_EQ(two.got.size(), 4U);
  EXPECT_EQ(two.ended, errc::closed);
  EXPECT_EQ(two.all.size(), 0U);
}

TEST_F(Circuit, HandsUpNothingMoreOfABatchOnceTheNodeIsClosed) {
  open();
  two.on_data = [&] { two.all.close(); };
  for (std::uint64_t i = 0; i != short_batch; ++i)
    EXPECT_TRUE(one.send_data(i));
  net.run_for(1ms);
  EXPECT_EQ(two.got.size(), 1U);
}

TEST_F(Circuit, HandsBackOnlyWhatIsNotReleasedOfABatch) {
  open();
  for (std::uint64_t i = 0; i != short_batch; ++i)
    EXPECT_TRUE(one.send_data(i));
  one.all.flush();
  one.at()->release(1 + 8);  // the call, and eight
  EXPECT_FALSE(one.at()->settled());
  EXPECT_TRUE(one.send_data(short_batch));
  one.at()->abort();
  net.run_for(10ms);
  using fates = std::vector<std::pair<std::uint64_t, errc>>;
  EXPECT_EQ(
      one.not_released,
      (fates{{8, errc::outcome_unknown}, {9, errc::outcome_unknown}, {10, errc::not_delivered}}));
}

TEST_F(Circuit, IsSettledOnceAllOfABatchIsReleased) {
  open();
  for (std::uint64_t i = 0; i != short_batch; ++i)
    EXPECT_TRUE(one.send_data(i));
  one.all.flush();
  one.at()->release(1 + short_batch - 1);
  EXPECT_FALSE(one.at()->settled());
  one.at()->release(1);
  EXPECT_TRUE(one.at()->settled());
}

// Which ends it, as any message that is none.
TEST_F(Circuit, TellsOfABatchThatIsNone) {
  open();
  byte_buffer many;
  for (int i = 0; i != 300; ++i) {
    const byte_buffer one_more = from_hex("08 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00");
    many.insert(many.end(), one_more.begin(), one_more.end());
  }
  const std::array<byte_buffer, 5> bodies{
      many,                                                          // more than any node sends
      from_hex("10 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"),   // longer than the batch
      from_hex("08 00 00 00 01 00 00 00 00 00 00 00 00 00 00 00"),   // with a checksum
      from_hex("07 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"),   // shorter than a head
      from_hex("08 00 00 10 00 00 00 00 00 00 00 00 00 00 00 00")};  // of another kind
  std::uint64_t number = 1;
  for (const byte_buffer& body : bodies) {
    const routed_head head{
        .messages = 1, .destination = 2, .source = 1, .circuit = one.called_as, .number = ++number};
    byte_buffer bytes(routed_head_size);
    encode(head, bytes.data());
    bytes.insert(bytes.end(), body.begin(), body.end());
    two.all.arrived(head, bytes, link_trust::stranger);
    EXPECT_EQ(static_cast<std::uint64_t>(two.breaches), number - 1);
  }
  EXPECT_TRUE(two.got.empty());
}

TEST_F(Circuit, IsNotTouchedInTheNameOfAnotherNode) {
  open();
  EXPECT_TRUE(two.send_data(0));
  const routed_head forged{.step = circuit_step::ended,
                           .destination = 2,
                           .source = 3,
                           .circuit = two.called_as,
                           .number = 1};
  std::vector<std::byte> bytes(routed_head_size);
  encode(forged, bytes.data());
  two.all.arrived(forged, bytes, link_trust::stranger);
  net.run_for(1s);
  EXPECT_FALSE(two.ended);
  expect_all(one, 1);
}

TEST_F(Circuit, WithoutACallIsRefused) {
  open();
  one.all.close();
  end other{net, 1};
  std::swap(net.ends.front(), net.ends.back());
  net.ends.pop_back();
  EXPECT_TRUE(two.send_data(0));
  net.run_for(1s);
  EXPECT_EQ(two.ended, errc::peer_closed);
  EXPECT_EQ(other.accepts, 0);
}

TEST(Circuits, ThatDoNotRegisterAreLimited) {
  network net{1};
  end two{net, 2};
  for (std::uint64_t number = 1; number != 5000; ++number) {
    const routed_head head{.destination = 2, .source = 1, .circuit = number, .number = 1};
    byte_buffer call(16);
    call[0] = call_kind;
    two.expect_many = true;
    two.all.arrived(head, routed_message(head, {call}), link_trust::stranger);
  }
  EXPECT_EQ(two.all.size(), 1024U);
}

// Every fault at once, then none: all arrives in order and once.
class CircuitRuns : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(CircuitRuns, LoseNothing) {
  for (std::uint64_t seed = GetParam(); seed != GetParam() + 15; ++seed) {
    SCOPED_TRACE(seed);
    network net{seed};
    end one{net, 1};
    end two{net, 2};
    net.reorders = net.happens(50);
    net.drops = static_cast<unsigned>(net.random() % 20);
    net.fails = static_cast<unsigned>(net.random() % 10);
    net.blocks = static_cast<unsigned>(net.random() % 30);
    one.call(2);
    std::uint64_t from_one = 0;
    std::uint64_t from_two = 0;
    net.run_for(1s, [&] {
      if (net.happens(10) && two.at() != nullptr && one.send_data(from_one))
        ++from_one;
      if (net.happens(5) && two.at() != nullptr && two.send_data(from_two))
        ++from_two;
    });
    net.drops = net.fails = net.blocks = 0;
    for (int i = 0; i != 20 && (one.got.size() != from_two || two.got.size() != from_one); ++i)
      net.run_for(500ms);
    EXPECT_FALSE(one.ended);
    EXPECT_FALSE(two.ended);
    for (const auto& [at, count] : {std::pair{&one, from_two}, std::pair{&two, from_one}}) {
      ASSERT_EQ(at->got.size(), count);
      for (std::uint64_t i = 0; i != count; ++i)
        ASSERT_EQ(at->got[i], i);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, CircuitRuns, ::testing::Values(1, 101, 201));

}  // namespace
}  // namespace atbus::detail
