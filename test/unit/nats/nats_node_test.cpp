// Two nodes with a real nats-server between them.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <thread>

#include "nats_party.h"
#include "scratch_directory.h"
#include "system/kernel.h"

namespace atbus::test {
namespace {

// Sends numbered messages and looks whether each comes once and in order.
class numbered_stream {
 public:
  numbered_stream(nats_side& from, nats_side& to) : from_(from), to_(to) {}

  // As many as there is room for, at most `most`.
  void send_some(int most) {
    for (int i = 0; i != most; ++i) {
      const std::string text = std::to_string(sent_) + std::string(sent_ % 3000, '.');
      if (!from_.self.send(to_.self.id(), 1, text))
        return;
      ++sent_;
    }
  }
  [[nodiscard]] std::size_t sent() const { return sent_; }
  [[nodiscard]] bool all_there() const { return to_.received.size() >= sent_; }
  // "", or what is wrong.
  [[nodiscard]] std::string account() const {
    if (to_.received.size() != sent_)
      return std::to_string(to_.received.size()) + " of " + std::to_string(sent_);
    for (std::size_t i = 0; i != sent_; ++i) {
      if (to_.received[i] != std::to_string(i) + std::string(i % 3000, '.'))
        return "message " + std::to_string(i) + " is " + to_.received[i].substr(0, 10);
    }
    return from_.undelivered_count != 0 ? "undelivered messages" : "";
  }

