// Whoever comes second, too many, too late, or to a file that is no longer the one that has the
// name.
#include <sys/file.h>

#include <csignal>

#include "hostile/channel/shm/hostile_channel.h"
#include "system/kernel.h"

namespace atbus::hostile {
namespace {

class SecondReceiver : public hostile_channel {};

TEST_F(SecondReceiver, IsToldProgramAndPidOfTheFirst) {
  const receiver first = open_receiver();
  const auto second = receiver::open("shm://victim", receiving());
  ASSERT_FALSE(second);
  const std::string& text = second.error().text();
  EXPECT_EQ(second.error().code(), errc::receiver_exists) << text;
  EXPECT_NE(text.find(program_invocation_short_name), std::string::npos) << text;
  EXPECT_NE(text.find(std::to_string(getpid())), std::string::npos) << text;
}

TEST_F(SecondReceiver, IsToldOfAFirstInAnotherProcess) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  std::fflush(nullptr);
  const pid_t first = fork();
  if (first == 0) {
    const receiver in = open_receiver();
    (void)!write(ready[1], "r", 1);
    for (;;)
      pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const auto second = receiver::open("shm://victim", receiving());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), errc::receiver_exists);
  EXPECT_NE(second.error().text().find(std::to_string(first)), std::string::npos)
      << second.error().text();
  kill(first, SIGKILL);
  waitpid(first, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(SecondReceiver, PrintsANoteOfGarbageSafely) {
  const receiver first = open_receiver();
  raw_segment file = raw();
  auto* const note = reinterpret_cast<unsigned char*>(file.header().note);
  const auto text_with = [&](auto byte_at) {
    for (std::size_t i = 0; i < sizeof(detail::receiver_note); ++i)
      note[i] = static_cast<unsigned char>(byte_at(i));
    const auto second = receiver::open("shm://victim", receiving());
    EXPECT_FALSE(second);
    return second.error().text();
  };
  constexpr char escape[] = "\x1b]0;owned\x07\x1b[2J\r\n%s%n\x7f\x80\xff";
  for (const std::string& text :
       {text_with([&](std::size_t i) { return escape[i % 20]; }),
        text_with([](std::size_t) { return 0xff; }), text_with([](std::size_t) { return 'A'; }),
        text_with([](std::size_t i) { return i; }), text_with([](std::size_t) { return 0; })}) {
    EXPECT_TRUE(is_printable(text)) << text;
    EXPECT_LT(text.size(), 400U) << text;
  }
}

TEST_F(SecondReceiver, IsRefusedWhateverTheHeaderSaysOfTheFirst) {
  const receiver first = open_receiver();
  raw_segment file = raw();
  file.header().retired.store(1);
  file.header().generation.store(0);
  std::memset(static_cast<void*>(file.header().note), 0, sizeof file.header().note);
  const auto second = receiver::open("shm://victim", receiving());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), errc::receiver_exists) << second.error().text();
  EXPECT_EQ(names_in(directory_.path()).size(), 2U) << "nothing may be removed under the first";
}

class LaneTable : public hostile_channel {};

TEST_F(LaneTable, ThatIsFullIsAnErrorThatSaysHowManyThereAre) {
  const receiver in = open_receiver();
  std::vector<sender> all;
  for (std::uint32_t i = 0; i < lanes; ++i)
    all.push_back(open_sender());
  const auto more = sender::open("shm://victim", sending());
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code(), errc::no_free_lane) << more.error().text();
  EXPECT_NE(more.error().text().find(std::to_string(lanes)), std::string::npos);
}

TEST_F(LaneTable, HasALaneAgainAsSoonAsASenderCloses) {
  receiver in = open_receiver();
  std::vector<std::string> got;
  std::vector<sender> all;
  for (std::uint32_t i = 0; i < lanes; ++i)
    all.push_back(open_sender());
  for (int i = 0; i < 20; ++i) {
    const std::size_t which = static_cast<std::size_t>(i) % lanes;
    const std::uint32_t lane = all[which].lane();
    all[which].close();
    all[which] = open_sender();  // without a poll between
    EXPECT_EQ(all[which].lane(), lane);
    ASSERT_TRUE(all[which].send(as_bytes(std::to_string(i))));
    if (i % 5 == 4)
      collect(in, got);
  }
  EXPECT_TRUE(poll_until(in, got, [&] { return got.size() == 20; }));
}

