// Links that begin at a Unix socket and go through lanes without a name, and those that can't.
#include <csignal>

#include "child_process.h"
#include "link_fixture.h"

namespace atbus::detail {
namespace {

using outcomes = std::vector<std::pair<std::string, errc>>;
using texts = std::vector<std::string>;

class UnixLanes : public ::testing::Test {
 protected:
  void TearDown() override { kernel() = saved_; }

  recorded_end& make(std::unique_ptr<recorded_end>& end, std::uint64_t id) {
    setting.directory = directory.path();
    channels_options wanted{.streams = stream_options_for(setting),
                            .lanes = lane_options_for(setting)};
    wanted.lanes.lanes = lane_count;
    end = std::make_unique<recorded_end>(std::make_unique<channels>(wanted), node_instance{id, 1});
    return *end;
  }
  void start() {
    make(a, 1);
    make(b, 2);
    where = a->listen("unix://" + directory.path() + "/socket" + options);
  }
  // One more link; `in` and `out` are its ends.
  void dial(const std::string& more = {}) {
    const std::size_t before = a->count("accepted");
    b->connect(where + more);
    ASSERT_TRUE(until(
        [&] { return a->count("accepted") == before + 1 && b->count("opened") == before + 1; }));
    in = a->last;
    out = b->last;
  }
  bool until(const std::function<bool()>& done) { return turn_until({a.get(), b.get()}, done); }
  void carries_messages() {
    const std::size_t at_a = a->messages.size();
    const std::size_t at_b = b->messages.size();
    ASSERT_TRUE(send(*in, "down"));
    ASSERT_TRUE(send(*out, "up"));
    ASSERT_TRUE(
        until([&] { return a->messages.size() == at_a + 1 && b->messages.size() == at_b + 1; }));
    EXPECT_EQ(a->messages.back(), "up");
    EXPECT_EQ(b->messages.back(), "down");
  }
  void both_are(link_kind kind) {
    EXPECT_EQ(in->kind(), kind);
    EXPECT_EQ(out->kind(), kind);
    EXPECT_EQ(in->keeps(), kind == link_kind::unix_socket);
    carries_messages();
  }

