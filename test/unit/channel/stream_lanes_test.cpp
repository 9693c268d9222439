// Senders of a Unix socket that move on to lanes of shared memory, and those that can't.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "atbus/atbus.hpp"
#include "channel/shm/segment_layout.h"
#include "system/kernel.h"

namespace atbus {
namespace {

using namespace std::chrono_literals;

class StreamLanes : public ::testing::Test {
 protected:
  void SetUp() override {
    writes() = 0;
    detail::kernel().sendmsg = [](int fd, const msghdr* message, int flags) {
      ++writes();
      return ::sendmsg(fd, message, flags);
    };
  }
  void TearDown() override { detail::kernel() = saved_; }

  static std::atomic<int>& writes() {
    static std::atomic<int> count{0};
    return count;
  }
  static std::string fresh_address() {
    static int count = 0;
    return "unix://@lanes-" + std::to_string(getpid()) + "-" + std::to_string(++count);
  }
  receiver open_receiver(const receiver_options& options = {}) {
    auto opened = receiver::open(address, options);
    EXPECT_TRUE(opened) << opened.error().text();
    return std::move(opened).value();
  }
  sender open_sender(const sender_options& options = {}) {
    auto opened = sender::open(address, options);
    EXPECT_TRUE(opened) << opened.error().text();
    return std::move(opened).value();
  }
  static std::vector<std::string> drain(receiver& inbox) {
    std::vector<std::string> texts;
    while (inbox.poll([&](bytes_view m) { texts.emplace_back(as_text(m)); }) != 0) {
    }
    return texts;
  }
  // Sends and receives until the sender has moved on. Its messages are no system calls from then on.
  static void move_on(receiver& inbox, sender& out) {
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(out.send(as_bytes("opening")));
      ASSERT_EQ(drain(inbox), std::vector<std::string>{"opening"});
    }
  }
  static bool uses_lane(sender& out) {
    const int before = writes();
    EXPECT_TRUE(out.send(as_bytes("probe")));
    return writes() == before;
  }

  // Says so many times that the receiver's lock is held, whoever asks, and then what the kernel says.
  static void hold_receivers_lock(int questions) {
    lock_questions() = 0;
    false_answers() = questions;
    detail::kernel().lock = [](int fd, int command, struct flock* lock) {
      if (command != F_OFD_GETLK || lock->l_start != off_t{detail::receiver_lock_byte})
        return fcntl(fd, command, lock);
      ++lock_questions();
      if (false_answers() == 0)
        return fcntl(fd, command, lock);
      --false_answers();
      lock->l_type = F_WRLCK;
      return 0;
    };
  }
  static std::atomic<int>& lock_questions() {
    static std::atomic<int> count{0};
    return count;
  }
  static std::atomic<int>& false_answers() {
    static std::atomic<int> left{0};
    return left;
  }

