// Measures TLS sessions: throughput, handshakes, memory. doc/design/tls.md has the figures.
//
//     measure_tls stream plain|openssl|tls MESSAGE_BYTES SECONDS   two threads, one connection over ::1
//     measure_tls handshake secret|ecdsa|rsa COUNT                 CPU time of a server
//     measure_tls memory COUNT                                     bytes of idle sessions
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tls/tls_socket.h"
#include "unit/tls/test_certificate.h"
#include "unit/tls/tls_pair.h"

namespace {

using namespace atbus::test;
using atbus::bytes_view;
using atbus::detail::tls_certificate_files;

constexpr std::size_t write_bytes = 1024 * 1024;
constexpr std::size_t read_bytes = 512 * 1024;

double cpu_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

void wait_for(int fd, short events) {
  pollfd interest{.fd = fd, .events = events, .revents = 0};
  (void)::poll(&interest, 1, 1000);
}

SSL* blocking_session(const context_ptr& context, int fd, bool client) {
  SSL* const ssl = SSL_new(&context->get());
  SSL_set_mode(ssl, SSL_MODE_AUTO_RETRY);
  SSL_set_fd(ssl, fd);
  client ? SSL_set_connect_state(ssl) : SSL_set_accept_state(ssl);
  ::fcntl(fd, F_SETFL, 0);
  return ssl;
}

struct stream_run {
  std::string_view kind;
  std::vector<iovec> parts;
  context_ptr contexts[2];
  socket_pair sockets;
  std::atomic<bool> stop = false;
  double sender_cpu_us = 0;

