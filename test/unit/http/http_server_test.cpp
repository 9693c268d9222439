// A server for HTTP and clients that mean it no good.
#include "http/http_server.h"

#include <signal.h>
#include <sys/resource.h>

#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "http_client.h"
#include "scratch_directory.h"
#include "socket_address.h"
#include "test.h"

namespace atbus::detail {
namespace {

using test::ask;
using test::ask_with;
using test::connect_to_server;
using test::http_response;
using test::plain_socket;
using test::request_for;

class HttpServer : public ::testing::Test {
 protected:
  void open(const http_limits& limits = {}, const char* at = "127.0.0.1:0") {
    auto made = http_server::open(*parse_listen_address(at), limits,
                                  [this](std::string_view path) -> const http_reply& {
                                    if (path == "/throw")
                                      throw std::runtime_error("on purpose");
                                    ++asked_;
                                    return path == "/large" ? large_ : reply_;
                                  });
    ASSERT_TRUE(made) << made.error().text();
    server_ = std::move(*made);
    address_ = server_->address().to_string();
  }

  const http_reply reply_{200, text_type, "here\n"};
  const http_reply large_{200, text_type, std::string(std::size_t{8} << 20, 'x')};
  std::atomic<int> asked_{0};
  std::unique_ptr<http_server> server_;
  std::string address_;
};

TEST_F(HttpServer, AnswersGet) {
  open();
  const http_response got = ask(address_, "/any");
  EXPECT_EQ(got.code, 200);
  EXPECT_EQ(got.body, "here\n");
  EXPECT_TRUE(got.has("\r\nContent-Type: text/plain; charset=utf-8\r\n")) << got.head;
  EXPECT_TRUE(got.has("\r\nCache-Control: no-store\r\n")) << got.head;
  EXPECT_TRUE(got.has("\r\nX-Content-Type-Options: nosniff\r\n")) << got.head;
}

TEST_F(HttpServer, AnswersOverIpv6) {
  open({}, "[::1]:0");
  EXPECT_EQ(ask_with(address_, request_for("/", "GET", "[::1]")).code, 200);
}

TEST_F(HttpServer, AnswersHeadWithoutABody) {
  open();
  const http_response got = ask_with(address_, request_for("/any", "HEAD"));
  EXPECT_EQ(got.code, 200);
  EXPECT_TRUE(got.has("\r\nContent-Length: 5\r\n")) << got.head;
  EXPECT_EQ(got.body, "");
}

TEST_F(HttpServer, RefusesAllOtherMethods) {
  open();
  for (const char* const method : {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "BREW"}) {
    const http_response got = ask_with(address_, request_for("/any", method));
    EXPECT_EQ(got.code, 405) << method;
    EXPECT_TRUE(got.has("\r\nAllow: GET, HEAD\r\n")) << got.head;
  }
  const http_response got =
      ask_with(address_, "POST /any HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_EQ(got.code, 405);
  EXPECT_EQ(asked_, 0);
}

// Else a page of the web could read the answers through a name that leads here.
TEST_F(HttpServer, OnLoopbackRefusesForeignNames) {
  open();
  EXPECT_EQ(ask_with(address_, request_for("/any", "GET", "evil.example")).code, 403);
  EXPECT_EQ(ask_with(address_, request_for("/any", "GET", "localhost:9464")).code, 200);
  EXPECT_EQ(asked_, 1);
}

TEST_F(HttpServer, ElsewhereAnswersToAnyName) {
  open({}, "0.0.0.0:0");
  const std::string near = "127.0.0.1:" + std::to_string(server_->address().port());
  EXPECT_EQ(ask_with(near, request_for("/any", "GET", "monitor.example")).code, 200);
}

TEST_F(HttpServer, SurvivesWhatIsNoRequest) {
  open({.connection_timeout = 500ms});
  const std::string bad[] = {"\r\n\r\n",
                             std::string(200'000, 'A'),
                             "GET / HTTP/1.1\r\n" + std::string(200'000, 'h') + ": x\r\n\r\n",
                             std::string{"GET /"} + '\0' + "/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
                             "GET /\x1b[2J HTTP/9.9\r\n\r\n",
                             "GET",
                             std::string(1000, '\0'),
                             "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: "
                             "99999999999999999999999\r\n\r\n",
                             "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"};
  for (const std::string& one : bad)
    (void)ask_with(address_, one);
  EXPECT_EQ(ask(address_, "/any").code, 200);
}

TEST_F(HttpServer, ClosesTheConnectionIfThereIsNoAnswer) {
  open();
  EXPECT_EQ(ask(address_, "/throw").code, 0);
  EXPECT_EQ(ask(address_, "/any").code, 200);
}

TEST_F(HttpServer, ASlowClientDelaysNoOther) {
  open({.connection_timeout = 1h});
  plain_socket slow = connect_to_server(address_);
  ASSERT_TRUE(slow.send("GET / HT"));
  plain_socket deaf = connect_to_server(address_);
  ASSERT_TRUE(deaf.send(request_for("/large")));
  for (int i = 0; i != 10; ++i)
    EXPECT_EQ(ask(address_, "/any").code, 200);
  ASSERT_TRUE(slow.send("TP/1.1\r\nHost: 127.0.0.1\r\n\r\n"));
  EXPECT_EQ(test::receive_response(slow).code, 200);
}

// However it trickles: what counts is when the connection began.
TEST_F(HttpServer, EndsAConnectionThatLastsTooLong) {
  open({.connection_timeout = 300ms});
  plain_socket trickling = connect_to_server(address_);
  const auto begin = std::chrono::steady_clock::now();
  while (trickling.receive_some(1, 20ms).empty() && trickling.ended() == "silence" &&
         std::chrono::steady_clock::now() - begin < 20s)
    (void)trickling.send("G");
  EXPECT_NE(trickling.ended(), "silence");
  plain_socket deaf = connect_to_server(address_);
  ASSERT_TRUE(deaf.send(request_for("/large")));
  std::this_thread::sleep_for(600ms);  // takes nothing of the answer meanwhile
  EXPECT_LT(deaf.receive_all().size(), std::size_t{8} << 20);
}

TEST_F(HttpServer, AnswersManyAtATime) {
  open({.connections = 16, .connections_per_address = 200});
  std::vector<plain_socket> all;
  for (int i = 0; i != 200; ++i) {
    all.push_back(connect_to_server(address_));
    ASSERT_TRUE(all.back().send(request_for("/any")));
  }
  for (plain_socket& one : all)
    EXPECT_EQ(test::receive_response(one).code, 200);
}

TEST_F(HttpServer, ACrowdFromOneAddressLeavesRoomForOthers) {
  open({.connections = 16, .connections_per_address = 8, .connection_timeout = 1h});
  std::vector<plain_socket> crowd;
  for (int i = 0; i != 200; ++i)
    crowd.push_back(connect_to_server(address_));
  EXPECT_EQ(ask_with(address_, request_for("/any"), "ipv4://127.0.0.2:0").code, 200);
}

TEST_F(HttpServer, ACrowdFromManyAddressesIsGoneAfterTheTimeout) {
  open({.connections = 4, .connections_per_address = 4, .connection_timeout = 300ms});
  std::vector<plain_socket> crowd;
  for (int i = 1; i != 20; ++i)
    crowd.push_back(connect_to_server(address_, "ipv4://127.0.0." + std::to_string(i) + ":0"));
  EXPECT_EQ(ask_with(address_, request_for("/any"), "ipv4://127.0.0.99:0").code, 200);
}

TEST_F(HttpServer, EndsWhileClientsAreConnected) {
  open({.connection_timeout = 1h});
  plain_socket slow = connect_to_server(address_);
  ASSERT_TRUE(slow.send("GET / HT"));
  EXPECT_EQ(ask(address_, "/any").code, 200);
  server_.reset();
  EXPECT_EQ(slow.receive_all(), "");
  EXPECT_NE(slow.ended(), "silence");
}

TEST_F(HttpServer, LeavesNoDescriptorOpen) {
  const std::size_t before = test::open_descriptors();
  open();
  EXPECT_EQ(ask(address_, "/any").code, 200);
  server_.reset();
  EXPECT_EQ(test::open_descriptors(), before);
}

// The connection waits in the listener, which stays readable.
TEST_F(HttpServer, RestsWhileThereAreNoDescriptors) {
  open();
  const plain_socket client{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const test::socket_address to = test::socket_address::parse("ipv4://" + address_);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 3, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);  // 0 to 2 are in use
  EXPECT_EQ(::connect(client.fd(), to.get(), to.size), 0);
  const auto used = [] {
    timespec time{};
    EXPECT_EQ(::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time), 0);
    return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
  };
  const auto begin = used();
  std::this_thread::sleep_for(
      500ms);  // the subject is what the server's thread does with idle time
  EXPECT_LT(used() - begin, 50ms);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(ask(address_, "/any").code, 200);
}

TEST_F(HttpServer, IsRefusedAnAddressInUse) {
  open();
  const auto other = http_server::open(
      server_->address(), {}, [this](std::string_view) -> auto& { return reply_; });
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error(), errc::system_error);
  EXPECT_NE(other.error().text().find(address_), std::string::npos) << other.error().text();
}

// Signals of the process are for threads of the program, which may wait for them.
TEST_F(HttpServer, ItsThreadTakesNoSignals) {
  static std::atomic<std::thread::id> handled_by;
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) { handled_by = std::this_thread::get_id(); };
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  open();
  EXPECT_EQ(ask(address_, "/any").code, 200);
  sigset_t usr1;
  sigset_t old;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &usr1, &old), 0);
  ASSERT_EQ(kill(getpid(), SIGUSR1), 0);  // a thread that does not block it would get it
  EXPECT_EQ(ask(address_, "/any").code, 200);
  EXPECT_EQ(handled_by.load(), std::thread::id{});
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &old, nullptr), 0);
  EXPECT_EQ(handled_by.load(), std::this_thread::get_id());
  sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace
}  // namespace atbus::detail
