#include "atbus/relay/relay.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>

#include "atbus/node.hpp"
#include "atbus/relay/config.h"
#include "atbus/relay/service_manager.h"
#include "atbus/tls.hpp"
#include "node/access/access_file.h"
#include "node/directory/nodes_file.h"
#include "node/files/watched_file.h"

#if defined(ATBUS_HAS_HTTP)
#include "atbus/status_server.hpp"
#endif

namespace atbus::tool {
namespace {

volatile sig_atomic_t asked_to_end = 0;
volatile sig_atomic_t asked_to_reload = 0;

void set_relay_handlers() {
  struct sigaction action {};
  action.sa_handler = [](int) { asked_to_end = 1; };
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  action.sa_handler = [](int) { asked_to_reload = 1; };
  sigaction(SIGHUP, &action, nullptr);
  action.sa_handler = SIG_IGN;  // of a log whose reader has ended
  sigaction(SIGPIPE, &action, nullptr);
}

relay_config read_or_throw(const std::string& path) {
  auto config = read_relay_config(path);
  if (!config)
    throw std::runtime_error(std::string{config.error().text()});
  return std::move(*config);
}

template <class Read>
error check_file(const std::string& path, Read&& read) {
  if (path.empty())
    return {};
  const auto text = detail::read_config_file(path);
  return text ? read(*text, path).error() : text.error();
}

// The files that the node itself reads.
error check_named_files(const node_options& options) {
  if (error bad = check_file(options.access_file(), detail::read_access_file); !bad)
    return bad;
  if (error bad = check_file(options.directory_file(), detail::read_nodes_file); !bad)
    return bad;
  const tls_files& files = options.certificates();
  return files.chain.empty() ? error{} : tls_credentials::from_files(files).error();
}

class relay_service {
 public:
  relay_service(std::string path, relay_config config)
      : path_(std::move(path)),
        config_(std::move(config)),
        node_(config_.id, config_.options_with_tokens()) {
    node_.on_log([this](std::string_view line) { log(line); });
    node_.on_endpoint([this](const endpoint& of, endpoint_event what) {
      log(fmt::format("node {} {}{}{}", of.id().to_string(), name(what),
                      of.address().empty() ? "" : " over ", of.address()));
    });
  }

  // Until SIGTERM or SIGINT. Throws std::runtime_error with what is in the way.
  void run() {
    begin();
    log(fmt::format("node {} relays", node_.id().to_string()));
    tell_service_manager("READY=1");
    while (asked_to_end == 0) {
      if (asked_to_reload != 0)
        reload();
      node_.poll();
      // A signal ends the wait; one that comes just before it is seen when it is over.
      if (asked_to_end == 0 && asked_to_reload == 0)
        (void)node_.wait(std::chrono::milliseconds{500});
    }
    end();
  }

 private:
  using connections = decltype(relay_config::connect);

  void begin() {
    throw_if(node_.fault());
    for (const std::string& one : config_.listen)
      throw_if(node_.listen(one));
    for (const std::string& one : node_.addresses())
      log("listens at " + one);
    for (const auto& [id, where] : config_.connect)
      throw_if(node_.connect(id, where));
    open_status_server();
  }

  // Without one the relay works all the same.
  void open_status_server() {
#if defined(ATBUS_HAS_HTTP)
    if (config_.http_listen.empty())
      return;
    auto made = status_server::open(node_, {.listen = config_.http_listen,
                                            .report_directory = config_.options.report_directory(),
                                            .needs_parent = !config_.options.parents().empty()});
    if (!made)
      return log("there is no status server: " + made.error().text());
    status_.emplace(std::move(*made));
    log("status at http://" + status_->address() + "/");
#endif
  }

  void end() {
    log(fmt::format("ends, within {} s", std::chrono::duration<double>{config_.drain}.count()));
    tell_service_manager("STOPPING=1");
    const status how = node_.shutdown(config_.drain);
    log(how ? "all of its messages have their outcome"
            : "ended with messages that had no outcome yet");
  }

  // What can't be taken over is logged, and stays as it was.
  void reload() {
    asked_to_reload = 0;
    tell_service_manager("RELOADING=1");
    auto fresh = read_relay_config(path_);
    if (fresh)
      take_over(std::move(*fresh));
    else
      log("nothing is reloaded: " + std::string{fresh.error().text()});
    tell_service_manager("READY=1");
  }