  std::string address = fresh_address();
  detail::kernel_calls saved_ = detail::kernel();
};

TEST_F(StreamLanes, MessagesAreNoSystemCallsAnyMore) {
  auto inbox = open_receiver();
  auto out = open_sender();
  move_on(inbox, out);
  EXPECT_TRUE(uses_lane(out));
  EXPECT_EQ(drain(inbox), std::vector<std::string>{"probe"});
  EXPECT_EQ(inbox.stats().messages, 4U);
  EXPECT_EQ(out.stats().messages, inbox.stats().messages);
}

TEST_F(StreamLanes, NoneIfEitherEndWantsNone) {
  const std::string plain = address;
  for (const bool at_receiver : {true, false}) {
    address = plain + (at_receiver ? "?shm=false" : "");
    auto inbox = open_receiver();
    address = plain + (at_receiver ? "" : "?shm=false");
    auto out = open_sender();
    move_on(inbox, out);
    EXPECT_FALSE(uses_lane(out));
    EXPECT_EQ(drain(inbox), std::vector<std::string>{"probe"});
  }
}

// Whatever the kernel refuses, messages take the way that is there.
TEST_F(StreamLanes, SocketServesWhereSharedMemoryIsRefused) {
  detail::kernel().memfd_create = [](const char*, unsigned) {
    errno = ENOSYS;
    return -1;
  };
  auto inbox = open_receiver();
  std::vector<std::string> told;
  inbox.on_problem([&](const error& what) { told.push_back(what.text()); });
  auto out = open_sender();
  auto other = open_sender();
  move_on(inbox, out);
  move_on(inbox, other);
  EXPECT_FALSE(uses_lane(out));
  EXPECT_FALSE(uses_lane(other));
  EXPECT_EQ(drain(inbox).size(), 2U);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_NE(told[0].find("through the socket instead"), std::string::npos) << told[0];
}

// The other end does not let descriptors in, because whoever listened was another user then.
TEST_F(StreamLanes, SocketServesWhereDescriptorsAreRefused) {
  detail::kernel().sendmsg = [](int fd, const msghdr* message, int flags) -> ssize_t {
    if (message->msg_controllen != 0) {
      errno = EPERM;
      return -1;
    }
    ++writes();
    return ::sendmsg(fd, message, flags);
  };
  constexpr std::uint64_t limit = 1000;
  auto inbox = open_receiver({.message_limit = limit});
  auto out = open_sender();
  move_on(inbox, out);
  EXPECT_FALSE(uses_lane(out));
  EXPECT_EQ(drain(inbox), std::vector<std::string>{"probe"});
  EXPECT_EQ(out.message_limit(), limit);  // of its hello, which had the descriptors with it
}

TEST_F(StreamLanes, SendersBeyondTheLanesUseTheirSockets) {
  auto inbox = open_receiver({.lanes = 2});
  std::vector<sender> senders;
  for (int i = 0; i < 4; ++i) {
    senders.push_back(open_sender());
    move_on(inbox, senders.back());
  }
  EXPECT_TRUE(uses_lane(senders[0]) && uses_lane(senders[1]));
  EXPECT_FALSE(uses_lane(senders[2]) || uses_lane(senders[3]));
  EXPECT_EQ(drain(inbox).size(), 4U);
}

TEST_F(StreamLanes, ALaneThatFillsEachPollDoesNotStarveTheSockets) {
  auto inbox = open_receiver();
  auto busy = open_sender();
  move_on(inbox, busy);
  address += "?shm=false";
  auto newcomer = open_sender();
  ASSERT_TRUE(newcomer.send(as_bytes("me too")));
  constexpr std::size_t limit = 4;
  bool heard = false;
  for (int polls = 0; !heard && polls != 1000; ++polls) {
    for (std::size_t i = 0; i != limit; ++i)
      ASSERT_TRUE(busy.send(as_bytes("busy")));
    (void)newcomer.flush();
    EXPECT_EQ(inbox.wait(0ns), errc::ok);
    inbox.poll([&](bytes_view m) { heard = heard || as_text(m) == "me too"; }, {.messages = limit});
  }
  EXPECT_TRUE(heard);
}

TEST_F(StreamLanes, SocketsHaveTheirTurnInEachFrameOfAGameLoop) {
  auto inbox = open_receiver();
  auto busy = open_sender();
  move_on(inbox, busy);
  address += "?shm=false";
  auto newcomer = open_sender();
  ASSERT_TRUE(newcomer.send(as_bytes("me too")));
  bool heard = false;
  int frames = 0;
  for (; !heard && frames != 64; ++frames) {
    ASSERT_TRUE(busy.send(as_bytes("busy")));
    (void)newcomer.flush();
    // A frame is longer than the coarse clock's tick.
    for (const auto start = coarse_now(); coarse_now() - start < 2ms;)
      std::this_thread::yield();
    inbox.poll([&](bytes_view m) { heard = heard || as_text(m) == "me too"; });
  }
  EXPECT_TRUE(heard);
  EXPECT_LT(frames, 10);
}

TEST_F(StreamLanes, LanesHaveTheirTurnBesideASocketThatIsBusyInEachFrame) {
  auto inbox = open_receiver();
  auto quick = open_sender();
  move_on(inbox, quick);
  address += "?shm=false";
  auto busy = open_sender();
  int of_lane = 0;
  int of_socket = 0;
  for (int frame = 0; frame != 200; ++frame) {
    if (frame % 2 == 0) {
      ASSERT_TRUE(quick.send(as_bytes("lane")));
    }
    ASSERT_TRUE(busy.send(as_bytes("socket")));
    (void)busy.flush();
    for (const auto start = coarse_now(); coarse_now() - start < 2ms;)
      std::this_thread::yield();
    inbox.poll([&](bytes_view m) { ++(as_text(m) == "lane" ? of_lane : of_socket); });
  }
  EXPECT_GT(of_lane, 50);
  EXPECT_GT(of_socket, 50);
}

// The socket's queue refuses a message while the sender is about to move on. It is in its lane when it
// looks whether there is room.
TEST_F(StreamLanes, AnOpenSlotInALaneOutlivesAPollOfItsSender) {
  auto inbox = open_receiver();
  auto out = open_sender();
  const std::string of_60_kb(60'000, 'x');
  for (int i = 0; i != 60; ++i)
    (void)out.send(as_bytes(of_60_kb));
  inbox.poll([](bytes_view) {}, {.messages = 1});
  bool refused = false;
  for (int i = 0; !refused && i != 100; ++i)
    refused = !out.send(as_bytes(of_60_kb));
  ASSERT_TRUE(refused);
  for (int i = 0; i != 50; ++i) {
    inbox.poll([](bytes_view) {});
    (void)out.flush();
  }
  message_slot slot = out.claim(4);
  ASSERT_TRUE(slot);
  std::memcpy(slot.bytes().data(), "slot", 4);
  (void)out.poll_writable();
  slot.commit();
  bool arrived = false;
  for (const auto deadline = now() + 30s; !arrived && now() < deadline;) {
    (void)out.flush();
    inbox.poll([&](bytes_view m) { arrived = arrived || as_text(m) == "slot"; });
  }
  EXPECT_TRUE(arrived);
}

TEST_F(StreamLanes, OrderHoldsAcrossTheSwitch) {
  for (int round = 0; round < 50; ++round) {
    address = fresh_address();
    auto inbox = open_receiver();
    constexpr int count = 2000;
    std::thread other{[&] {
      auto out = open_sender();
      for (int i = 0; i < count;) {
        const auto s = out.send(as_bytes(std::to_string(i)));
        if (s) {
          ++i;
        } else {
          ASSERT_EQ(s, errc::would_block);
          ASSERT_TRUE(out.wait_writable(30s));
        }
      }
    }};
    int next = 0;
    const auto deadline = now() + 60s;
    while (next < count && now() < deadline) {
      if (inbox.poll([&](bytes_view m) { EXPECT_EQ(as_text(m), std::to_string(next++)); }) == 0)
        (void)inbox.wait(30s);
    }
    other.join();
    ASSERT_EQ(next, count);
  }
}

TEST_F(StreamLanes, WhatAForkedSenderPublishedBeforeItDiedIsDelivered) {
  auto inbox = open_receiver();
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto out = open_sender();
    for (int i = 0; i < 1000; ++i) {
      if (!out.send(as_bytes("from an incarnation")))
        _exit(1);
      char byte = 'r';
      if (i < 10)
        (void)!write(ready[1], &byte, 1);
      if (i < 10)
        (void)out.wait_writable(100ms, 10);
    }
    raise(SIGKILL);
  }
  close(ready[1]);  // its end is an end of file for us
  std::size_t got = 0;
  for (int i = 0; i < 10; ++i) {
    char byte;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    got += drain(inbox).size();
  }
  int how = 0;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  EXPECT_TRUE(WIFSIGNALED(how));
  close(ready[0]);
  const auto deadline = now() + 30s;
  while (got < 1000 && now() < deadline) {
    got += drain(inbox).size();
    (void)inbox.wait(100ms);
  }
  EXPECT_EQ(got, 1000U);
  // Its lane is free again for the next one of that number.
  bool free = false;
  while (!free && now() < deadline) {
    auto out = open_sender();
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(out.send(as_bytes("next")));
      while (drain(inbox).empty())
        (void)inbox.wait(100ms);
    }
    free = uses_lane(out);
    (void)drain(inbox);
    out.close();
    (void)inbox.wait(1ms);
    (void)drain(inbox);
  }
  EXPECT_TRUE(free);
}

