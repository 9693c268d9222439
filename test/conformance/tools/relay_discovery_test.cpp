// A relay that registers itself in etcd.
#if defined(ATBUS_HAS_DISCOVERY)
#include <signal.h>

#include <fstream>

#include "atbus/clock.hpp"
#include "atbus/etcd.hpp"
#include "atbus/node.hpp"
#include "atbus/relay/config.h"
#include "etcd_server.h"
#include "run_command.h"
#include "test.h"

namespace atbus {
namespace {

TEST(RelayInEtcd, IsFoundByItsId) {
  if (!test::etcd_server::is_installed())
    GTEST_SKIP() << "etcd is not installed (Debian: etcd-server)";
  test::etcd_server etcd;
  etcd.start();
  const std::string file = etcd.directory() + "/relay.toml";
  std::ofstream{file} << "id = 0x10000\nchildren = \"0x10000/48\"\nlisten = \"ipv4://0.0.0.0:0\"\n"
                         "allow_unauthenticated = true\nreport_directory = \"\"\n"
                         "[discovery]\netcd = [\""
                      << etcd.url() << "\"]\n";
  test::running_command relay{{"relay", "--config", file}};
  const auto registry = etcd_directory::open({.endpoints = {etcd.url()}});
  ASSERT_TRUE(registry);
  node one{7, node_options{}.allow_unauthenticated(true).report_directory("").directory(*registry)};
  bool is_connected = false;
  EXPECT_TRUE(one.on_ready(0x10000, 30s, [&](status ready) { is_connected = bool{ready}; }));
  for (const auto end = now() + 30s; !is_connected && now() < end;) {
    (void)one.send(0x10000, 1, "are you there");  // looks it up
    one.poll();
    (void)one.wait(20ms);
  }
  EXPECT_TRUE(is_connected);
  EXPECT_EQ((*registry)->find(0x10000)->place, tree_place::root);
  one.close();
  relay.send_signal(SIGTERM);
  const test::command_result ended = relay.finish(20s);
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  EXPECT_EQ(etcd.count("/atbus/"), 0);
}

TEST(RelayInEtcd, NamesWhatIsWrongInItsConfiguration) {
  const std::string start = "id = 7\nlisten = [\"unix:///tmp/x\"]\n";
  const std::pair<std::string, const char*> all[] = {
      {start + "discovery = true", "[discovery] has \"etcd\""},
      {start + "[discovery]\nprefix = \"/x/\"", "[discovery] has \"etcd\""},
      {start + "[discovery]\netcd = [1]", "a text is expected"},
      {start + "[discovery]\netcd = \"nowhere\"", "http://host:port"},
      {start + "[discovery]\netcd = \"http://a:1\"\nlease_time = 2.5", "whole number of seconds"},
      {start + "[discovery]\netcd = \"http://a:1\"\nlease_time = 1", "lease_time"},
      {start + "[discovery]\netcd = \"http://a:1\"\nuser_file = \"no-such-file\"", "no-such-file"},
      {start + "[discovery]\netcd = \"http://a:1\"\npassword = \"x\"",
       "[discovery] has etcd, prefix"},
      {start + "directory = \"nodes.toml\"\n[discovery]\netcd = \"http://a:1\"", "not both"},
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
