// Senders of a Unix socket that move on to lanes of shared memory, and those that can't.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "stream_lanes_fixture.h"

namespace atbus {
namespace {

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
  auto newcomer = open_socket_sender("me too");
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
  auto newcomer = open_socket_sender("me too");
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

// As move_on, where the receiver may look at its lanes first.
void move_on_later(receiver& inbox, sender& out) {
  for (int i = 0; i != 3; ++i) {
    ASSERT_TRUE(out.send(as_bytes("opening")));
    std::size_t got = 0;
    for (const auto deadline = now() + 30s; got == 0 && now() < deadline;)
      got += inbox.poll([](bytes_view) {});
    ASSERT_EQ(got, 1U);
  }
}

TEST_F(StreamLanes, SendersThatComeAndGoGetLanes) {
  auto inbox = open_receiver();
  std::vector<std::string> told;
  inbox.on_problem([&](const error& what) { told.push_back(what.text()); });
  int in_lanes = 0;
  constexpr int rounds = 200;
  for (int i = 0; i != rounds; ++i) {
    auto out = open_sender();
    move_on_later(inbox, out);
    in_lanes += uses_lane(out) ? 1 : 0;
    EXPECT_EQ(drain(inbox), std::vector<std::string>{"probe"});
    out.close();
    (void)drain(inbox);
  }
  EXPECT_EQ(in_lanes, rounds);
  EXPECT_EQ(told, std::vector<std::string>{});
}

// The successor is accepted before the end of its predecessor is seen.
TEST_F(StreamLanes, SuccessorsThatComeAtOnceGetLanes) {
  auto inbox = open_receiver();
  std::vector<std::string> told;
  inbox.on_problem([&](const error& what) { told.push_back(what.text()); });
  int in_lanes = 0;
  constexpr int rounds = 100;
  auto out = open_sender();
  for (int i = 0; i != rounds; ++i) {
    move_on_later(inbox, out);
    in_lanes += uses_lane(out) ? 1 : 0;
    EXPECT_EQ(drain(inbox), std::vector<std::string>{"probe"});
    out.close();
    out = open_sender();
  }
  EXPECT_EQ(in_lanes, rounds);
  EXPECT_EQ(told, std::vector<std::string>{});
}

TEST_F(StreamLanes, ALaneWhoseMessagesWaitIsNotHandedOutAgain) {
  auto inbox = open_receiver();
  auto first = open_sender();
  move_on(inbox, first);
  ASSERT_TRUE(uses_lane(first));
  first.close();
  std::vector<std::string> told;
  inbox.on_problem([&](const error& what) { told.push_back(what.text()); });
  auto second = open_sender();
  ASSERT_TRUE(second.send(as_bytes("second")));
  std::vector<std::string> got;
  // One message each time, so that the second connection is looked at before the lane is empty.
  for (const auto deadline = now() + 30s; got.size() < 2 && now() < deadline;)
    inbox.poll([&](bytes_view m) { got.emplace_back(as_text(m)); }, {.messages = 1});
  std::sort(got.begin(), got.end());
  EXPECT_EQ(got, (std::vector<std::string>{"probe", "second"}));
  move_on_later(inbox, second);
  EXPECT_TRUE(uses_lane(second));
  EXPECT_EQ(told, std::vector<std::string>{});
}

TEST_F(StreamLanes, NoProblemIsToldWhereAllLanesAreInUse) {
  auto inbox = open_receiver({.lanes = 1});
  std::vector<std::string> told;
  inbox.on_problem([&](const error& what) { told.push_back(what.text()); });
  for (int i = 0; i != 20; ++i) {
    auto first = open_sender();
    auto second = open_sender();
    for (sender* const out : {&first, &second}) {
      ASSERT_TRUE(out->send(as_bytes("short-lived")));
      std::size_t got = 0;
      for (const auto deadline = now() + 30s; got == 0 && now() < deadline;)
        got += drain(inbox).size();
      EXPECT_EQ(got, 1U);
    }
  }
  EXPECT_EQ(told, std::vector<std::string>{});
}

TEST_F(StreamLanes, AMessageOverTheSendersLimitNeverFits) {
  auto inbox = open_receiver();
  auto out = open_sender({.message_limit = 1000});
  EXPECT_EQ(out.wait_writable(0ns, 2000), errc::message_too_large);
  move_on(inbox, out);
  ASSERT_TRUE(uses_lane(out));
  EXPECT_EQ(out.message_limit(), 1000U);
  EXPECT_EQ(out.send(as_bytes(std::string(2000, 'x'))), errc::message_too_large);
  EXPECT_EQ(out.wait_writable(0ns, 2000), errc::message_too_large);
}

}  // namespace
}  // namespace atbus
