// Plaintext through a session: sizes, small steps, ends, and the system calls that carry it.
#include <sys/ioctl.h>

#include "counting_allocator.h"
#include "system/kernel.h"
#include "test.h"
#include "tls_pair.h"

namespace atbus::test {
namespace {

struct TlsStream : testing::Test {
  TlsStream() { EXPECT_TRUE(pair.shake_hands()); }
  ~TlsStream() override { detail::kernel() = before; }

  std::string to_server(std::string_view text, std::size_t place_size = 100'000) {
    return carry(*pair.client, pair.sockets[0], *pair.server, pair.sockets[1], text, place_size);
  }

  detail::kernel_calls before = detail::kernel();
  context_ptr context = secret_context({first_secret});
  tls_pair pair{context, context};
};

// Calls of the kernel, and how many bytes each may carry.
int sends = 0;
int receives = 0;
std::size_t most_bytes = 0;

ssize_t counted_send(int fd, const void* data, std::size_t size, int flags) {
  ++sends;
  return ::send(fd, data, std::min(size, most_bytes), flags);
}
ssize_t counted_recv(int fd, void* data, std::size_t size, int flags) {
  ++receives;
  return ::recv(fd, data, std::min(size, most_bytes), flags);
}

void count_calls(std::size_t most = std::size_t(-1)) {
  sends = receives = 0;
  most_bytes = most;
  detail::kernel().send = counted_send;
  detail::kernel().recv = counted_recv;
}

TEST_F(TlsStream, CarriesEverySizeAroundARecord) {
  for (const std::size_t size : {1UL, 2UL, 255UL, 256UL, 16383UL, 16384UL, 16385UL, 32767UL,
                                 32768UL, 32769UL, 131071UL, 131072UL, 131073UL, 1'000'003UL}) {
    const std::string text = numbered_text(size);
    EXPECT_TRUE(to_server(text) == text) << size;
    EXPECT_TRUE(to_server(text, 16384) == text) << size;
  }
}

TEST_F(TlsStream, CarriesOneByteAtATimeBothWays) {
  count_calls(1);
  tls_pair slow{context, context};
  for (int turn = 0; turn != 2000 && !slow.shake_hands(); ++turn) {
  }
  ASSERT_TRUE(slow.server->established() && slow.client->established());
  const std::string text = numbered_text(300);
  EXPECT_TRUE(carry(*slow.client, slow.sockets[0], *slow.server, slow.sockets[1], text, 1) == text);
  EXPECT_TRUE(carry(*slow.server, slow.sockets[1], *slow.client, slow.sockets[0], text, 1) == text);
}

TEST_F(TlsStream, GathersPiecesIntoFullRecords) {
  const std::string text = numbered_text(40'000);
  std::vector<iovec> parts;
  for (std::size_t at = 0; at != text.size(); at += 10)
    parts.push_back(part(std::string_view{text}.substr(at, 10)));
  parts.insert(parts.begin() + 7, part({}));
  count_calls();
  EXPECT_EQ(pair.client->write(pair.sockets[0], parts), 40'000);
  EXPECT_EQ(sends, 1);
  int waiting = 0;
  std::string wire(60'000, '\0');
  waiting = static_cast<int>(::recv(pair.sockets[1], wire.data(), wire.size(), MSG_PEEK));
  EXPECT_EQ(waiting, 40'000 + 3 * 22);  // three records
  EXPECT_TRUE(read_text(*pair.server, pair.sockets[1]) == text);
}

TEST_F(TlsStream, KeepsCiphertextThatTheKernelDoesNotTake) {
  const std::string text = numbered_text(3'000'000);
  const ssize_t first = write_text(*pair.client, pair.sockets[0], text);
  ASSERT_GT(first, 0);
  ASSERT_LT(first, 3'000'000);
  EXPECT_GT(pair.client->pending(), 0U);
  EXPECT_LE(pair.client->pending(), detail::tls_output_size);
  EXPECT_TRUE(pair.client->wants_write());
  EXPECT_EQ(write_text(*pair.client, pair.sockets[0], text), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_FALSE(pair.client->flush(pair.sockets[0]));
  std::string arrived = read_text(*pair.server, pair.sockets[1]);
  while (!pair.client->flush(pair.sockets[0]))
    arrived += read_text(*pair.server, pair.sockets[1]);
  EXPECT_FALSE(pair.client->wants_write());
  arrived += read_text(*pair.server, pair.sockets[1]);
  EXPECT_TRUE(arrived == text.substr(0, static_cast<std::size_t>(first)));
}

TEST_F(TlsStream, ReadsManyRecordsWithOneCallOfTheKernel) {
  const std::string text = numbered_text(40'000);
  ASSERT_EQ(write_text(*pair.client, pair.sockets[0], text), 40'000);
  count_calls();
  std::vector<std::byte> place(100'000);
  EXPECT_EQ(pair.server->read(pair.sockets[1], place), 40'000);
  EXPECT_EQ(receives, 1);
  EXPECT_FALSE(pair.server->holds_unread());
}

// Else records would wait in the session while the kernel has none to tell of.
TEST_F(TlsStream, OnlyReadTakesBytesFromTheSocket) {
  tls_pair fresh{context, context};
  std::array<std::byte, 64> place{};
  const auto unread = [&fresh] {
    int bytes = 0;
    EXPECT_EQ(::ioctl(fresh.sockets[1], FIONREAD, &bytes), 0);
    return bytes;
  };
  (void)fresh.client->flush(fresh.sockets[0]);
  EXPECT_LT(fresh.server->read(fresh.sockets[1], place), 0);
  EXPECT_LT(fresh.client->read(fresh.sockets[0], place), 0);
  ASSERT_TRUE(fresh.client->established());
  EXPECT_EQ(write_text(*fresh.client, fresh.sockets[0], "hello"), 5);
  const int waiting = unread();
  EXPECT_GT(waiting, 0);
  EXPECT_FALSE(fresh.server->flush(fresh.sockets[1]));
  EXPECT_LT(write_text(*fresh.server, fresh.sockets[1], "x"), 0);
  EXPECT_EQ(unread(), waiting);
  EXPECT_EQ(fresh.server->read(fresh.sockets[1], place), 5);
  EXPECT_TRUE(fresh.server->established());
}

TEST_F(TlsStream, TellsOfRecordsThatNoEventAnnounces) {
  ASSERT_EQ(write_text(*pair.client, pair.sockets[0], "one"), 3);
  ASSERT_EQ(write_text(*pair.client, pair.sockets[0], "two"), 3);
  std::array<std::byte, 3> place{};
  EXPECT_EQ(pair.server->read(pair.sockets[1], place), 3);
  EXPECT_EQ(as_text(place), "one");
  char none = 0;
  EXPECT_EQ(::recv(pair.sockets[1], &none, 1, MSG_PEEK), -1);
  EXPECT_TRUE(pair.server->holds_unread());
  EXPECT_EQ(pair.server->read(pair.sockets[1], place), 3);
  EXPECT_EQ(as_text(place), "two");
  EXPECT_FALSE(pair.server->holds_unread());
  EXPECT_EQ(pair.server->read(pair.sockets[1], place), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(TlsStream, TellsAnEndFromATruncation) {
  std::array<std::byte, 8> place{};
  ASSERT_EQ(write_text(*pair.client, pair.sockets[0], "last"), 4);
  pair.client->shut_down(pair.sockets[0]);
  EXPECT_EQ(write_text(*pair.client, pair.sockets[0], "x"), -1);
  EXPECT_EQ(errno, EPIPE);
  EXPECT_EQ(pair.server->read(pair.sockets[1], place), 4);
  EXPECT_EQ(pair.server->read(pair.sockets[1], place), 0);
  EXPECT_EQ(pair.server->read(pair.sockets[1], place), 0);
  EXPECT_FALSE(pair.server->truncated());
  EXPECT_TRUE(pair.server->why());
  // The other direction lives on.
  EXPECT_EQ(carry(*pair.server, pair.sockets[1], *pair.client, pair.sockets[0], "still"), "still");

  tls_pair cut{context, context};
  ASSERT_TRUE(cut.shake_hands());
  ASSERT_EQ(write_text(*cut.client, cut.sockets[0], "last"), 4);
  cut.sockets.close(0);
  EXPECT_EQ(cut.server->read(cut.sockets[1], place), 4);
  EXPECT_EQ(cut.server->read(cut.sockets[1], place), 0);
  EXPECT_TRUE(cut.server->truncated());
}

TEST_F(TlsStream, EndsInsideTheHandshakeAsTruncated) {
  tls_pair cut{context, context};
  (void)cut.client->flush(cut.sockets[0]);
  std::array<std::byte, 1024> place{};
  ASSERT_GT(::recv(cut.sockets[1], place.data(), place.size(), 0), 0);
  cut.sockets.close(1);
  EXPECT_EQ(cut.client->read(cut.sockets[0], place), 0);
  EXPECT_TRUE(cut.client->truncated());
  EXPECT_EQ(write_text(*cut.client, cut.sockets[0], "x"), -1);
  EXPECT_EQ(errno, EPIPE);
}

TEST_F(TlsStream, GoesOnAfterACallThatLackedMemoryInTheKernel) {
  std::array<std::byte, 8> place{};
  ASSERT_EQ(write_text(*pair.client, pair.sockets[0], "here"), 4);
  detail::kernel().recv = [](int, void*, std::size_t, int) -> ssize_t {
    errno = ENOMEM;
    return -1;
  };
  EXPECT_EQ(pair.server->read(pair.sockets[1], place), -1);
  EXPECT_EQ(errno, ENOMEM);
  detail::kernel() = before;
  EXPECT_EQ(pair.server->read(pair.sockets[1], place), 4);
  detail::kernel().send = [](int, const void*, std::size_t, int) -> ssize_t {
    errno = ENOBUFS;
    return -1;
  };
  EXPECT_EQ(write_text(*pair.client, pair.sockets[0], "again"), 5);  // encrypted, not sent
  EXPECT_FALSE(pair.client->flush(pair.sockets[0]));
  EXPECT_EQ(errno, ENOBUFS);
  detail::kernel() = before;
  EXPECT_TRUE(pair.client->flush(pair.sockets[0]));
  EXPECT_EQ(read_text(*pair.server, pair.sockets[1]), "again");
}

TEST_F(TlsStream, ReportsAResetConnection) {
  detail::kernel().recv = [](int, void*, std::size_t, int) -> ssize_t {
    errno = ECONNRESET;
    return -1;
  };
  std::array<std::byte, 8> place{};
  EXPECT_EQ(pair.server->read(pair.sockets[1], place), -1);
  EXPECT_EQ(errno, ECONNRESET);
}

TEST_F(TlsStream, RenewsItsKeysUnnoticed) {
  for (int i = 0; i != 300; ++i) {
    pair.client->renew_keys();
    pair.server->renew_keys();
    const std::string text = numbered_text(100 + static_cast<std::size_t>(i));
    ASSERT_TRUE(to_server(text) == text) << i;
    ASSERT_EQ(carry(*pair.server, pair.sockets[1], *pair.client, pair.sockets[0], text), text);
  }
}

TEST_F(TlsStream, ExportsTheSameKeyOnBothEndsAndAnotherOneElsewhere) {
  std::array<std::byte, 32> client{};
  std::array<std::byte, 32> server{};
  std::array<std::byte, 32> other{};
  ASSERT_TRUE(pair.client->export_key("EXPORTER-atbus", client));
  pair.client->renew_keys();
  EXPECT_EQ(to_server("x"), "x");
  ASSERT_TRUE(pair.server->export_key("EXPORTER-atbus", server));
  EXPECT_EQ(client, server);
  ASSERT_TRUE(pair.server->export_key("EXPORTER-other", other));
  EXPECT_NE(other, server);
  tls_pair second{context, context};
  EXPECT_FALSE(second.client->export_key("EXPORTER-atbus", other));
  ASSERT_TRUE(second.shake_hands());
  ASSERT_TRUE(second.client->export_key("EXPORTER-atbus", other));
  EXPECT_NE(other, client);
}

TEST_F(TlsStream, SaysNothingAfterItWasAbandoned) {
  ASSERT_EQ(to_server("x"), "x");
  pair.client->abandon();
  count_calls();
  EXPECT_EQ(write_text(*pair.client, pair.sockets[0], "x"), -1);
  EXPECT_EQ(errno, EBADF);
  pair.client->shut_down(pair.sockets[0]);
  pair.client.reset();
  EXPECT_EQ(sends, 0);
}

TEST_F(TlsStream, AllocatesNothingBesideOpenssl) {
  if (!counts_allocations())
    GTEST_SKIP() << "allocations can't be counted in this build";
  std::vector<std::byte> place(100'000);
  const std::string text = numbered_text(100);
  // OpenSSL 3.0 allocates its buffers anew, which it frees when they are empty, and 40 bytes for each
  // part of a record that it builds: three for writing, one for reading.
  constexpr std::uint64_t of_openssl = 2 + 4;
  std::uint64_t most = 0;
  for (int i = 0; i != 100; ++i) {
    const std::uint64_t allocated = allocations();
    ASSERT_EQ(write_text(*pair.client, pair.sockets[0], text), 100);
    ASSERT_EQ(pair.server->read(pair.sockets[1], place), 100);
    if (i > 1)
      most = std::max(most, allocations() - allocated);
  }
  EXPECT_LE(most, of_openssl);
}

}  // namespace
}  // namespace atbus::test
