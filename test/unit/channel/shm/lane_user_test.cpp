// What the users of lanes may ask and say of them: who speaks, notes, pauses, what was not handled.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "atbus/atbus.hpp"
#include "atbus/inspect.hpp"
#include "channel/shm/segment_layout.h"
#include "counting_allocator.h"
#include "scratch_directory.h"
#include "system/kernel.h"
#include "test.h"

namespace atbus {
namespace {

using note_words = std::array<std::uint64_t, 3>;
using text_list = std::vector<std::string>;

class LaneUser : public ::testing::Test {
 protected:
  void open_receiver() {
    receiver_options options;
    options.directory = directory.path();
    options.lanes = 2;
    auto opened = receiver::open("shm://lane-user", options);
    ASSERT_TRUE(opened) << opened.error().text();
    in.emplace(std::move(*opened));
  }
  sender open_sender() {
    sender_options options;
    options.directory = directory.path();
    auto opened = sender::open("shm://lane-user", options);
    EXPECT_TRUE(opened) << opened.error().text();
    return std::move(*opened);
  }
  // Bytes of the file system that the segment takes.
  [[nodiscard]] std::uint64_t memory() const {
    const auto seen = inspect_segment("lane-user", directory.path());
    EXPECT_TRUE(seen) << seen.error().text();
    return seen ? seen->allocated_bytes : 0;
  }
  text_list poll() {
    text_list all;
    const auto each = [&](const received_message& m) {
      all.emplace_back(as_text(m.bytes));
      last = m;
      if (then)
        then(m);
    };
    while (in->poll(each) != 0) {
    }
    return all;
  }
  // Polls until the lane's sender has been seen to end.
  void poll_until_free(std::uint32_t lane) {
    for (int i = 0; i != 30'000 && in->session(lane) != 0; ++i) {
      poll();
      (void)in->wait(std::chrono::milliseconds{1});
    }
    EXPECT_EQ(in->session(lane), 0U);
  }

