// A real nats-server on a free port, for one test.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "child_process.h"
#include "listening.h"
#include "reserved_port.h"
#include "scratch_directory.h"
#include "socket_address.h"
#include "test.h"

namespace atbus::test {

class nats_server {
 public:
  // `settings`: of its configuration file, besides the port.
  explicit nats_server(const std::string& settings = {}) : settings_(settings) { start(); }
  nats_server(const nats_server&) = delete;
  nats_server& operator=(const nats_server&) = delete;
  ~nats_server() { kill(); }

  void start() {
    {
      std::ofstream file{directory_.path() + "/nats.conf"};
      file << "listen: \"127.0.0.1:" << port() << "\"\n" << settings_ << "\n";
    }
    const std::string config = directory_.path() + "/nats.conf";
    const std::string log = directory_.path() + "/nats.log";
    process_ = child_process{[&] {
      const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
      ::dup2(out, STDERR_FILENO);
      ::dup2(out, STDOUT_FILENO);
      for (const char* const path : {"/usr/sbin/nats-server", "nats-server"})
        ::execlp(path, "nats-server", "-c", config.c_str(), nullptr);
      return 127;
    }};
    ASSERT_TRUE(begins_to_listen(reserved_.address())) << "nats-server does not listen: " << said();
  }
  void kill() { process_.kill_and_wait(); }
  void stop() { process_.stop(); }
  void resume() { process_.resume(); }

  [[nodiscard]] std::string port() const {
    return reserved_.address().substr(reserved_.address().rfind(':') + 1);
  }
  // Where a node listens or connects to.
  [[nodiscard]] std::string address(std::string_view subject) const {
    return "nats://127.0.0.1:" + port() + "/" + std::string{subject};
  }
  [[nodiscard]] std::string url() const { return "nats://127.0.0.1:" + port(); }
  [[nodiscard]] std::string said() const {
    std::ifstream file{directory_.path() + "/nats.log"};
    return {std::istreambuf_iterator<char>{file}, {}};
  }
  [[nodiscard]] const std::string& directory() const { return directory_.path(); }

 private:
  const reserved_port reserved_{"ipv4://127.0.0.1:0"};
  const scratch_directory directory_;
  const std::string settings_;
  child_process process_;
};

}  // namespace atbus::test
