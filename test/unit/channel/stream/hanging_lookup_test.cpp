// A name server that does not answer: the attempt ends at the connect timeout, and a late answer is no event.
#include <dlfcn.h>
#include <netdb.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "atbus/connection.hpp"
#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "child_process.h"
#include "sanitizer.h"
#include "scratch_directory.h"
#include "shared_memory.h"
#include "test.h"
#include "unit/channel/socket_channel/full_listener.h"

namespace atbus {
namespace {

// Lookups of this process wait while one of these lives, unless it was told to answer.
class silent_name_server {
 public:
  silent_name_server() { set_answers(false); }
  ~silent_name_server() { set_answers(true); }
  void answer() { set_answers(true); }
  // True: all lookups that had begun have their answers.
  [[nodiscard]] static bool wait_answered() {
    shared& s = state();
    std::unique_lock lock{s.mutex};
    return s.changed.wait_for(lock, test::patience, [&] { return s.asking == 0; });
  }
  [[nodiscard]] static bool wait_asked() {
    shared& s = state();
    std::unique_lock lock{s.mutex};
    return s.changed.wait_for(lock, test::patience, [&] { return s.asking != 0; });
  }

  [[nodiscard]] static bool is_asked() {
    shared& s = state();
    const std::lock_guard lock{s.mutex};
    return s.asking != 0;
  }

  static int look_up(const std::function<int()>& real) {
    shared& s = state();
    std::unique_lock lock{s.mutex};
    ++s.asking;
    s.changed.notify_all();
    s.changed.wait(lock, [&] { return s.answers; });
    lock.unlock();
    const int code = real();
    lock.lock();
    --s.asking;
    s.changed.notify_all();
    return code;
  }

