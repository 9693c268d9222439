// What a sender takes back from a lane whose receiver is gone, or from its queue.
#include <unistd.h>

#include "atbus/atbus.hpp"
#include "atbus/inspect.hpp"
#include "child_process.h"
#include "counting_allocator.h"
#include "scratch_directory.h"
#include "test.h"

namespace atbus {
namespace {

using outcomes = std::vector<std::pair<std::string, errc>>;

TEST(TakeBack, OnlyTheMessageOfTheDeadHandlerIsInDoubtFork) {
  const test::scratch_directory directory;
  const receiver_options in_directory{.directory = directory.path()};
  auto first = receiver::open("shm://inbox", in_directory);
  ASSERT_TRUE(first);
  auto out = sender::open("shm://inbox", {.directory = directory.path()});
  ASSERT_TRUE(out);
  first->close();
  const auto take_back = [&] {
    outcomes back;
    EXPECT_TRUE(out->take_back(
        [&](bytes_view message, errc outcome) { back.emplace_back(as_text(message), outcome); }));
    return back;
  };
  ASSERT_TRUE(out->send(as_bytes("deadly")));
  test::child_process dies{[&] {
    auto in = receiver::open("shm://inbox", in_directory);
    in->poll([](bytes_view) { _exit(7); });
    return 0;
  }};
  EXPECT_EQ(dies.wait_end(), "exit 7");
  EXPECT_EQ(take_back(), (outcomes{{"deadly", errc::outcome_unknown}}));
  ASSERT_TRUE(out->send(as_bytes("one")));
  ASSERT_TRUE(out->send(as_bytes("two")));
  EXPECT_EQ(take_back(), (outcomes{{"one", errc::not_delivered}, {"two", errc::not_delivered}}));
  ASSERT_TRUE(out->send(as_bytes("three")));
  EXPECT_EQ(take_back(), (outcomes{{"three", errc::not_delivered}}));
}

// Whether the first lane of shm://inbox becomes free while its receiver polls.
bool becomes_free(receiver& inbox, const std::string& directory) {
  const auto is_free = [&] {
    const auto report = inspect_segment("inbox", directory);
    return report && report->lanes.at(0).state == lane_state::unused;
  };
  for (const auto end = now() + 5s; !is_free() && now() < end;) {
    (void)inbox.wait(1ms);
    inbox.poll([](bytes_view) {});
  }
  return is_free();
}

// The next segment of that name has another sender in the same lane: it is free once that one ends.
void take_back_beside_another(sender& out, const std::string& directory) {
  auto inbox = receiver::open("shm://inbox", {.directory = directory});
  ASSERT_TRUE(inbox) << inbox.error().text();
  auto other = sender::open("shm://inbox", {.directory = directory});
  ASSERT_TRUE(other);
  ASSERT_EQ(other->lane(), out.lane());
  const auto back = out.take_back([](bytes_view, errc) {});
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(*back, 1U);
  (void)inbox->wait(0ns);
  inbox->poll([](bytes_view) {});
  other->close();
  EXPECT_TRUE(becomes_free(*inbox, directory));
}

// The bell of that name belongs to the next segment, whose lane is another sender's.
TEST(TakeBack, OfARemovedSegmentDoesNotHoldALaneOfTheNextOne) {
  const test::scratch_directory directory;
  auto removed = receiver::open("shm://inbox", {.directory = directory.path()});
  ASSERT_TRUE(removed);
  auto out = sender::open("shm://inbox", {.directory = directory.path()});
  ASSERT_TRUE(out);
  ASSERT_TRUE(out->send(as_bytes("kept")));
  ASSERT_TRUE(removed->remove());
  out->finish_sleep();  // sees the end of its bell
  take_back_beside_another(*out, directory.path());
}

// As above, by a sender that has noticed nothing: not the next receiver, and not the removal.
TEST(TakeBack, OfASegmentThatWasTakenOverAndRemovedDoesNotHoldALaneOfTheNextOne) {
  const test::scratch_directory directory;
  ASSERT_TRUE(receiver::open("shm://inbox", {.directory = directory.path()}));
  auto out = sender::open("shm://inbox", {.directory = directory.path()});
  ASSERT_TRUE(out);
  ASSERT_TRUE(out->send(as_bytes("kept")));
  {
    auto removed = receiver::open("shm://inbox", {.directory = directory.path()});
    ASSERT_TRUE(removed) << removed.error().text();
    ASSERT_TRUE(removed->remove());
  }
  take_back_beside_another(*out, directory.path());
}

// Without it, the lane would stay withdrawn, and no later receiver would read it.
TEST(TakeBack, NeedsNoMemory) {
  if (!test::can_fail_allocations())
    GTEST_SKIP() << "this build can't fail allocations";
  const test::scratch_directory directory;
  auto inbox = receiver::open("shm://inbox", {.directory = directory.path()});
  ASSERT_TRUE(inbox);
  auto out = sender::open("shm://inbox", {.directory = directory.path()});
  ASSERT_TRUE(out);
  inbox->close();
  for (int i = 0; i != 100; ++i)
    ASSERT_TRUE(out->send(as_bytes("text")));
  std::size_t back = 0;
  const std::function<void(bytes_view, errc)> count = [&](bytes_view, errc) { ++back; };
  {
    const test::allocation_failure no_memory;
    EXPECT_TRUE(out->take_back(count));
  }
  EXPECT_EQ(back, 100U);
}

// Lanes, and queues of a sender that will dial again.
class TakeBackOf : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string at = GetParam();
    if (at.starts_with("unix"))
      at += std::to_string(getpid()) + "?shm=false";
    auto inbox = receiver::open(at, {.directory = directory.path()});
    ASSERT_TRUE(inbox) << inbox.error().text();
    auto opened = sender::open(at, {.directory = directory.path(), .reconnect_min = 1h});
    ASSERT_TRUE(opened) << opened.error().text();
    out.emplace(std::move(*opened));
    inbox->close();
    const auto deadline = now() + 30s;
    while (out->receiver_alive() && now() < deadline)
      (void)out->flush();
    for (const char* text : {"a", "b", "c", "d", "e"})
      ASSERT_TRUE(out->send(as_bytes(text)));
  }
  void take(bytes_view message) {
    got += as_text(message);
    if (got.size() == 2 || got.size() == 4)
      throw std::runtime_error{got};
  }

