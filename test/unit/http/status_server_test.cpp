// A status server beside real nodes, and what it says of files that are dead, torn or gone.
#include "atbus/status_server.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "atbus/node.hpp"
#include "atbus/node_report.hpp"
#include "child_process.h"
#include "http_client.h"
#include "scratch_directory.h"
#include "test.h"

namespace atbus {
namespace {

using test::ask;
using test::http_response;

class StatusServer : public ::testing::Test {
 protected:
  [[nodiscard]] node_options reporting() const {
    return node_options{}.report_directory(directory_.path());
  }
  [[nodiscard]] status_server_options options() const {
    return {.listen = "127.0.0.1:0", .report_directory = directory_.path()};
  }
  // Until the answer is as wanted; then that one, else the last one.
  template <class Wanted>
  http_response ask_until(const status_server& server, std::string_view path, node* poll,
                          const Wanted& wanted) const {
    const auto end = std::chrono::steady_clock::now() + 20s;
    http_response got;
    do {
      if (poll != nullptr)
        poll->poll();
      std::this_thread::sleep_for(20ms);
      got = ask(server.address(), path);
    } while (!wanted(got) && std::chrono::steady_clock::now() < end);
    return got;
  }
  http_response ask_until(const status_server& server, std::string_view path, int code,
                          node* poll = nullptr) const {
    return ask_until(server, path, poll,
                     [code](const http_response& one) { return one.code == code; });
  }
  [[nodiscard]] std::string only_report() const {
    const auto files = directory_.files();
    return files.size() == 1 ? directory_.path() + '/' + files[0] : "";
  }