 private:
  struct shared {
    std::mutex mutex;
    std::condition_variable changed;
    bool answers = true;
    int asking = 0;
  };
  static shared& state() {
    static auto* const kept = new shared;  // libuv's workers may outlive static objects
    return *kept;
  }
  static void set_answers(bool answers) {
    shared& s = state();
    const std::lock_guard lock{s.mutex};
    s.answers = answers;
    s.changed.notify_all();
  }
};

// A name with two addresses: 127.0.0.1, then 127.0.0.2.
constexpr std::string_view two_addresses = "two-addresses.test";
// A name that no server knows.
constexpr std::string_view no_address = "no-address.test";

bool is_readable(int descriptor, std::chrono::milliseconds longest) {
  pollfd interest{.fd = descriptor, .events = POLLIN, .revents = 0};
  return ::poll(&interest, 1, static_cast<int>(longest.count())) != 0;
}

TEST(HangingLookup, OfASenderEndsAtTheConnectTimeout) {
  silent_name_server silent;
  auto inbox = receiver::open("ipv4://127.0.0.1:0");
  ASSERT_TRUE(inbox) << inbox.error().text();
  const std::string at = inbox->address();
  auto out = sender::open("dns://localhost" + at.substr(at.rfind(':')),
                          {.connect_timeout = 20ms, .reconnect_min = 1h, .reconnect_max = 1h});
  ASSERT_TRUE(out) << out.error().text();
  ASSERT_TRUE(silent_name_server::wait_asked());
  EXPECT_GE(out->longest_sleep(), 0ns);
  EXPECT_LE(out->longest_sleep(), 20ms);
  // Then it waits until it dials again.
  const auto deadline = now() + test::patience;
  while (out->longest_sleep() < 1min && now() < deadline)
    (void)out->flush(10ms);
  EXPECT_GT(out->longest_sleep(), 1min);
  silent.answer();
  ASSERT_TRUE(silent_name_server::wait_answered());
  EXPECT_FALSE(is_readable(out->descriptor(), 100ms)) << "the late answer wakes it for ever";
}

TEST(HangingLookup, OfASenderThatDialsAgainDoesNotEndIt) {
  silent_name_server silent;
  auto inbox = receiver::open("ipv4://127.0.0.1:0");
  ASSERT_TRUE(inbox) << inbox.error().text();
  const std::string at = inbox->address();
  auto out = sender::open("dns://localhost" + at.substr(at.rfind(':')),
                          {.connect_timeout = 20ms, .reconnect_min = 1ms, .reconnect_max = 1ms});
  ASSERT_TRUE(out) << out.error().text();
  ASSERT_TRUE(out->send(as_bytes("in the end")));
  // An attempt may be over before its lookup begins: keep dialling meanwhile.
  for (const auto deadline = now() + test::patience;
       !silent_name_server::is_asked() && now() < deadline;)
    (void)out->flush(1ms);
  ASSERT_TRUE(silent_name_server::is_asked());
  EXPECT_EQ(out->flush(100ms), errc::would_block);
  silent.answer();
  std::string got;
  for (const auto deadline = now() + test::patience; got.empty() && now() < deadline;) {
    (void)out->flush(1ms);
    inbox->poll([&](bytes_view m) { got = as_text(m); });
  }
  EXPECT_EQ(got, "in the end");
}

// Of the lookup that runs, and of one that was given up.
TEST(HangingLookup, LeavesAForkedChildNoneOfItsDescriptors) {
  const sender_options patient{.connect_timeout = 1h, .reconnect_min = 1h, .reconnect_max = 1h};
  { (void)sender::open("dns://localhost:1", patient); }  // libuv keeps some for the process
  const auto before = test::open_descriptors();
  silent_name_server silent;
  {
    auto given_up = sender::open("dns://localhost:1", patient);
    ASSERT_TRUE(given_up) << given_up.error().text();
    ASSERT_TRUE(silent_name_server::wait_asked());
  }
  auto out = sender::open("dns://localhost:1", patient);
  ASSERT_TRUE(out) << out.error().text();
  test::child_process child{[&] { return test::open_descriptors() <= before ? 0 : 1; }};
  EXPECT_EQ(child.wait_end(), "exit 0");
}

TEST(HangingLookup, OfASenderThatDialsOnceEndsIt) {
  silent_name_server silent;
  auto out = sender::open("dns://localhost:9", {.connect_timeout = 20ms});
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error(), errc::timed_out);
}

TEST(HangingLookup, OfAConnectionAnswersLateWithoutAnEvent) {
  silent_name_server silent;
  auto set = connection_set::open({});
  ASSERT_TRUE(set) << set.error().text();
  auto made = set->connect("dns://localhost:9",
                           {.connect_timeout = 20ms, .reconnect_min = 1h, .reconnect_max = 1h});
  ASSERT_TRUE(made) << made.error().text();
  ASSERT_TRUE(silent_name_server::wait_asked());
  for (const auto deadline = now() + test::patience;
       made->state() != connection_state::waiting && now() < deadline;)
    (void)set->poll();
  EXPECT_EQ(made->state(), connection_state::waiting);
  silent.answer();
  ASSERT_TRUE(silent_name_server::wait_answered());
  EXPECT_FALSE(is_readable(set->descriptor(), 100ms)) << "the late answer wakes it for ever";
}

#if !defined(ATBUS_TEST_SANITIZER)  // which has an epoll_ctl of its own
// How many more descriptors epoll takes, libuv's too; negative: any number.
std::atomic<int> watches_left{-1};

// fs.epoll.max_user_watches counts those of all processes of the user.
TEST(Lookup, FailsWhereEpollWatchesNothingMore) {
  for (int watches = 0; watches != 5; ++watches) {
    auto why = errc::ok;
    connection_handlers handlers;
    handlers.on_close = [&](connection, const error& said) { why = said.code(); };
    auto set = connection_set::open(handlers);
    ASSERT_TRUE(set) << set.error().text();
    watches_left = watches;
    auto made = set->connect("dns://" + std::string{no_address} + ":9");
    EXPECT_TRUE(made);
    for (const auto end = now() + 30s; why == errc::ok && now() < end;) {
      (void)set->wait(10ms);
      (void)set->poll();
    }
    watches_left = -1;
    // Two that libuv watches, and libuv's own.
    EXPECT_EQ(why, watches < 3 ? errc::system_error : errc::not_found) << watches;
  }
}

#endif

// Its answer comes between two waits: the second one must not sleep over what it brings.
TEST(HangingLookup, ThatFailsBeforeAWaitEndsTheWait) {
  bool closed = false;
  silent_name_server silent;
  connection_handlers handlers;
  handlers.on_close = [&](connection, const error& why) {
    EXPECT_EQ(why, errc::not_found);
    closed = true;
  };
  auto set = connection_set::open(handlers, {.spin = 0ns});
  ASSERT_TRUE(set) << set.error().text();
  auto made = set->connect("dns://" + std::string{no_address} + ":9", {.connect_timeout = 0ns});
  ASSERT_TRUE(made) << made.error().text();
  silent.answer();
  ASSERT_TRUE(is_readable(set->descriptor(), 30s));
  const auto begin = now();
  EXPECT_TRUE(set->wait(10s));
  EXPECT_LT(now() - begin, 10s);
  (void)set->poll();
  EXPECT_TRUE(closed);
}

// The host may have an address over which nothing comes back.
TEST(TwoAddresses, AreBothDialledByAConnectionWithinTheConnectTimeout) {
  const full_listener nobody{"ipv4://127.0.0.1:0"};
  const std::string at = nobody.address();
  const std::string port = at.substr(at.rfind(':'));
  auto inbox = connection_set::open({});
  ASSERT_TRUE(inbox) << inbox.error().text();
  const auto listening = inbox->listen("ipv4://127.0.0.2" + port);
  ASSERT_TRUE(listening) << listening.error().text();
  auto set = connection_set::open({});
  ASSERT_TRUE(set) << set.error().text();
  auto made = set->connect("dns://" + std::string{two_addresses} + port,
                           {.connect_timeout = 200ms, .reconnect_min = 1ms, .reconnect_max = 1ms});
  ASSERT_TRUE(made) << made.error().text();
  for (const auto deadline = now() + 5s; !made->is_open() && now() < deadline;) {
    (void)set->wait(1ms);
    (void)set->poll();
    (void)inbox->poll();
  }
  EXPECT_TRUE(made->is_open()) << name(made->state());
}

// The answer came within the first address's share of the time, and the program polls behind it.
TEST(TwoAddresses, TheFirstCountsThoughItsAnswerIsSeenLate) {
  auto inbox = connection_set::open({});
  ASSERT_TRUE(inbox) << inbox.error().text();
  const auto listening = inbox->listen("ipv4://127.0.0.1:0");
  ASSERT_TRUE(listening) << listening.error().text();
  auto set = connection_set::open({});
  ASSERT_TRUE(set) << set.error().text();
  silent_name_server server;
  auto made =
      set->connect("dns://" + std::string{two_addresses} + listening->substr(listening->rfind(':')),
                   {.connect_timeout = 1s});
  ASSERT_TRUE(made) << made.error().text();
  (void)set->poll();
  server.answer();
  const auto state = [&] { return made->state(); };
  for (const auto end = now() + 5s; state() == connection_state::resolving && now() < end;)
    (void)set->poll();
  ASSERT_EQ(state(), connection_state::connecting);
  std::this_thread::sleep_for(
      600ms);  // the subject: longer than the first address has, which is 500 ms
  for (const auto end = now() + 5s;
       state() != connection_state::open && state() != connection_state::closed && now() < end;) {
    (void)set->wait(1ms);
    (void)set->poll();
    (void)inbox->poll();
  }
  EXPECT_TRUE(made->is_open()) << name(made->state());
}

}  // namespace
}  // namespace atbus

