// `atbus trace ADDRESS ID`
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <chrono>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "atbus/clock.hpp"
#include "atbus/format.h"
#include "atbus/nodes/nodes.h"
#include "atbus/nodes/remote.h"
#include "atbus/talk/talk.h"

namespace atbus::tool {
namespace {

struct trace_options : client_options {
  std::string id;
  bool json = false;
  trace_option context;
};

struct trace_hop {
  bus_id from;
  std::string how;  // "link", "away", "relay"
  bus_id to;
  std::string channel;
  std::string address;
  std::chrono::nanoseconds answered_in{0};  // by `from`
};

// More than a message may take.
constexpr std::size_t hops_max = 64;

// The hop from that node on the way; nothing: the message is there.
bool find_hop(remote_nodes& nodes, bus_id target, const trace_option& context, trace_hop& hop) {
  const std::chrono::nanoseconds begun = now();
  std::vector<std::string> question{"atbus.route", target.to_string()};
  if (context.context())
    question.push_back(context.context()->to_string());
  const auto values = nodes.ask(hop.from, question);
  hop.answered_in = now() - begun;
  if (!values.empty() && values[0] == "here")
    return false;
  const auto to = values.size() < 4 ? result<bus_id>{errc::malformed} : bus_id::parse(values[1]);
  if (!to)
    throw std::runtime_error("node " + hop.from.to_string() + " names no next node");
  hop.how = values[0];
  hop.to = *to;
  hop.channel = values[2];
  hop.address = values[3];
  return true;
}

std::vector<trace_hop> find_way(remote_nodes& nodes, bus_id target, const trace_option& context) {
  std::vector<trace_hop> hops;
  std::set<bus_id> seen;
  bus_id at = nodes.first();
  while (at != target) {
    if (!seen.insert(at).second)
      throw std::runtime_error("the way leads in a circle, back to " + at.to_string());
    if (seen.size() > hops_max)
      throw std::runtime_error("the way has more than " + std::to_string(hops_max) + " hops");
    trace_hop hop;
    hop.from = at;
    if (!find_hop(nodes, target, context, hop))
      break;
    at = hop.to;
    hops.push_back(std::move(hop));
  }
  return hops;
}

void print_way(const std::vector<trace_hop>& hops) {
  table rows{{{"HOP", table::align::right},
              {"FROM"},
              {"TO"},
              {"BY"},
              {"CHANNEL"},
              {"ASKED IN", table::align::right},
              {"ADDRESS"}}};
  std::size_t number = 0;
  for (const trace_hop& hop : hops) {
    rows.add({std::to_string(++number), hop.from.to_string(), hop.to.to_string(), hop.how,
              hop.channel, duration(hop.answered_in), hop.address});
  }
  if (hops.empty())
    fmt::print(" it is the node at the address itself\n");
  else
    rows.print();
}

void trace(const trace_options& options) {
  remote_nodes nodes{options};
  const bus_id target = bus_id_of(options.id);
  const std::vector<trace_hop> hops = find_way(nodes, target, options.context);
  // The last hop is a link that the node before it has. That somebody is there, only he can say.
  const bool is_away = !hops.empty() && hops.back().how == "away";
  const std::chrono::nanoseconds begun = now();
  if (!is_away)
    (void)nodes.ask(target, {"atbus.ping"});
  const std::chrono::nanoseconds took = now() - begun;
  if (options.json) {
    auto all = nlohmann::ordered_json::array();
    for (const trace_hop& hop : hops)
      all.push_back({{"from", hop.from.to_string()},
                     {"to", hop.to.to_string()},
                     {"by", hop.how},
                     {"channel", hop.channel},
                     {"address", hop.address},
                     {"asked_in", hop.answered_in.count()}});
    fmt::print("{}\n", all.dump(2));
    return;
  }
  print_way(hops);
  if (options.context.context() && !hops.empty())
    fmt::print(" each node on the way has logged it{}\n",
               words_for_trace(options.context.context()));
  if (is_away)
    fmt::print(" the process of {} has ended; messages wait for its successor\n",
               target.to_string());
  else
    fmt::print(" {} answered in {}\n", target.to_string(), duration(took));
}

}  // namespace

void add_node_trace(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("trace", "The way of messages from a node to another one, hop by hop");
  const auto options = std::make_shared<trace_options>();
  command->add_option("ADDRESS", options->address, "where the node listens that sends")->required();
  command->add_option("ID", options->id, "the node that is sent to")->required();
  options->context.add_to(*command);
  options->add_to(*command);
  command->add_flag("--json", options->json, "for programs; times in nanoseconds");
  command->footer(
      "BY is `link` where a node has a link to the target, `relay` where it passes the message on. "
      "ASKED IN is how long the node before took to say so.\n"
      "Example: `atbus trace unix:///run/game/match 0x12340001`\n"
      "Exit code: 0 the target answered, or its successor will find the messages; 1 there is no "
      "way, or a node on it does not answer (why is on standard error).");
  command->callback([options] { trace(*options); });
}

}  // namespace atbus::tool
