// Two TLS sessions over one pair of sockets, driven by turns in one thread.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <stdexcept>

#include "test.h"
#include "tls/tls_socket.h"

namespace atbus::test {

using detail::tls_context;
using detail::tls_role;
using detail::tls_socket;
using context_ptr = std::shared_ptr<const tls_context>;
using socket_ptr = std::unique_ptr<tls_socket>;

inline context_ptr secret_context(std::initializer_list<std::string_view> secrets) {
  std::vector<bytes_view> views;
  for (const std::string_view one : secrets)
    views.push_back(as_bytes(one));
  auto made = tls_context::from_secrets(views);
  if (!made)
    throw std::runtime_error(made.error().text());
  return std::move(made).value();
}

// Those of one thread's ends: contexts are used by one thread each here.
inline detail::tls_buffers& buffers_of(const context_ptr& context) {
  static std::map<const tls_context*, detail::tls_buffers> all;
  return all[context.get()];
}

inline socket_ptr make_socket(const context_ptr& context, tls_role role,
                              const std::string& host = {}) {
  auto made = tls_socket::make(context, buffers_of(context), role, host);
  if (!made)
    throw std::runtime_error(made.error().text());
  return std::move(made).value();
}

// One turn of a handshake. The other end sends no data before it is done.
inline void bring_on(tls_socket& which, int fd) {
  std::byte nothing{};
  if (!which.flush(fd) && !which.established())
    (void)which.read(fd, {&nothing, 1});
}

// Two connected, non-blocking sockets.
class socket_pair {
 public:
  socket_pair() {
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends_) != 0)
      throw std::runtime_error("socketpair");
  }
  static socket_pair over_tcp() {
    socket_pair made{0};
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_loopback;
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    const int listener = ::socket(AF_INET6, SOCK_STREAM, 0);
    made.ends_[0] = ::socket(AF_INET6, SOCK_STREAM, 0);
    if (::bind(listener, generic, size) != 0 || ::listen(listener, 1) != 0 ||
        ::getsockname(listener, generic, &size) != 0 ||
        ::connect(made.ends_[0], generic, size) != 0)
      throw std::runtime_error("TCP over ::1");
    made.ends_[1] = ::accept(listener, nullptr, nullptr);
    ::close(listener);
    for (const int end : made.ends_)
      ::fcntl(end, F_SETFL, O_NONBLOCK);
    return made;
  }
  socket_pair(socket_pair&& other) noexcept {
    std::swap(ends_[0], other.ends_[0]);
    std::swap(ends_[1], other.ends_[1]);
  }
  ~socket_pair() {
    for (const int end : ends_) {
      if (end >= 0)
        ::close(end);
    }
  }
  [[nodiscard]] int operator[](std::size_t end) const { return ends_[end]; }
  void close(std::size_t end) { ::close(std::exchange(ends_[end], -1)); }

 private:
  explicit socket_pair(int /*none*/) {}
  int ends_[2] = {-1, -1};
};

// The client is end 0.
struct tls_pair {
  tls_pair(const context_ptr& client_context, const context_ptr& server_context,
           const std::string& host = {}, socket_pair over = {})
      : sockets{std::move(over)},
        client{make_socket(client_context, tls_role::client, host)},
        server{make_socket(server_context, tls_role::server)} {}

  // Brings both on until both are established or no more comes of it.
  bool shake_hands() {
    for (int turn = 0; turn != 50 && !(client->established() && server->established()); ++turn) {
      bring_on(*client, sockets[0]);
      bring_on(*server, sockets[1]);
    }
    return client->established() && server->established();
  }
  // As shake_hands, with reads too: an alert is seen only so.
  bool settle() {
    std::array<std::byte, 64> place{};
    (void)shake_hands();
    (void)client->read(sockets[0], place);
    (void)server->read(sockets[1], place);
    (void)client->read(sockets[0], place);
    return client->established() && server->established();
  }

  socket_pair sockets;
  socket_ptr client;
  socket_ptr server;
};

inline iovec part(std::string_view text) {
  return {.iov_base = const_cast<char*>(text.data()), .iov_len = text.size()};
}

inline ssize_t write_text(tls_socket& to, int fd, std::string_view text) {
  const iovec one = part(text);
  return to.write(fd, {&one, 1});
}

// What can be read now.
inline std::string read_text(tls_socket& from, int fd, std::size_t place_size = 100'000) {
  std::string all;
  std::vector<std::byte> place(place_size);
  while (true) {
    const ssize_t n = from.read(fd, place);
    if (n <= 0)
      return all;
    all += as_text(bytes_view{place}.first(static_cast<std::size_t>(n)));
  }
}

// Bytes that tell where they are.
inline std::string numbered_text(std::size_t size) {
  std::string text(size, '\0');
  std::uint32_t word = 1;
  for (char& one : text) {
    word = word * 1664525 + 1013904223;
    one = static_cast<char>(word >> 24U);
  }
  return text;
}

// Sends all of `text`, the other end reads meanwhile. Returns what arrived.
inline std::string carry(tls_socket& from, int from_fd, tls_socket& to, int to_fd,
                         std::string_view text, std::size_t place_size = 100'000) {
  std::string arrived;
  std::size_t sent = 0;
  for (int idle = 0; idle != 1000 && arrived.size() != text.size();) {
    const std::size_t before = arrived.size() + sent;
    if (sent != text.size()) {
      const ssize_t n = write_text(from, from_fd, text.substr(sent));
      sent += n > 0 ? static_cast<std::size_t>(n) : 0;
    } else {
      (void)from.flush(from_fd);
    }
    arrived += read_text(to, to_fd, place_size);
    idle = arrived.size() + sent == before ? idle + 1 : 0;
  }
  return arrived;
}

inline const std::string first_secret = "a secret of the first bus, 32 b";
inline const std::string second_secret = "a secret of the other bus, 32 b";

}  // namespace atbus::test