TEST_F(StreamLanes, SenderLearnsThatItsReceiverIsGone) {
  auto inbox = open_receiver();
  auto out = open_sender();
  move_on(inbox, out);
  ASSERT_TRUE(uses_lane(out));
  ASSERT_TRUE(out.send(as_bytes("unread")));
  inbox.close();
  status last;
  std::size_t accepted = 2;
  const auto deadline = now() + 30s;
  while (now() < deadline) {
    last = out.send(as_bytes(std::string(1000, 'x')));
    if (last)
      ++accepted;
    else if (!(last == errc::would_block))
      break;
  }
  EXPECT_TRUE(last == errc::peer_closed || last == errc::retired) << last.text();
  std::size_t back = 0;
  const auto taken = out.take_back([&](bytes_view, errc) { ++back; });
  ASSERT_TRUE(taken) << taken.error().text();
  EXPECT_EQ(back, accepted);
}

TEST_F(StreamLanes, FlushTellsOfAnEndOnlyIfSomethingWasNotHandled) {
  for (const bool unread : {false, true}) {
    auto inbox = open_receiver();
    auto out = open_sender();
    move_on(inbox, out);
    ASSERT_TRUE(uses_lane(out));
    if (!unread) {
      ASSERT_EQ(drain(inbox).size(), 1U);
    }
    inbox.close();
    const auto deadline = now() + 30s;
    while (out.receiver_alive() && now() < deadline)
      (void)out.flush();
    EXPECT_FALSE(out.receiver_alive());
    EXPECT_EQ(out.flush().code(), unread ? errc::peer_closed : errc::ok);
  }
}

