// Sessions that are made with shared secrets.
#include "tls/tls_secret.h"

#include <openssl/bio.h>

#include "test.h"
#include "tls_pair.h"

namespace atbus::test {
namespace {

TEST(TlsSecret, MakesASessionOverASocketPair) {
  const auto context = secret_context({first_secret});
  tls_pair pair{context, context};
  ASSERT_TRUE(pair.shake_hands()) << pair.client->why().text() << pair.server->why().text();
  EXPECT_EQ(pair.client->version(), "TLSv1.3");
  EXPECT_EQ(pair.client->cipher(), pair.server->cipher());
  EXPECT_EQ(pair.client->cipher().substr(0, 4), "TLS_");
  EXPECT_EQ(carry(*pair.client, pair.sockets[0], *pair.server, pair.sockets[1], "there"), "there");
  EXPECT_EQ(carry(*pair.server, pair.sockets[1], *pair.client, pair.sockets[0], "back"), "back");
}

// OpenSSL has 127 indexes for a whole process. Since 3.3 it refuses further ones.
TEST(TlsSecret, ContextsTakeNoIndexOfOpenSslEach) {
  (void)secret_context({first_secret});
  const int before = BIO_get_new_index();
  for (int i = 0; i != 3; ++i)
    (void)secret_context({first_secret});
  EXPECT_EQ(BIO_get_new_index(), before + 1);
}

TEST(TlsSecret, MakesASessionOverTcp) {
  const auto context = secret_context({first_secret});
  tls_pair pair{context, context, {}, socket_pair::over_tcp()};
  for (int turn = 0; turn != 100'000 && !pair.shake_hands(); ++turn)
    std::this_thread::yield();
  ASSERT_TRUE(pair.server->established());
  const std::string text = numbered_text(3'000'000);
  std::string arrived;
  std::size_t sent = 0;
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (arrived.size() != text.size() && std::chrono::steady_clock::now() < end) {
    const ssize_t n =
        write_text(*pair.client, pair.sockets[0], std::string_view{text}.substr(sent));
    sent += n > 0 ? static_cast<std::size_t>(n) : 0;
    arrived += read_text(*pair.server, pair.sockets[1]);
  }
  EXPECT_TRUE(arrived == text);
}

TEST(TlsSecret, TellsBothEndsThatTheirSecretsDiffer) {
  tls_pair pair{secret_context({first_secret}), secret_context({second_secret})};
  EXPECT_FALSE(pair.settle());
  EXPECT_EQ(pair.server->why(), errc::denied);
  EXPECT_EQ(pair.server->why().text(), "the other end's secret is none of this end's");
  EXPECT_EQ(pair.client->why(), errc::denied);
  EXPECT_NE(pair.client->why().text().find("does not know this end's secret"), std::string::npos)
      << pair.client->why().text();
  std::array<std::byte, 8> place{};
  EXPECT_EQ(pair.server->read(pair.sockets[1], place), -1);
  EXPECT_EQ(errno, EPROTO);
  EXPECT_EQ(write_text(*pair.server, pair.sockets[1], "x"), -1);
  EXPECT_EQ(errno, EPROTO);
}

TEST(TlsSecret, IsAcceptedIfItIsAnyOfTheServers) {
  const auto both = secret_context({first_secret, second_secret});
  EXPECT_TRUE((tls_pair{secret_context({second_secret}), both}.shake_hands()));
  EXPECT_TRUE((tls_pair{both, secret_context({first_secret})}.shake_hands()));
  // A client offers only its first.
  EXPECT_FALSE((tls_pair{both, secret_context({second_secret})}.settle()));
}

// Each step of a rotation: add the new secret everywhere, make it the first, remove the old one.
TEST(TlsSecret, CanBeRotatedWithoutAnInterruption) {
  const std::array steps = {
      secret_context({first_secret}), secret_context({first_secret, second_secret}),
      secret_context({second_secret, first_secret}), secret_context({second_secret})};
  for (std::size_t i = 0; i + 1 != steps.size(); ++i) {
    EXPECT_TRUE((tls_pair{steps[i], steps[i + 1]}.shake_hands())) << i;
    EXPECT_TRUE((tls_pair{steps[i + 1], steps[i]}.shake_hands())) << i;
  }
}

TEST(TlsSecret, BecomesAnIdentityAndAKeyThatTellNothingOfIt) {
  detail::tls_secret one;
  detail::tls_secret same;
  detail::tls_secret other;
  ASSERT_TRUE(one.derive(as_bytes(first_secret)) && same.derive(as_bytes(first_secret)) &&
              other.derive(as_bytes(second_secret)));
  EXPECT_EQ(one.identity, same.identity);
  EXPECT_EQ(one.key, same.key);
  EXPECT_NE(one.identity, other.identity);
  EXPECT_NE(one.key, other.key);
  const std::string identity{one.identity.begin(), one.identity.end()};
  // Computed with another library: a change would keep nodes of two versions apart.
  EXPECT_EQ(identity, "209dd03138fec11bce936ecb2699b3fec3799b0b9dfb47f73da64fa65661e070");
  EXPECT_EQ(one.key[0], std::byte{0xe3});
  EXPECT_EQ(one.key[31], std::byte{0xd5});
}

// An identity crosses the network in clear; the key and the secret never do.
TEST(TlsSecret, IsNotInTheBytesOfAHandshake) {
  const auto context = secret_context({first_secret});
  tls_pair pair{context, context};
  ASSERT_FALSE(pair.client->flush(pair.sockets[0]));
  std::string hello(4096, '\0');
  const ssize_t n = ::recv(pair.sockets[1], hello.data(), hello.size(), MSG_PEEK);
  ASSERT_GT(n, 100);
  detail::tls_secret derived;
  ASSERT_TRUE(derived.derive(as_bytes(first_secret)));
  EXPECT_NE(hello.find(std::string{derived.identity.begin(), derived.identity.end()}),
            std::string::npos);
  EXPECT_EQ(hello.find(first_secret), std::string::npos);
  EXPECT_EQ(hello.find(as_text(derived.key)), std::string::npos);
}

TEST(TlsSecret, MustNotBeEmptyOrMissing) {
  EXPECT_EQ(tls_context::from_secrets({}).error(), errc::invalid_argument);
  const bytes_view empty;
  EXPECT_EQ(tls_context::from_secrets({&empty, 1}).error(), errc::invalid_argument);
}

TEST(TlsSecret, OutlivesItsContextInASession) {
  auto context = secret_context({first_secret});
  tls_pair pair{context, context};
  context.reset();
  EXPECT_TRUE(pair.shake_hands());
}

}  // namespace
}  // namespace atbus::test
