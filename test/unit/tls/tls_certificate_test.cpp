// Sessions that are made with certificates, and files that can't be used.
#include "scratch_directory.h"
#include "test.h"
#include "test_certificate.h"
#include "tls/tls_access.h"
#include "tls_pair.h"

namespace atbus::test {
namespace {

using detail::tls_certificate_files;

class TlsCertificate : public testing::Test {
 protected:
  TlsCertificate() { authority_.write(path("ca.pem")); }

  [[nodiscard]] std::string path(const std::string& name) const {
    return directory_.path() + "/" + name;
  }
  // Files of a node with this certificate.
  tls_certificate_files files_of(const std::string& name, const test_certificate& own) {
    own.write(path(name + ".pem"));
    own.write_key(path(name + ".key"));
    return {path(name + ".pem"), path(name + ".key"), path("ca.pem")};
  }
  tls_certificate_files made(const std::string& name, const certificate_wish& wish) {
    return files_of(name, test_certificate{wish, &authority_});
  }
  static context_ptr context(const tls_certificate_files& files) {
    auto opened = tls_context::from_files(files);
    if (!opened)
      throw std::runtime_error(opened.error().text());
    return std::move(opened).value();
  }
  static error refusal(const tls_certificate_files& files) {
    const auto opened = tls_context::from_files(files);
    EXPECT_FALSE(opened);
    return opened.error();
  }
  static bool mentions(const error& why, const std::string& text) {
    return why.text().find(text) != std::string::npos;
  }

