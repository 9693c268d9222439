// Senders in lanes of a Unix socket's receiver that closes, dies or comes back.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>

#include "stream_lanes_fixture.h"

namespace atbus {
namespace {

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

// The kernel ends the descriptors of a dead process one after the other, the highest first.
TEST_F(StreamLanes, WhatADeadReceiverLeftComesBackThoughItsBellEndsFirst) {
  for (const bool waits : {true, false}) {
    for (const bool closes : {true, false}) {
      SCOPED_TRACE(waits);
      SCOPED_TRACE(closes);
      address = fresh_address();
      auto inbox = open_receiver();
      auto out = open_sender();
      move_on(inbox, out);
      ASSERT_TRUE(uses_lane(out));
      std::size_t accepted = 1;
      const std::string text(1000, 'x');
      for (const auto deadline = now() + 30s; out.send(as_bytes(text)) && now() < deadline;)
        ++accepted;
      hold_receivers_lock(3);
      hide_connections();
      inbox.close();
      if (waits) {
        const status waited = out.wait_writable(30s);
        EXPECT_TRUE(waited == errc::retired || waited == errc::peer_closed) << waited.text();
      } else {
        (void)out.prepare_sleep();  // a loop's turn; no sleep follows
        out.finish_sleep();
      }
      std::size_t back = 0;
      if (closes) {
        EXPECT_EQ(out.close(0ns, [&](bytes_view) { ++back; }), accepted);
      } else {
        const auto taken = out.take_back([&](bytes_view, errc) { ++back; });
        EXPECT_TRUE(taken) << taken.error().text();
      }
      EXPECT_EQ(back, accepted);
      detail::kernel().recv = saved_.recv;
      detail::kernel().recvmsg = saved_.recvmsg;
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

// Which file this process has mapped there, by its inode; empty if it is not of a lane.
std::string lane_at(const std::byte* place) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(place);
  std::ifstream maps{"/proc/self/maps"};
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words{line};
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    std::string access;
    std::string offset;
    std::string device;
    std::string inode;
    words >> std::hex >> begin >> dash >> end >> access >> offset >> device >> inode;
    if (begin <= wanted && wanted < end)
      return line.find("atbus-lanes") == std::string::npos ? std::string{} : inode;
  }
  return {};
}

// Another sender may get the lane then.
TEST_F(StreamLanes, ASlotKeepsItsLaneUntilTheNextClaim) {
  auto inbox = open_receiver();
  auto out = open_sender({.reconnect_min = 1ms, .reconnect_max = 2ms});
  move_on(inbox, out);
  ASSERT_TRUE(uses_lane(out));
  (void)drain(inbox);
  auto slot = out.claim(1000);
  ASSERT_TRUE(slot);
  std::byte* const place = slot.bytes().data();
  const std::string lane = lane_at(place);
  ASSERT_NE(lane, "");
  // As POSIX allows, and as Linux before 6.12 does without memory: what was mapped there is gone then.
  detail::kernel().mmap = [](void* at, std::size_t size, int protection, int flags, int fd,
                             off_t offset) {
    if ((flags & MAP_FIXED) == 0)
      return ::mmap(at, size, protection, flags, fd, offset);
    (void)::munmap(at, size);
    errno = ENOMEM;
    return MAP_FAILED;
  };
  inbox.close();
  inbox = open_receiver();
  const auto deadline = now() + 30s;
  while (out.stats().reconnects == 0 && lane_at(place) == lane && now() < deadline) {
    (void)out.flush(1ms);
    (void)drain(inbox);
  }
  EXPECT_EQ(out.stats().reconnects, 1U);
  ASSERT_EQ(lane_at(place), lane);
  std::memset(place, 's', slot.bytes().size());
  slot.commit();
  EXPECT_TRUE(out.send(as_bytes("after")));
  EXPECT_NE(lane_at(place), lane);
  std::vector<std::string> got;
  while (got.empty() && now() < deadline) {
    (void)out.flush(1ms);
    got = drain(inbox);
  }
  EXPECT_EQ(got, std::vector<std::string>{"after"});
}

// Its sender moves on to further lanes while it only waits for room, and loses these too.
TEST_F(StreamLanes, ASlotStaysValidWhenTheSecondLaneIsLost) {
  auto inbox = open_receiver();
  auto out = open_sender({.reconnect_min = 1ms, .reconnect_max = 2ms});
  move_on(inbox, out);
  ASSERT_TRUE(uses_lane(out));
  (void)drain(inbox);
  auto slot = out.claim(1000);
  ASSERT_TRUE(slot);
  const auto deadline = now() + 30s;
  const auto end_receiver = [&] {
    inbox.close();
    while (out.stats().connections != 0 && now() < deadline)
      (void)out.flush();
  };
  for (std::uint64_t round = 1; round <= 3; ++round) {
    end_receiver();
    std::memset(slot.bytes().data(), 's', slot.bytes().size());
    inbox = open_receiver();
    while (out.stats().reconnects < round && now() < deadline)
      (void)out.flush(1ms);
    // All that it writes then is its switch to the lane.
    for (bool moved = false; !moved && now() < deadline;) {
      (void)drain(inbox);
      const int before = writes();
      (void)out.flush();
      (void)out.wait_writable(0ns, 1000);
      moved = writes() != before;
    }
    std::memset(slot.bytes().data(), 's', slot.bytes().size());
  }
  slot.commit();
  auto next = out.claim(1000);
  ASSERT_TRUE(next);
  end_receiver();
  std::memset(next.bytes().data(), 'n', next.bytes().size());
  next.commit();
  EXPECT_LT(now(), deadline);
  inbox = open_receiver();
  while (!out.send(as_bytes("after")) && now() < deadline)
    (void)out.flush(1ms);
  (void)out.flush(30s);
  EXPECT_EQ(drain(inbox), std::vector<std::string>{"after"});
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

// The receiver lives, and reads what is in the lane.
TEST_F(StreamLanes, ABatchArrivesThoughOnlyItsConnectionEnds) {
  for (const bool dials_again : {false, true}) {
    SCOPED_TRACE(dials_again);
    address = fresh_address();
    auto inbox = open_receiver();
    static std::atomic<int> written_to;
    detail::kernel().sendmsg = [](int fd, const msghdr* message, int flags) {
      written_to = fd;
      ++writes();
      return ::sendmsg(fd, message, flags);
    };
    auto out = open_sender({.linger = 0ns, .reconnect_min = dials_again ? 30s : 0s});
    const int connection = written_to;
    move_on(inbox, out);
    ASSERT_TRUE(uses_lane(out));
    ASSERT_EQ(drain(inbox).size(), 1U);
    std::size_t accepted = 0;
    const auto deadline = now() + 30s;
    {
      auto batch = out.batch();
      ASSERT_TRUE(batch.send(as_bytes("first")));
      ++accepted;
      ASSERT_EQ(shutdown(connection, SHUT_RDWR), 0);
      // The sender looks at its connection when the lane is full.
      while (batch.send(as_bytes(std::string(1000, 'x'))) && now() < deadline)
        ++accepted;
    }
    EXPECT_EQ(out.stats().connections, 0U);
    std::size_t received = 0;
    while (received < accepted && now() < deadline) {
      received += drain(inbox).size();
      (void)inbox.wait(1ms);
    }
    EXPECT_EQ(received, accepted);
  }
}

// The next lane has the same positions, and often the same memory.
TEST_F(StreamLanes, SlotOfAnEarlierLaneSendsNothingInTheNext) {
  auto inbox = open_receiver();
  auto out = open_sender({.reconnect_min = 1ms, .reconnect_max = 10ms});
  move_on(inbox, out);
  ASSERT_TRUE(uses_lane(out));
  EXPECT_TRUE(uses_lane(out));
  (void)drain(inbox);
  auto slot = out.claim(4);
  ASSERT_TRUE(slot);
  std::memcpy(slot.bytes().data(), "slot", 4);
  inbox.close();
  inbox = open_receiver();
  const auto deadline = now() + 30s;
  while (out.stats().reconnects == 0 && now() < deadline)
    (void)out.flush();
  while (!uses_lane(out) && now() < deadline)
    (void)drain(inbox);
  (void)drain(inbox);
  // Past the place where the slot was.
  for (int i = 0; i != 8; ++i) {
    {
      auto discarded = out.claim(4);
      ASSERT_TRUE(discarded);
    }
    slot.commit();
    EXPECT_EQ(drain(inbox), std::vector<std::string>{}) << i;
    EXPECT_TRUE(uses_lane(out));
    EXPECT_EQ(drain(inbox), std::vector<std::string>{"probe"});
  }
}

}  // namespace
}  // namespace atbus