  void send() {
    pin(0);
    const int fd = sockets[0];
    const double begin = cpu_us();
    if (kind == "openssl") {
      SSL* const ssl = blocking_session(contexts[0], fd, true);
      const std::string record(16384, 'x');
      while (!stop && SSL_write(ssl, record.data(), 16384) > 0) {
      }
      SSL_free(ssl);
    } else if (kind == "tls") {
      const auto session = make_socket(contexts[0], tls_role::client);
      while (!stop) {
        if (!session->flush(fd))
          wait_for(fd, session->wants_write() ? POLLOUT : POLLIN);
        else if (session->write(fd, parts) < 0 && errno != EAGAIN)
          break;
        if (!session->established()) {
          std::array<std::byte, 1> one{};
          (void)session->read(fd, one);
        }
      }
    } else {
      while (!stop) {
        if (::writev(fd, parts.data(), static_cast<int>(parts.size())) < 0)
          wait_for(fd, POLLOUT);
      }
    }
    sender_cpu_us = cpu_us() - begin;
    ::shutdown(fd, SHUT_RDWR);
  }
};

int stream(std::string_view kind, std::size_t message, double seconds) {
  const std::string text(std::max(message, write_bytes), 'x');
  stream_run run{.kind = kind, .parts = {}, .contexts = {}, .sockets = socket_pair::over_tcp()};
  for (auto& context : run.contexts)
    context = secret_context({first_secret});
  const std::size_t count = std::min<std::size_t>(write_bytes / message, 1024);
  for (std::size_t i = 0; i != count; ++i)
    run.parts.push_back(part(std::string_view{text}.substr(0, message)));
  const int on = 1;
  (void)::setsockopt(run.sockets[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  std::thread sender{[&] { run.send(); }};
  pin(1);
  const int fd = run.sockets[1];
  std::vector<std::byte> place(read_bytes);
  const auto session = make_socket(run.contexts[1], tls_role::server);
  SSL* const ssl = kind == "openssl" ? blocking_session(run.contexts[1], fd, false) : nullptr;
  std::size_t total = 0;
  const double begin_cpu = cpu_us();
  const auto begin = std::chrono::steady_clock::now();
  const auto end = begin + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    ssize_t n = 0;
    if (ssl != nullptr)
      n = SSL_read(ssl, place.data(), 16384);
    else if (kind == "tls")
      n = session->read(fd, place);
    else
      n = ::recv(fd, place.data(), place.size(), 0);
    if (n > 0)
      total += static_cast<std::size_t>(n);
    else
      wait_for(fd, POLLIN);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const double cpu = cpu_us() - begin_cpu;
  run.stop = true;
  ::shutdown(fd, SHUT_RDWR);
  sender.join();
  const double megabytes = static_cast<double>(total) / 1e6;
  std::printf("%.*s %zu: %.2f GB/s, CPU us/MB: sender %.0f, receiver %.0f\n",
              static_cast<int>(kind.size()), kind.data(), message, megabytes / 1e3 / took.count(),
              run.sender_cpu_us / megabytes, cpu / megabytes);
  SSL_free(ssl);
  return 0;
}

context_ptr certificate_context(const std::string& folder, bool rsa) {
  const test_certificate authority{{.common_name = "ca", .is_authority = true}};
  const test_certificate own{{}, &authority, rsa};
  const tls_certificate_files files{folder + "/own.pem", folder + "/own.key", folder + "/ca.pem"};
  own.write(files.chain);
  own.write_key(files.key);
  authority.write(files.authority);
  return atbus::detail::tls_context::from_files(files).value();
}

// Both ends are of the same kind and verify each other.
int handshake(std::string_view kind, int count) {
  char folder[] = "/tmp/measure_tls_XXXXXX";
  if (::mkdtemp(folder) == nullptr)
    return 1;
  const auto context = kind == "secret" ? secret_context({first_secret})
                                        : certificate_context(folder, kind == "rsa");
  for (const char* const name : {"/own.pem", "/own.key", "/ca.pem"})
    ::unlink((std::string{folder} + name).c_str());
  ::rmdir(folder);
  std::vector<double> totals;
  std::vector<double> longest;
  for (int i = 0; i != count; ++i) {
    tls_pair pair{context, context};
    double total = 0;
    double most = 0;
    while (!pair.server->established()) {
      bring_on(*pair.client, pair.sockets[0]);
      const double begin = cpu_us();
      bring_on(*pair.server, pair.sockets[1]);
      const double took = cpu_us() - begin;
      total += took;
      most = std::max(most, took);
    }
    totals.push_back(total);
    longest.push_back(most);
  }
  std::sort(totals.begin(), totals.end());
  std::sort(longest.begin(), longest.end());
  const auto middle = static_cast<std::size_t>(count) / 2;
  std::printf("%.*s: server %.0f us in all, longest call %.0f us (medians of %d)\n",
              static_cast<int>(kind.size()), kind.data(), totals[middle], longest[middle], count);
  return 0;
}

int memory(int count) {
  const auto context = secret_context({first_secret});
  std::vector<std::unique_ptr<tls_pair>> pairs;
  pairs.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i != 2; ++i)
    (void)tls_pair{context, context}.shake_hands();
  std::array<std::byte, 64> place{};
  const auto before = mallinfo2().uordblks;
  for (int i = 0; i != count; ++i) {
    pairs.push_back(std::make_unique<tls_pair>(context, context));
    if (!pairs.back()->shake_hands())
      return 1;
  }
  const auto made = mallinfo2().uordblks;
  for (const auto& pair : pairs) {
    (void)write_text(*pair->client, pair->sockets[0], "hello");
    (void)pair->server->read(pair->sockets[1], place);
    (void)write_text(*pair->server, pair->sockets[1], "hello");
    (void)pair->client->read(pair->sockets[0], place);
  }
  const auto used = mallinfo2().uordblks;
  const auto sessions = 2 * static_cast<std::size_t>(count);
  std::printf("bytes of a session: %zu made, %zu after traffic\n", (made - before) / sessions,
              (used - before) / sessions);
  return 0;
}

}  // namespace

int main(int argument_count, char** arguments) {
  ::signal(SIGPIPE, SIG_IGN);
  const std::vector<std::string_view> given(arguments + 1, arguments + argument_count);
  if (given.size() == 4 && given[0] == "stream")
    return stream(given[1], std::stoul(arguments[3]), std::stod(arguments[4]));
  if (given.size() == 3 && given[0] == "handshake")
    return handshake(given[1], std::stoi(arguments[3]));
  if (given.size() == 2 && given[0] == "memory")
    return memory(std::stoi(arguments[2]));
  std::fputs("usage: measure_tls stream KIND BYTES SECONDS | handshake KIND COUNT | memory COUNT\n",
             stderr);
  return 2;
}