TEST_F(StreamLanes, ReceiverThatComesBackGetsWhatItsPredecessorLeft) {
  auto first = open_receiver();
  auto out = open_sender({.reconnect_min = 1ms, .reconnect_max = 10ms});
  const auto deadline = now() + 30s;
  move_on(first, out);
  ASSERT_TRUE(uses_lane(out));
  ASSERT_TRUE(out.send(as_bytes("unread")));
  first.close();
  auto second = open_receiver();
  std::vector<std::string> got;
  while (got.size() < 3 && now() < deadline) {
    if (got.size() == 2)
      (void)out.send(as_bytes("after"));
    (void)out.flush(10ms);
    (void)out.wait_writable(10ms, 1);
    for (auto& text : drain(second))
      got.push_back(std::move(text));
  }
  ASSERT_GE(got.size(), 3U);
  EXPECT_EQ(got[0], "probe");
  EXPECT_EQ(got[1], "unread");
  EXPECT_EQ(got[2], "after");
}

// A process that dies may end its connections a moment before its locks.
TEST_F(StreamLanes, NothingIsLostWhenAForkedReceiversLockEndsAfterItsConnections) {
  int handled[2];
  ASSERT_EQ(pipe(handled), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto inbox = open_receiver();
    for (;;) {
      for (const auto& text : drain(inbox))
        (void)!write(handled[1], text.data(), 1);
      (void)inbox.wait(100ms);
    }
  }
  sender out = open_sender({.reconnect_min = 1ms, .reconnect_max = 10ms});
  for (int i = 0; i < 4; ++i) {
    const auto deadline = now() + 30s;
    while (!out.send(as_bytes("opening")) && now() < deadline)
      (void)out.wait_writable(10ms);
    (void)out.flush(10s);
    char byte;
    ASSERT_EQ(read(handled[0], &byte, 1), 1);
  }
  kill(child, SIGSTOP);
  ASSERT_TRUE(uses_lane(out));
  ASSERT_TRUE(out.send(as_bytes("unread")));
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  close(handled[0]);
  close(handled[1]);

  auto second = open_receiver();
  hold_receivers_lock(5);
  std::vector<std::string> got;
  const auto deadline = now() + 30s;
  while (got.size() < 3 && now() < deadline) {
    // What is sent meanwhile must not overtake what was sent before.
    (void)out.send(as_bytes("later"));
    (void)out.flush(1ms);
    for (auto& text : drain(second))
      got.push_back(std::move(text));
  }
  EXPECT_EQ(false_answers(), 0);
  ASSERT_GE(got.size(), 3U);
  EXPECT_EQ(got[0], "probe");
  EXPECT_EQ(got[1], "unread");
  EXPECT_EQ(got[2], "later");
}

