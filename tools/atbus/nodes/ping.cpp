// `atbus ping ADDRESS [ID]`
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "atbus/clock.hpp"
#include "atbus/format.h"
#include "atbus/nodes/nodes.h"
#include "atbus/nodes/remote.h"

namespace atbus::tool {
namespace {

struct ping_options : client_options {
  std::string id;
  std::size_t count = 4;
  double interval = 1;
  bool json = false;
};

void print_ping_figures(bus_id whom, std::vector<std::chrono::nanoseconds> times, bool as_json) {
  std::ranges::sort(times);
  const auto median = times[times.size() / 2];
  if (as_json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"id", whom.to_string()},
                                              {"answers", times.size()},
                                              {"min", times.front().count()},
                                              {"median", median.count()},
                                              {"max", times.back().count()}}
                           .dump());
    return;
  }
  fmt::print(" {} answered {}: at least {}, median {}, at most {}\n", whom.to_string(),
             times.size() == 1 ? "once" : fmt::format("{} times", times.size()),
             duration(times.front()), duration(median), duration(times.back()));
}

void ping(const ping_options& options) {
  remote_nodes nodes{options};
  const auto interval = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>{options.interval});
  const bus_id whom = options.id.empty() ? nodes.first() : bus_id_of(options.id);
  std::vector<std::chrono::nanoseconds> times;
  for (std::size_t i = 0; i != options.count; ++i) {
    if (i != 0)
      nodes.rest(interval);
    (void)nodes.first();  // not what connecting takes
    const std::chrono::nanoseconds begun = now();
    const auto values = nodes.ask(whom, {"atbus.ping"});
    times.push_back(now() - begun);
    if (!options.json)
      fmt::print(" {} of incarnation {} in {}\n", whom.to_string(),
                 values.size() > 1 ? values[1] : "?", duration(times.back()));
    std::fflush(stdout);
  }
  print_ping_figures(whom, std::move(times), options.json);
}

}  // namespace

void add_node_ping(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("ping", "How long a node takes to answer, through all on the way");
  const auto options = std::make_shared<ping_options>();
  command->add_option("ADDRESS", options->address, "where a node listens")->required();
  command->add_option("ID", options->id, "another node, which that one reaches");
  options->add_to(*command);
  command->add_option("--count", options->count, "how often; default 4")
      ->check(CLI::Range(1, 1'000'000));
  command->add_option("--interval", options->interval, "seconds in between; default 1")
      ->check(CLI::Range(0.0, 3600.0));
  command->add_flag("--json", options->json, "for programs; times in nanoseconds");
  command->footer(
      "The node's own program has to poll for an answer: a time says how busy it is, too.\n"
      "Examples: `atbus ping unix:///run/game/match`; `atbus ping ipv4://10.0.0.7:5000 0x2a "
      "--token-file token --count 1`\n"
      "Exit code: 0 each ping was answered; 1 one was not (why is on standard error).");
  command->callback([options] { ping(*options); });
}

}  // namespace atbus::tool