  test::scratch_directory directory;
  link_setting setting;
  std::uint32_t lane_count = 0;
  std::string options;
  std::unique_ptr<recorded_end> a;
  std::unique_ptr<recorded_end> b;
  std::string where;
  link* in = nullptr;
  link* out = nullptr;
  kernel_calls saved_ = kernel();
};

TEST_F(UnixLanes, CarryALinkWithoutASystemCallPerMessage) {
  start();
  dial();
  both_are(link_kind::lanes);
  static std::atomic<int> calls{0};
  calls = 0;
  kernel().sendmsg = [](int, const msghdr*, int) {
    ++calls;
    errno = EPIPE;
    return ssize_t{-1};
  };
  kernel().send = [](int fd, const void* at, std::size_t size, int flags) {
    ++calls;
    return ::send(fd, at, size, flags);
  };
  for (int i = 0; i != 1000; ++i) {
    ASSERT_TRUE(send(*out, "up"));
    ASSERT_TRUE(send(*in, "down"));
    a->poll();
    b->poll();
  }
  ASSERT_TRUE(until([&] { return a->messages.size() == 1001 && b->messages.size() == 1001; }));
  // A lane may be parked now and then, where its end has nothing to do.
  EXPECT_LT(calls, 10);
}

TEST_F(UnixLanes, AreNotUsedIfEitherEndWantsNone) {
  for (const bool listener : {true, false}) {
    options = listener ? "?shm=false" : "";
    start();
    dial(listener ? "" : "?shm=false");
    both_are(link_kind::unix_socket);
    EXPECT_EQ(a->count("problem") + b->count("problem"), 0U);
  }
}

TEST_F(UnixLanes, LeaveALinkToItsSocketWhenTheyRunOut) {
  lane_count = 1;
  start();
  dial();
  both_are(link_kind::lanes);
  link* const first = out;
  for (int i = 0; i != 2; ++i) {
    dial();
    both_are(link_kind::unix_socket);
  }
  EXPECT_EQ(a->count("problem"), 1U);
  EXPECT_EQ(a->find("problem").why, errc::no_free_lane);
  // A lane that is free again is used again.
  first->abort();
  ASSERT_TRUE(until([&] { return a->count("closed") == 1 && b->count("closed") == 1; }));
  const auto deadline = now() + 30s;
  do {
    ASSERT_LT(now(), deadline);
    dial();
  } while (out->kind() != link_kind::lanes);
  both_are(link_kind::lanes);
}

// The path of most messages goes past the link, and nothing but the ring wakes a peer that sleeps.
TEST_F(UnixLanes, RingAgainWhereTheKernelHadNoMemoryForARing) {
  start();
  dial();
  both_are(link_kind::lanes);
  const auto deadline = now() + 30s;
  while (!b->way->prepare_sleep()) {
    ASSERT_LT(now(), deadline);
    b->poll();
  }
  static std::atomic<int> to_fail{0};
  to_fail = 2;  // the ring, and the first attempt to make up for it
  kernel().send = [](int fd, const void* at, std::size_t size, int flags) {
    if (to_fail == 0)
      return ::send(fd, at, size, flags);
    --to_fail;
    errno = ENOBUFS;
    return ssize_t{-1};
  };
  ASSERT_TRUE(send(*in, "down"));
  ASSERT_EQ(to_fail, 1);
  pollfd watched{b->way->descriptor(), POLLIN, 0};
  ASSERT_EQ(::poll(&watched, 1, 0), 0);
  while (!a->way->prepare_sleep()) {
    ASSERT_LT(now(), deadline);
    a->poll();
  }
  if (to_fail == 0 && ::poll(&watched, 1, 0) == 0) {
    EXPECT_GE(a->way->longest_sleep(), 0ns) << "nothing would wake it";
    EXPECT_LE(a->way->longest_sleep(), 20ms);
  }
  a->way->finish_sleep();
  a->poll();
  EXPECT_EQ(::poll(&watched, 1, 0), 1) << "its message waits for the next one";
  while (!a->way->prepare_sleep()) {
    ASSERT_LT(now(), deadline);
    a->poll();
  }
  EXPECT_LT(a->way->longest_sleep(), 0ns);
  a->way->finish_sleep();
  b->way->finish_sleep();
  ASSERT_TRUE(until([&] { return b->messages.size() == 2; }));
  EXPECT_EQ(b->messages.back(), "down");
}

// What the kernel may refuse, at one end or at both.
struct refusal {
  const char* name;
  void (*arrange)();
};

class UnixLanesRefused : public UnixLanes, public ::testing::WithParamInterface<refusal> {};

TEST_P(UnixLanesRefused, LeaveTheLinkToItsSocketAndSaySoOnce) {
  start();
  GetParam().arrange();
  for (int i = 0; i != 3; ++i) {
    dial();
    both_are(link_kind::unix_socket);
  }
  EXPECT_EQ(a->count("problem") + b->count("problem"), 1U);
  const auto told = a->count("problem") != 0 ? a->find("problem") : b->find("problem");
  EXPECT_NE(told.text.find("through the socket instead"), std::string::npos) << told.text;
}

template <int Code>
int refuse(auto...) {
  errno = Code;
  return -1;
}

const refusal refusals[] = {
    {"memfd",
     [] { kernel().memfd_create = [](const char*, unsigned) { return refuse<ENOSYS>(); }; }},
    {"memory",
     [] { kernel().fallocate = [](int, int, off_t, off_t) { return refuse<ENOSPC>(); }; }},
    {"mmap",
     [] {
       kernel().mmap = [](void*, std::size_t, int, int, int, off_t) -> void* {
         (void)refuse<ENOMEM>();
         return MAP_FAILED;
       };
     }},
    {"socketpair",
     [] { kernel().socketpair = [](int, int, int, int*) { return refuse<EMFILE>(); }; }},
};
INSTANTIATE_TEST_SUITE_P(All, UnixLanesRefused, ::testing::ValuesIn(refusals),
                         [](const auto& of) { return of.param.name; });

// --- processes

TEST_F(UnixLanes, AreNotGivenToAnotherUserFork) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root can become somebody else";
  const std::string at = "unix://@unix-lanes-" + std::to_string(getpid());
  test::shared<test::shared_counter> listening;
  test::child_process other{[&] {
    test::require(listening->wait(1), "nobody listens");
    test::require(setresuid(65534, 65534, 65534) == 0, "it can't be somebody else");
    std::unique_ptr<recorded_end> own;
    make(own, 2);
    own->on_opened = [](link& to, bool) {
      (void)send(to, to.kind() == link_kind::unix_socket ? "socket" : "lanes");
    };
    own->connect(at);
    (void)turn_until({own.get()}, [&] { return own->count("closed") == 1; });
    return 0;
  }};
  make(a, 1);
  a->listen(at);
  listening->add();
  ASSERT_TRUE(turn_until({a.get()}, [&] { return a->messages.size() == 1; }));
  EXPECT_EQ(a->messages[0], "socket");
  EXPECT_EQ(a->last->kind(), link_kind::unix_socket);
  EXPECT_EQ(a->last->trust(), link_trust::unproven);
  EXPECT_EQ(a->find("problem").why, errc::wrong_owner) << a->find("problem").text;
  a->last->abort();
  ASSERT_TRUE(turn_until({a.get()}, [&] { return a->count("closed") == 1; }));
  EXPECT_EQ(other.wait_end(), "exit 0");
}

// The other end is a process of its own, with a say in what it does.
class UnixLanesOfProcess : public UnixLanes {
 protected:
  test::child_process live(const std::function<void(recorded_end&)>& prepare) {
    return test::child_process{[=, this] {
      std::unique_ptr<recorded_end> own;
      make(own, 1);
      prepare(*own);
      own->listen("unix://" + directory.path() + "/socket");
      listening->add();
      for (;;) {
        own->poll();
        sleep_all({own.get()});
      }
      return 0;
    }};
  }
  void dial_it() {
    ASSERT_TRUE(listening->wait(1));
    make(b, 2);
    b->connect("unix://" + directory.path() + "/socket");
    ASSERT_TRUE(turn_until({b.get()}, [&] { return b->count("opened") == 1; }));
    out = b->last;
    ASSERT_EQ(out->kind(), link_kind::lanes);
  }
  test::shared<test::shared_counter> listening;
};

TEST_F(UnixLanesOfProcess, KnowExactlyWhatADeadPeerHandledFork) {
  auto other = live([](recorded_end& own) {
    own.on_received = [](link&, bytes_view message) {
      if (as_text(message) == "deadly")
        raise(SIGKILL);
    };
  });
  dial_it();
  for (const char* text : {"handled", "deadly", "harmless", "harmless too"})
    ASSERT_TRUE(send(*out, text));
  ASSERT_TRUE(turn_until({b.get()}, [&] { return b->count("closed") == 1; }));
  EXPECT_EQ(b->find("closed").why, errc::peer_closed) << b->find("closed").text;
  EXPECT_EQ(b->unreleased, (outcomes{{"deadly", errc::outcome_unknown},
                                     {"harmless", errc::not_delivered},
                                     {"harmless too", errc::not_delivered}}));
  EXPECT_EQ(other.wait_end(), "signal 9");
}

TEST_F(UnixLanesOfProcess, HandOutWhatADeadPeerSentBeforeItsEndFork) {
  auto other = live([](recorded_end& own) {
    own.on_received = [](link& from, bytes_view) {
      for (const char* text : {"one", "two"})
        (void)send(from, text);
      raise(SIGKILL);
    };
  });
  dial_it();
  ASSERT_TRUE(send(*out, "speak"));
  EXPECT_EQ(other.wait_end(), "signal 9");
  ASSERT_TRUE(turn_until({b.get()}, [&] { return b->count("closed") == 1; }));
  EXPECT_EQ(b->messages, (texts{"one", "two"}));
}

TEST_F(UnixLanesOfProcess, WaitForAPeerThatIsStoppedFork) {
  auto other = live([](recorded_end& own) {
    own.on_received = [](link& from, bytes_view message) { (void)send(from, as_text(message)); };
  });
  dial_it();
  ASSERT_TRUE(send(*out, "before"));
  ASSERT_TRUE(turn_until({b.get()}, [&] { return b->messages.size() == 1; }));
  other.stop();
  std::size_t count = 0;
  status s;
  while ((s = send(*out, "x")))
    ++count;
  EXPECT_EQ(s, errc::would_block);
  b->poll();
  EXPECT_EQ(b->count("closed"), 0U);
  other.resume();
  ASSERT_TRUE(turn_until({b.get()}, [&] { return b->count("writable") == 1; }));
  ASSERT_TRUE(turn_until({b.get()}, [&] { return out->settled(); }));
  EXPECT_EQ(b->count("closed"), 0U);
}

TEST_F(UnixLanesOfProcess, WakeAnEndThatSleepsFork) {
  auto other = live([](recorded_end& own) {
    own.on_received = [](link& from, bytes_view message) { (void)send(from, as_text(message)); };
  });
  dial_it();
  for (std::size_t i = 1; i != 20; ++i) {
    ASSERT_TRUE(send(*out, std::to_string(i)));
    while (b->messages.size() != i) {
      // Only what comes wakes us: nothing is looked at again and again.
      if (b->poll() == 0 && b->way->prepare_sleep()) {
        EXPECT_LT(b->way->longest_sleep(), 0ns);
        pollfd watched{b->way->descriptor(), POLLIN, 0};
        ASSERT_EQ(poll(&watched, 1, 30'000), 1);
      }
      b->way->finish_sleep();
    }
    EXPECT_EQ(b->messages.back(), std::to_string(i));
  }
}

}  // namespace
}  // namespace atbus::detail
