// Two relays in networks of their own, with a NATS server between them.
#if defined(ATBUS_HAS_NATS)
#include <fstream>

#include "atbus/clock.hpp"
#include "atbus/node.hpp"
#include "atbus/relay/config.h"
#include "nats_server.h"
#include "run_command.h"
#include "test.h"

namespace atbus {
namespace {

TEST(RelayThroughNats, PassesMessagesOnBetweenNetworks) {
  const test::nats_server server{"authorization { user: relay, password: word }"};
  const std::string folder = server.directory();
  std::ofstream{folder + "/token"} << "a secret of the two relays\n";
  std::ofstream{folder + "/user"} << "relay\nword\n";
  const std::string both =
      "token_file = \"token\"\nreport_directory = \"\"\n[nats]\nuser_file = \"user\"\n";
  const auto place = [&](std::string_view name) {
    return "unix://" + folder + "/" + std::string{name};
  };
  const std::string subject = server.address("fleet.root");
  std::ofstream{folder + "/root.toml"} << "id = 0x10000\nchildren = \"0x10000/48\"\nlisten = [\""
                                       << subject << "\", \"" << place("root") << "\"]\n"
                                       << both;
  std::ofstream{folder + "/branch.toml"} << "id = 0x10100\nchildren = \"0x10100/56\"\nparent = \""
                                         << subject << "\"\nlisten = \"" << place("branch")
                                         << "\"\n"
                                         << both;
  test::running_command root{{"relay", "--config", folder + "/root.toml"}};
  test::running_command branch{{"relay", "--config", folder + "/branch.toml"}};
  const auto below = [&](std::string_view relay) {
    return node_options{}
        .parent(place(relay))
        .token("a secret of the two relays")
        .report_directory("");
  };
  node one{0x10001, below("root")};
  node other{0x10101, below("branch")};
  std::string got;
  other.on_message([&](const message& what) { got = what.text(); });
  const auto end = now() + 30s;
  while (got.empty() && now() < end) {
    if (one.parent() != bus_id{} && other.parent() != bus_id{})
      (void)one.send(0x10101, 1, "through NATS");
    one.poll();
    other.poll();
  }
  EXPECT_EQ(got, "through NATS");
  for (test::running_command* const relay : {&branch, &root}) {
    relay->send_signal(SIGTERM);
    const test::command_result ended = relay->finish(20s);
    EXPECT_EQ(ended.exit_code, 0) << ended.errors;
    EXPECT_EQ(ended.errors.find("word"), std::string::npos) << ended.errors;
  }
}

TEST(RelayThroughNats, NamesWhatIsWrongInItsConfiguration) {
  const std::string start = "id = 7\nlisten = [\"unix:///tmp/x\"]\n";
  const std::pair<std::string, const char*> all[] = {
      {start + "nats = true", "[nats]"},
      {start + "[nats]\npassword = \"x\"", "'password' is unknown; [nats] has credentials"},
      {start + "[nats]\ntls = 1", "true or false"},
      {start + "[nats]\ncertificate = \"x\"", "given together with key"},
      {start + "[nats]\ninbox_prefix = \"a.>\"", "inbox_prefix"},
      {start + "[nats]\nservers = [\"nowhere\"]", "host:port"},
      {"id = 7\nlisten = \"nats://127.0.0.1:4222/fleet\"", "token"},
      {"id = 7\nlisten = \"nats://127.0.0.1:4222\"", "no subject"},
  };
  for (const auto& [text, about] : all) {
    const auto read = tool::parse_relay_config(text, "/tmp/relay.toml");
    ASSERT_FALSE(read) << text;
    EXPECT_NE(read.error().text().find(about), std::string_view::npos) << read.error().text();
  }
}

}  // namespace
}  // namespace atbus
#endif
