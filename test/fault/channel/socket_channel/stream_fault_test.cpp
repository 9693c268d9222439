// Streams over a network that delays, splits, stalls, corrupts, cuts and resets.
#include <unistd.h>

#include <ostream>

#include "atbus/atbus.hpp"
#include "channel/common/frame.h"
#include "fault_proxy.h"
#include "numbered_inbox.h"
#include "test.h"

namespace atbus::test {
namespace {

constexpr std::size_t hello_size = 40;  // of the bytes to the server, before the first message
constexpr std::uint32_t far = 1;        // who sends through the proxy
constexpr std::uint32_t near = 2;       // who does not

sender_options quick() {
  sender_options options;
  options.socket.checksums = true;
  options.linger = patience;
  options.connect_timeout = patience;
  return options;
}

class StreamFault : public ::testing::TestWithParam<const char*> {
 protected:
  static std::unique_ptr<numbered_inbox> listen() {
    const std::string kind = GetParam();
    auto opened = receiver::open(kind == "ipv4"   ? "ipv4://127.0.0.1:0"
                                 : kind == "ipv6" ? "ipv6://::1:0"
                                                  : "unix://@stream-fault-" +
                                                        std::to_string(getpid()) + "?shm=0");
    EXPECT_TRUE(opened) << opened.error().text();
    return std::make_unique<numbered_inbox>(std::move(opened).value());
  }
  static sender dial(const std::string& address, const sender_options& options = quick()) {
    auto opened = sender::open(address, options);
    EXPECT_TRUE(opened) << opened.error().text();
    return std::move(opened).value();
  }
  // Returns when the receiver is through with every connection but one: those who came before this
  // one are accepted before it.
  void settle() {
    constexpr std::uint32_t who = 3;
    const std::size_t before = inbox_->of(who).size();
    sender marker = dial((*inbox_)->address());
    ASSERT_TRUE(send_number(marker, who, before + 1, smallest_message));
    ASSERT_TRUE(inbox_->until([&] {
      return inbox_->of(who).size() == before + 1 && (*inbox_)->stats().connections == 2;
    }));
    marker.close();
    ASSERT_TRUE(inbox_->until([&] { return (*inbox_)->stats().connections == 1; }));
  }
  // An honest one beside, which must not notice anything.
  void expect_undisturbed(sender& beside, std::uint64_t first, std::uint64_t last) {
    EXPECT_TRUE(inbox_->carry(beside, near, first, last));
    EXPECT_TRUE(inbox_->until_number(beside, near, last));
    EXPECT_EQ(inbox_->of(near), numbered_inbox::all_up_to(last));
  }