  scratch_directory directory_;
  test_certificate authority_{{.common_name = "authority", .is_authority = true}};
};

TEST_F(TlsCertificate, MakesASessionInWhichBothEndsKnowTheOther) {
  const auto one = context(
      made("one", {.common_name = "one", .alternative_names = "DNS:one.example,URI:atbus:1"}));
  const auto two =
      context(made("two", {.common_name = "two", .alternative_names = "DNS:two.example,IP:::1"}));
  tls_pair pair{one, two, "two.example"};
  ASSERT_TRUE(pair.shake_hands()) << pair.client->why().text() << pair.server->why().text();
  EXPECT_EQ(pair.server->peer_names(),
            (std::vector<std::string>{"DNS:one.example", "URI:atbus:1", "CN:one"}));
  EXPECT_EQ(pair.client->peer_names(),
            (std::vector<std::string>{"DNS:two.example", "IP:::1", "CN:two"}));
  EXPECT_EQ(pair.client->peer_expires(), two->expires());
  const auto hour = std::chrono::system_clock::now() + 1h;
  EXPECT_LT(std::chrono::abs(*two->expires() - hour), 1min);
  EXPECT_EQ(carry(*pair.client, pair.sockets[0], *pair.server, pair.sockets[1], "hello"), "hello");
}

TEST_F(TlsCertificate, OfRsaWorksToo) {
  const test_certificate rsa{{.common_name = "rsa"}, &authority_, true};
  const auto both = context(files_of("rsa", rsa));
  EXPECT_TRUE((tls_pair{both, both}.shake_hands()));
}

TEST_F(TlsCertificate, MustHaveTheNameThatTheClientExpects) {
  const auto both = context(made("node", {.alternative_names = "DNS:node.example,IP:127.0.0.1"}));
  EXPECT_TRUE((tls_pair{both, both, "node.example"}.shake_hands()));
  EXPECT_TRUE((tls_pair{both, both, "127.0.0.1"}.shake_hands()));
  for (const std::string host : {"other.example", "example", "127.0.0.2", "::1"}) {
    tls_pair pair{both, both, host};
    EXPECT_FALSE(pair.settle()) << host;
    EXPECT_EQ(pair.client->why(), errc::denied);
    EXPECT_TRUE(mentions(pair.client->why(), "mismatch")) << pair.client->why().text();
    EXPECT_EQ(pair.server->why(), errc::denied) << pair.server->why().text();
  }
}

// Certificates name hosts without the dot that keeps a resolver from completing a name.
TEST_F(TlsCertificate, IsExpectedWithoutTheFinalDotOfAnAddress) {
  const auto files = made("node", {.alternative_names = "DNS:node.example"});
  const auto credentials = tls_credentials::from_files(
      {.chain = files.chain, .key = files.key, .authority = files.authority});
  ASSERT_TRUE(credentials) << credentials.error().text();
  const auto where = address::parse("dns://node.example.:4711");
  ASSERT_TRUE(where) << where.error().text();
  const auto sessions = detail::tls_sessions::make(*where, *credentials, tls_role::client);
  ASSERT_TRUE(sessions) << sessions.error().text();
  const auto both = context(files);
  tls_pair pair{both, both};
  auto client = sessions->begin(buffers_of(both));
  ASSERT_TRUE(client) << client.error().text();
  pair.client = std::move(*client);
  EXPECT_TRUE(pair.shake_hands()) << pair.client->why().text();
}

TEST_F(TlsCertificate, OfAForeignAuthorityIsRefused) {
  const test_certificate foreign_ca{{.common_name = "foreign", .is_authority = true}};
  const auto foreign =
      context(files_of("foreign", test_certificate{{.common_name = "foreign"}, &foreign_ca}));
  const auto own = context(made("node", {}));
  tls_pair as_server{own, foreign};
  EXPECT_FALSE(as_server.settle());
  EXPECT_EQ(as_server.client->why(), errc::denied);
  EXPECT_TRUE(mentions(as_server.client->why(), "certificate of the other end is refused"));
  EXPECT_TRUE(mentions(as_server.server->why(), "alert")) << as_server.server->why().text();
  // The foreign client trusts the own CA, so only the server can refuse.
  tls_pair as_client{foreign, own};
  EXPECT_FALSE(as_client.settle());
  EXPECT_EQ(as_client.server->why(), errc::denied);
  EXPECT_TRUE(as_client.server->peer_names().empty());
}

TEST_F(TlsCertificate, ThatExpiresWhileTheProcessRunsIsRefused) {
  // The context is made while the certificate is valid; the peer looks at it afterwards.
  const auto brief = context(made("brief", {.ends_s = 2}));
  const auto own = context(made("node", {}));
  EXPECT_TRUE((tls_pair{own, brief}.shake_hands()));
  const auto end = *brief->expires() + 1s;
  std::this_thread::sleep_until(end);
  tls_pair pair{own, brief};
  EXPECT_FALSE(pair.settle());
  EXPECT_TRUE(mentions(pair.client->why(), "expired")) << pair.client->why().text();
}

TEST_F(TlsCertificate, IsNotAskedOfAClientIfNoneIsRequired) {
  auto lenient_files = made("server", {});
  lenient_files.require_peer_certificate = false;
  tls_certificate_files anonymous;
  anonymous.authority = path("ca.pem");
  const auto client = context(anonymous);
  EXPECT_FALSE(client->can_accept());
  EXPECT_FALSE(client->expires());
  EXPECT_EQ(tls_socket::make(client, buffers_of(client), tls_role::server).error(),
            errc::invalid_argument);
  tls_pair lenient{client, context(lenient_files)};
  ASSERT_TRUE(lenient.shake_hands());
  EXPECT_TRUE(lenient.server->peer_names().empty());
  EXPECT_FALSE(lenient.server->peer_expires());

  tls_pair strict{client, context(made("strict", {}))};
  EXPECT_FALSE(strict.settle());
  EXPECT_EQ(strict.server->why().text(),
            "the other end has no certificate, and this end asks for one");
  EXPECT_EQ(strict.client->why().text(),
            "the other end asks for a certificate, and this end has none");
}

TEST_F(TlsCertificate, DoesNotReplaceASecretAndASecretNotACertificate) {
  const auto certified = context(made("node", {}));
  const auto secret = secret_context({first_secret});
  tls_pair one{secret, certified};
  EXPECT_FALSE(one.settle());
  EXPECT_EQ(one.client->why(), errc::denied);
  EXPECT_FALSE(one.client->established());
  tls_pair other{certified, secret};
  EXPECT_FALSE(other.settle());
  EXPECT_EQ(other.server->why().text(), "the other end offers no secret; this end expects one");
}

TEST_F(TlsCertificate, OfAHugeChainIsRefused) {
  // A certificate of 30 kB is within the limit, a chain of 90 kB is not.
  const auto own = context(made("node", {}));
  auto big = made("big", {.padding = 30'000});
  EXPECT_TRUE((tls_pair{own, context(big)}.shake_hands()));
  for (int i = 0; i != 2; ++i)
    test_certificate{{.is_authority = true, .padding = 30'000}}.write(big.chain, true);
  tls_pair pair{own, context(big)};
  EXPECT_FALSE(pair.settle());
  EXPECT_EQ(pair.client->why(), errc::protocol_error);
  EXPECT_EQ(pair.client->why().text(), "the certificates of the other end are too long together");

  for (int i = 0; i != 14; ++i)
    test_certificate{{}}.write(big.chain, true);
  EXPECT_TRUE(mentions(refusal(big), "at most 16")) << refusal(big).text();
}

TEST_F(TlsCertificate, FilesAreNamedWithWhatIsWrong) {
  const auto good = made("good", {});
  auto files = good;
  files.chain = path("missing.pem");
  EXPECT_EQ(refusal(files), errc::not_found);
  EXPECT_EQ(refusal(files).system_code(), ENOENT);
  EXPECT_TRUE(mentions(refusal(files), "missing.pem"));

  const auto old = made("old", {.begins_s = -7200, .ends_s = -3600});
  EXPECT_EQ(refusal(old), errc::invalid_argument);
  EXPECT_TRUE(mentions(refusal(old), "old.pem") && mentions(refusal(old), "expired at 20"))
      << refusal(old).text();
  const auto early = made("early", {.begins_s = 3600, .ends_s = 7200});
  EXPECT_TRUE(mentions(refusal(early), "early.pem") && mentions(refusal(early), "not valid before"))
      << refusal(early).text();

  files = good;
  files.key = made("other", {}).key;
  EXPECT_TRUE(mentions(refusal(files), "other.key") && mentions(refusal(files), "does not belong"))
      << refusal(files).text();
  files.key = good.chain;
  EXPECT_TRUE(mentions(refusal(files), "holds no private key")) << refusal(files).text();
  files.key = directory_.path();
  EXPECT_EQ(refusal(files), errc::system_error);
  EXPECT_EQ(refusal(files).system_code(), EISDIR);
  test_certificate{{}}.write_key(path("locked.key"), "password");
  files.key = path("locked.key");
  EXPECT_TRUE(mentions(refusal(files), "protected by a password")) << refusal(files).text();

  files = good;
  files.authority = good.key;
  EXPECT_TRUE(mentions(refusal(files), "holds no certificate")) << refusal(files).text();
  const std::string damaged = path("damaged.pem");
  std::FILE* const to = std::fopen(damaged.c_str(), "w");
  std::fputs("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", to);
  std::fclose(to);
  files.authority = damaged;
  EXPECT_TRUE(mentions(refusal(files), "certificate 1 is damaged")) << refusal(files).text();
  files.authority.clear();
  EXPECT_TRUE(mentions(refusal(files), "without a file of trusted CAs"));
  files = good;
  files.key.clear();
  EXPECT_TRUE(mentions(refusal(files), "no file with its key"));
  files = good;
  files.verify_peer = false;
  EXPECT_EQ(refusal(files), errc::invalid_argument);
}

}  // namespace
}  // namespace atbus::test