TEST_F(LaneTable, HasALaneAgainAsSoonAsASenderIsKilled) {
  receiver in = open_receiver();
  std::vector<sender> all;
  for (std::uint32_t i = 0; i + 1 < lanes; ++i)
    all.push_back(open_sender());
  for (int i = 0; i < 10; ++i) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      sender out = open_sender();
      (void)out.send(as_bytes("last words"));
      (void)!write(ready[1], "r", 1);
      for (;;)
        pause();
    }
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    EXPECT_FALSE(sender::open("shm://victim", sending()));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    EXPECT_TRUE(sender::open("shm://victim", sending())) << "without a poll between";
    ::close(ready[0]);
    ::close(ready[1]);
  }
  std::vector<std::string> got;
  EXPECT_TRUE(poll_until(in, got, [&] { return got.size() == 10; }));
}

TEST_F(LaneTable, OfManyLanesAllHeldIsRefusedSoon) {
  receiver_options o = receiving();
  o.lanes = detail::max_lanes;
  auto in = receiver::open("shm://victim", o);
  ASSERT_TRUE(in) << in.error().text();
  raw_segment file = raw();
  struct flock all {};
  all.l_type = F_WRLCK;
  all.l_whence = SEEK_SET;
  all.l_start = static_cast<off_t>(detail::lane_lock_byte(0));
  all.l_len = detail::max_lanes;
  ASSERT_EQ(fcntl(file.fd(), F_OFD_SETLK, &all), 0);
  const auto start = now();
  const auto out = sender::open("shm://victim", sending());
  EXPECT_LT(now() - start, deadline / 2);
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code(), errc::no_free_lane);
}

class NameOfASegment : public hostile_channel {
 protected:
  void expect_retired(sender& out) {
    // The first may still have been published before the sender looked.
    (void)out.send(as_bytes("to nobody"));
    EXPECT_EQ(out.send(as_bytes("to nobody")), errc::retired);
    EXPECT_EQ(out.wait_writable(0ns), errc::retired);
    EXPECT_FALSE(out.claim(1));
  }
};

TEST_F(NameOfASegment, ThatIsRemovedRetiresItsSenders) {
  receiver in = open_receiver();
  sender first = open_sender();
  sender second = open_sender();
  ASSERT_TRUE(second.send(as_bytes("never handled")));
  ASSERT_TRUE(in.remove());
  EXPECT_TRUE(names_in(directory_.path()).empty());
  expect_retired(first);
  expect_retired(second);
  const auto late = sender::open("shm://victim", sending());
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), errc::not_found);
}

TEST_F(NameOfASegment, MarkedRetiredAndStillThereIsRefusedSoonToSenders) {
  open_receiver().close();
  raw().header().retired.store(1);
  const auto start = now();
  const auto out = sender::open("shm://victim", sending());
  EXPECT_LT(now() - start, deadline / 2);
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().code(), errc::retired) << out.error().text();
}

TEST_F(NameOfASegment, MarkedRetiredAndStillThereIsMadeAnewByAReceiver) {
  open_receiver().close();
  raw_segment old = raw();
  old.header().retired.store(1);
  receiver in = open_receiver();
  sender out = open_sender();
  ASSERT_TRUE(out.send(as_bytes("new")));
  std::vector<std::string> got;
  EXPECT_TRUE(poll_until(in, got, [&] { return got.size() == 1; }));
  EXPECT_NE(raw().header().identity.segment_id, old.header().identity.segment_id);
}

TEST_F(NameOfASegment, TakenAwayUnderAReceiverLeavesItsSendersConnected) {
  receiver in = open_receiver();
  sender out = open_sender();
  ASSERT_EQ(unlink(directory_.segment_path("victim").c_str()), 0);
  ASSERT_TRUE(out.send(as_bytes("still there")));
  std::vector<std::string> got;
  EXPECT_TRUE(poll_until(in, got, [&] { return got.size() == 1; }));
  const auto late = sender::open("shm://victim", sending());
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), errc::not_found);
}

