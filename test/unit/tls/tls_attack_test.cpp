// Peers that are not atbus, bytes that were changed on the way, and no memory.
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "core/text.h"
#include "counting_allocator.h"
#include "dice.h"
#include "system/kernel.h"
#include "test.h"
#include "tls/tls_handle.h"
#include "tls/tls_secret.h"
#include "tls_pair.h"

namespace atbus::test {
namespace {

using ssl_handle = std::unique_ptr<SSL, detail::openssl_free<SSL_free>>;
using ssl_context_handle = std::unique_ptr<SSL_CTX, detail::openssl_free<SSL_CTX_free>>;

// A session that OpenSSL drives itself. It asks the kernel directly.
ssl_handle plain_session(SSL_CTX& context, int fd, bool client) {
  ssl_handle made{SSL_new(&context)};
  SSL_set_fd(made.get(), fd);
  if (client)
    SSL_set_connect_state(made.get());
  else
    SSL_set_accept_state(made.get());
  return made;
}

// The first error of the session that OpenSSL drives.
int reason_of_plain = 0;

// Drives both and reads at the end, so that alerts are seen.
bool shake_hands(SSL& plain, tls_socket& own, int own_fd) {
  std::array<std::byte, 16> place{};
  reason_of_plain = 0;
  for (int turn = 0; turn != 20; ++turn) {
    ERR_clear_error();
    (void)SSL_do_handshake(&plain);
    if (reason_of_plain == 0)
      reason_of_plain = ERR_GET_REASON(ERR_get_error());
    bring_on(own, own_fd);
  }
  const bool done = own.established() && SSL_is_init_finished(&plain) == 1;
  if (!own.established()) {
    EXPECT_EQ(own.read(own_fd, place), -1);
  }
  ERR_clear_error();
  return done;
}

struct attacked_server {
  explicit attacked_server(SSL_CTX& attacker)
      : server{make_socket(secret_context({first_secret}), tls_role::server)},
        client{plain_session(attacker, sockets[0], true)} {}

  bool shake_hands() { return test::shake_hands(*client, *server, sockets[1]); }
  ssize_t read() { return server->read(sockets[1], place); }