// The same for who asks for its messages at once, and never again.
TEST_F(StreamLanes, WhatADeadReceiverLeftComesBackThoughItsLockEndsAfterItsConnections) {
  for (const bool dials_again : {true, false}) {
    for (const bool closes : {true, false}) {
      SCOPED_TRACE(dials_again);
      SCOPED_TRACE(closes);
      auto inbox = open_receiver();
      auto out = open_sender({.reconnect_min = dials_again ? 30s : 0s});
      move_on(inbox, out);
      ASSERT_TRUE(uses_lane(out));
      ASSERT_TRUE(out.send(as_bytes("unread")));
      hold_receivers_lock(3);
      inbox.close();
      const auto deadline = now() + 30s;
      while (out.receiver_alive() && now() < deadline) {
      }
      std::vector<std::string> back;
      if (closes) {
        EXPECT_EQ(out.close(0ns, [&](bytes_view m) { back.emplace_back(as_text(m)); }), 2U);
      } else {
        const auto taken =
            out.take_back([&](bytes_view m, errc) { back.emplace_back(as_text(m)); });
        EXPECT_TRUE(taken) << taken.error().text();
      }
      EXPECT_EQ(back, (std::vector<std::string>{"probe", "unread"}));
      EXPECT_EQ(false_answers(), 0);
    }
  }
}

TEST_F(StreamLanes, ClosingASenderDoesNotWaitForALivingReceiver) {
  const sender_options dials_again{.reconnect_min = 1ms, .reconnect_max = 10ms};
  const auto close_at_once = [](sender& out) {
    hold_receivers_lock(0);
    EXPECT_EQ(out.close(0ns, [](bytes_view) {}), 0U);
    EXPECT_LE(lock_questions(), 2);
  };
  auto inbox = open_receiver();
  auto out = open_sender(dials_again);
  move_on(inbox, out);
  ASSERT_TRUE(uses_lane(out));
  close_at_once(out);
  // Nor if it has just left another one's lane.
  address = fresh_address();
  inbox = open_receiver();
  out = open_sender(dials_again);
  move_on(inbox, out);
  ASSERT_TRUE(uses_lane(out));
  (void)drain(inbox);
  inbox.close();
  inbox = open_receiver();
  const auto deadline = now() + 30s;
  while (out.stats().reconnects == 0 && now() < deadline)
    (void)out.poll_writable();
  move_on(inbox, out);
  ASSERT_TRUE(uses_lane(out));
  close_at_once(out);
}

TEST_F(StreamLanes, LaneThatHoldsMoreThanTheQueueComesBackWhole) {
  auto first = open_receiver();
  auto out = open_sender({.message_limit = 2000,
                          .send_buffer_number = 64,  // 8 KiB
                          .reconnect_min = 1ms,
                          .reconnect_max = 10ms});
  move_on(first, out);
  ASSERT_TRUE(uses_lane(out));
  ASSERT_EQ(drain(first).size(), 1U);
  int accepted = 0;
  while (out.send(as_bytes(std::string(1000, 'x') + std::to_string(accepted))))
    ++accepted;
  ASSERT_GT(accepted, 100);
  first.close();
  auto second = open_receiver();
  int next = 0;
  const auto deadline = now() + 30s;
  while (next < accepted && now() < deadline) {
    (void)out.flush(10ms);
    for (const auto& text : drain(second))
      EXPECT_EQ(text, std::string(1000, 'x') + std::to_string(next++));
  }
  EXPECT_EQ(next, accepted);
}

// Its handler may go on for long. Nothing more is handed out, so what is left is its senders' at once.
TEST_F(StreamLanes, AReceiverClosedInItsHandlerLeavesTheRestToItsSenders) {
  auto inbox = open_receiver();
  auto out = open_sender();
  move_on(inbox, out);
  for (const char* text : {"last", "unread", "unread too"})
    ASSERT_TRUE(out.send(as_bytes(text)));
  std::vector<std::pair<std::string, errc>> back;
  int handled = 0;
  inbox.poll([&](bytes_view m) {
    ++handled;
    inbox.close();
    const auto deadline = now() + 30s;
    while (out.receiver_alive() && now() < deadline) {
    }
    const auto taken =
        out.take_back([&](bytes_view of, errc why) { back.emplace_back(as_text(of), why); });
    EXPECT_TRUE(taken) << taken.error().text();
    EXPECT_EQ(as_text(m), "last");
  });
  EXPECT_EQ(handled, 1);
  EXPECT_EQ(back, (std::vector<std::pair<std::string, errc>>{{"last", errc::outcome_unknown},
                                                             {"unread", errc::not_delivered},
                                                             {"unread too", errc::not_delivered}}));
}