  test::scratch_directory directory;
  std::optional<receiver> in;
  received_message last;
  std::function<void(const received_message&)> then;
};

TEST_F(LaneUser, TellsOneSenderOfALaneFromTheNext) {
  open_receiver();
  EXPECT_EQ(in->session(0), 0U);
  const std::uint64_t before = in->session_changes();
  {
    sender first = open_sender();
    ASSERT_TRUE(first.send(as_bytes("one")));
    EXPECT_EQ(poll(), text_list{"one"});
    EXPECT_NE(last.session, 0U);
    EXPECT_EQ(in->session(last.lane), last.session);
    EXPECT_GT(in->session_changes(), before);
  }
  const std::uint64_t first_speaker = last.session;
  const std::uint64_t begun = in->session_changes();
  poll_until_free(last.lane);
  EXPECT_GT(in->session_changes(), begun);
  sender second = open_sender();
  ASSERT_TRUE(second.send(as_bytes("two")));
  EXPECT_EQ(poll(), text_list{"two"});
  EXPECT_NE(last.session, first_speaker);
  EXPECT_EQ(in->session(99), 0U);
}

TEST_F(LaneUser, KeepsANoteForItsSuccessorUntilAnotherSenderBegins) {
  open_receiver();
  std::optional<sender> out{open_sender()};
  ASSERT_TRUE(out->send(as_bytes("one")));
  poll();
  EXPECT_EQ(in->note(out->lane()), note_words{});
  const note_words words{1, 0xffffffffffffffff, 3};
  in->set_note(out->lane(), words);
  in->set_note(99, words);
  EXPECT_EQ(in->note(99), note_words{});
  in.reset();
  open_receiver();
  EXPECT_EQ(in->note(out->lane()), words);
  EXPECT_NE(in->session(out->lane()), 0U);
  // A sender that takes the lane over behind what waits there: the note is the first one's.
  ASSERT_TRUE(out->send(as_bytes("waits")));
  in->pause(out->lane());
  sender other = open_sender();
  out.reset();
  sender heir = open_sender();
  ASSERT_EQ(heir.lane(), 0U);
  ASSERT_TRUE(heir.send(as_bytes("the heir's")));
  std::vector<note_words> notes;
  then = [&](const received_message& m) { notes.push_back(in->note(m.lane)); };
  in->resume(0);
  EXPECT_EQ(poll(), (text_list{"waits", "the heir's"}));
  EXPECT_EQ(notes, (std::vector<note_words>{words, note_words{}}));
}

TEST_F(LaneUser, ForgetsTheNoteOfALaneThatIsFree) {
  open_receiver();
  std::uint32_t lane = 0;
  {
    sender out = open_sender();
    lane = out.lane();
    ASSERT_TRUE(out.send(as_bytes("one")));
    poll();
    in->set_note(lane, {1, 2, 3});
  }
  poll_until_free(lane);
  EXPECT_EQ(in->note(lane), note_words{});
}

TEST_F(LaneUser, DeliversNothingOfAPausedLane) {
  open_receiver();
  sender out = open_sender();
  sender other = open_sender();
  in->pause(out.lane());
  ASSERT_TRUE(out.send(as_bytes("later")));
  ASSERT_TRUE(other.send(as_bytes("now")));
  EXPECT_EQ(poll(), text_list{"now"});
  EXPECT_EQ(in->wait(std::chrono::milliseconds{5}), errc::timed_out);
  in->resume(out.lane());
  EXPECT_EQ(poll(), text_list{"later"});
  ASSERT_TRUE(out.send(as_bytes("and on")));
  EXPECT_TRUE(in->wait(std::chrono::seconds{30}));
  EXPECT_EQ(poll(), text_list{"and on"});
}

TEST_F(LaneUser, CanPauseAndGoOnInsideAHandler) {
  open_receiver();
  sender out = open_sender();
  for (const char* text : {"one", "two", "three"})
    ASSERT_TRUE(out.send(as_bytes(text)));
  then = [&](const received_message& m) { in->pause(m.lane); };
  EXPECT_EQ(poll(), text_list{"one"});
  in->resume(out.lane());
  then = [&](const received_message& m) {
    in->pause(m.lane);
    in->resume(m.lane);
  };
  EXPECT_EQ(poll(), (text_list{"two", "three"}));
}

TEST_F(LaneUser, SeesTheEndOfAPausedSenderWhenItGoesOn) {
  open_receiver();
  std::optional<sender> out{open_sender()};
  const std::uint32_t lane = out->lane();
  ASSERT_TRUE(out->send(as_bytes("one")));
  poll();
  in->pause(lane);
  ASSERT_TRUE(out->send(as_bytes("two")));
  out.reset();
  (void)in->wait(std::chrono::milliseconds{5});
  EXPECT_EQ(poll(), text_list{});
  EXPECT_NE(in->session(lane), 0U);
  in->resume(lane);
  EXPECT_EQ(poll(), text_list{"two"});
  poll_until_free(lane);
}

TEST_F(LaneUser, GivesBackWhatADroppedLaneHolds) {
  open_receiver();
  std::optional<sender> out{open_sender()};
  const std::uint32_t lane = out->lane();
  for (const char* text : {"one", "two", "three"})
    ASSERT_TRUE(out->send(as_bytes(text)));
  EXPECT_TRUE(out->look());
  then = [&](const received_message& m) { in->drop(m.lane); };
  EXPECT_EQ(poll(), text_list{"one"});
  EXPECT_EQ(out->look(), errc::quarantined);
  EXPECT_EQ(out->send(as_bytes("four")), errc::quarantined);
  text_list back;
  const auto taken = out->take_back([&](bytes_view message, errc outcome) {
    EXPECT_EQ(outcome, errc::not_delivered);
    back.emplace_back(as_text(message));
  });
  ASSERT_TRUE(taken) << taken.error().text();
  EXPECT_EQ(back, (text_list{"two", "three"}));
  EXPECT_EQ(in->stats().quarantined, 0U);
  out.reset();
  poll_until_free(lane);
  sender next = open_sender();
  EXPECT_EQ(next.lane(), lane);
  ASSERT_TRUE(next.send(as_bytes("five")));
  EXPECT_EQ(poll(), text_list{"five"});
}

TEST_F(LaneUser, GivesADroppedLaneBackToASenderThatHasNotLooked) {
  open_receiver();
  sender out = open_sender();
  for (const char* text : {"one", "two"})
    ASSERT_TRUE(out.send(as_bytes(text)));
  in->drop(out.lane());
  text_list back;
  const auto taken = out.take_back([&](bytes_view message, errc outcome) {
    EXPECT_EQ(outcome, errc::not_delivered);
    back.emplace_back(as_text(message));
  });
  ASSERT_TRUE(taken) << taken.error().text();
  EXPECT_EQ(back, (text_list{"one", "two"}));
  EXPECT_EQ(poll(), text_list{});
}

// The sender may have ended, and its lane may be free, before the program drops it.
TEST_F(LaneUser, CanNotDropAnUnusedLane) {
  open_receiver();
  in->drop(0);
  in->drop(1);
  poll();
  auto out = sender::open("shm://lane-user", {.directory = directory.path()});
  ASSERT_TRUE(out) << out.error().text();
  ASSERT_TRUE(out->send(as_bytes("one")));
  EXPECT_EQ(poll(), text_list{"one"});
}

TEST_F(LaneUser, KeepsALaneDroppedForASuccessor) {
  open_receiver();
  sender out = open_sender();
  ASSERT_TRUE(out.send(as_bytes("one")));
  in->drop(out.lane());
  in.reset();
  open_receiver();
  std::vector<error> problems;
  in->on_problem([&](const error& e) { problems.push_back(e); });
  EXPECT_EQ(poll(), text_list{});
  EXPECT_TRUE(problems.empty());
}

TEST_F(LaneUser, SaysWhatIsNotHandledYet) {
  open_receiver();
  sender out = open_sender();
  poll();
  EXPECT_TRUE(out.settled());
  for (const char* text : {"one", "two"})
    ASSERT_TRUE(out.send(as_bytes(text)));
  EXPECT_FALSE(out.settled());
  text_list waiting;
  const auto keep = [&](bytes_view message) { waiting.emplace_back(as_text(message)); };
  EXPECT_EQ(out.unhandled(keep), 2U);
  EXPECT_EQ(waiting, (text_list{"one", "two"}));
  EXPECT_EQ(poll(), waiting);  // it took nothing back
  EXPECT_TRUE(out.settled());
  EXPECT_EQ(out.unhandled(keep), 0U);
}

// A program that asks for other sizes, and tries again and again, must not fill the file system.
TEST_F(LaneUser, TakesNoMemoryOfASegmentOfOtherSizes) {
  open_receiver();
  const std::uint64_t before = memory();
  sender_options options;
  options.directory = directory.path();
  for (int i = 0; i != 3; ++i) {
    const auto refused = sender::open("shm://lane-user?lane_size=4M", options);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error(), errc::geometry_mismatch) << refused.error().text();
  }
  EXPECT_EQ(poll(), text_list{});
  EXPECT_EQ(memory(), before);
}

// Nor one that can't make its doorbell: the receiver does not hear of it.
TEST_F(LaneUser, TakesNoMemoryWithoutADoorbell) {
  open_receiver();
  const std::uint64_t before = memory();
  const auto saved = detail::kernel().socket;
  detail::kernel().socket = [](int, int, int) {
    errno = EMFILE;
    return -1;
  };
  sender_options options;
  options.directory = directory.path();
  std::vector<error> refusals;
  for (int i = 0; i != 3; ++i) {
    const auto refused = sender::open("shm://lane-user", options);
    refusals.push_back(refused ? error{} : refused.error());
  }
  detail::kernel().socket = saved;
  for (const error& refused : refusals) {
    EXPECT_EQ(refused, errc::system_error) << refused.text();
    EXPECT_EQ(refused.system_code(), EMFILE) << refused.text();
  }
  EXPECT_EQ(memory(), before);
  sender out = open_sender();
  EXPECT_TRUE(out.send(as_bytes("one")));
  EXPECT_EQ(poll(), text_list{"one"});
}

// Nor one for which the lane can't be mapped, such as with RLIMIT_AS.
TEST_F(LaneUser, TakesNoMemoryOfALaneThatCanNotBeMapped) {
  open_receiver();
  const std::uint64_t before = memory();
  sender_options options;
  options.directory = directory.path();
  const auto saved = detail::kernel().mmap;
  detail::kernel().mmap = [](void* at, std::size_t size, int protection, int flags, int fd,
                             off_t offset) {
    if (offset == 0)  // what comes before the lanes
      return ::mmap(at, size, protection, flags, fd, offset);
    errno = ENOMEM;
    return MAP_FAILED;
  };
  std::vector<error> refusals;
  for (int i = 0; i != 3; ++i) {
    const auto refused = sender::open("shm://lane-user", options);
    refusals.push_back(refused ? error{} : refused.error());
  }
  detail::kernel().mmap = saved;
  for (const error& refused : refusals)
    EXPECT_EQ(refused.system_code(), ENOMEM) << refused.text();
  EXPECT_EQ(memory(), before);
  sender out = open_sender();
  EXPECT_TRUE(out.send(as_bytes("one")));
  EXPECT_EQ(poll(), text_list{"one"});
}

// Each allocation of an open fails once.
TEST_F(LaneUser, TakesNoMemoryOfALaneWithoutMemoryOfItsOwn) {
  if (!test::can_fail_allocations())
    GTEST_SKIP() << "allocations can't be made to fail in this build";
  open_receiver();
  sender_options options;
  options.directory = directory.path();
  std::uint64_t good = 0;
  for (bool failed = true; failed; ++good) {
    const std::uint64_t before = memory();
    bool opened = false;
    {
      const test::allocation_failure scarce{good};
      opened = static_cast<bool>(sender::open("shm://lane-user", options));
      failed = test::allocation_failure::happened();
    }
    if (!opened) {
      ASSERT_EQ(memory(), before) << good;
    }
    (void)poll();
  }
  EXPECT_GT(good, 3U);
}

// It publishes a record, which is read before it has rung, rings and ends. So its lane is free when the ring is seen.
TEST_F(LaneUser, GivesALaneNoMemoryForARingOfItsLastSender) {
  open_receiver();
  std::optional<sender> out{open_sender()};
  ASSERT_EQ(out->lane(), 0U);
  ASSERT_TRUE(out->send(as_bytes("one")));
  EXPECT_EQ(poll(), text_list{"one"});
  static detail::kernel_calls saved;
  static int rings = 0;
  static int reserved = 0;
  saved = detail::kernel();
  rings = reserved = 0;
  detail::kernel().lock = [](int fd, int command, struct flock* lock) {
    const int done = saved.lock(fd, command, lock);
    if (done == 0 && command == F_OFD_SETLK && lock->l_type == F_WRLCK &&
        lock->l_start == static_cast<off_t>(detail::lane_lock_byte(0)) && rings++ == 0) {
      const std::uint64_t bit = 1;
      EXPECT_EQ(::pwrite(fd, &bit, sizeof bit, offsetof(detail::segment_header, ready)),
                static_cast<ssize_t>(sizeof bit));
    }
    return done;
  };
  detail::kernel().fallocate = [](int fd, int mode, off_t offset, off_t length) {
    reserved += (mode & FALLOC_FL_PUNCH_HOLE) == 0 ? 1 : 0;
    return saved.fallocate(fd, mode, offset, length);
  };
  out.reset();
  poll_until_free(0);
  poll();
  detail::kernel() = saved;
  EXPECT_GE(rings, 1);
  EXPECT_EQ(reserved, 0);
}

TEST_F(LaneUser, KnowsWhichReceiverItHas) {
  open_receiver();
  sender out = open_sender();
  const std::uint64_t first = out.receiver_generation();
  EXPECT_NE(first, 0U);
  in.reset();
  EXPECT_EQ(out.receiver_generation(), 0U);
  open_receiver();
  EXPECT_GT(out.receiver_generation(), first);
  ASSERT_TRUE(in->remove());
  EXPECT_EQ(out.look(), errc::retired);
  EXPECT_EQ(out.receiver_generation(), 0U);
}

TEST(LaneUserOfStreams, AsksInVain) {
  auto in = receiver::open("unix://@atbus-test-lane-user-" + std::to_string(getpid()));
  ASSERT_TRUE(in);
  in->pause(0);
  in->drop(0);
  in->resume(0);
  in->set_note(0, {1, 2, 3});
  EXPECT_EQ(in->note(0), note_words{});
  EXPECT_EQ(in->session(0), 0U);
}

// The assertions of the standard library see it go on where nothing is left.
TEST_F(LaneUser, LetsAHandlerPauseAllLanes) {
  open_receiver();
  sender one = open_sender();
  sender other = open_sender();
  ASSERT_TRUE(one.send(as_bytes("1")));
  ASSERT_TRUE(other.send(as_bytes("2")));
  then = [&](const received_message&) {
    in->pause(one.lane());
    in->pause(other.lane());
  };
  EXPECT_EQ(poll().size(), 1U);
  EXPECT_EQ(poll().size(), 0U);
  in->resume(one.lane());
  in->resume(other.lane());
  EXPECT_EQ(poll().size(), 1U);
}

TEST_F(LaneUser, ASlotThatIsOpenWhileItsSenderTakesBackSendsNothing) {
  open_receiver();
  sender out = open_sender();
  for (const char* text : {"one", "two", "three"})
    ASSERT_TRUE(out.send(as_bytes(text)));
  in.reset();
  message_slot slot = out.claim(64);
  ASSERT_TRUE(slot);
  const auto taken = out.take_back([](bytes_view, errc) {});
  ASSERT_TRUE(taken);
  EXPECT_EQ(*taken, 3U);
  slot.commit();
  ASSERT_TRUE(out.send(as_bytes("next")));
  open_receiver();
  EXPECT_EQ(poll(), text_list{"next"});
  // There is no more room than the lane has.
  const std::string of_60_kb(60'000, 'x');
  std::size_t bytes = 0;
  while (bytes < 64U * 1024 * 1024 && out.send(as_bytes(of_60_kb)))
    bytes += of_60_kb.size();
  EXPECT_LE(bytes, 1024U * 1024);
}

// Then the writer is where the slot was claimed, and the record there has the slot's length.
TEST_F(LaneUser, ASlotFromBeforeATakeBackSendsNothingAtTheSamePlaceAgain) {
  open_receiver();
  sender out = open_sender();
  in.reset();
  for (const char* text : {"one.", "two."})
    ASSERT_TRUE(out.send(as_bytes(text)));
  message_slot slot = out.claim(4);
  ASSERT_TRUE(slot);
  std::memcpy(slot.bytes().data(), "slot", 4);
  ASSERT_TRUE(out.take_back([](bytes_view, errc) {}));
  for (const char* text : {"1st.", "2nd."})
    ASSERT_TRUE(out.send(as_bytes(text)));
  slot.commit();
  open_receiver();
  EXPECT_EQ(poll(), (text_list{"1st.", "2nd."}));
}

}  // namespace
}  // namespace atbus