// These in front of the C library's, for libuv.
#if !defined(ATBUS_TEST_SANITIZER)
extern "C" [[gnu::visibility("default")]] int epoll_ctl(int epoll, int operation, int fd,
                                                        epoll_event* event) noexcept {
  const auto call = [=](int what) {
    return static_cast<int>(syscall(SYS_epoll_ctl, epoll, what, fd, event));
  };
  // As the kernel does, what is there already comes first.
  const int done = call(operation);
  std::atomic<int>& left = atbus::watches_left;
  if (operation != EPOLL_CTL_ADD || left < 0 || done != 0)
    return done;
  if (left-- > 0)
    return 0;
  left = 0;
  (void)call(EPOLL_CTL_DEL);
  errno = ENOSPC;
  return -1;
}
#endif

extern "C" [[gnu::visibility("default")]] int getaddrinfo(const char* host, const char* service,
                                                          const addrinfo* hints, addrinfo** found) {
  using function = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
  static const auto real = reinterpret_cast<function>(dlsym(RTLD_NEXT, "getaddrinfo"));
  return atbus::silent_name_server::look_up([&] {
    if (host != nullptr && host == atbus::no_address)
      return EAI_NONAME;
    if (host == nullptr || host != atbus::two_addresses)
      return real(host, service, hints, found);
    const int code = real("127.0.0.1", service, hints, found);
    return code == 0 ? real("127.0.0.2", service, hints, &(*found)->ai_next) : code;
  });
}