  test::scratch_directory directory_;
  // 7, which polls when the test says so.
  node own_{7, reporting()};
};

TEST_F(StatusServer, AnswersForItsNode) {
  const auto server = status_server::open(own_, options());
  ASSERT_TRUE(server) << server.error().text();
  const http_response metrics = ask(server->address(), "/metrics");
  EXPECT_EQ(metrics.code, 200);
  EXPECT_TRUE(metrics.has("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  EXPECT_NE(metrics.body.find("\natbus_node_live 1\n"), std::string::npos) << metrics.body;
  EXPECT_NE(metrics.body.find("id=\"7\""), std::string::npos);
  EXPECT_EQ(ask(server->address(), "/healthz").body, "node 7 is polled\n");
  EXPECT_EQ(ask(server->address(), "/readyz").code, 200);
  const http_response page = ask(server->address(), "/");
  EXPECT_EQ(page.code, 200);
  EXPECT_TRUE(page.has("\r\nContent-Type: text/html; charset=utf-8\r\n"));
  EXPECT_TRUE(page.has("\r\nContent-Security-Policy: default-src 'none'; ")) << page.head;
  EXPECT_NE(page.body.find("<!doctype html>"), std::string::npos);
  EXPECT_EQ(ask(server->address(), "/metrics/").code, 404);
  EXPECT_EQ(ask(server->address(), "/../etc/passwd").code, 404);
  EXPECT_EQ(server->address(), "127.0.0.1:" + std::to_string(server->port()));
}

TEST_F(StatusServer, PageNeedsNothingFromElsewhere) {
  const auto server = status_server::open(own_, options());
  ASSERT_TRUE(server);
  std::string page = ask(server->address(), "/").body;
  // The name of a language, which no browser asks for.
  const std::string svg = "http://www.w3.org/2000/svg";
  for (std::size_t at = page.find(svg); at != std::string::npos; at = page.find(svg))
    page.erase(at, svg.size());
  for (const char* const outside : {"http://", "https://", "src=\"//", "@import", "url("})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
}

TEST_F(StatusServer, ShowsAllNodesOfTheHostAsJson) {
  const test::child_process other{[&] {
    node dying{9, reporting()};
    raise(SIGKILL);
    return 0;
  }};
  std::ofstream{directory_.path() + "/atbus-node.0x5-0x1"} << "not a report";
  std::filesystem::permissions(directory_.path() + "/atbus-node.0x5-0x1",
                               std::filesystem::perms{0600});
  const auto server = status_server::open(own_, options());
  ASSERT_TRUE(server);
  const http_response got = ask_until(
      *server, "/status.json", nullptr,
      [](const http_response& one) { return one.body.find("\"dead\"") != std::string::npos; });
  EXPECT_TRUE(got.has("\r\nContent-Type: application/json\r\n"));
  const auto all = nlohmann::json::parse(got.body);
  EXPECT_EQ(all["self"], "7");
  EXPECT_GT(all["at"], 1'700'000'000'000'000'000U);
  ASSERT_EQ(all["nodes"].size(), 3U) << got.body;
  EXPECT_EQ(all["nodes"][0]["life"], "unreadable");
  EXPECT_EQ(all["nodes"][0]["problem"], "not_a_segment");
  EXPECT_EQ(all["nodes"][0]["peers"], nlohmann::json::array());
  EXPECT_EQ(all["nodes"][1]["id"], "7");
  EXPECT_EQ(all["nodes"][1]["life"], "live");
  EXPECT_EQ(all["nodes"][1]["stats"].size(), node_counters().size());
  EXPECT_EQ(all["nodes"][2]["id"], "9");
  EXPECT_EQ(all["nodes"][2]["life"], "dead");
}

TEST_F(StatusServer, BoundsThePeersOfAllNodesTogether) {
  for (std::uint64_t id = 100; id != 140; ++id)
    ASSERT_TRUE(own_.connect(bus_id{id}, "unix://" + directory_.path() + "/nobody"));
  auto few = options();
  few.peers = 10;
  const auto server = status_server::open(own_, few);
  ASSERT_TRUE(server);
  const http_response got = ask_until(*server, "/status.json", &own_, [](const http_response& one) {
    return one.body.find("\"peers_in_all\":40,") != std::string::npos;
  });
  const auto all = nlohmann::json::parse(got.body);
  EXPECT_EQ(all["nodes"][0]["peers_in_all"], 40);
  EXPECT_EQ(all["nodes"][0]["peers"].size(), 10U);
}

TEST_F(StatusServer, IsReadyOnceEachWantedPeerIsLinked) {
  node other{8, node_options{}.report_directory("")};
  const std::string where = "unix://" + directory_.path() + "/other";
  ASSERT_TRUE(own_.connect(8, where));
  const auto server = status_server::open(own_, options());
  ASSERT_TRUE(server);
  const http_response missing = ask_until(*server, "/readyz", 503, &own_);
  EXPECT_EQ(missing.code, 503);
  EXPECT_EQ(missing.body, "node 7 has no link to 8\n");
  EXPECT_EQ(ask(server->address(), "/healthz").code, 200);
  ASSERT_TRUE(other.listen(where));
  std::atomic<bool> done{false};
  std::thread polling{[&] {
    while (!done) {
      other.poll();
      std::this_thread::sleep_for(1ms);
    }
  }};
  const http_response linked = ask_until(*server, "/readyz", 200, &own_);
  done = true;
  polling.join();
  EXPECT_EQ(linked.code, 200) << linked.body;
}

TEST_F(StatusServer, IsNotReadyWithoutTheParentThatIsAskedFor) {
  auto with_parent = options();
  with_parent.needs_parent = true;
  const auto server = status_server::open(own_, with_parent);
  ASSERT_TRUE(server);
  EXPECT_EQ(ask(server->address(), "/readyz").body, "node 7 has no link to a parent\n");
}

TEST_F(StatusServer, RefusesANodeWithoutReports) {
  const node silent{8, node_options{}.report_directory("")};
  const auto server = status_server::open(silent, options());
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error(), errc::not_found);
  EXPECT_NE(server.error().text().find("report_directory"), std::string::npos);
}

TEST_F(StatusServer, RefusesOptionsThatCantWork) {
  const auto refused = [&](auto change) {
    auto bad = options();
    change(bad);
    return !status_server::open(own_, bad);
  };
  EXPECT_TRUE(refused([](auto& of) { of.listen = "localhost:80"; }));
  EXPECT_TRUE(refused([](auto& of) { of.listen = "192.0.2.1:80"; }));  // of no machine
  EXPECT_TRUE(refused([](auto& of) { of.peers = 0; }));
  EXPECT_TRUE(refused([](auto& of) { of.peers = 4097; }));
  EXPECT_TRUE(refused([](auto& of) { of.connections = 0; }));
  EXPECT_TRUE(refused([](auto& of) { of.connections = 513; }));
  EXPECT_TRUE(refused([](auto& of) { of.connections_per_address = 0; }));
  EXPECT_TRUE(refused([](auto& of) { of.connection_timeout = 0s; }));
  EXPECT_TRUE(refused([](auto& of) { of.connection_timeout = 2h; }));
  EXPECT_TRUE(refused([](auto& of) { of.report_directory += "/none"; }));
  EXPECT_FALSE(refused([](auto&) {}));
}

TEST_F(StatusServer, SaysThatItsNodeHasBeenClosed) {
  const auto server = status_server::open(own_, options());
  ASSERT_TRUE(server);
  own_.close();
  for (const char* const path : {"/healthz", "/readyz", "/metrics"}) {
    const http_response got = ask_until(*server, path, 503);
    EXPECT_EQ(got.code, 503) << path;
    EXPECT_NE(got.body.find("has ended"), std::string::npos) << got.body;
  }
  EXPECT_EQ(nlohmann::json::parse(ask(server->address(), "/status.json").body)["nodes"].size(), 0U);
}

// Of another process, which is killed.
TEST_F(StatusServer, SaysThatAProcessHasDied) {
  own_.close();
  const test::shared<test::shared_counter> there;
  test::child_process other{[&]() -> int {
    const node dying{9, reporting()};
    there->add();
    for (;;)
      pause();
  }};
  ASSERT_TRUE(there->wait());
  const auto found = list_node_reports(directory_.path());
  ASSERT_TRUE(found && found->size() == 1);
  const auto server = status_server::open(bus_id{9}, found->front().report.incarnation, options());
  ASSERT_TRUE(server) << server.error().text();
  EXPECT_EQ(ask(server->address(), "/healthz").code, 200);
  other.kill_and_wait();
  const http_response got = ask_until(*server, "/healthz", 503);
  EXPECT_NE(got.body.find("node 9 is dead"), std::string::npos) << got.body;
  EXPECT_EQ(ask_until(*server, "/readyz", 503).code, 503);
  EXPECT_NE(ask(server->address(), "/metrics").body.find("\natbus_node_live 0\n"),
            std::string::npos);
}

TEST_F(StatusServer, SurvivesTornFiles) {
  const auto server = status_server::open(own_, options());
  ASSERT_TRUE(server);
  const std::string path = only_report();
  ASSERT_EQ(truncate(path.c_str(), 100), 0);
  const http_response torn = ask_until(*server, "/healthz", 503);
  EXPECT_NE(torn.body.find("can't be read"), std::string::npos) << torn.body;
  EXPECT_EQ(ask_until(*server, "/metrics", 503).code, 503);
  ASSERT_EQ(truncate(path.c_str(), 0), 0);
  EXPECT_EQ(ask_until(*server, "/readyz", 503).code, 503);
  ASSERT_EQ(unlink(path.c_str()), 0);
  ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  EXPECT_EQ(ask_until(*server, "/metrics", 503).code, 503);
  ASSERT_EQ(rmdir(path.c_str()), 0);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);  // nobody writes into it
  EXPECT_EQ(ask_until(*server, "/readyz", 503).code, 503);
  ASSERT_EQ(unlink(path.c_str()), 0);
}

TEST_F(StatusServer, SaysThatTheDirectoryHasGone) {
  const std::string inner = directory_.path() + "/inner";
  ASSERT_EQ(mkdir(inner.c_str(), 0700), 0);
  node other{9, node_options{}.report_directory(inner)};
  auto there = options();
  there.report_directory = inner;
  const auto server = status_server::open(other, there);
  ASSERT_TRUE(server);
  ASSERT_GT(std::filesystem::remove_all(inner), 0U);
  const http_response got = ask_until(*server, "/status.json", 503);
  EXPECT_EQ(got.code, 503);
  const auto all = nlohmann::json::parse(got.body);
  EXPECT_EQ(all["nodes"], nlohmann::json::array());
  EXPECT_NE(all["text"].get<std::string>().find(inner), std::string::npos);
}

// Answers to a flood are those to its first request.
TEST_F(StatusServer, ReadsReportsAtMostFourTimesASecond) {
  const auto server = status_server::open(own_, options());
  ASSERT_TRUE(server);
  std::map<std::string, int> answers;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i != 200; ++i)
    ++answers[ask(server->address(), "/status.json").body];  // has the time of day
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_LE(answers.size(), static_cast<std::size_t>(took / 250ms) + 1);
}

TEST_F(StatusServer, DoesNothingInAForkedChild) {
  auto server = status_server::open(own_, options());
  ASSERT_TRUE(server);
  test::child_process child{[&] {
    const status_server taken = std::move(*server);
    return 0;
  }};
  EXPECT_EQ(child.wait_end(), "exit 0");
  EXPECT_EQ(ask(server->address(), "/healthz").code, 200);
}

TEST_F(StatusServer, MovesWithItsThread) {
  auto first = status_server::open(own_, options());
  auto second = status_server::open(own_, options());
  ASSERT_TRUE(first && second);
  const std::string address = second->address();
  *first = std::move(*second);
  EXPECT_EQ(ask(address, "/healthz").code, 200);
  EXPECT_EQ(first->address(), address);
}

}  // namespace
}  // namespace atbus