 private:
  nats_side& from_;
  nats_side& to_;
  std::size_t sent_ = 0;
};

TEST_F(NatsNodes, SendMessagesAndRequestsBothWays) {
  const nats_server server;
  nats_side a{1, with_carrier(make_carrier())};
  nats_side b{2, with_carrier(make_carrier())};
  ASSERT_TRUE(b.self.listen(server.address("fleet.b")));
  ASSERT_TRUE(a.self.connect(2, server.address("fleet.b")));
  EXPECT_TRUE(reaches(a, b, "hello"));
  EXPECT_TRUE(reaches(b, a, "yes?"));
  b.self.on_request(
      7, [](request& asked) { (void)asked.reply("answer to " + std::string{asked.text()}); });
  std::string answer;
  a.self.request(2, 7, "question", 5s, [&](const response& r) { answer = r ? r.text() : "none"; });
  EXPECT_TRUE(until({&a, &b}, [&] { return !answer.empty(); }));
  EXPECT_EQ(answer, "answer to question");
}

TEST_F(NatsNodes, AreThereWhenTheServerComesLater) {
  nats_server server;
  server.kill();
  nats_side a{1, with_carrier(make_carrier())};
  nats_side b{2, with_carrier(make_carrier())};
  ASSERT_TRUE(b.self.listen(server.address("fleet.b")));
  ASSERT_TRUE(a.self.connect(2, server.address("fleet.b")));
  EXPECT_TRUE(until({&a, &b}, [&] {
    return a.log.find("no connection to the NATS server") != a.log.npos &&
           b.log.find("no connection to the NATS server") != b.log.npos;
  }));
  server.start();
  EXPECT_TRUE(reaches(a, b, "late"));
}

TEST_F(NatsNodes, LoseAndRepeatNothingWhenTheServerIsKilledAgainAndAgain) {
  nats_server server;
  nats_side a{1, with_carrier(make_carrier())};
  nats_side b{2, with_carrier(make_carrier())};
  ASSERT_TRUE(b.self.listen(server.address("fleet.b")));
  ASSERT_TRUE(a.self.connect(2, server.address("fleet.b")));
  numbered_stream to_b{a, b};
  numbered_stream to_a{b, a};
  for (int round = 0; round != 4; ++round) {
    const std::size_t before = b.received.size();
    ASSERT_TRUE(until({&a, &b}, [&] {
      to_b.send_some(20);
      to_a.send_some(20);
      return b.received.size() >= before + 500;
    }));
    server.kill();
    for (int i = 0; i != 50; ++i) {
      to_b.send_some(5);
      a.self.poll();
      b.self.poll();
    }
    server.start();
  }
  ASSERT_TRUE(until({&a, &b}, [&] { return to_b.all_there() && to_a.all_there(); }));
  EXPECT_EQ(to_b.account(), "");
  EXPECT_EQ(to_a.account(), "");
}

TEST_F(NatsNodes, ComeBackAfterTheServerStoodStill) {
  nats_server server;
  // The nodes' own pings are to notice nothing.
  nats_side a{1, with_carrier(make_carrier()).ping_interval(60s)};
  nats_side b{2, with_carrier(make_carrier()).ping_interval(60s)};
  ASSERT_TRUE(b.self.listen(server.address("fleet.b")));
  ASSERT_TRUE(a.self.connect(2, server.address("fleet.b")));
  numbered_stream to_b{a, b};
  ASSERT_TRUE(until({&a, &b}, [&] {
    to_b.send_some(5);
    return b.received.size() >= 100;
  }));
  server.stop();
  // Both notice, though no connection was closed.
  EXPECT_TRUE(until({&a, &b}, [&] {
    to_b.send_some(1);
    return a.self.stats().links_lost != 0 && b.self.stats().links_lost != 0;
  }));
  server.resume();
  ASSERT_TRUE(until({&a, &b}, [&] { return to_b.all_there(); }));
  EXPECT_EQ(to_b.account(), "");
}

TEST_F(NatsNodes, GiveBackPressureInsteadOfMemoryForASlowReceiver) {
  const nats_server server;
  nats_side a{1, with_carrier(make_carrier()).send_buffer_size(1 << 20)};
  nats_side b{2, with_carrier(make_carrier())};
  ASSERT_TRUE(b.self.listen(server.address("fleet.b")));
  ASSERT_TRUE(a.self.connect(2, server.address("fleet.b")));
  ASSERT_TRUE(reaches(a, b, "ready"));
  const std::string large(50'000, 'x');
  std::size_t taken = 0;
  for (const auto limit = now() + 2s; now() < limit;) {
    taken += a.self.send(2, 1, large) ? 1 : 0;
    a.self.poll();
  }
  // What the sender may queue until it is acknowledged, whatever the ways to there could hold.
  EXPECT_LT(taken * large.size(), std::size_t{4} << 20);
  EXPECT_EQ(a.self.send(2, 1, large), errc::would_block);
  EXPECT_TRUE(until({&a, &b}, [&] { return b.received.size() == taken + 1; }));
  EXPECT_TRUE(reaches(a, b, "again"));
}

TEST_F(NatsNodes, SendMessagesThatAreLongerThanTheServerTakes) {
  const nats_server server{"max_payload: 4096"};
  nats_side a{1, with_carrier(make_carrier()).message_limit(1 << 20)};
  nats_side b{2, with_carrier(make_carrier()).message_limit(1 << 20)};
  ASSERT_TRUE(b.self.listen(server.address("fleet.b")));
  ASSERT_TRUE(a.self.connect(2, server.address("fleet.b")));
  EXPECT_TRUE(reaches(a, b, std::string(1 << 20, 'l')));
}

TEST_F(NatsNodes, LearnAtOnceThatNobodyListens) {
  const nats_server server;
  nats_side a{1, with_carrier(make_carrier())};
  ASSERT_TRUE(a.self.connect(2, server.address("fleet.nobody")));
  EXPECT_TRUE(until(
      {&a}, [&] { return a.log.find("nobody listens") != a.log.npos; }, 5s));
}

TEST_F(NatsNodes, RefuseOthersTokens) {
  const nats_server server;
  nats_side a{1, node_options{}
                     .token("another secret, as long as it should be")
                     .retry(50ms, 500ms)
                     .report_directory("")
                     .carrier(make_carrier())};
  nats_side b{2, with_carrier(make_carrier())};
  ASSERT_TRUE(b.self.listen(server.address("fleet.b")));
  ASSERT_TRUE(a.self.connect(2, server.address("fleet.b")));
  EXPECT_TRUE(until({&a, &b}, [&] { return b.self.stats().registrations_failed != 0; }));
  EXPECT_EQ(a.self.stats().registrations, 0U);
}

TEST_F(NatsNodes, RefuseTheseAddressesWithoutACarrier) {
  nats_side a{1, node_options{}.token(nats_secret).report_directory("")};
  const error listened = a.self.listen("nats://127.0.0.1:4222/fleet.a");
  EXPECT_EQ(listened, errc::not_supported);
  EXPECT_NE(listened.text().find("atbus/nats.hpp"), std::string::npos) << listened.text();
  const auto sends = sender::open("nats://127.0.0.1:4222/fleet.a");
  EXPECT_EQ(sends.error(), errc::not_supported);
  const auto receives = receiver::open("nats://127.0.0.1:4222/fleet.a");
  EXPECT_EQ(receives.error(), errc::not_supported);
}

TEST_F(NatsNodes, ListenToASubjectOneAtATime) {
  const nats_server server;
  const auto shared = make_carrier();
  nats_side b{2, with_carrier(shared)};
  std::optional<nats_side> c{std::in_place, bus_id{3}, with_carrier(shared)};
  ASSERT_TRUE(c->self.listen(server.address("fleet.b")));
  EXPECT_EQ(b.self.listen(server.address("fleet.b")), errc::receiver_exists);
  ASSERT_TRUE(b.self.listen(server.address("fleet.other")));
  c.reset();
  ASSERT_TRUE(b.self.listen(server.address("fleet.b")));
  nats_side a{1, with_carrier(make_carrier())};
  ASSERT_TRUE(a.self.connect(2, server.address("fleet.b")));
  EXPECT_TRUE(reaches(a, b, "to the new one"));
}

TEST_F(NatsNodes, LeaveNoDescriptorOfASubject) {
  const nats_server server;
  const auto shared = make_carrier();
  const auto listen_for_a_moment = [&](int number) {
    nats_side b{2, with_carrier(shared)};
    ASSERT_TRUE(b.self.listen(server.address("room." + std::to_string(number))));
    b.self.poll();
  };
  listen_for_a_moment(0);
  const std::size_t before = open_descriptors();
  for (int i = 1; i != 30; ++i)
    listen_for_a_moment(i);
  // The line hears of the end of each in its own thread; a further one lets go of the others.
  std::size_t after = open_descriptors();
  for (const auto limit = now() + 30s; after > before + 3 && now() < limit;) {
    listen_for_a_moment(0);
    after = open_descriptors();
  }
  EXPECT_LE(after, before + 3);
}

TEST_F(NatsNodes, LogInWithUserAndPassword) {
  const nats_server server{"authorization { user: relay, password: \"word of a relay\" }"};
  const std::string file = server.directory() + "/user";
  std::ofstream{file} << "relay\nword of a relay\n";
  nats_side a{1, with_carrier(make_carrier({.user_file = file}))};
  nats_side b{2, with_carrier(make_carrier({.user_file = file}))};
  nats_side c{3, with_carrier(make_carrier())};
  ASSERT_TRUE(b.self.listen(server.address("fleet.b")));
  ASSERT_TRUE(a.self.connect(2, server.address("fleet.b")));
  ASSERT_TRUE(c.self.connect(2, server.address("fleet.b")));
  EXPECT_TRUE(reaches(a, b, "known"));
  EXPECT_TRUE(until({&c}, [&] { return c.log.find("Authorization") != c.log.npos; }));
  EXPECT_EQ(c.log.find("word of a relay"), std::string::npos);
}

TEST_F(NatsNodes, NameAMissingPermission) {
  const nats_server server{
      "authorization { users: [ { user: relay, password: pass, permissions: { publish: \">\", "
      "subscribe: \"_INBOX.>\" } } ] }"};
  const std::string file = server.directory() + "/user";
  std::ofstream{file} << "relay\npass\n";
  nats_side b{2, with_carrier(make_carrier({.user_file = file}))};
  ASSERT_TRUE(b.self.listen(server.address("fleet.b")));
  EXPECT_TRUE(until({&b}, [&] { return b.log.find("ermissions") != b.log.npos; })) << b.log;
}

TEST_F(NatsNodes, EncryptTheWayToTheServerAndCheckItsCertificate) {
  const scratch_directory files;
  const std::string base = files.path() + "/server";
  const std::string made =
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
      "-subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1,DNS:localhost -keyout " +
      base + ".key -out " + base + ".pem 2>/dev/null";
  ASSERT_EQ(std::system(made.c_str()), 0);  // NOLINT(cert-env33-c)
  const nats_server server{"tls { cert_file: \"" + base + ".pem\", key_file: \"" + base +
                           ".key\" }"};
  nats_side a{1, with_carrier(make_carrier({.authority = base + ".pem"}))};
  nats_side b{2, with_carrier(make_carrier({.authority = base + ".pem"}))};
  nats_side c{3, with_carrier(make_carrier({.tls = true}))};
  ASSERT_TRUE(b.self.listen(server.address("fleet.b")));
  ASSERT_TRUE(a.self.connect(2, server.address("fleet.b")));
  EXPECT_TRUE(reaches(a, b, "encrypted twice"));
  ASSERT_TRUE(c.self.connect(2, server.address("fleet.b")));
  EXPECT_TRUE(until({&c}, [&] { return c.log.find("certificate") != c.log.npos; })) << c.log;
}

TEST_F(NatsNodes, GoOnWithTheOtherServerOfACluster) {
  const reserved_port first_route{"ipv4://127.0.0.1:0"};
  const reserved_port second_route{"ipv4://127.0.0.1:0"};
  const auto place = [](const reserved_port& of) { return of.address().substr(7); };
  const auto cluster = [&](const reserved_port& own, const reserved_port& other) {
    return "cluster { name: fleet, listen: \"" + place(own) + "\", routes: [\"nats://" +
           place(other) + "\"] }";
  };
  nats_server first{cluster(first_route, second_route)};
  nats_server second{cluster(second_route, first_route)};
  const auto options = nats_options{.servers = {"127.0.0.1:" + second.port()}};
  nats_side a{1, with_carrier(make_carrier(options))};
  nats_side b{2, with_carrier(make_carrier())};
  ASSERT_TRUE(b.self.listen(second.address("fleet.b")));
  ASSERT_TRUE(a.self.connect(2, first.address("fleet.b")));
  numbered_stream to_b{a, b};
  ASSERT_TRUE(until({&a, &b}, [&] {
    to_b.send_some(5);
    return b.received.size() >= 200;
  }));
  first.kill();
  const std::size_t before = b.received.size();
  EXPECT_TRUE(until({&a, &b}, [&] {
    to_b.send_some(5);
    return b.received.size() >= before + 200;
  }));
  ASSERT_TRUE(until({&a, &b}, [&] { return to_b.all_there(); }));
  EXPECT_EQ(to_b.account(), "");
}

TEST_F(NatsNodes, CloseAtOnceWhileAServerDoesNotAnswer) {
  nats_server server;
  server.stop();
  std::optional<nats_side> a{std::in_place, bus_id{1}, with_carrier(make_carrier())};
  ASSERT_TRUE(a->self.connect(2, server.address("fleet.b")));
  ASSERT_TRUE(a->self.listen(server.address("fleet.a")));
  for (const auto limit = now() + 300ms; now() < limit;)
    a->self.poll();
  const auto before = now();
  a.reset();
  EXPECT_LT(now() - before, 500ms);
}

std::atomic<bool> is_between{false};  // a carrier has a pair of which the node has no end yet
std::atomic<bool> forks{false};
std::atomic<bool> forked_between{false};

// socketpair that takes its time.
int slow_pair(int domain, int type, int protocol, int ends[2]) {
  const int made = ::socketpair(domain, type, protocol, ends);
  std::array<char, 16> name{};
  (void)pthread_getname_np(pthread_self(), name.data(), name.size());
  if (std::string_view{name.data()} != "atbus-nats")
    return made;
  is_between = true;
  for (const auto limit = now() + 20s; !forks && now() < limit;)
    std::this_thread::yield();
  for (const auto limit = now() + 200ms; !forked_between && now() < limit;)
    std::this_thread::yield();
  is_between = false;
  return made;
}

TEST_F(NatsNodes, LetNoForkPassWhileASocketHasNoOwner) {
  const nats_server server;
  const auto before = std::exchange(detail::kernel().socketpair, slow_pair);
  {
    nats_side a{1, with_carrier(make_carrier())};
    nats_side b{2, with_carrier(make_carrier())};
    ASSERT_TRUE(b.self.listen(server.address("fleet.b")));
    ASSERT_TRUE(a.self.connect(2, server.address("fleet.b")));
    std::thread forker{[] {
      for (const auto limit = now() + 20s; !is_between && now() < limit;)
        std::this_thread::yield();
      forks = true;
      const pid_t child = fork();
      if (child == 0)
        _exit(0);
      forked_between = is_between.load();
      (void)waitpid(child, nullptr, 0);
    }};
    EXPECT_TRUE(reaches(a, b, "hello"));
    forker.join();
    EXPECT_FALSE(forked_between);
  }
  wait_until_carriers_end();
  detail::kernel().socketpair = before;
}

// Registered before all that ends carriers, so called behind it.
bool looks_for_threads = false;
[[maybe_unused]] const int registered = std::atexit([] {
  if (looks_for_threads && detail::line_threads::running() != 0)
    _exit(3);
});

TEST_F(NatsNodes, HaveNoThreadsLeftWhenAProgramEnds) {
  const nats_server server;
  for (const bool leaks : {false, true}) {
    SCOPED_TRACE(leaks);
    child_process child{[&] {
      looks_for_threads = true;
      static std::optional<nats_side> a;
      static std::optional<nats_side> b;
      a.emplace(1, with_carrier(make_carrier()));
      b.emplace(2, with_carrier(make_carrier()));
      require(static_cast<bool>(b->self.listen(server.address("fleet.b"))), "listen");
      require(static_cast<bool>(a->self.connect(2, server.address("fleet.b"))), "connect");
      require(reaches(*a, *b, "hello"), "reaches");
      if (leaks) {
        [[maybe_unused]] static const auto* const kept =
            new std::shared_ptr<carrier>{make_carrier()};
        require(static_cast<bool>((*kept)->listen(*address::parse(server.address("fleet.c")))),
                "listen");
      } else {
        a.reset();
        b.reset();
      }
      std::exit(0);
      return 1;
    }};
    EXPECT_EQ(child.wait_end(), "exit 0");
  }
}

TEST_F(NatsNodes, LeaveNothingToAForkedChild) {
  const nats_server server;
  nats_side a{1, with_carrier(make_carrier())};
  nats_side b{2, with_carrier(make_carrier())};
  ASSERT_TRUE(b.self.listen(server.address("fleet.b")));
  ASSERT_TRUE(a.self.connect(2, server.address("fleet.b")));
  ASSERT_TRUE(reaches(a, b, "before"));
  const auto shared = make_carrier();
  child_process child{[&] {
    const bool refused = shared->connect(*address::parse("nats://127.0.0.1:4222/x")).error() ==
                         errc::used_after_fork;
    a.self.close();
    return refused ? 0 : 1;
  }};
  EXPECT_EQ(child.wait_end(), "exit 0");
  EXPECT_TRUE(reaches(a, b, "after"));
  EXPECT_EQ(a.self.stats().links_lost, 0U);
}

}  // namespace
}  // namespace atbus::test
