// When connections that nobody has confirmed are read for the first time, by a clock that the test turns.
#include "channel/stream/newcomers.h"

#include <fcntl.h>

#include <limits>
#include <thread>

#include "atbus/clock.hpp"
#include "plain_socket.h"
#include "test.h"

namespace atbus {
namespace {

using detail::newcomers;

struct numbered_newcomer : detail::newcomer {
  numbered_newcomer(int of_group, test::plain_socket dialled, detail::file accepted,
                    detail::read_space& space)
      : group_number(of_group),
        outside(std::move(dialled)),
        link(std::move(accepted), true, detail::hello{}, nullptr, space) {}

  int group_number;
  test::plain_socket outside;
  detail::stream_link link;
};

class HandshakeTurns : public ::testing::Test {
 protected:
  static constexpr std::chrono::nanoseconds begin = 100s;

  // Of the host 127.0.2.`host`. It has sent `words`.
  numbered_newcomer& comes(newcomers& to, int host, std::string_view words = "word") {
    auto dialled = test::plain_socket::connect(door_.address(),
                                               "ipv4://127.0.2." + std::to_string(host) + ":0");
    EXPECT_TRUE(dialled.send(words));
    const test::plain_socket accepted = door_.accept();
    auto& made = *all_.emplace_back(std::make_unique<numbered_newcomer>(
        host, std::move(dialled), detail::file{::fcntl(accepted.fd(), F_DUPFD_CLOEXEC, 0)},
        space_));
    EXPECT_TRUE(has_arrived(made, words.size()));
    to.join(made, made.link, begin);
    return made;
  }
  static bool has_arrived(const numbered_newcomer& at, std::size_t bytes) {
    for (const auto end = now() + 10s; at.link.unread() < bytes && now() < end;)
      std::this_thread::yield();
    return at.link.unread() == bytes;
  }
  // The host of the connection that begins at that time, 0 if none does.
  static int begins_at(newcomers& of, std::chrono::nanoseconds time) {
    const auto* const next = static_cast<numbered_newcomer*>(of.next_to_begin(time));
    return next == nullptr ? 0 : next->group_number;
  }

  test::plain_listener door_{"ipv4://127.0.0.1:0"};
  detail::read_space space_{64 * 1024};
  std::vector<std::unique_ptr<numbered_newcomer>> all_;
  stranger_stats counted_;
};

TEST_F(HandshakeTurns, GoByAddressAndThenByTime) {
  newcomers at{{.first_byte_timeout = 0ns, .handshakes_per_second = 1}};
  ASSERT_TRUE(at.may_read(comes(at, 1), begin, counted_));
  EXPECT_EQ(at.due_at(), std::chrono::nanoseconds::max());
  std::vector<numbered_newcomer*> crowd;
  for (int i = 0; i != 3; ++i) {
    crowd.push_back(&comes(at, 1));
    ASSERT_FALSE(at.may_read(*crowd.back(), begin, counted_));
  }
  for (int i = 0; i != 2; ++i)
    ASSERT_FALSE(at.may_read(comes(at, 2), begin, counted_));
  EXPECT_EQ(counted_.delayed, 5U);
  EXPECT_EQ(at.due_at(), begin + 1s);
  EXPECT_EQ(begins_at(at, begin + 999ms), 0);
  EXPECT_EQ(at.next_to_begin(begin + 1s), crowd[0]);
  EXPECT_EQ(begins_at(at, begin + 1s), 0);
  EXPECT_EQ(begins_at(at, begin + 2s), 2);
  EXPECT_EQ(at.next_to_begin(begin + 3s), crowd[1]);
  // One that has not waited yet goes behind those that wait.
  ASSERT_FALSE(at.may_read(comes(at, 3), begin + 4s, counted_));
  EXPECT_EQ(begins_at(at, begin + 4s), 2);
  EXPECT_EQ(at.next_to_begin(begin + 5s), crowd[2]);
  EXPECT_EQ(begins_at(at, begin + 6s), 3);
  EXPECT_EQ(at.due_at(), std::chrono::nanoseconds::max());
  EXPECT_EQ(begins_at(at, begin + 9s), 0);
  for (const auto& one : all_)
    EXPECT_TRUE(at.may_read(*one, begin + 6s, counted_));
}

TEST_F(HandshakeTurns, AreNotForThoseThatHaveLeft) {
  newcomers at{{.first_byte_timeout = 0ns, .handshakes_per_second = 1}};
  ASSERT_TRUE(at.may_read(comes(at, 1), begin, counted_));
  numbered_newcomer& leaves = comes(at, 1);
  numbered_newcomer& stays = comes(at, 2);
  ASSERT_FALSE(at.may_read(leaves, begin, counted_));
  ASSERT_FALSE(at.may_read(stays, begin, counted_));
  at.leave(leaves);
  EXPECT_FALSE(newcomers::waits(leaves));
  EXPECT_EQ(at.next_to_begin(begin + 1s), &stays);
  at.leave(stays);
  EXPECT_EQ(begins_at(at, begin + 2s), 0);
}

TEST_F(HandshakeTurns, AreWithoutEndWhereTheirNumberIsNotLimited) {
  newcomers at{{.first_byte_timeout = 0ns, .bytes = 0, .handshakes_per_second = 0}};
  for (int i = 0; i != 100; ++i) {
    numbered_newcomer& one = comes(at, 1);
    EXPECT_TRUE(at.may_read(one, begin, counted_));
    EXPECT_EQ(at.next_of_too_many(one), nullptr);
  }
  EXPECT_EQ(at.next_too_silent(begin + 24h), nullptr);
  EXPECT_EQ(counted_.delayed, 0U);
}

// Its bytes came after the look for them: it has begun, and must not wait in the middle. Its handshake counts.
TEST_F(HandshakeTurns, AreTakenByOneThatWasReadBeforeItsTurn) {
  newcomers at{{.first_byte_timeout = 0ns, .handshakes_per_second = 1}};
  ASSERT_TRUE(at.may_read(comes(at, 1), begin, counted_));
  numbered_newcomer& early = comes(at, 2, "");
  ASSERT_TRUE(at.may_read(early, begin, counted_));
  ASSERT_TRUE(early.outside.send("word"));
  ASSERT_TRUE(has_arrived(early, 4));
  ASSERT_TRUE(early.link.receive());
  ASSERT_TRUE(early.outside.send("more"));
  ASSERT_TRUE(has_arrived(early, 4));
  EXPECT_TRUE(at.may_read(early, begin, counted_));
  EXPECT_EQ(counted_.delayed, 0U);
  ASSERT_FALSE(at.may_read(comes(at, 1), begin, counted_));
  EXPECT_EQ(begins_at(at, begin + 1s), 0);
  EXPECT_EQ(begins_at(at, begin + 2s), 1);
}

TEST_F(HandshakeTurns, AllowAsManyBytesAsANumberHolds) {
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  newcomers at{{.bytes = most}};
  numbered_newcomer& one = comes(at, 1, std::string(2000, 'x'));
  ASSERT_TRUE(one.link.receive());
  EXPECT_FALSE(at.says_too_much(one, 1000));
  newcomers strict{{.bytes = 1000}};
  numbered_newcomer& other = comes(strict, 1, std::string(2000, 'x'));
  ASSERT_TRUE(other.link.receive());
  EXPECT_FALSE(strict.says_too_much(other, most));
  EXPECT_FALSE(strict.says_too_much(other, 1000));
  EXPECT_TRUE(strict.says_too_much(other, 999));
}

}  // namespace
}  // namespace atbus
