// A client of the same user at the doorbell that is silent, lies, floods or never reads; and things
// in the way where the bell wants to be.
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "child_process.h"
#include "hostile/channel/shm/hostile_channel.h"
#include "system/kernel.h"

namespace atbus::hostile {
namespace {

constexpr uid_t nobody = 65534;

class Doorbell : public hostile_channel {
 protected:
  // A connection as the attacker makes it. Not open: the backlog was full.
  [[nodiscard]] detail::file connect_raw(const std::string& path) const {
    detail::file fd{socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    sockaddr_un bell{.sun_family = AF_UNIX, .sun_path = {}};
    EXPECT_LT(path.size(), sizeof bell.sun_path);
    std::memcpy(bell.sun_path, path.c_str(), path.size());
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&bell), sizeof bell) != 0)
      return {};
    return fd;
  }
  [[nodiscard]] detail::file connect_raw() const {
    return connect_raw(directory_.bell_path("victim"));
  }
  static bool say(const detail::file& to, const void* bytes, std::size_t size) {
    return ::send(to.get(), bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(size);
  }
  static bool is_hung_up(const detail::file& fd) {
    char byte = 0;
    const ssize_t n = ::recv(fd.get(), &byte, 1, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno == ECONNRESET);
  }
  // A message sent while the receiver sleeps wakes it.
  void expect_wakes(receiver& in, sender& out) {
    std::vector<std::string> got;
    collect(in, got);
    ASSERT_TRUE(in.prepare_sleep());
    in.finish_sleep();
    std::thread later{[&] { EXPECT_TRUE(out.send(as_bytes("wake up"))); }};
    got.clear();
    const auto end = now() + deadline;
    while (got.empty() && now() < end) {
      EXPECT_TRUE(in.wait(deadline));
      collect(in, got);
    }
    later.join();
    EXPECT_EQ(got, std::vector<std::string>{"wake up"});
  }
  // The sender of a full lane sleeps until there is room. One thread, so that it surely sleeps.
  static void expect_space_is_announced(receiver& in, sender& out) {
    const std::string large(900, 'x');
    while (out.send(as_bytes(large))) {
    }
    std::vector<std::string> got;
    const auto end = now() + deadline;
    while (out.prepare_sleep() && now() < end) {
      const auto longest = out.longest_sleep();
      const auto awake_at = longest < 0ns ? end : now() + longest;
      pollfd bell{.fd = out.descriptor(), .events = POLLIN, .revents = 0};
      while (now() < awake_at && ::poll(&bell, 1, 0) == 0) {
        collect(in, got);
        (void)in.wait(1ms);
      }
      out.finish_sleep();
    }
    EXPECT_LT(now(), end) << "slept through a ring, or got none";
    EXPECT_TRUE(out.send(as_bytes(large)));
  }
};

TEST_F(Doorbell, ThatASilentClientHoldsStillRings) {
  receiver in = open_receiver();
  const detail::file silent = connect_raw();
  ASSERT_TRUE(silent);
  sender out = open_sender();
  expect_wakes(in, out);
  expect_space_is_announced(in, out);
}

TEST_F(Doorbell, HangsUpOnGarbageAndOnLanesThatDoNotExist) {
  receiver in = open_receiver();
  raw_segment file = raw();
  const std::uint32_t wrong[] = {lanes, lanes + 1, 0x80000000U, 0xffffffffU};
  std::vector<std::string> got;
  std::uint64_t refused = 0;
  for (const std::uint32_t lane : wrong) {
    const detail::file client = connect_raw();
    ASSERT_TRUE(say(client, &lane, sizeof lane));
    EXPECT_TRUE(poll_until(in, got, [&] { return is_hung_up(client); })) << lane;
    ++refused;
  }
  for (const std::size_t size : {1U, 3U}) {
    const detail::file client = connect_raw();
    ASSERT_TRUE(say(client, "\x01\x02\x03", size));
    EXPECT_TRUE(poll_until(in, got, [&] { return is_hung_up(client); })) << size;
    ++refused;
  }
  EXPECT_TRUE(poll_until(in, got, [&] {
    return file.header().connections_refused.load() == refused;
  })) << file.header().connections_refused.load();
  sender out = open_sender();
  expect_wakes(in, out);
}

TEST_F(Doorbell, StandsPacketsOfAnySizeAndRingsWithoutEnd) {
  receiver in = open_receiver();
  sender out = open_sender();
  const detail::file client = connect_raw();
  const std::uint32_t lane = 1;
  ASSERT_TRUE(say(client, &lane, sizeof lane));
  const std::vector<char> large(60'000, 'g');
  std::vector<std::string> got;
  for (int round = 0; round < 50; ++round) {
    for (const std::size_t size : {1U, 4U, 4096U, 60'000U}) {
      while (say(client, large.data(), size)) {
      }
    }
    ASSERT_TRUE(out.send(as_bytes("between")));
    collect(in, got);
    (void)in.wait(1ms);
  }
  EXPECT_TRUE(poll_until(in, got, [&] { return got.size() == 50; }));
  expect_wakes(in, out);
}

TEST_F(Doorbell, FloodedBeyondItsCapStillServesAGoodSender) {
  receiver in = open_receiver();
  std::vector<detail::file> flood;
  for (int i = 0; i < 200; ++i) {
    flood.push_back(connect_raw());
    if (i % 50 == 49)
      (void)in.wait(1ms);
  }
  sender out = open_sender();
  // Until it has found the receiver asleep: it connects only then.
  for (const auto end = now() + deadline; out.stats().wake_ups == 0 && now() < end;)
    expect_wakes(in, out);
  // It has got a place among them: nothing is refused any more, and its ring finds it.
  const std::uint64_t refused = raw().header().connections_refused.load();
  EXPECT_GT(refused, 0U);
  expect_space_is_announced(in, out);
  EXPECT_GT(out.stats().space_rings, 0U);
  EXPECT_EQ(raw().header().connections_refused.load(), refused);
}

TEST_F(Doorbell, FloodedByClientsThatClaimALaneStillServesAGoodSender) {
  receiver in = open_receiver();
  std::vector<detail::file> flood;
  for (int i = 0; i < 200; ++i) {
    detail::file client = connect_raw();
    const std::uint32_t lane = static_cast<std::uint32_t>(i) % lanes;
    (void)say(client, &lane, sizeof lane);
    flood.push_back(std::move(client));
    if (i % 50 == 49)
      (void)in.wait(1ms);
  }
  sender out = open_sender();
  expect_wakes(in, out);
  expect_space_is_announced(in, out);
}

TEST_F(Doorbell, WithAFullBacklogLosesNoRequestForSpace) {
  receiver in = open_receiver();
  std::vector<detail::file> flood;
  for (;;) {
    detail::file client = connect_raw();
    if (!client)
      break;  // the receiver does not accept yet
    flood.push_back(std::move(client));
    ASSERT_LT(flood.size(), 100'000U);
  }
  sender out = open_sender();
  while (out.send(as_bytes(std::string(900, 'x')))) {
  }
  // Asleep before the receiver accepts anybody: no ring and no event can reach it here.
  ASSERT_TRUE(out.prepare_sleep());
  EXPECT_GE(out.longest_sleep(), 0ns) << "would sleep for ever";
  std::vector<std::string> got;
  EXPECT_TRUE(poll_until(in, got, [&] { return got.size() == 4; }));
  out.finish_sleep();
  EXPECT_TRUE(out.wait_writable(deadline));
  expect_space_is_announced(in, out);
}

TEST_F(Doorbell, OfAClientThatNeverReadsFillsAndCostsNothing) {
  receiver in = open_receiver();
  sender out = open_sender();
  const detail::file deaf = connect_raw();
  const std::uint32_t lane = out.lane();
  ASSERT_TRUE(say(deaf, &lane, sizeof lane));
  (void)in.wait(1ms);
  const std::string large(900, 'x');
  std::vector<std::string> got;
  std::uint64_t requests = 0;
  for (int round = 0; round < 2000; ++round) {
    while (out.send(as_bytes(large))) {
    }
    requests += out.prepare_sleep() ? 1 : 0;
    collect(in, got);
    out.finish_sleep();
    got.clear();
  }
  EXPECT_GT(requests, 1000U);
  EXPECT_GT(out.stats().space_rings, 1000U);
  EXPECT_FALSE(is_hung_up(deaf));
  expect_space_is_announced(in, out);
}

TEST_F(Doorbell, OutOfDescriptorsStillHearsRings) {
  ATBUS_IN_CHILD([this] {
    receiver in = open_receiver();
    const raw_segment file = raw();
    int go[2];
    ASSERT_EQ(pipe(go), 0);
    // Dies with its parent too, whatever that may end of.
    const test::child_process sending_child{[&] {
      char byte = 0;
      (void)!read(go[0], &byte, 1);
      sender out = open_sender();
      (void)out.send(as_bytes("from outside"));
      pause();
      return 0;
    }};
    std::vector<int> all;
    rlimit limit{64, 64};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int fd = dup(0); fd >= 0; fd = dup(0))
      all.push_back(fd);
    (void)!write(go[1], "g", 1);
    std::vector<std::string> got;
    EXPECT_TRUE(poll_until(in, got, [&] { return !got.empty(); }));
    // Nor does what it can't accept keep it awake, once the ring is over.
    bool sleeps_well = false;
    for (const auto end = now() + deadline; !sleeps_well && now() < end;) {
      const std::uint64_t sleeps = file.header().sleeps.load();
      sleeps_well = in.wait(50ms) == errc::timed_out && file.header().sleeps.load() <= sleeps + 5;
      collect(in, got);
    }
    EXPECT_TRUE(sleeps_well);
    for (const int fd : all)
      ::close(fd);
  });
}

// --- in the way

class PlaceOfTheBell : public Doorbell {};

TEST_F(PlaceOfTheBell, HoldsAFileThatIsReplaced) {
  const int fd =
      ::open(directory_.bell_path("victim").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0);
  ::close(fd);
  receiver in = open_receiver();
  sender out = open_sender();
  expect_wakes(in, out);
}

TEST_F(PlaceOfTheBell, HoldsALinkWhoseTargetIsLeftAlone) {
  const std::string target = directory_.path() + "/target";
  const int fd = ::open(target.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  ASSERT_EQ(write(fd, "kept", 4), 4);
  ::close(fd);
  ASSERT_EQ(symlink(target.c_str(), directory_.bell_path("victim").c_str()), 0);
  receiver in = open_receiver();
  sender out = open_sender();
  expect_wakes(in, out);
  EXPECT_EQ(std::filesystem::file_size(target), 4U);
}

TEST_F(PlaceOfTheBell, HoldsADirectoryWhichIsAnErrorAndLeavesNothingHalfMade) {
  ASSERT_EQ(mkdir(directory_.bell_path("victim").c_str(), 0700), 0);
  const auto in = receiver::open("shm://victim", receiving());
  ASSERT_FALSE(in);
  EXPECT_NE(in.error().text().find(directory_.bell_path("victim")), std::string::npos)
      << in.error().text();
  EXPECT_EQ(names_in(directory_.path()), std::vector<std::string>{"atbus-bell.victim"});
}

TEST_F(PlaceOfTheBell, HeldByAnotherUsersSocketIsAnErrorThatNamesIt) {
  ASSERT_EQ(chmod(directory_.path().c_str(), 01777), 0);
  const int squatter = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un bell{.sun_family = AF_UNIX, .sun_path = {}};
  const std::string path = directory_.bell_path("victim");
  std::memcpy(bell.sun_path, path.c_str(), path.size());
  ASSERT_EQ(bind(squatter, reinterpret_cast<sockaddr*>(&bell), sizeof bell), 0);
  ASSERT_EQ(listen(squatter, 5), 0);
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  ATBUS_IN_CHILD([&] {
    if (seteuid(nobody) != 0)
      skip_child("only root may become another user");
    const auto in = receiver::open("shm://victim", receiving());
    ASSERT_FALSE(in);
    EXPECT_NE(in.error().text().find(path), std::string::npos) << in.error().text();
    EXPECT_EQ(names_in(directory_.path()), std::vector<std::string>{"atbus-bell.victim"});
  });
  ::close(squatter);
}

TEST_F(PlaceOfTheBell, TakenByAnotherUserLaterIsNotBelieved) {
  ASSERT_EQ(chmod(directory_.path().c_str(), 0777), 0);  // no sticky bit: names can be taken
  ATBUS_IN_CHILD([&] {
    if (seteuid(nobody) != 0)
      skip_child("only root may become another user");
    receiver in = open_receiver();
    ASSERT_EQ(seteuid(0), 0);
    const std::string path = directory_.bell_path("victim");
    ASSERT_EQ(unlink(path.c_str()), 0);
    const int squatter = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_un bell{.sun_family = AF_UNIX, .sun_path = {}};
    std::memcpy(bell.sun_path, path.c_str(), path.size());
    ASSERT_EQ(bind(squatter, reinterpret_cast<sockaddr*>(&bell), sizeof bell), 0);
    ASSERT_EQ(listen(squatter, 5), 0);
    ASSERT_EQ(chmod(path.c_str(), 0666), 0);
    ASSERT_EQ(seteuid(nobody), 0);
    sender out = open_sender();
    ASSERT_TRUE(out.send(as_bytes("without a bell")));
    const int taken = accept4(squatter, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    char byte = 0;
    EXPECT_TRUE(taken < 0 || recv(taken, &byte, 1, 0) <= 0) << "rang an unproven peer";
    std::vector<std::string> got;
    EXPECT_TRUE(poll_until(in, got, [&] { return got.size() == 1; }));
  });
}

TEST_F(PlaceOfTheBell, OfASegmentNamedLikeAnothersIsItsOwn) {
  // Names that a suffix or a dot could confuse.
  receiver longer = open_receiver("shm://zone.new");
  receiver shorter = open_receiver("shm://zone");
  sender out_longer = open_sender("shm://zone.new");
  sender out_shorter = open_sender("shm://zone");
  expect_wakes(longer, out_longer);
  expect_wakes(shorter, out_shorter);
}

TEST_F(PlaceOfTheBell, MayLieInADirectoryWithALongPath) {
  std::string path = directory_.path();
  while (path.size() < 3 * sizeof(sockaddr_un::sun_path)) {
    path += "/" + std::string(60, 'd');
    ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  }
  receiver_options in_options = receiving();
  in_options.directory = path;
  sender_options out_options = sending();
  out_options.directory = path;
  auto in = receiver::open("shm://victim", in_options);
  ASSERT_TRUE(in) << in.error().text();
  auto out = sender::open("shm://victim", out_options);
  ASSERT_TRUE(out) << out.error().text();
  expect_wakes(*in, *out);
}

}  // namespace
}  // namespace atbus::hostile