  void take_over(relay_config fresh) {
    for (const std::string& key : keys_that_need_a_restart(config_, fresh))
      log(fmt::format("\"{}\" has changed, and needs a restart", key));
    bool all = true;
    if (!fresh.tokens.empty() && fresh.tokens != config_.tokens && !config_.tokens.empty()) {
      if (done(node_.set_tokens(fresh.tokens), "the tokens have changed"))
        config_.tokens = fresh.tokens;
      else
        all = false;
    }
    all = take_over_connections(fresh.connect) && all;
    config_.drain = fresh.drain;
    config_.log_as_json = fresh.log_as_json;
    log(all ? "the configuration is reloaded"
            : "the configuration is reloaded, but for what has failed: the next SIGHUP tries it "
              "again");
  }

  // A node leaves all addresses of another one at once: those that stay are dialled anew. False: not all of it is
  // done. What is, is in config_.
  bool take_over_connections(const connections& fresh) {
    const auto is_in = [](const auto& all, const auto& one) {
      return std::ranges::find(all, one) != all.end();
    };
    std::set<bus_id> left;
    for (const auto& one : config_.connect) {
      if (!is_in(fresh, one))
        left.insert(one.first);
    }
    for (const bus_id id : left)
      (void)done(node_.disconnect(id), "no longer connected with " + id.to_string());
    connections now;
    for (const auto& one : fresh) {
      const bool stays = !left.contains(one.first) && is_in(config_.connect, one);
      if (stays ||
          done(node_.connect(one.first, one.second), "connects with " + one.first.to_string()))
        now.push_back(one);
    }
    config_.connect = std::move(now);
    return config_.connect.size() == fresh.size();
  }

  // Logs what was done, or why not.
  bool done(const error& bad, const std::string& what) {
    log(bad ? what : std::string{name(bad.code())} + ": " + std::string{bad.text()});
    return static_cast<bool>(bad);
  }
  template <class Result>
  static void throw_if(const Result& made) {
    const error bad{made};
    if (!bad)
      throw std::runtime_error(std::string{name(bad.code())} + ": " + std::string{bad.text()});
  }

  // A log that takes no more, as on a full disk, does not end the relay.
  void log(std::string_view line) const {
    const auto at =
        fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()));
    const std::string text =
        config_.log_as_json
            ? nlohmann::ordered_json{{"time", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", at)},
                                     {"node", config_.id.to_string()},
                                     {"text", line}}
                  .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
            : fmt::format("{:%Y-%m-%dT%H:%M:%SZ} {}", at, line);
    (void)std::fputs((text + '\n').c_str(), stderr);
  }

  const std::string path_;
  relay_config config_;
  node node_;  // ends before what its handlers use
#if defined(ATBUS_HAS_HTTP)
  std::optional<status_server> status_;
#endif
};

struct relay_options {
  std::string config;
  bool check = false;
};

void run_relay(const relay_options& options) {
  relay_config config = read_or_throw(options.config);
  if (options.check) {
    if (const error bad = check_named_files(config.options); !bad)
      throw std::runtime_error(std::string{bad.text()});
    fmt::print(" {}: node {}, valid\n", options.config, config.id.to_string());
    return;
  }
  set_relay_handlers();
  relay_service{options.config, std::move(config)}.run();
}

}  // namespace

void add_relay(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("relay", "A node that passes messages on between others, until SIGTERM");
  const auto options = std::make_shared<relay_options>();
  command->add_option("--config", options->config, "a TOML file")->required();
  command->add_flag("--check", options->check,
                    "only say whether the file, and what it names, is valid");
  command->footer(
      "SIGHUP reads the file again: tokens, [[connect]], log and drain are taken over, for all "
      "else "
      "the log says that it needs a restart. Files of access rules and of the directory are looked "
      "at all the time. SIGTERM ends it once its messages have their outcome, or `drain` is over. "
      "The log goes to standard error.\n"
      "Example: `atbus relay --config /etc/atbus/relay.toml --check`\n"
      "Exit code: 0; 1 the file is not valid, or the node can't listen (why is on standard "
      "error).");
  command->callback([options] { run_relay(*options); });
}

}  // namespace atbus::tool
