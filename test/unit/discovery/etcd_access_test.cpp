// Users and TLS of etcd.
#include <cstdlib>
#include <string>

#include "etcd_party.h"
#include "scratch_directory.h"

namespace atbus::test {
namespace {

using nlohmann::json;

class EtcdAccess : public EtcdDirectories {
 protected:
  // Two users: root, and fleet, who may do everything below /atbus/ alone.
  static void demand_users(const etcd_server& of) {
    (void)of.answer("/v3/auth/user/add", {{"name", "root"}, {"password", "of root"}});
    (void)of.answer("/v3/auth/user/grant", {{"user", "root"}, {"role", "root"}});
    (void)of.answer("/v3/auth/user/add", {{"name", "fleet"}, {"password", "of fleet"}});
    (void)of.answer("/v3/auth/role/add", {{"name", "nodes"}});
    (void)of.answer("/v3/auth/role/grant", {{"name", "nodes"},
                                            {"perm",
                                             {{"permType", "READWRITE"},
                                              {"key", detail::to_base64("/atbus/")},
                                              {"range_end", detail::to_base64("/atbus0")}}}});
    (void)of.answer("/v3/auth/user/grant", {{"user", "fleet"}, {"role", "nodes"}});
    (void)of.answer("/v3/auth/enable", json::object());
  }
  static void run(const std::string& command) {
    ASSERT_EQ(std::system((command + " >/dev/null 2>&1").c_str()), 0)  // NOLINT(cert-env33-c)
        << command;
  }
};

TEST_F(EtcdAccess, LogInAsAUserAndAgainWhenTheirTokenIsForgotten) {
  etcd_server etcd;
  etcd.start();
  (void)etcd.answer("/v3/auth/role/add", {{"name", "root"}});
  demand_users(etcd);
  const auto nodes = open_directory(
      {.endpoints = {etcd.url()}, .lease_time = 2s, .user = "fleet", .password = "of fleet"});
  ASSERT_TRUE(nodes->announce(record_of(7, {"unix://@one"})));
  ASSERT_TRUE(knows(nodes, 7, {"unix://@one"}));
  // A new password ends the tokens of its user; that it is the old one again is no matter.
  const auto root = nlohmann::json::parse(
      etcd.ask("/v3/auth/authenticate", {{"name", "root"}, {"password", "of root"}}).body);
  ASSERT_EQ(etcd.ask("/v3/auth/user/changepw", {{"name", "fleet"}, {"password", "of fleet"}},
                     root["token"].get<std::string>())
                .code,
            200);
  ASSERT_TRUE(nodes->announce(record_of(7, {"unix://@two"})));
  EXPECT_TRUE(knows(nodes, 7, {"unix://@two"}));
  EXPECT_TRUE(until({nodes}, [&] { return static_cast<bool>(nodes->poll()); }));
}

// To a watch etcd says "permission denied" of a token that it does not know.
TEST_F(EtcdAccess, WatchAgainWithANewToken) {
  etcd_server etcd;
  etcd.start();
  (void)etcd.answer("/v3/auth/role/add", {{"name", "root"}});
  demand_users(etcd);
  const auto reader = open_directory({.endpoints = {etcd.url()},
                                      .user = "fleet",
                                      .password = "of fleet",
                                      .announce = announcing::never});
  ASSERT_TRUE(until({reader}, [&] { return reader->stats().lists == 1; }));
  etcd.kill();
  ASSERT_TRUE(until({reader}, [&] { return !reader->poll(); }));
  etcd.start();
  // A new password ends the tokens of its user, now that nothing but the watch is to be asked for again.
  const std::string root =
      json::parse(
          etcd.ask("/v3/auth/authenticate", {{"name", "root"}, {"password", "of root"}}).body)
          .value("token", "");
  const std::string record = *detail::write_record(record_of(7, {"unix://@one"}));
  ASSERT_EQ(
      etcd.ask("/v3/auth/user/changepw", {{"name", "fleet"}, {"password", "of fleet"}}, root).code,
      200);
  ASSERT_EQ(
      etcd.ask("/v3/kv/put",
               {{"key", detail::to_base64(key_of(7))}, {"value", detail::to_base64(record)}}, root)
          .code,
      200);
  EXPECT_TRUE(knows(reader, 7, {"unix://@one"})) << reader->poll().text();
  EXPECT_TRUE(until({reader}, [&] { return static_cast<bool>(reader->poll()); }));
  EXPECT_EQ(reader->stats().lists, 1);
}

TEST_F(EtcdAccess, SayWhoIsRefused) {
  etcd_server etcd;
  etcd.start();
  (void)etcd.answer("/v3/auth/role/add", {{"name", "root"}});
  demand_users(etcd);
  const auto says = [](const shared_directory& of, std::string_view words) {
    return until({of}, [&] {
      const error why = of->poll();
      return why == errc::denied && why.text().find(words) != std::string::npos;
    });
  };
  const auto wrong =
      open_directory({.endpoints = {etcd.url()}, .user = "fleet", .password = "another"});
  EXPECT_TRUE(says(wrong, "refuses the user 'fleet'")) << wrong->poll().text();
  const auto nobody = open_directory({.endpoints = {etcd.url()}});
  EXPECT_TRUE(says(nobody, "user name is empty")) << nobody->poll().text();
  const auto elsewhere = open_directory(
      {.endpoints = {etcd.url()}, .prefix = "/other/", .user = "fleet", .password = "of fleet"});
  EXPECT_TRUE(says(elsewhere, "permission denied")) << elsewhere->poll().text();
}

TEST_F(EtcdAccess, GoOnWithoutATokenWhileEtcdHasNoUsersAndLogInWhenItHas) {
  etcd_server etcd;
  etcd.start();
  const auto nodes = open_directory(
      {.endpoints = {etcd.url()}, .lease_time = 2s, .user = "fleet", .password = "of fleet"});
  ASSERT_TRUE(nodes->announce(record_of(7, {"unix://@one"})));
  ASSERT_TRUE(knows(nodes, 7, {"unix://@one"}));
  (void)etcd.answer("/v3/auth/role/add", {{"name", "root"}});
  demand_users(etcd);
  ASSERT_TRUE(nodes->announce(record_of(7, {"unix://@two"})));
  EXPECT_TRUE(knows(nodes, 7, {"unix://@two"}));
}

TEST_F(EtcdAccess, CheckTheCertificateOfEtcdAndShowTheirOwn) {
  const scratch_directory files;
  const std::string base = files.path() + '/';
  run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "
      "/CN=authority -keyout " +
      base + "authority.key -out " + base + "authority.pem");
  for (const std::string name : {"server", "client"}) {
    run("openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=" + name +
        " -keyout " + base + name + ".key -out " + base + name + ".csr");
    run("printf 'subjectAltName=IP:127.0.0.1\\nextendedKeyUsage=serverAuth,clientAuth\\n' >" +
        base + "names && openssl x509 -req -days 2 -CAcreateserial -CA " + base +
        "authority.pem -CAkey " + base + "authority.key -extfile " + base + "names -in " + base +
        name + ".csr -out " + base + name + ".pem");
  }
  etcd_server etcd{
      {.scheme = "https",
       .arguments = {"--cert-file", base + "server.pem", "--key-file", base + "server.key",
                     "--trusted-ca-file", base + "authority.pem", "--client-cert-auth"}}};
  etcd.start();
  const auto is_refused = [](const etcd_options& options, std::string_view words) {
    const auto made = open_directory(options);
    EXPECT_TRUE(until({made}, [&] { return !made->poll(); }));
    EXPECT_NE(made->poll().text().find(words), std::string::npos) << made->poll().text();
    return made->poll() == errc::not_connected && made->stats().lists == 0;
  };
  etcd_options options{.endpoints = {etcd.url()},
                       .authority = base + "authority.pem",
                       .certificate = base + "client.pem",
                       .key = base + "client.key"};
  etcd_options wrong = options;
  wrong.authority = {};  // the system's
  EXPECT_TRUE(is_refused(wrong, "unable to get local issuer certificate"));
  wrong = options;
  wrong.certificate = wrong.key = {};
  EXPECT_TRUE(is_refused(wrong, "certificate"));
  const auto nodes = open_directory(options);
  ASSERT_TRUE(nodes->announce(record_of(7, {"unix://@one"})));
  ASSERT_TRUE(knows(nodes, 7, {"unix://@one"}));
  etcd.kill();
  ASSERT_TRUE(until({nodes}, [&] { return !nodes->poll(); }));
  etcd.start();
  EXPECT_TRUE(until({nodes}, [&] { return static_cast<bool>(nodes->poll()); }));
}

}  // namespace
}  // namespace atbus::test
