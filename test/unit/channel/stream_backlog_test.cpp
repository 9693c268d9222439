// Queues far above 1 MiB that fill while there is no connection, and connections that are lost while
// they leave: what was written is never written again.
#include <ostream>

#include "unit/channel/connection/connection_fixture.h"
#include "unit/channel/socket_channel/stream_fixture.h"

namespace atbus {
namespace {

struct backlog {
  const char* scheme;
  send_buffer_kind buffer;
  std::uint64_t mib;
};
void PrintTo(const backlog& of, std::ostream* out) {
  *out << of.scheme << " " << of.mib << " MiB";
}

std::string backlog_name(const ::testing::TestParamInfo<backlog>& tested) {
  const std::string_view scheme{tested.param.scheme};
  return std::string{scheme.substr(0, scheme.find(':'))} + "_" +
         (tested.param.buffer == send_buffer_kind::growing ? "growing" : "fixed") + "_" +
         std::to_string(tested.param.mib);
}

constexpr std::size_t message_size = 1000;
// What a receiver that closes may take with it: what it has read, and what its kernel holds.
constexpr std::uint64_t lost_bytes_max = std::uint64_t{4} << 20;

class StreamBacklog : public ::testing::TestWithParam<backlog> {
 protected:
  [[nodiscard]] static std::string any_address() {
    const std::string_view scheme{GetParam().scheme};
    if (scheme.starts_with("unix"))
      return fresh_unix_address() + "?shm=false";
    // A port that is free, for listeners that come later.
    auto probe = receiver::open(std::string{scheme} + "0");
    EXPECT_TRUE(probe) << probe.error().text();
    return probe->address();
  }
  [[nodiscard]] static sender_options of_sender() {
    sender_options options;
    options.socket.send_buffer = 256 * 1024;
    options.buffer = GetParam().buffer;
    options.send_buffer_size = GetParam().mib << 20;
    options.send_buffer_number = (GetParam().mib << 20) / build_settings::data_node_size;
    options.reconnect_min = 1ms;
    options.reconnect_max = 10ms;
    return options;
  }
  [[nodiscard]] static connect_options of_connection() {
    const sender_options same = of_sender();
    connect_options options;
    options.connection.socket = same.socket;
    options.connection.buffer = same.buffer;
    options.connection.send_buffer_size = same.send_buffer_size;
    options.connection.send_buffer_number = same.send_buffer_number;
    options.reconnect_min = same.reconnect_min;
    options.reconnect_max = same.reconnect_max;
    return options;
  }
  [[nodiscard]] static receiver_options of_receiver() {
    receiver_options options;
    options.socket.receive_buffer = 256 * 1024;
    return options;
  }

  // The next one; 0: it has no number.
  bytes_view next_message() {
    ++sent_;
    std::memcpy(message_.data(), &sent_, sizeof sent_);
    return message_;
  }
  template <class Channel>
  void fill(Channel& out) {
    while (out.send(next_message())) {
    }
    --sent_;  // it was refused
  }
  void handled(bytes_view message) {
    std::uint64_t number = 0;
    ASSERT_EQ(message.size(), message_size);
    std::memcpy(&number, message.data(), sizeof number);
    if (number <= last_)
      ++twice_;
    else
      lost_ += number - last_ - 1;
    last_ = std::max(last_, number);
  }
  void expect_each_once_at_most() const {
    EXPECT_EQ(twice_, 0U) << "handled again";
    EXPECT_LE(lost_ * message_size, lost_bytes_max) << "written by nobody";
  }