  const test::scratch_directory directory;
  std::optional<sender> out;
  std::string got;
};

INSTANTIATE_TEST_SUITE_P(Channel, TakeBackOf,
                         ::testing::Values("mem://take-back", "shm://take-back",
                                           "unix://@take-back-"),
                         [](const auto& tested) {
                           const std::string_view scheme{tested.param};
                           return std::string{scheme.substr(0, scheme.find(':'))};
                         });

TEST_P(TakeBackOf, AThrowingFunctionGetsAllMessagesOnce) {
  try {
    (void)out->take_back([&](bytes_view message, errc) { take(message); });
    ADD_FAILURE() << "threw nothing";
  } catch (const std::runtime_error& first) {
    EXPECT_STREQ(first.what(), "ab");
  }
  EXPECT_EQ(got, "abcde");
  const auto more = out->take_back([&](bytes_view, errc) { ADD_FAILURE() << "again"; });
  ASSERT_TRUE(more) << more.error().text();
  EXPECT_EQ(*more, 0U);
}

// Lanes keep their messages.
TEST_P(TakeBackOf, AThrowingFunctionGetsAllThatAClosedSenderHasNotSent) {
  const bool in_a_lane = !std::string_view{GetParam()}.starts_with("unix");
  if (in_a_lane)
    EXPECT_EQ(out->close(0ns, [&](bytes_view) { ADD_FAILURE() << "kept"; }), 0U);
  else
    EXPECT_THROW(out->close(0ns, [&](bytes_view message) { take(message); }), std::runtime_error);
  EXPECT_EQ(got, in_a_lane ? "" : "abcde");
  EXPECT_FALSE(out->is_open());
}

}  // namespace
}  // namespace atbus
