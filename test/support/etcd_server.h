// A real etcd on free ports, for one test.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "child_process.h"
#include "discovery/base64.h"
#include "http_client.h"
#include "reserved_port.h"
#include "scratch_directory.h"
#include "test.h"

namespace atbus::test {

struct etcd_settings {
  std::string scheme = "http";
  // https: the test, which speaks no TLS, asks it at a second port.
  std::vector<std::string> arguments{};
};

class etcd_server {
 public:
  static bool is_installed() {
    const char* const path = ::getenv("PATH");
    std::string_view rest = path != nullptr ? path : "/usr/bin";
    while (!rest.empty()) {
      const std::size_t end = rest.find(':');
      if (::access((std::string{rest.substr(0, end)} + "/etcd").c_str(), X_OK) == 0)
        return true;
      rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
    }
    return false;
  }

  explicit etcd_server(etcd_settings settings = {}, std::string name = "one")
      : settings_(std::move(settings)), name_(std::move(name)), members_(member()) {}
  etcd_server(const etcd_server&) = delete;
  etcd_server& operator=(const etcd_server&) = delete;
  ~etcd_server() { kill(); }

  // As --initial-cluster has it.
  [[nodiscard]] std::string member() const {
    return name_ + "=http://127.0.0.1:" + port_of(peers_);
  }
  void join(std::string members) { members_ = std::move(members); }

  // Begins to start.
  void launch() {
    const bool is_plain = settings_.scheme == "http";
    std::vector<std::string> words{
        "etcd", "--name", name_, "--data-dir", directory_.path() + "/data", "--logger", "zap",
        // Small, so that it starts fast; a busy machine may be late all the same.
        "--heartbeat-interval", "50", "--election-timeout", "500", "--listen-client-urls",
        url() + (is_plain ? "" : "," + plain_url()), "--advertise-client-urls", url(),
        "--listen-peer-urls", "http://127.0.0.1:" + port_of(peers_),
        "--initial-advertise-peer-urls", "http://127.0.0.1:" + port_of(peers_), "--initial-cluster",
        members_};
    words.insert(words.end(), settings_.arguments.begin(), settings_.arguments.end());
    const std::string log = directory_.path() + "/log";
    process_ = child_process{[&] {
      const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
      ::dup2(out, STDERR_FILENO);
      ::dup2(out, STDOUT_FILENO);
      std::vector<char*> raw;
      for (std::string& word : words)
        raw.push_back(word.data());
      raw.push_back(nullptr);
      ::execvp("etcd", raw.data());
      return 127;
    }};
  }
  void wait() const {
    for (const auto deadline = now() + patience; !is_healthy();) {
      ASSERT_LT(now(), deadline) << "etcd does not answer: " << said();
      std::this_thread::sleep_for(10ms);  // another program's start has no event to wait for
    }
  }
  void start() {
    launch();
    wait();
  }
  void kill() { process_.kill_and_wait(); }
  void stop() { process_.stop(); }
  void resume() { process_.resume(); }
  [[nodiscard]] bool is_running() const { return process_.running(); }

  [[nodiscard]] std::string url() const {
    return settings_.scheme + "://127.0.0.1:" + port_of(clients_);
  }
  [[nodiscard]] std::string port() const { return port_of(clients_); }
  [[nodiscard]] const std::string& directory() const { return directory_.path(); }
  [[nodiscard]] std::string said() const {
    std::ifstream file{directory_.path() + "/log"};
    return {std::istreambuf_iterator<char>{file}, {}};
  }

  // Behind the back of what is tested. Without a connection the answer is empty.
  http_response ask(std::string_view path, const nlohmann::json& body,
                    const std::string& token = {}) const {
    const std::string text = body.dump();
    // Of that version, because answers of a later one come in chunks.
    return send("POST " + std::string{path} + " HTTP/1.0\r\n" +
                (token.empty() ? "" : "Authorization: " + token + "\r\n") +
                "Content-Length: " + std::to_string(text.size()) + "\r\n\r\n" + text);
  }
  nlohmann::json answer(std::string_view path, const nlohmann::json& body) const {
    const http_response got = ask(path, body);
    EXPECT_EQ(got.code, 200) << path << ' ' << got.body;
    return nlohmann::json::parse(got.body, nullptr, false);
  }
  void put(std::string_view key, std::string_view value) const {
    (void)answer("/v3/kv/put",
                 {{"key", detail::to_base64(key)}, {"value", detail::to_base64(value)}});
  }
  void remove(std::string_view key) const {
    (void)answer("/v3/kv/deleterange", {{"key", detail::to_base64(key)}});
  }
  // How many keys begin with that.
  [[nodiscard]] std::size_t count(std::string_view prefix) const {
    std::string last{prefix};
    ++last.back();
    const auto all = answer("/v3/kv/range", {{"key", detail::to_base64(prefix)},
                                             {"range_end", detail::to_base64(last)},
                                             {"count_only", true}});
    return all.contains("count") ? std::stoul(all["count"].get<std::string>()) : 0;
  }
  [[nodiscard]] std::int64_t revision() const {
    const auto all = answer("/v3/kv/range", {{"key", detail::to_base64("none")}});
    return std::stoll(all["header"]["revision"].get<std::string>());
  }
  void compact() const {
    (void)answer("/v3/kv/compaction", {{"revision", std::to_string(revision())}});
  }

 private:
  static std::string port_of(const reserved_port& one) {
    return one.address().substr(one.address().rfind(':') + 1);
  }
  [[nodiscard]] std::string plain_url() const { return "http://127.0.0.1:" + port_of(plain_); }
  [[nodiscard]] http_response send(const std::string& request) const {
    const reserved_port& to = settings_.scheme == "http" ? clients_ : plain_;
    try {
      return ask_with("127.0.0.1:" + port_of(to), request);
    } catch (const std::system_error&) {
      return {};
    }
  }
  [[nodiscard]] bool is_healthy() const {
    return send("GET /health HTTP/1.0\r\n\r\n").body.find("\"true\"") != std::string::npos;
  }

  const etcd_settings settings_;
  const std::string name_;
  const reserved_port clients_{"ipv4://127.0.0.1:0"};
  const reserved_port plain_{"ipv4://127.0.0.1:0"};
  const reserved_port peers_{"ipv4://127.0.0.1:0"};
  const scratch_directory directory_;
  std::string members_;
  child_process process_;
};

}  // namespace atbus::test