  std::uint64_t sent_ = 0;
  std::uint64_t last_ = 0;   // handled
  std::uint64_t twice_ = 0;  // handled although a later one was
  std::uint64_t lost_ = 0;
  std::vector<std::byte> message_ = std::vector<std::byte>(message_size);
};

INSTANTIATE_TEST_SUITE_P(
    Channel, StreamBacklog,
    ::testing::Values(backlog{"unix://@", send_buffer_kind::growing, 16},
                      backlog{"unix://@", send_buffer_kind::fixed, 16},
                      backlog{"unix://@", send_buffer_kind::growing, 64},
                      backlog{"ipv4://127.0.0.1:", send_buffer_kind::growing, 32},
                      backlog{"ipv4://127.0.0.1:", send_buffer_kind::fixed, 32}),
    backlog_name);

TEST_P(StreamBacklog, NothingWrittenIsWrittenAgainToTheNextReceiver) {
  const std::string where = any_address();
  auto out = sender::open(where, of_sender());
  ASSERT_TRUE(out) << out.error().text();
  fill(*out);
  const std::uint64_t queued = sent_;
  ASSERT_GT(queued * message_size, std::uint64_t{8} << 20);
  // Each receiver but the last one ends in the middle.
  for (std::uint64_t until = queued / 4; until <= queued; until += queued / 4) {
    auto inbox = receiver::open(where, of_receiver());
    ASSERT_TRUE(inbox) << inbox.error().text();
    ASSERT_TRUE(repeat_until([&] { return last_ >= until; },
                             [&] {
                               (void)out->flush(1ms);
                               inbox->poll([&](bytes_view m) { handled(m); }, {.messages = 500});
                             }));
  }
  expect_each_once_at_most();
}

TEST_P(StreamBacklog, TakeBackHandsOutNothingThatWasHandled) {
  const std::string where = any_address();
  auto out = sender::open(where, of_sender());
  ASSERT_TRUE(out) << out.error().text();
  fill(*out);
  {
    auto inbox = receiver::open(where, of_receiver());
    ASSERT_TRUE(inbox) << inbox.error().text();
    ASSERT_TRUE(repeat_until([&] { return last_ >= sent_ / 3; },
                             [&] {
                               (void)out->flush(1ms);
                               inbox->poll([&](bytes_view m) { handled(m); }, {.messages = 500});
                             }));
  }
  ASSERT_TRUE(repeat_until([&] { return !out->receiver_alive(); }, [&] { (void)out->flush(1ms); }));
  std::uint64_t before = 0;
  std::uint64_t count = 0;
  const auto taken = out->take_back([&](bytes_view m, errc how) {
    EXPECT_EQ(how, errc::not_delivered);
    std::uint64_t number = 0;
    std::memcpy(&number, m.data(), sizeof number);
    if (before == 0)
      EXPECT_GT(number, last_);
    else
      EXPECT_EQ(number, before + 1);
    before = number;
    ++count;
  });
  ASSERT_TRUE(taken) << taken.error().text();
  EXPECT_EQ(*taken, count);
  EXPECT_EQ(before, sent_);
}

TEST_P(StreamBacklog, RoomComesBackAsItIsWritten) {
  const std::string where = any_address();
  auto out = sender::open(where, of_sender());
  ASSERT_TRUE(out) << out.error().text();
  fill(*out);
  auto inbox = receiver::open(where, of_receiver());
  ASSERT_TRUE(inbox) << inbox.error().text();
  ASSERT_TRUE(repeat_until([&] { return last_ >= sent_ / 3; },
                           [&] {
                             (void)out->flush(1ms);
                             inbox->poll([&](bytes_view m) { handled(m); }, {.messages = 500});
                           }));
  const std::uint64_t before = sent_;
  fill(*out);
  EXPECT_GT(sent_ - before, before / 4);
}

TEST_P(StreamBacklog, ASetWritesNothingTwiceAndSaysWhatItHasNotWritten) {
  const std::string where = any_address();
  recorded_set out;
  const connection to = out.connect(where, of_connection());
  fill(to);
  const std::size_t full = to.queued();
  for (const std::uint64_t until : {sent_ / 4, sent_ / 2}) {
    recorded_set in;
    in.on_message = [&](connection, bytes_view m) { handled(m); };
    listen_options narrow;
    narrow.connection.socket.receive_buffer = 256 * 1024;
    ASSERT_EQ(in.listen(where, narrow), where);
    ASSERT_TRUE(repeat_until([&] { return last_ >= until; },
                             [&] {
                               out.set->poll();
                               in.set->poll({.messages = 500});
                               in.messages.clear();
                             }));
  }
  EXPECT_LT(to.queued(), full * 3 / 4);
  ASSERT_TRUE(
      repeat_until([&] { return to.state() != connection_state::open; }, [&] { out.set->poll(); }));
  std::uint64_t first = 0;
  const std::size_t unsent = to.unsent([&](bytes_view m) {
    if (first == 0)
      std::memcpy(&first, m.data(), sizeof first);
  });
  EXPECT_GT(first, last_);
  EXPECT_EQ(unsent, sent_ - first + 1);
  expect_each_once_at_most();
}

// Each new link writes again what its user has not released; that does not make it unwritten.
TEST_F(TwoSets, WhatAnEarlierLinkHasWrittenIsNotCalledUnsent) {
  connect_options options;
  options.connection.release = release_policy::by_user;
  options.reconnect_min = 1ms;
  options.reconnect_max = 10ms;
  join(options);
  ASSERT_TRUE(out.send(as_bytes("written")));
  ASSERT_TRUE(until([&] { return a.messages.size() == 1; }));
  a.set.reset();
  ASSERT_TRUE(until([&] { return out.state() != connection_state::open; }));
  ASSERT_TRUE(out.send(as_bytes("not written")));
  std::vector<std::string> unsent;
  const auto list = [&] {
    unsent.clear();
    return out.unsent([&](bytes_view m) { unsent.emplace_back(as_text(m)); });
  };
  EXPECT_EQ(list(), 1U);
  // A listener that nobody serves: the next link begins, and nothing leaves.
  const auto sendmsg = detail::kernel().sendmsg;
  detail::kernel().sendmsg = [](int, const msghdr*, int) -> ssize_t {
    errno = EAGAIN;
    return -1;
  };
  recorded_set other;
  ASSERT_EQ(other.listen(where), where);
  ASSERT_TRUE(until([&] { return out.state() == connection_state::opening; }));
  EXPECT_EQ(list(), 1U);
  EXPECT_EQ(unsent, std::vector<std::string>{"not written"});
  detail::kernel().sendmsg = sendmsg;
}

// What lay in a lane comes back to a queue that is larger than the sender's own.
TEST(StreamLaneBacklog, NothingWrittenIsWrittenAgainAfterALaneWasLeft) {
  const std::string name = fresh_unix_address();
  auto first = std::make_optional(receiver::open(name, {.lane_size = std::uint64_t{16} << 20}));
  ASSERT_TRUE(*first) << first->error().text();
  auto out = sender::open(name, {.reconnect_min = 1ms, .reconnect_max = 10ms});
  ASSERT_TRUE(out) << out.error().text();
  for (int i = 0; i < 3; ++i) {  // it moves on to its lane
    ASSERT_TRUE(out->send(as_bytes("opening")));
    ASSERT_TRUE(repeat_until([&] { return (*first)->poll([](bytes_view) {}) != 0; },
                             [&] { (void)out->flush(1ms); }));
  }
  std::vector<std::byte> message(message_size);
  std::uint64_t sent = 0;
  for (;;) {
    const std::uint64_t number = sent + 1;
    std::memcpy(message.data(), &number, sizeof number);
    if (!out->send(message))
      break;
    sent = number;
  }
  ASSERT_GT(sent * message_size, std::uint64_t{12} << 20);
  first.reset();
  std::uint64_t last = 0;
  std::uint64_t twice = 0;
  for (const std::uint64_t until : {sent / 4, sent / 2, sent}) {
    receiver_options narrow;
    narrow.socket.receive_buffer = 256 * 1024;
    auto inbox = receiver::open(name + "?shm=false", narrow);
    ASSERT_TRUE(inbox) << inbox.error().text();
    ASSERT_TRUE(repeat_until([&] { return last >= until; },
                             [&] {
                               (void)out->flush(1ms);
                               inbox->poll(
                                   [&](bytes_view m) {
                                     std::uint64_t number = 0;
                                     std::memcpy(&number, m.data(), sizeof number);
                                     twice += number <= last ? 1 : 0;
                                     last = std::max(last, number);
                                   },
                                   {.messages = 500});
                             }));
  }
  EXPECT_EQ(twice, 0U);
}

}  // namespace
}  // namespace atbus