TEST_F(StreamLanes, TheSuccessorOfAReceiverClosedInItsHandlerGetsTheRest) {
  auto first = open_receiver();
  auto out = open_sender({.reconnect_min = 1ms, .reconnect_max = 10ms});
  move_on(first, out);
  for (const char* text : {"last", "unread"})
    ASSERT_TRUE(out.send(as_bytes(text)));
  std::vector<std::string> got;
  first.poll([&](bytes_view) {
    first.close();
    auto second = open_receiver();
    const auto deadline = now() + 30s;
    while (out.receiver_alive() && now() < deadline) {
    }
    while (!out.send(as_bytes("later")) && now() < deadline)
      (void)out.wait_writable(1ms);
    while ((got.empty() || got.back() != "later") && now() < deadline) {
      (void)out.flush(1ms);
      for (auto& text : drain(second))
        got.push_back(std::move(text));
    }
  });
  EXPECT_EQ(got, (std::vector<std::string>{"unread", "later"}));
}

TEST_F(StreamLanes, BothSidesSleepAndWake) {
  auto inbox = open_receiver({.spin = 0ns});
  const std::string back_address = address + "-back";
  std::thread other{[&] {
    auto back = receiver::open(back_address, {.spin = 0ns});
    ASSERT_TRUE(back) << back.error().text();
    auto out = open_sender({.spin = 0ns});
    ASSERT_TRUE(out.send(as_bytes("ready")));
    for (int i = 0; i < 200; ++i) {
      std::size_t got = 0;
      const auto deadline = now() + 30s;
      while (got == 0 && now() < deadline) {
        got = back->poll([](bytes_view) {});
        if (got == 0)
          (void)back->wait(30s);
      }
      ASSERT_EQ(got, 1U);
      ASSERT_TRUE(out.send(as_bytes("pong")));
    }
  }};
  const auto receive = [&] {
    std::size_t got = 0;
    const auto deadline = now() + 30s;
    while (got == 0 && now() < deadline) {
      got = inbox.poll([](bytes_view) {});
      if (got == 0)
        (void)inbox.wait(30s);
    }
    return got;
  };
  ASSERT_EQ(receive(), 1U);
  auto out = sender::open(back_address, {.spin = 0ns});
  ASSERT_TRUE(out) << out.error().text();
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(out->send(as_bytes("ping")));
    ASSERT_EQ(receive(), 1U);
  }
  other.join();
}

// Not that its lane has ended: there is another one as soon as it has dialled again.
TEST_F(StreamLanes, WaitingForRoomOutlivesTheReceiverOfWhoDialsAgain) {
  const receiver_options narrow{.lanes = 1, .lane_size = 65536, .message_limit = 8192};
  auto inbox = open_receiver(narrow);
  auto out = open_sender(
      {.spin = 0ns, .message_limit = 8192, .reconnect_min = 5ms, .reconnect_max = 20ms});
  move_on(inbox, out);
  ASSERT_TRUE(uses_lane(out));
  std::size_t accepted = 1;
  while (out.send(as_bytes(std::string(1000, 'x'))))
    ++accepted;
  std::size_t received = 0;
  std::thread successor{[&] {
    inbox.close();
    auto next = open_receiver(narrow);
    const auto deadline = now() + 30s;
    while (received < accepted && now() < deadline) {
      (void)next.wait(5ms);
      received += drain(next).size();
    }
  }};
  const status waited = out.wait_writable(30s);
  EXPECT_TRUE(waited) << waited.text();
  (void)out.flush(30s);
  successor.join();
  EXPECT_EQ(received, accepted);
}

TEST_F(StreamLanes, FullLaneWaitsForRoom) {
  auto inbox = open_receiver({.lanes = 1, .lane_size = 65536, .message_limit = 8192});
  auto out = open_sender({.spin = 0ns, .message_limit = 8192});
  move_on(inbox, out);
  ASSERT_TRUE(uses_lane(out));
  int called = 0;
  out.on_writable([&] { ++called; });
  while (out.send(as_bytes(std::string(1000, 'x')))) {
  }
  EXPECT_FALSE(out.poll_writable());
  EXPECT_EQ(out.wait_writable(10ms), errc::timed_out);
  std::thread reader{[&] { (void)drain(inbox); }};
  EXPECT_TRUE(out.wait_writable(30s));
  EXPECT_EQ(called, 1);
  reader.join();
}

