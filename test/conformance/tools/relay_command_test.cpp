// `atbus relay`: its configuration, and a relay between two nodes of the test.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>

#include "atbus/clock.hpp"
#include "atbus/node.hpp"
#include "atbus/relay/config.h"
#include "atbus/relay/service_manager.h"
#include "child_process.h"
#include "http_client.h"
#include "reserved_port.h"
#include "run_command.h"
#include "scratch_directory.h"
#include "test.h"

namespace atbus {
namespace {

using test::command_result;
using test::run_command;
using test::running_command;
using tool::parse_relay_config;

constexpr std::string_view least = "id = 7\nlisten = [\"unix:///tmp/x\"]\n";

struct bad_config {
  std::string text;
  const char* about;  // what the error names
};

TEST(RelayConfig, NamesWhatIsWrongAndWhere) {
  const std::string start{least};
  const bad_config all[] = {
      {"", "\"id\""},
      {"id = 7", "nothing to relay"},
      {"id = 0\nlisten = \"unix:///x\"", "1:6"},
      {"id = \"x\"", "bus id"},
      {start + "unknown = 1", "3:1"},
      {start + "unknown = 1", "'unknown' is unknown"},
      {start + "message_limit = -1", "whole number"},
      {start + "message_limit = \"64K\"", "3:17"},
      {start + "connections = 5000000000", "4294967295"},
      {start + "drain = \"soon\"", "seconds"},
      {start + "drain = nan", "seconds"},
      {start + "log = \"xml\"", "\"json\""},
      {start + "allow_unauthenticated = 1", "true or false"},
      {start + "children = \"nonsense\"", "nonsense"},
      {start + "[[connect]]\nid = 5", "\"address\""},
      {start + "[[connect]]\nid = 5\naddress = \"nowhere\"", "nowhere"},
      {start + "[certificates]\nchain = \"x\"", "\"authority\""},
      {start + "[strangers]\nmany = 1", "handshakes_per_second"},
      {start + "http = true", "[http] has"},
      {start + "[http]", "[http] has"},
      {start + "[http]\nlisten = \"127.0.0.1:9464\"\nport = 1", "[http] has"},
      {start + "[http]\nlisten = \"localhost:9464\"", "4:10"},
      {start + "report_directory = \"\"\n[http]\nlisten = \"127.0.0.1:9464\"", "reports"},
      {start + "token_file = \"missing\"", "/tmp/missing"},
      {"id = 7\nlisten = [\"ipv4://127.0.0.1:0\"]", "token"},
      {"id = 7\nlisten = [[[[[", "relay.toml"},
      {"[[[[", "relay.toml"},
  };
  for (const bad_config& one : all) {
    const auto read = parse_relay_config(one.text, "/tmp/relay.toml");
    ASSERT_FALSE(read) << one.text;
    EXPECT_NE(read.error().text().find(one.about), std::string_view::npos) << one.text << "\n"
                                                                           << read.error().text();
  }
}

TEST(RelayConfig, IsTakenOver) {
  const test::scratch_directory directory;
  std::ofstream{directory.path() + "/token"} << "a secret of the tests\n";
  const auto read = parse_relay_config(
      "id = \"0x10000\"\n"
      "listen = [\"ipv4://127.0.0.1:0\", \"unix:///tmp/x\"]\n"
      "parent = \"ipv4://127.0.0.1:9\"\n"
      "children = \"0x10000/48\"\n"
      "token_file = \"token\"\n"
      "message_limit = 1000\n"
      "ping_interval = 2.5\n"
      "drain = 3\n"
      "log = \"json\"\n"
      "[[connect]]\n"
      "id = 5\n"
      "address = \"unix:///tmp/y\"\n"
      "[strangers]\n"
      "per_address = 9\n"
      "[http]\n"
      "listen = \"[::1]:9464\"\n",
      directory.path() + "/relay.toml");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->id, bus_id{0x10000});
  EXPECT_EQ(read->listen.size(), 2U);
  EXPECT_EQ(read->options.parents(), std::vector<std::string>{"ipv4://127.0.0.1:9"});
  EXPECT_EQ(read->options.children(), "0x10000/48");
  EXPECT_EQ(read->tokens, std::vector<std::string>{"a secret of the tests"});
  EXPECT_EQ(read->options.message_limit(), 1000U);
  EXPECT_EQ(read->options.ping_interval(), 2500ms);
  EXPECT_EQ(read->options.strangers().per_address, 9U);
  EXPECT_EQ(read->drain, 3s);
  EXPECT_TRUE(read->log_as_json);
  EXPECT_EQ(read->http_listen, "[::1]:9464");
  EXPECT_EQ(read->connect.size(), 1U);
}

TEST(RelayConfig, SaysWhatNeedsARestart) {
  const auto before = parse_relay_config(least, "/tmp/r");
  const auto after = parse_relay_config(
      std::string{least} +
          "drain = 1\nmessage_limit = 5\n[[connect]]\nid = 9\naddress = \"unix:///y\"\n",
      "/tmp/r");
  ASSERT_TRUE(before && after);
  EXPECT_EQ(tool::keys_that_need_a_restart(*before, *after),
            std::vector<std::string>{"message_limit"});
  EXPECT_EQ(tool::keys_that_need_a_restart(*after, *before),
            std::vector<std::string>{"message_limit"});
  EXPECT_TRUE(tool::keys_that_need_a_restart(*before, *before).empty());
}

class Relay : public ::testing::Test {
 protected:
  void write(const std::string& more = {}) const {
    // In one step, as SIGHUP may come at any time.
    std::ofstream{file_ + ".new"} << "id = 0x10000\nchildren = \"0x10000/48\"\nlisten = [\""
                                  << address_ << "\"]\nreport_directory = \"\"\n"
                                  << more;
    ASSERT_EQ(rename((file_ + ".new").c_str(), file_.c_str()), 0);
  }