  socket_pair sockets;
  socket_ptr server;
  ssl_handle client;
  std::array<std::byte, 1000> place{};
};

TEST(TlsAttack, ByAClientOfAnOlderVersionIsRefused) {
  const ssl_context_handle old{SSL_CTX_new(TLS_client_method())};
  SSL_CTX_set_max_proto_version(old.get(), TLS1_2_VERSION);
  attacked_server attacked{*old};
  EXPECT_FALSE(attacked.shake_hands());
  EXPECT_EQ(attacked.server->why(), errc::protocol_error);
  EXPECT_EQ(attacked.server->why().text(),
            "the other end does not speak TLS 1.3; does its address ask for TLS?");
  EXPECT_EQ(reason_of_plain, SSL_R_TLSV1_ALERT_PROTOCOL_VERSION);  // it is told so
}

TEST(TlsAttack, ByAnEndInsideTheHandshakeIsCalledThat) {
  const auto context = secret_context({"a secret of this test"});
  tls_pair pair{context, context};
  (void)pair.client->flush(pair.sockets[0]);
  constexpr std::array<unsigned char, 7> close_notify{0x15, 0x03, 0x03, 0, 2, 1, 0};
  ASSERT_EQ(::send(pair.sockets[1], close_notify.data(), close_notify.size(), 0),
            static_cast<ssize_t>(close_notify.size()));
  std::array<std::byte, 64> place{};
  EXPECT_EQ(pair.client->read(pair.sockets[0], place), -1);
  EXPECT_EQ(errno, EPROTO);
  EXPECT_EQ(pair.client->why(), errc::peer_closed);
}

// As `openssl s_client` does.
TEST(TlsAttack, ByAClientWithoutASecretIsRefused) {
  const ssl_context_handle plain{SSL_CTX_new(TLS_client_method())};
  attacked_server attacked{*plain};
  EXPECT_FALSE(attacked.shake_hands());
  EXPECT_EQ(attacked.server->why(), errc::denied);
  EXPECT_EQ(attacked.server->why().text(), "the other end offers no secret; this end expects one");
}

TEST(TlsAttack, OnForwardSecrecyIsRefused) {
  const auto context = secret_context({first_secret});
  SSL_CTX_set_options(&context->get(), SSL_OP_ALLOW_NO_DHE_KEX);
  SSL_CTX_set1_groups_list(&context->get(), "P-384");
  attacked_server attacked{context->get()};
  EXPECT_FALSE(attacked.shake_hands());
  EXPECT_FALSE(attacked.server->established());
  EXPECT_EQ(attacked.server->why(), errc::protocol_error) << attacked.server->why().text();
}

// What a client offers instead of what its context holds. The identity is always that of the first secret.
bool offers_right_key = false;
std::uint32_t offers_early_data = 0;

int offer_psk(SSL* ssl, const EVP_MD* /*hash*/, const unsigned char** identity, std::size_t* size,
              SSL_SESSION** used) {
  static detail::tls_secret derived;
  if (!derived.derive(as_bytes(first_secret)))
    return 0;
  const std::array<unsigned char, 32> wrong{};
  const std::array<unsigned char, 2> suite = {0x13, 0x01};
  const std::string_view context = "atbus";
  *used = SSL_SESSION_new();
  SSL_SESSION_set1_master_key(
      *used,
      offers_right_key ? reinterpret_cast<const unsigned char*>(derived.key.data()) : wrong.data(),
      wrong.size());
  SSL_SESSION_set_cipher(*used, SSL_CIPHER_find(ssl, suite.data()));
  SSL_SESSION_set_protocol_version(*used, TLS1_3_VERSION);
  SSL_SESSION_set_max_early_data(*used, offers_early_data);
  SSL_SESSION_set1_id_context(*used, reinterpret_cast<const unsigned char*>(context.data()),
                              static_cast<unsigned>(context.size()));
  *identity = reinterpret_cast<const unsigned char*>(derived.identity.data());
  *size = derived.identity.size();
  return 1;
}

TEST(TlsAttack, ByAKnownIdentityWithAnotherKeyIsRefused) {
  const ssl_context_handle attacker{SSL_CTX_new(TLS_client_method())};
  SSL_CTX_set_psk_use_session_callback(attacker.get(), offer_psk);
  SSL_CTX_set_session_id_context(attacker.get(), reinterpret_cast<const unsigned char*>("atbus"),
                                 5);
  offers_early_data = 0;
  offers_right_key = true;
  EXPECT_TRUE(attacked_server{*attacker}.shake_hands());
  offers_right_key = false;
  attacked_server attacked{*attacker};
  EXPECT_FALSE(attacked.shake_hands());
  EXPECT_EQ(attacked.server->why(), errc::denied);
  EXPECT_EQ(attacked.server->why().text(), "the other end names a secret that it does not have");
}

TEST(TlsAttack, WithEarlyDataReachesNobody) {
  const ssl_context_handle attacker{SSL_CTX_new(TLS_client_method())};
  SSL_CTX_set_psk_use_session_callback(attacker.get(), offer_psk);
  SSL_CTX_set_session_id_context(attacker.get(), reinterpret_cast<const unsigned char*>("atbus"),
                                 5);
  offers_early_data = 1000;
  offers_right_key = true;
  attacked_server attacked{*attacker};
  std::size_t written = 0;
  ASSERT_EQ(SSL_write_early_data(attacked.client.get(), "early", 5, &written), 1);
  (void)attacked.shake_hands();
  EXPECT_NE(SSL_get_early_data_status(attacked.client.get()), SSL_EARLY_DATA_ACCEPTED);
  EXPECT_EQ(attacked.read(), -1);
}

TEST(TlsAttack, WithKeyUpdatesWithoutDataEndsTheSession) {
  const auto context = secret_context({first_secret});
  attacked_server attacked{context->get()};
  ASSERT_TRUE(attacked.shake_hands());
  const auto update = [&](int times) {
    for (int i = 0; i != times; ++i) {
      ASSERT_EQ(SSL_key_update(attacked.client.get(), SSL_KEY_UPDATE_REQUESTED), 1);
      ASSERT_EQ(SSL_do_handshake(attacked.client.get()), 1);
    }
  };
  update(60);
  EXPECT_EQ(attacked.read(), -1);
  EXPECT_EQ(errno, EAGAIN);
  ASSERT_EQ(SSL_write(attacked.client.get(), "data", 4), 4);
  EXPECT_EQ(attacked.read(), 4);
  update(60);
  EXPECT_EQ(attacked.read(), -1);
  EXPECT_EQ(errno, EAGAIN);
  update(10);
  EXPECT_EQ(attacked.read(), -1);
  EXPECT_EQ(errno, EPROTO);
  EXPECT_NE(attacked.server->why().text().find("again and again"), std::string::npos);
}

// All at once: they would be handled in one call of OpenSSL.
TEST(TlsAttack, WithThousandsOfKeyUpdatesCostsLittle) {
  const auto context = secret_context({first_secret});
  attacked_server attacked{context->get()};
  ASSERT_TRUE(attacked.shake_hands());
  int queued = 0;
  while (queued < 2000 && SSL_key_update(attacked.client.get(), SSL_KEY_UPDATE_REQUESTED) == 1 &&
         SSL_do_handshake(attacked.client.get()) == 1)
    ++queued;
  ASSERT_GT(queued, 100);
  EXPECT_EQ(attacked.read(), -1);
  EXPECT_EQ(errno, EPROTO);
  EXPECT_LE(attacked.server->pending(), 100U * 30U);
  EXPECT_NE(attacked.server->why().text().find("again and again"), std::string::npos);
}

// Each is followed by data, so that there are never many in a row.
void update_and_write(SSL& client) {
  ASSERT_EQ(SSL_key_update(&client, SSL_KEY_UPDATE_REQUESTED), 1);
  ASSERT_EQ(SSL_do_handshake(&client), 1);
  ASSERT_EQ(SSL_write(&client, "x", 1), 1);
}

TEST(TlsAttack, WithKeyUpdatesWhoseAnswersAreNotReadEndsTheSession) {
  const auto context = secret_context({first_secret});
  attacked_server attacked{context->get()};
  ASSERT_TRUE(attacked.shake_hands());
  ssize_t n = 1;
  int code = 0;
  // As long as nothing is left unread: with the socket and the output buffer full, that would never change.
  for (int i = 0; i != 100'000 && n == 1; ++i) {
    ASSERT_NO_FATAL_FAILURE(update_and_write(*attacked.client));
    n = attacked.read();
    code = errno;
  }
  EXPECT_EQ(n, -1);
  EXPECT_EQ(code, EPROTO);
  EXPECT_EQ(attacked.server->why(), errc::protocol_error);
  EXPECT_EQ(attacked.server->why().text(), "the other end renews its keys and reads no answer");
  EXPECT_EQ(attacked.server->pending(), 0U);
}

// The data of this end leaves little room for them.
TEST(TlsAttack, WithKeyUpdatesBehindDataThatIsNotReadEndsTheSession) {
  const auto context = secret_context({first_secret});
  attacked_server attacked{context->get()};
  ASSERT_TRUE(attacked.shake_hands());
  const std::string data(1'000'000, 'd');
  while (attacked.server->pending() == 0)
    ASSERT_GT(write_text(*attacked.server, attacked.sockets[1], data), 0);
  ssize_t n = 1;
  int updates = 0;
  for (; updates != 1000 && n == 1; ++updates) {
    ASSERT_NO_FATAL_FAILURE(update_and_write(*attacked.client));
    n = attacked.read();
  }
  EXPECT_EQ(n, -1);
  EXPECT_EQ(attacked.server->why().text(), "the other end renews its keys and reads no answer");
  EXPECT_GT(updates, 64);
}

TEST(TlsAttack, WithKeyUpdatesWhoseAnswersAreReadGoesOn) {
  const auto context = secret_context({first_secret});
  attacked_server attacked{context->get()};
  ASSERT_TRUE(attacked.shake_hands());
  char place = 0;
  for (int i = 0; i != 6'000; ++i) {
    ASSERT_NO_FATAL_FAILURE(update_and_write(*attacked.client));
    ASSERT_EQ(attacked.read(), 1) << i << attacked.server->why().text();
    ASSERT_EQ(SSL_read(attacked.client.get(), &place, 1), -1);
  }
  EXPECT_EQ(attacked.server->pending(), 0U);
}

// Each allocation of a read fails once. A read that brings nothing says why, and one that brings data may not be the
// last: no bytes may wait for the other end to say more.
void answer_without_memory(const std::function<void(SSL&)>& speak) {
  const auto context = secret_context({first_secret});
  int starved = 0;
  for (std::uint64_t good = 0;; ++good) {
    detail::tls_buffers buffers;
    attacked_server attacked{context->get()};
    attacked.server = *tls_socket::make(secret_context({first_secret}), buffers, tls_role::server);
    ASSERT_TRUE(attacked.shake_hands());
    std::vector<detail::tls_output> spares;
    for (int i = 0; i != 4; ++i)
      spares.push_back(buffers.take());
    ASSERT_NO_FATAL_FAILURE(speak(*attacked.client));
    ssize_t n = 0;
    int code = 0;
    bool failed = false;
    {
      const allocation_failure scarce{good, 1};
      n = attacked.read();
      code = errno;
      failed = allocation_failure::happened();
    }
    if (!failed)
      break;
    if (!attacked.server->why())
      continue;  // OpenSSL ends a session without memory of its own
    EXPECT_TRUE(n > 0 || code == ENOMEM) << good << ": " << std::strerror(code);
    starved += attacked.server->starved() ? 1 : 0;
    ssize_t read = std::max<ssize_t>(n, 0);
    EXPECT_TRUE(attacked.server->starved() || read == 3) << good << ", " << read;
    while ((n = attacked.read()) > 0)
      read += n;
    EXPECT_EQ(read, 3) << good;
    EXPECT_FALSE(attacked.server->starved());
  }
  EXPECT_GT(starved, 0);
}

TEST(TlsAttack, WithKeyUpdatesIsAnsweredOnceThereIsMemory) {
  if (!can_fail_allocations())
    GTEST_SKIP() << "allocations can't be made to fail in this build";
  answer_without_memory([](SSL& client) {
    for (int i = 0; i != 3; ++i)
      ASSERT_NO_FATAL_FAILURE(update_and_write(client));
  });
  answer_without_memory([](SSL& client) {
    for (int i = 0; i != 3; ++i) {
      ASSERT_EQ(SSL_key_update(&client, SSL_KEY_UPDATE_REQUESTED), 1);
      ASSERT_EQ(SSL_do_handshake(&client), 1);
    }
    ASSERT_EQ(SSL_write(&client, "xxx", 3), 3);
  });
}

TEST(TlsAttack, WithATicketAfterTheHandshakeEndsTheSession) {
  const auto context = secret_context({first_secret});
  const socket_pair sockets;
  const auto client = make_socket(context, tls_role::client);
  const auto server = plain_session(context->get(), sockets[1], false);
  ASSERT_TRUE(shake_hands(*server, *client, sockets[0]));
  ASSERT_EQ(SSL_new_session_ticket(server.get()), 1);
  ASSERT_EQ(SSL_write(server.get(), "data", 4), 4);
  std::array<std::byte, 16> place{};
  EXPECT_EQ(client->read(sockets[0], place), -1);
  EXPECT_EQ(errno, EPROTO);
  EXPECT_EQ(client->why().text(), "the other end has sent a handshake message after the handshake");
}

TEST(TlsAttack, WithPlainTextIsAnErrorThatSaysSo) {
  std::array<std::byte, 16> place{};
  const auto context = secret_context({first_secret});
  for (const std::string& text :
       {std::string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
        std::string{"plain bytes that are no TLS record at all"}, std::string(100, '\0')}) {
    for (const tls_role role : {tls_role::server, tls_role::client}) {
      const socket_pair sockets;
      const auto own = make_socket(context, role);
      bring_on(*own, sockets[0]);
      ASSERT_GT(::send(sockets[1], text.data(), text.size(), 0), 0);
      EXPECT_EQ(own->read(sockets[0], place), -1) << text;
      EXPECT_EQ(errno, EPROTO) << text;
      EXPECT_EQ(own->why(), errc::protocol_error);
      EXPECT_NE(own->why().text().find("does not speak TLS 1.3"), std::string::npos)
          << text << own->why().text();
      EXPECT_EQ(own->pending(), 0U);
    }
  }
}

TEST(TlsAttack, WithAnEndlessHandshakeIsCutOff) {
  const socket_pair sockets;
  const auto server = make_socket(secret_context({first_secret}), tls_role::server);
  // A record of 16 KiB, the first of which begins a ClientHello of 128 KiB.
  std::string record =
      std::string{"\x16\x03\x01\x40\x00\x01\x02\x00\x00", 9} + std::string(16384 - 4, 'x');
  std::array<std::byte, 16> place{};
  ssize_t n = 0;
  std::size_t sent = 0;
  do {
    ASSERT_GT(::send(sockets[0], record.data(), record.size(), 0), 0);
    sent += record.size();
    n = server->read(sockets[1], place);
    record = std::string{"\x16\x03\x01\x40\x00", 5} + std::string(16384, 'x');
  } while (n == -1 && errno == EAGAIN && sent < 200'000);
  EXPECT_EQ(errno, EPROTO);
  EXPECT_LT(sent, 80'000U);
  EXPECT_EQ(server->why().text(), "the other end's handshake is too long");
}

// All that has arrived at `from` goes to `to`, one bit of it flipped. Returns how much that was.
std::size_t pass_on(int from, int to, std::int64_t flipped_bit = -1) {
  std::string bytes(200'000, '\0');
  const ssize_t n = ::recv(from, bytes.data(), bytes.size(), 0);
  if (n <= 0)
    return 0;
  bytes.resize(static_cast<std::size_t>(n));
  const auto at = static_cast<std::size_t>(flipped_bit);
  if (flipped_bit >= 0 && at / 8 < bytes.size())
    bytes[at / 8] = static_cast<char>(bytes[at / 8] ^ (1 << (at % 8)));
  EXPECT_EQ(::send(to, bytes.data(), bytes.size(), 0), n);
  return bytes.size();
}

// The client's sockets, and those of the server, with somebody between them.
struct relayed_pair {
  socket_pair near;
  socket_pair far;
  context_ptr context = secret_context({first_secret});
  socket_ptr client = make_socket(context, tls_role::client);
  socket_ptr server = make_socket(context, tls_role::server);

  // `bit` of flight 0 to 2 is flipped.
  void shake_hands(int flight = -1, std::int64_t bit = -1) {
    bring_on(*client, near[0]);
    pass_on(near[1], far[0], flight == 0 ? bit : -1);
    bring_on(*server, far[1]);
    pass_on(far[0], near[1], flight == 1 ? bit : -1);
    bring_on(*client, near[0]);
    pass_on(near[1], far[0], flight == 2 ? bit : -1);
    bring_on(*server, far[1]);
  }
};

TEST(TlsAttack, ByAFlippedBitNeverGivesOtherBytes) {
  dice seeded{1};
  const std::string text = numbered_text(50'000);
  for (int i = 0; i != 300; ++i) {
    relayed_pair pair;
    pair.shake_hands();
    ASSERT_TRUE(pair.server->established());
    ASSERT_EQ(write_text(*pair.client, pair.near[0], text), 50'000);
    const auto bit = static_cast<std::int64_t>(seeded.below((50'000 + 4 * 22) * 8));
    pass_on(pair.near[1], pair.far[0], bit);
    pair.far.close(0);
    std::string arrived;
    std::array<std::byte, 20'000> place{};
    ssize_t n = 0;
    while ((n = pair.server->read(pair.far[1], place)) > 0)
      arrived += as_text(bytes_view{place}.first(static_cast<std::size_t>(n)));
    const int code = errno;
    ASSERT_LT(arrived.size(), text.size()) << bit;
    ASSERT_TRUE(text.starts_with(arrived)) << bit;
    // A length that has grown waits for bytes that never come.
    ASSERT_TRUE((n == -1 && code == EPROTO && !pair.server->why()) ||
                (n == 0 && pair.server->truncated()))
        << bit;
  }
}

TEST(TlsAttack, ByAFlippedBitInTheHandshakeMakesNoSession) {
  dice seeded{2};
  for (int i = 0; i != 300; ++i) {
    const int flight = static_cast<int>(seeded.below(3));
    // The shortest flight is a record with a Finished. Bytes 1 and 2 of a record in clear are a version that
    // nobody looks at.
    const auto byte = static_cast<std::int64_t>(seeded.below(flight == 2 ? 58 : 180));
    if (flight != 2 && (byte == 1 || byte == 2))
      continue;
    relayed_pair pair;
    pair.shake_hands(flight, byte * 8 + static_cast<std::int64_t>(seeded.below(8)));
    EXPECT_FALSE(pair.server->established()) << flight << ' ' << byte;
    EXPECT_EQ(pair.client->established(), flight == 2) << flight << ' ' << byte;
  }
}

// Every allocation of making a session, of its handshake and of a message fails once.
TEST(TlsAttack, ByLackOfMemoryIsAnErrorAndNotTheEndOfTheProcess) {
  if (!can_fail_allocations())
    GTEST_SKIP() << "allocations can't be made to fail in this build";
  const auto context = secret_context({first_secret});
  (void)tls_pair{context, context}.shake_hands();
  detail::tls_buffers& buffers = buffers_of(context);
  std::array<std::byte, 64> place{};
  std::uint64_t good = 0;
  int carried = 0;
  for (bool failed = true; failed; ++good) {
    const socket_pair sockets;
    std::array<socket_ptr, 2> ends;
    error why;
    std::array<std::ptrdiff_t, 2> results{};
    std::array<int, 2> codes{};
    {
      const allocation_failure scarce{good};
      for (std::size_t i = 0; i != 2; ++i) {
        auto made =
            tls_socket::make(context, buffers, i == 0 ? tls_role::client : tls_role::server);
        if (made)
          ends[i] = std::move(made).value();
        else
          why = made.error();
      }
      if (why) {
        const iovec hello = part("hello");
        for (int turn = 0; turn != 4; ++turn) {
          bring_on(*ends[0], sockets[0]);
          bring_on(*ends[1], sockets[1]);
        }
        results[0] = ends[0]->write(sockets[0], {&hello, 1});
        codes[0] = errno;
        results[1] = ends[1]->read(sockets[1], place);
        codes[1] = errno;
      }
      failed = allocation_failure::happened();
    }
    if (!why) {
      EXPECT_EQ(why, errc::out_of_memory) << good << why.text();
      continue;
    }
    if (results[0] == 5 && results[1] == 5) {
      ++carried;
      continue;
    }
    for (std::size_t i = 0; i != 2; ++i) {
      EXPECT_TRUE(results[i] == 5 || results[i] == -1) << good;
      if (results[i] == -1) {
        EXPECT_TRUE(codes[i] == ENOMEM || codes[i] == EPROTO || codes[i] == EAGAIN) << codes[i];
      }
    }
    // One of the two says why. Its peer knows only an alert, or nothing.
    const bool told = ends[0]->why() == errc::out_of_memory ||
                      ends[1]->why() == errc::out_of_memory || codes[0] == ENOMEM ||
                      codes[1] == ENOMEM;
    EXPECT_TRUE(told) << good << ": " << ends[0]->why().text() << " / " << ends[1]->why().text();
  }
  EXPECT_GT(good, 100U);
  EXPECT_GT(carried, 0);
}

}  // namespace
}  // namespace atbus::test
