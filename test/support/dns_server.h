// A real DNS server on a free port, for one test: nsd, with one zone "test".
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <string>

#include "atbus/clock.hpp"
#include "child_process.h"
#include "dns_message.h"
#include "listening.h"
#include "reserved_port.h"
#include "scratch_directory.h"
#include "socket_address.h"
#include "test.h"

namespace atbus::test {

class dns_server {
 public:
  [[nodiscard]] static bool is_installed() { return ::access(program, X_OK) == 0; }

  dns_server() {
    set("");
    start();
  }
  dns_server(const dns_server&) = delete;
  dns_server& operator=(const dns_server&) = delete;
  ~dns_server() { kill(); }

  // The zone's records but for those of the zone itself. A server that runs answers with them afterwards.
  void set(const std::string& records) {
    std::ofstream zone{path("zone.new")};
    zone << "$ORIGIN test.\n$TTL 0\n@ SOA ns hostmaster " << ++serial_ << " 3600 900 604800 0\n"
         << "@ NS ns\nns A 127.0.0.1\nserial TXT \"" << serial_text() << "\"\n"
         << records;
    zone.close();
    ASSERT_EQ(std::rename(path("zone.new").c_str(), path("zone").c_str()), 0);
    // A server that is just reading the last one overlooks the signal.
    for (const auto deadline = now() + patience; process_.running() && !has_new_zone();) {
      ASSERT_LT(now(), deadline) << "nsd does not read its zone again: " << said();
      ::kill(process_.pid(), SIGHUP);
      std::this_thread::sleep_for(10ms);  // another program's work has no event to wait for
    }
  }
  // `more`: a line of the server's settings.
  void start(const std::string& more = {}) {
    std::ofstream config{path("nsd.conf")};
    config << "server:\n  ip-address: " << address() << "\n  username: \"\"\n  zonesdir: \""
           << directory_.path() << "\"\n  database: \"\"\n  pidfile: \"\"\n  xfrdfile: \"\"\n"
           << "  zonelistfile: \"" << path("list") << "\"\n  xfrdir: \"" << directory_.path()
           << "\"\n  server-count: 1\n  " << more << "\nremote-control:\n  control-enable: no\n"
           << "zone:\n  name: test\n  zonefile: zone\n";
    config.close();
    const std::string log = path("log");
    const std::string from = path("nsd.conf");
    process_ = child_process{[&] {
      ::setpgid(0, 0);  // nsd is several processes
      const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
      ::dup2(out, STDERR_FILENO);
      ::dup2(out, STDOUT_FILENO);
      ::execl(program, "nsd", "-d", "-c", from.c_str(), nullptr);
      return 127;
    }};
    ASSERT_TRUE(begins_to_listen(reserved_.address())) << "nsd does not listen: " << said();
  }
  void kill() {
    signal_all(SIGKILL);
    process_.kill_and_wait();
  }
  void stop() { signal_all(SIGSTOP); }
  void resume() { signal_all(SIGCONT); }

  // As dns_options::servers has it.
  [[nodiscard]] std::string server() const {
    return reserved_.address().substr(std::string_view{"ipv4://"}.size());
  }
  [[nodiscard]] std::string said() const {
    std::ifstream file{path("log")};
    return {std::istreambuf_iterator<char>{file}, {}};
  }

 private:
  static constexpr const char* program = "/usr/sbin/nsd";

  void signal_all(int which) {
    if (process_.running())
      ::kill(-process_.pid(), which);
  }
  [[nodiscard]] std::string serial_text() const {
    return "serial " + std::to_string(serial_) + ".";
  }
  [[nodiscard]] bool has_new_zone() const {
    constexpr std::uint16_t txt = 16;
    std::string query = dns_message{"serial.test", txt}.bytes();
    query[2] = 0;  // no reply
    const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const timeval wait{.tv_sec = 1, .tv_usec = 0};
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    const socket_address to = socket_address::parse(reserved_.address());
    std::array<char, 512> reply{};
    ::sendto(fd, query.data(), query.size(), 0, to.get(), to.size);
    const ssize_t length = ::recv(fd, reply.data(), reply.size(), 0);
    ::close(fd);
    return length > 0 && std::string_view{reply.data(), static_cast<std::size_t>(length)}.find(
                             serial_text()) != std::string_view::npos;
  }
  [[nodiscard]] std::string path(const char* name) const { return directory_.path() + "/" + name; }
  [[nodiscard]] std::string address() const {
    std::string text = server();
    text[text.rfind(':')] = '@';
    return text;
  }

  const reserved_port reserved_{"ipv4://127.0.0.1:0"};
  const scratch_directory directory_;
  child_process process_;
  unsigned serial_ = 0;
};

}  // namespace atbus::test