TEST_F(StreamLanes, AskingForAReceiverAloneNoticesItsEnd) {
  auto inbox = open_receiver();
  auto out = open_sender();
  move_on(inbox, out);
  ASSERT_TRUE(uses_lane(out));
  EXPECT_TRUE(out.receiver_alive());
  inbox.close();
  const auto deadline = now() + 30s;
  while (out.receiver_alive() && now() < deadline) {
  }
  EXPECT_FALSE(out.receiver_alive());
}

TEST_F(StreamLanes, SlotInALaneStaysThereWhenItsReceiverIsGone) {
  auto inbox = open_receiver();
  auto out = open_sender({.reconnect_min = 1ms, .reconnect_max = 10ms});
  move_on(inbox, out);
  ASSERT_TRUE(uses_lane(out));
  auto slot = out.claim(1000);
  ASSERT_TRUE(slot);
  inbox.close();
  inbox = open_receiver();
  std::vector<std::string> got;
  const auto deadline = now() + 30s;
  const auto until = [&](std::size_t count) {
    while (got.size() < count && now() < deadline) {
      (void)out.flush(1ms);
      for (auto& text : drain(inbox))
        got.push_back(std::move(text));
    }
  };
  until(1);
  std::memset(slot.bytes().data(), 's', slot.bytes().size());
  slot.commit();
  EXPECT_TRUE(out.send(as_bytes("after")));
  until(2);
  EXPECT_EQ(got, (std::vector<std::string>{"probe", "after"}));
}

// It lies in the queue, which goes on.
TEST_F(StreamLanes, SlotOfASenderThatWasOfferedALaneOutlivesItsReceiver) {
  auto inbox = open_receiver();
  auto out = open_sender({.reconnect_min = 1ms, .reconnect_max = 10ms});
  auto slot = out.claim(4);
  ASSERT_TRUE(slot);
  const auto deadline = now() + 30s;
  for (int i = 0; i < 3; ++i) {
    (void)drain(inbox);
    (void)out.flush();
  }
  inbox.close();
  while (out.stats().connections != 0 && now() < deadline)
    (void)out.flush();
  std::memcpy(slot.bytes().data(), "slot", 4);
  slot.commit();
  inbox = open_receiver();
  std::vector<std::string> got;
  while (got.empty() && now() < deadline) {
    (void)out.flush(1ms);
    got = drain(inbox);
  }
  EXPECT_EQ(got, std::vector<std::string>{"slot"});
}

TEST_F(StreamLanes, PollingAFullLaneTellsThatItsReceiverIsGone) {
  auto inbox = open_receiver({.lanes = 1, .lane_size = 65536, .message_limit = 8192});
  auto out = open_sender({.message_limit = 8192});
  move_on(inbox, out);
  ASSERT_TRUE(uses_lane(out));
  while (out.send(as_bytes(std::string(1000, 'x')))) {
  }
  inbox.close();
  const auto deadline = now() + 30s;
  bool told = false;
  while (!told && now() < deadline)
    told = out.poll_writable();
  EXPECT_TRUE(told);
  EXPECT_EQ(out.send(as_bytes("late")), errc::peer_closed);
}

TEST_F(StreamLanes, PollingAFullLaneDialsTheSuccessorOfItsReceiver) {
  const receiver_options narrow{.lanes = 1, .lane_size = 65536, .message_limit = 8192};
  auto inbox = open_receiver(narrow);
  auto out = open_sender({.message_limit = 8192, .reconnect_min = 1ms, .reconnect_max = 10ms});
  move_on(inbox, out);
  ASSERT_TRUE(uses_lane(out));
  std::size_t accepted = 1;
  while (out.send(as_bytes(std::string(1000, 'x'))))
    ++accepted;
  inbox.close();
  inbox = open_receiver(narrow);
  std::size_t got = 0;
  bool told = false;
  const auto deadline = now() + 30s;
  while ((!told || got < accepted) && now() < deadline) {
    told = out.poll_writable() || told;
    got += drain(inbox).size();
  }
  EXPECT_TRUE(told);
  EXPECT_EQ(got, accepted);
}

}  // namespace
}  // namespace atbus