  std::unique_ptr<numbered_inbox> inbox_ = listen();
  fault_proxy proxy_{(*inbox_)->address()};
};

struct named_plan {
  const char* name;
  fault_plan plan;
  std::uint64_t messages;
};

TEST_P(StreamFault, EverythingArrivesInOrderHoweverItIsSplitAndDelayed) {
  const named_plan plans[] = {
      {"single bytes", {.piece = 1}, 30},
      {"pieces of 7", {.piece = 7}, 150},
      {"pieces of 1000", {.piece = 1000, .pause = 100us}, 100},
      {"dribble", {.piece = 100, .pause = 200us}, 40},
      {"delay", {.delay = 20ms}, 300},
  };
  std::uint32_t who = 10;
  for (const named_plan& p : plans) {
    SCOPED_TRACE(p.name);
    ++who;
    proxy_.set(p.plan);
    sender out = dial(proxy_.address());
    EXPECT_TRUE(inbox_->carry(out, who, 1, p.messages));
    EXPECT_TRUE(inbox_->until_number(out, who, p.messages));
    EXPECT_EQ(inbox_->of(who), numbered_inbox::all_up_to(p.messages));
  }
  EXPECT_EQ(inbox_->corrupt(), 0U);
  EXPECT_EQ((*inbox_)->stats().quarantined, 0U);
}

TEST_P(StreamFault, AStallHoldsBackWholeMessagesAndLosesNothing) {
  constexpr std::uint64_t last = 2000;
  proxy_.set(direction::to_server, {.stall_at = hello_size + 1000});
  sender_options options = quick();
  options.send_buffer_number = 1024;
  options.socket.send_buffer = 64 * 1024;
  sender out = dial(proxy_.address(), options);
  sender beside = dial((*inbox_)->address());
  std::uint64_t sent = 0;
  // Until the sender's memory is full too.
  ASSERT_TRUE(inbox_->until(
      [&] { return out.stats().full != 0 && proxy_.counts().to_server.passed == 1040; },
      [&] {
        while (sent < last && send_number(out, far, sent + 1, numbered_size(sent + 1)))
          ++sent;
        (void)out.flush();
      }));
  ASSERT_LT(sent, last);
  expect_undisturbed(beside, 1, 200);
  EXPECT_LT(inbox_->of(far).size(), 10U);
  proxy_.set(direction::to_server, {});
  EXPECT_TRUE(inbox_->carry(out, far, sent + 1, last));
  EXPECT_TRUE(inbox_->until_number(out, far, last));
  EXPECT_EQ(inbox_->of(far), numbered_inbox::all_up_to(last));
  EXPECT_EQ(inbox_->corrupt(), 0U);
}

TEST_P(StreamFault, ACorruptByteEndsItsConnectionAndIsCounted) {
  sender beside = dial((*inbox_)->address());
  expect_undisturbed(beside, 1, 20);
  const std::size_t second = hello_size + detail::frame_size(numbered_size(1));
  proxy_.set(direction::to_server,
             {.corrupt_at = second + detail::frame_header_size + 3, .corrupt_bit = 5});
  sender out = dial(proxy_.address());
  for (std::uint64_t i = 1; i <= 5; ++i)
    (void)send_number(out, far, i, numbered_size(i));  // the last ones may find it closed
  EXPECT_TRUE(inbox_->until([&] { return (*inbox_)->stats().quarantined == 1; },
                            [&] { (void)out.flush(); }));
  EXPECT_TRUE(inbox_->until([&] { return (*inbox_)->stats().connections == 1; }));
  EXPECT_EQ(inbox_->of(far), numbered_inbox::all_up_to(1));
  EXPECT_EQ(inbox_->corrupt(), 0U);
  ASSERT_EQ(inbox_->problems().size(), 1U);
  // The sender learns of it too.
  EXPECT_TRUE(
      inbox_->until([&] { return !out.send(as_bytes("more")); }, [&] { (void)out.flush(); }));
  expect_undisturbed(beside, 21, 40);
}

TEST_P(StreamFault, NoFlippedBitIsEverDelivered) {
  sender beside = dial((*inbox_)->address());
  constexpr std::uint64_t last = 3;
  std::size_t size = hello_size;
  for (std::uint64_t i = 1; i <= last; ++i)
    size += detail::frame_size(numbered_size(i));
  for (std::size_t at = 0; at < size; ++at) {
    SCOPED_TRACE("byte " + std::to_string(at));
    const auto who = static_cast<std::uint32_t>(100 + at);
    proxy_.set(direction::to_server, {.corrupt_at = at, .corrupt_bit = unsigned(at % 8)});
    // Where the hello is hit, it may be lost before it is open.
    if (auto opened = sender::open(proxy_.address(), quick())) {
      for (std::uint64_t i = 1; i <= last; ++i)
        (void)send_number(*opened, who, i, numbered_size(i));
      opened->close();
    }
    settle();
    // Whole ones from the first on, or all, where the byte was only there to fill up.
    EXPECT_EQ(inbox_->of(who), numbered_inbox::all_up_to(inbox_->of(who).size()));
    ASSERT_EQ(inbox_->corrupt(), 0U);
  }
  EXPECT_GT((*inbox_)->stats().quarantined, size / 2);
  expect_undisturbed(beside, 1, 20);
}

TEST_P(StreamFault, WhatWasWholeBeforeACutOrResetIsDeliveredAndNothingHalf) {
  constexpr std::uint64_t last = 4;
  std::vector<std::size_t> ends{hello_size};
  for (std::uint64_t i = 1; i <= last; ++i)
    ends.push_back(ends.back() + detail::frame_size(numbered_size(i)));
  sender beside = dial((*inbox_)->address());
  std::uint32_t who = 1000;
  std::uint64_t tries = 0;
  for (std::size_t at = 0; at <= ends.back(); at += at % 16 == 7 ? 1 : 7) {
    for (const bool with_reset : {false, true}) {
      SCOPED_TRACE((with_reset ? "reset at " : "cut at ") + std::to_string(at));
      ++who;
      fault_plan plan;
      (with_reset ? plan.reset_at : plan.cut_at) = at;
      proxy_.set(direction::to_server, plan);
      sender_options options = quick();
      options.connect_timeout = 0ns;  // it may be lost before it is open
      sender out = dial(proxy_.address(), options);
      for (std::uint64_t i = 1; i <= last; ++i)
        (void)send_number(out, who, i, numbered_size(i));
      ++tries;
      ASSERT_TRUE(inbox_->until(
          [&] {
            const proxy_counts counts = proxy_.counts();
            return counts.accepted == tries && counts.open == 0;
          },
          [&] { (void)out.flush(); }));
      settle();
      std::uint64_t whole = 0;
      while (whole < last && ends[whole + 1] <= at)
        ++whole;
      EXPECT_EQ(inbox_->of(who), numbered_inbox::all_up_to(whole));
    }
  }
  EXPECT_EQ(inbox_->corrupt(), 0U);
  EXPECT_EQ((*inbox_)->stats().quarantined, 0U);  // a lost connection is nobody's fault
  expect_undisturbed(beside, 1, 20);
}

TEST_P(StreamFault, DialsAgainAfterCutsAndRefusals) {
  sender_options options = quick();
  options.reconnect_min = 1ms;
  options.reconnect_max = 20ms;
  sender out = dial(proxy_.address(), options);
  std::uint64_t next = 1;
  for (int round = 0; round < 6; ++round) {
    SCOPED_TRACE(round);
    ASSERT_TRUE(inbox_->carry(out, far, next, next + 50));
    next += 51;
    if (round % 3 == 2) {
      proxy_.refuse();
      proxy_.cut();
      for (int i = 0; i < 20; ++i)
        (void)out.flush(5ms);
      proxy_.accept();
    } else if (round % 3 == 1) {
      proxy_.cut();
    } else {
      proxy_.reset();
    }
    // Lost ones stay lost; from some message on they come again.
    const std::uint64_t after = next;
    ASSERT_TRUE(
        inbox_->until([&] { return !inbox_->of(far).empty() && inbox_->of(far).back() >= after; },
                      [&, again = std::chrono::steady_clock::now()]() mutable {
                        (void)out.flush();
                        if (std::chrono::steady_clock::now() < again)
                          return;
                        again = std::chrono::steady_clock::now() + 5ms;
                        if (send_number(out, far, next, numbered_size(next)))
                          ++next;
                      }));
  }
  EXPECT_GE(out.stats().reconnects, 6U);
  EXPECT_EQ(inbox_->corrupt(), 0U);
  const auto& numbers = inbox_->of(far);
  EXPECT_EQ(std::adjacent_find(numbers.begin(), numbers.end(), std::greater_equal<>{}),
            numbers.end())
      << "in order, none twice";
}

INSTANTIATE_TEST_SUITE_P(Kinds, StreamFault, ::testing::Values("ipv4", "ipv6", "unix"),
                         [](const auto& kind) { return std::string{kind.param}; });

}  // namespace
}  // namespace atbus::test