  // Whether it is there, also after it has logged that the child came.
  [[nodiscard]] bool takes_a_child() const {
    for (const std::uint64_t id : {0x10001U, 0x10002U}) {
      node below{bus_id{id}, node_options{}.parent(address_).report_directory("")};
      const auto end = now() + 20s;
      while (below.parent() == bus_id{} && now() < end) {
        below.poll();
        (void)below.wait(10ms);
      }
      if (below.parent() != bus_id{0x10000})
        return false;
    }
    return true;
  }

  test::scratch_directory directory_;
  std::string file_ = directory_.path() + "/relay.toml";
  std::string address_ = "unix://" + directory_.path() + "/socket";
  std::string command_ =
      "exec " + std::string{ATBUS_TEST_PROGRAMS_DIR} + "/atbus relay --config " + file_;
};

TEST_F(Relay, PassesMessagesOnAndEndsInOrder) {
  write();
  running_command relaying{{"relay", "--config", file_}};
  ASSERT_TRUE(relaying.has_said("node 65536 relays", 20s));
  const auto below = [&] { return node_options{}.parent(address_).report_directory(""); };
  node one{0x10001, below()};
  node other{0x10002, below()};
  std::string got;
  other.on_message([&](const message& what) { got = what.text(); });
  const auto end = now() + 20s;
  while (got.empty() && now() < end) {
    if (one.parent() != bus_id{} && other.parent() != bus_id{})
      (void)one.send(0x10002, 1, "through it");
    one.poll();
    other.poll();
  }
  EXPECT_EQ(got, "through it");
  relaying.send_signal(SIGTERM);
  const command_result ended = relaying.finish(20s);
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_NE(ended.errors.find("listens at unix://"), std::string::npos) << ended.errors;
  EXPECT_NE(ended.errors.find("node 65537 connected"), std::string::npos) << ended.errors;
}

#if defined(ATBUS_HAS_HTTP)
class RelayStatus : public Relay {
 protected:
  // With a status server, and with reports in the test's directory.
  void write_with_status(const std::string& at) const {
    std::ofstream{file_ + ".new"} << "id = 0x10000\nlisten = [\"" << address_
                                  << "\"]\nreport_directory = \".\"\n[http]\nlisten = \"" << at
                                  << "\"\n";
    ASSERT_EQ(rename((file_ + ".new").c_str(), file_.c_str()), 0);
  }
  // A port that was free a moment ago.
  static std::string free_address() {
    const std::string text = test::reserved_port{"ipv4://127.0.0.1:0"}.address();
    return text.substr(std::string_view{"ipv4://"}.size());
  }
};

TEST_F(RelayStatus, IsAnsweredOverHttp) {
  const std::string at = free_address();
  write_with_status(at);
  running_command relaying{{"relay", "--config", file_}};
  ASSERT_TRUE(relaying.has_said("status at http://" + at, 20s));
  ASSERT_TRUE(relaying.has_said("node 65536 relays", 20s));
  EXPECT_EQ(test::ask(at, "/healthz").body, "node 65536 is polled\n");
  EXPECT_NE(test::ask(at, "/metrics").body.find("id=\"65536\""), std::string::npos);
  relaying.send_signal(SIGTERM);
  EXPECT_EQ(relaying.finish(20s).exit_code, 0);
}

// A killed node on the relay's host is seen through the relay.
TEST_F(RelayStatus, ShowsADeadNodeOfItsHost) {
  const std::string at = free_address();
  write_with_status(at);
  running_command relaying{{"relay", "--config", file_}};
  ASSERT_TRUE(relaying.has_said("node 65536 relays", 20s));
  test::child_process dying{[&] {
    const node one{0x10001, node_options{}.report_directory(directory_.path())};
    raise(SIGKILL);
    return 0;
  }};
  EXPECT_EQ(dying.wait_end(), "signal 9");
  const auto end = now() + 20s;
  std::string got;
  while (got.find("\"life\":\"dead\"") == std::string::npos && now() < end)
    got = test::ask(at, "/status.json").body;
  EXPECT_NE(got.find("\"life\":\"dead\""), std::string::npos) << got;
}

TEST_F(RelayStatus, IsNoReasonNotToRelay) {
  const test::plain_listener taken{"ipv4://127.0.0.1:0"};
  write_with_status(taken.address().substr(std::string_view{"ipv4://"}.size()));
  const running_command relaying{{"relay", "--config", file_}};
  EXPECT_TRUE(relaying.has_said("there is no status server: can't listen at http://", 20s));
  EXPECT_TRUE(relaying.has_said("node 65536 relays", 20s));
}

TEST_F(RelayStatus, NeedsARestartToChange) {
  write_with_status("127.0.0.1:0");
  const running_command relaying{{"relay", "--config", file_}};
  ASSERT_TRUE(relaying.has_said("node 65536 relays", 20s));
  write_with_status("[::1]:0");
  relaying.send_signal(SIGHUP);
  EXPECT_TRUE(relaying.has_said("\"http\" has changed, and needs a restart", 20s));
}
#endif

TEST_F(Relay, ReloadsWhatItCanAndSaysWhatItCannot) {
  write("drain = 1\n");
  running_command relaying{{"relay", "--config", file_}};
  ASSERT_TRUE(relaying.has_said("node 65536 relays", 20s));
  write("message_limit = 9\nlog = \"json\"\n");
  relaying.send_signal(SIGHUP);
  EXPECT_TRUE(relaying.has_said("\"text\":\"the configuration is reloaded\"", 20s));
  write("nonsense = 1\n");
  relaying.send_signal(SIGHUP);
  EXPECT_TRUE(relaying.has_said("nothing is reloaded: ", 20s));
  relaying.send_signal(SIGINT);
  const command_result ended = relaying.finish(20s);
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_NE(ended.errors.find("\"message_limit\" has changed, and needs a restart"),
            std::string::npos)
      << ended.errors;
}

// No node takes it, so its relay would not start.
TEST_F(Relay, TakesNoTokenThatNoNodeTakes) {
  const std::string token = directory_.path() + "/token";
  const auto write_token = [&](const std::string& text) {
    std::ofstream{token} << text;
    ASSERT_EQ(chmod(token.c_str(), 0600), 0);
  };
  const std::string names_it = "token_file = \"" + token + "\"\n";
  write_token("a token that is long enough");
  write(names_it);
  running_command relaying{{"relay", "--config", file_}};
  ASSERT_TRUE(relaying.has_said("node 65536 relays", 20s));
  write_token("short");
  write(names_it + "[[connect]]\nid = 5\naddress = \"unix:///tmp/nobody\"\n");
  const command_result checked = run_command({"relay", "--check", "--config", file_});
  EXPECT_NE(checked.exit_code, 0);
  EXPECT_NE(checked.errors.find("5 bytes"), std::string::npos) << checked.errors;
  relaying.send_signal(SIGHUP);
  EXPECT_TRUE(relaying.has_said("nothing is reloaded: " + token + ": ", 20s));
  relaying.send_signal(SIGTERM);
  EXPECT_EQ(relaying.finish(20s).errors.find("connects with"), std::string::npos);
}

// What has failed is tried again with the next SIGHUP, and is not said to be done.
TEST_F(Relay, KeepsWhatItHasTakenOverOnly) {
  write();
  running_command relaying{{"relay", "--config", file_}};
  ASSERT_TRUE(relaying.has_said("node 65536 relays", 20s));
  write("[[connect]]\nid = 65536\naddress = \"unix:///tmp/nobody\"\n");
  relaying.send_signal(SIGHUP);
  EXPECT_TRUE(relaying.has_said("the configuration is reloaded, but for what has failed", 20s));
  write("log = \"json\"\n[[connect]]\nid = 65536\naddress = \"unix:///tmp/nobody\"\n");
  relaying.send_signal(SIGHUP);
  EXPECT_TRUE(relaying.has_said("\"text\":\"the configuration is reloaded, but", 20s));
  relaying.send_signal(SIGTERM);
  EXPECT_EQ(relaying.finish(20s).exit_code, 0);
}

TEST_F(Relay, LeavesAnAddressThatIsNotInItsFileAnyMore) {
  const auto connecting = [&](const std::string& name) {
    return "[[connect]]\nid = 5\naddress = \"unix://" + directory_.path() + "/" + name + "\"\n";
  };
  node other{5, node_options{}.report_directory("")};
  ASSERT_TRUE(other.listen("unix://" + directory_.path() + "/before"));
  ASSERT_TRUE(other.listen("unix://" + directory_.path() + "/after"));
  write(connecting("before"));
  running_command relaying{{"relay", "--config", file_}};
  const auto is_said = [&](const std::string& text) {
    const auto end = now() + 20s;
    while (!relaying.has_said(text, 0s) && now() < end) {
      other.poll();
      (void)other.wait(10ms);
    }
    return relaying.has_said(text, 0s);
  };
  ASSERT_TRUE(is_said("node 5 connected over unix://" + directory_.path() + "/before"));
  write(connecting("after"));
  relaying.send_signal(SIGHUP);
  EXPECT_TRUE(is_said("node 5 connected over unix://" + directory_.path() + "/after"));
  relaying.send_signal(SIGTERM);
  EXPECT_EQ(relaying.finish(20s).exit_code, 0);
}

TEST_F(Relay, WorksThoughItsLogIsOnAFullDisk) {
  write();
  const running_command relaying{"/bin/sh", {"-c", command_ + " 2>/dev/full"}};
  EXPECT_TRUE(takes_a_child());
}

TEST_F(Relay, WorksThoughTheReaderOfItsLogHasEnded) {
  write();
  const std::string path = directory_.path() + "/log";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  const running_command relaying{"/bin/sh", {"-c", command_ + " 2>" + path}};
  pollfd first_line{.fd = reader, .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&first_line, 1, 20'000), 1);
  close(reader);
  EXPECT_TRUE(takes_a_child());
}

TEST_F(Relay, ChecksItsFileOnly) {
  write();
  const command_result good = run_command({"relay", "--config", file_, "--check"});
  EXPECT_EQ(good.exit_code, 0) << good.errors;
  EXPECT_NE(access((directory_.path() + "/socket").c_str(), F_OK), 0);
  write("message_limit = 0\n");
  const command_result bad = run_command({"relay", "--config", file_, "--check"});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_NE(bad.errors.find("message_limit"), std::string::npos) << bad.errors;
  const command_result missing = run_command({"relay", "--config", file_ + "x"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_NE(missing.errors.find(file_ + "x"), std::string::npos) << missing.errors;
}

TEST_F(Relay, ChecksTheFilesThatItsFileNames) {
  std::ofstream{directory_.path() + "/named"} << "nonsense = 1\n";
  for (const char* const keys :
       {"access = \"named\"\n", "directory = \"named\"\n",
        "[certificates]\nauthority = \"named\"\nchain = \"named\"\nkey = \"named\"\n"}) {
    write(keys);
    const command_result bad = run_command({"relay", "--config", file_, "--check"});
    EXPECT_EQ(bad.exit_code, 1) << keys;
    EXPECT_NE(bad.errors.find(directory_.path() + "/named"), std::string::npos) << bad.errors;
  }
}

TEST_F(Relay, TellsTheServiceManagerThatItIsReady) {
  const std::string path = directory_.path() + "/notify";
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  path.copy(at.sun_path, sizeof at.sun_path - 1);
  ASSERT_EQ(bind(socket, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  ASSERT_EQ(setenv("NOTIFY_SOCKET", path.c_str(), 1), 0);
  tool::tell_service_manager("READY=1");
  unsetenv("NOTIFY_SOCKET");
  tool::tell_service_manager("READY=1");
  char got[32] = {};
  EXPECT_EQ(recv(socket, got, sizeof got, 0), 7);
  EXPECT_EQ(std::string{got}, "READY=1");
  EXPECT_LT(recv(socket, got, sizeof got, 0), 0);
  close(socket);
}

}  // namespace
}  // namespace atbus