TEST_F(NameOfASegment, GivenToAnotherFileIsNotRemovedWithTheOldOne) {
  receiver old = open_receiver();
  sender old_out = open_sender();
  ASSERT_EQ(unlink(directory_.segment_path("victim").c_str()), 0);
  receiver in = open_receiver();
  sender out = open_sender();
  ASSERT_TRUE(old.remove());
  expect_retired(old_out);
  EXPECT_EQ(access(directory_.segment_path("victim").c_str(), F_OK), 0);
  EXPECT_EQ(access(directory_.bell_path("victim").c_str(), F_OK), 0);
  ASSERT_TRUE(out.send(as_bytes("to the new one")));
  std::vector<std::string> got;
  EXPECT_TRUE(poll_until(in, got, [&] { return got.size() == 1; }));
}

// Exchanges the files behind two names at one of the system calls by which an opening makes sure of
// its file.
class exchange_during_opening {
 public:
  exchange_during_opening(std::string one, std::string other, int call)
      : untouched_{detail::kernel()} {
    names() = {std::move(one), std::move(other)};
    calls_left() = call;
    detail::kernel().lock = [](int fd, int command, struct flock* lock) {
      count_down();
      return ::fcntl(fd, command, lock);
    };
    detail::kernel().fstatat = [](int directory, const char* path, struct stat* out, int flags) {
      count_down();
      return ::fstatat(directory, path, out, flags);
    };
  }
  exchange_during_opening(const exchange_during_opening&) = delete;
  exchange_during_opening& operator=(const exchange_during_opening&) = delete;
  ~exchange_during_opening() {
    EXPECT_LE(calls_left(), 0) << "never exchanged";
    detail::kernel() = untouched_;
  }

 private:
  static std::pair<std::string, std::string>& names() {
    static std::pair<std::string, std::string> both;
    return both;
  }
  static int& calls_left() {
    static int left = 0;
    return left;
  }
  static void count_down() {
    const auto& [one, other] = names();
    if (--calls_left() != 0)
      return;
    EXPECT_EQ(renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE), 0);
  }
  detail::kernel_calls untouched_;
};

TEST_F(NameOfASegment, ExchangedWhileAReceiverOpensLeadsItToTheNewFile) {
  for (const int call : {1, 2}) {  // before the lock, before the comparison of file and name
    open_receiver("shm://other").close();
    open_receiver().close();
    const std::uint64_t later = raw("other").header().identity.segment_id;
    receiver in = [&] {
      const exchange_during_opening exchange{directory_.segment_path("victim"),
                                             directory_.segment_path("other"), call};
      return open_receiver();
    }();
    EXPECT_EQ(raw().header().identity.segment_id, later);
    sender out = open_sender();
    ASSERT_TRUE(out.send(as_bytes("meets")));
    std::vector<std::string> got;
    EXPECT_TRUE(poll_until(in, got, [&] { return got.size() == 1; })) << "exchange at " << call;
    (void)in.remove();
    (void)open_receiver("shm://other").remove();
  }
}

TEST_F(NameOfASegment, ExchangedWhileASenderOpensLeadsItToTheNewFile) {
  for (const int call : {1, 2}) {
    receiver later = open_receiver("shm://other");
    receiver earlier = open_receiver();
    sender out = [&] {
      const exchange_during_opening exchange{directory_.segment_path("victim"),
                                             directory_.segment_path("other"), call};
      return open_sender();
    }();
    ASSERT_TRUE(out.send(as_bytes("meets")));
    std::vector<std::string> got;
    EXPECT_TRUE(poll_until(later, got, [&] { return got.size() == 1; })) << "exchange at " << call;
    EXPECT_EQ(collect(earlier, got), 0U);
    out.close();
    later.close();
    earlier.close();
    (void)open_receiver("shm://other").remove();
    (void)open_receiver().remove();
  }
}

}  // namespace
}  // namespace atbus::hostile
