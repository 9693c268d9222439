// `atbus replay FILE`
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "atbus/clock.hpp"
#include "atbus/format.h"
#include "atbus/nodes/nodes.h"
#include "atbus/nodes/remote.h"
#include "atbus/record/entry_text.h"
#include "atbus/record/local_node.h"
#include "atbus/record/progress.h"
#include "atbus/record/record.h"
#include "atbus/record/recording_reader.h"
#include "atbus/record/replay_pace.h"
#include "atbus/record/replayer.h"
#include "atbus/stop_signal.h"
#include "atbus/talk/talk.h"

namespace atbus::tool {

using detail::entry_kind;
using detail::recording_entry;

namespace {

struct replay_options : local_node_options {
  std::string file;
  std::string own_id;
  std::string rate = "original";
  message_filter filter;
  std::uint64_t count = 0;
  bool info = false;
  bool print = false;
  bool json = false;
};

// What a recording says of itself.
struct recording_info {
  recording_entry begin{};
  std::chrono::nanoseconds first{0};
  std::chrono::nanoseconds last{0};
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  std::uint64_t lost = 0;
  std::uint64_t gaps = 0;
  std::map<std::string_view, std::uint64_t> kinds;
  std::string end;  // empty: there is none

  void add(const recording_reader::item& one) {
    const bool is_first = first == std::chrono::nanoseconds{0};
    if (one.entry.kind == entry_kind::begin)
      begin = one.entry;
    else if (one.entry.kind == entry_kind::end)
      end = words_for_end(one.entry);
    else if (one.entry.kind == entry_kind::lost)
      lost += one.entry.count, ++gaps;
    if (one.entry.kind != entry_kind::message)
      return;
    first = is_first ? one.at : first;
    last = std::max(last, one.at);
    ++messages;
    bytes += one.payload.size();
    ++kinds[kind_of(one.entry)];
  }
};

std::string words_for_missing_end(const recording_reader& in) {
  if (!in.problem().empty())
    return "it was cut off: " + in.problem();
  return "it has no end: its recorder was killed, or still writes";
}

void print_info(const replay_options& options) {
  recording_reader in{options.file};
  recording_info all{};
  progress_line progress;
  while (const recording_reader::item* const one = in.next()) {
    all.add(*one);
    if (all.messages % 1024 == 0)
      progress.show([&] { return counted(all.messages, "message"); });
  }
  const std::string end = in.has_end() ? all.end : words_for_missing_end(in);
  const auto time = std::max(all.last - all.first, std::chrono::nanoseconds{0});
  if (options.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"node", all.begin.to.to_string()},
                                              {"incarnation", all.begin.number},
                                              {"tapped", all.begin.type == 0},
                                              {"first", all.first.count()},
                                              {"last", all.last.count()},
                                              {"messages", all.messages},
                                              {"bytes", all.bytes},
                                              {"kinds", all.kinds},
                                              {"lost", all.lost},
                                              {"gaps", all.gaps},
                                              {"incomplete", in.incomplete()},
                                              {"has_end", in.has_end()},
                                              {"end", end}}
                           .dump());
    return;
  }
  fmt::print(" what node {} of incarnation {} received, {}\n", all.begin.to.to_string(),
             all.begin.number, all.begin.type == 0 ? "tapped" : "as its recorder");
  fmt::print(" from {} on, for {}\n", date(static_cast<std::uint64_t>(all.first.count())),
             duration(time));
  fmt::print(" {}, {} bytes of payload\n", counted(all.messages, "message"), grouped(all.bytes));
  for (const auto& [kind, count] : all.kinds)
    fmt::print("   {} {}s\n", grouped(count), kind);
  fmt::print(" {} lost for lack of room, in {}; {} incomplete\n", grouped(all.lost),
             counted(all.gaps, "place"), grouped(in.incomplete()));
  fmt::print(" {}\n", end);
}

// False: that was the last one.
bool print_entry(const replay_options& options, const recording_reader::item& one) {
  if (options.json)
    fmt::print("{}\n", json_of(one.at, one.entry, one.payload));
  else if (one.entry.kind == entry_kind::message)
    fmt::print("{}\n", text_of(one.entry, one.payload));
  else if (one.entry.kind == entry_kind::lost)
    fmt::print(stderr, "{} are missing here\n", counted(one.entry.count, "message"));
  return std::ferror(stdout) == 0;
}

void warn_of_end(const recording_reader& in) {
  if (!in.has_end())
    fmt::print(stderr, "{}: {}\n", in.name(), words_for_missing_end(in));
}

void print_recording(const replay_options& options) {
  const message_choice choice{options.filter};
  recording_reader in{options.file};
  std::uint64_t printed = 0;
  while (const recording_reader::item* const one = in.next()) {
    if (one->entry.kind == entry_kind::message && !choice.takes(one->entry))
      continue;
    if (!print_entry(options, *one))
      throw std::runtime_error("can't write to standard output");
    if (one->entry.kind == entry_kind::message && ++printed == options.count)
      return;
  }
  warn_of_end(in);
}

std::string text_of_state(const replayer& to, std::chrono::nanoseconds begun) {
  return fmt::format("{} sent in {}, late by at most {}", counted(to.sent(), "message"),
                     duration(now() - begun), duration(to.latest()));
}

void print_replay(const replayer& to, const recording_info& all, std::chrono::nanoseconds begun) {
  fmt::print("{}\n", text_of_state(to, begun));
  const auto plain = all.kinds.find("message");
  const std::uint64_t others = all.messages - (plain != all.kinds.end() ? plain->second : 0);
  if (others != 0)
    fmt::print("{} left out: requests, commands and answers are not sent again\n", grouped(others));
  if (all.lost != 0)
    fmt::print("{} missing in the recording, in {}\n", counted(all.lost, "message"),
               counted(all.gaps, "place"));
}

replay_target target_of(const replay_options& options) {
  const client_options at = client_of(options);
  const bus_id there = remote_nodes{at}.first();
  const bus_id wanted = options.id.empty() ? there : bus_id_of(options.id);
  if (!options.address.empty() && wanted != there)
    throw std::runtime_error("the node at " + at.address + " is " + there.to_string() + ", not " +
                             wanted.to_string());
  own_node_options own;
  static_cast<client_options&>(own) = at;
  own.id = options.own_id;
  return {wanted, own};
}

void replay(const replay_options& options) {
  auto pace = replay_pace::parse(options.rate);
  if (!pace)
    throw CLI::ValidationError("--rate", options.rate + " is no rate: see --help");
  const message_choice choice{options.filter};
  recording_reader in{options.file};
  const stop_signal signal;
  replayer to{target_of(options)};
  progress_line progress;
  recording_info all;
  const std::chrono::nanoseconds begun = now();
  const recording_reader::item* one = nullptr;
  while (!signal.seen() && (options.count == 0 || to.sent() < options.count) &&
         (one = in.next()) != nullptr) {
    all.add(*one);
    if (!choice.takes(one->entry) || kind_of(one->entry) != "message")
      continue;
    const std::chrono::nanoseconds due =
        pace->is_paced() ? begun + pace->due(to.sent(), one->at) : now();
    if (!to.wait_until(due, signal) || !to.send(one->entry.type, one->payload, due, signal))
      break;
    progress.show([&] { return text_of_state(to, begun); });
  }
  to.finish();
  print_replay(to, all, begun);
  if (one == nullptr)
    warn_of_end(in);
  if (to.undelivered() != 0)
    throw std::runtime_error(fmt::format("{} of them did not arrive: {}", grouped(to.undelivered()),
                                         to.why_undelivered()));
}

}  // namespace

void add_replay(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("replay", "Sends the messages of a recording to a node, or shows them");
  const auto options = std::make_shared<replay_options>();
  command->add_option("FILE", options->file, "made by `atbus record`")->required();
  command->add_option("--to", options->id, "the node that gets them: its bus id");
  options->add_to(*command);
  command->add_option("--id", options->own_id, "this command's bus id; default: a random one");
  command->add_option("--rate", options->rate,
                      "original (the default); x2: twice as fast; 1000/s; 0: as fast as possible");
  options->filter.add_to(*command);
  command->add_option("--count", options->count, "only the first so many");
  auto* const info =
      command->add_flag("--info", options->info, "say what is in the file, and send nothing");
  command
      ->add_flag("--print", options->print,
                 "print the messages as `atbus tap` does, and send nothing")
      ->excludes(info);
  command->add_flag("--json", options->json, "with --info or --print: for programs");
  command->footer(
      "All messages go to one node and come from this command, whose id the node's access rules "
      "have to "
      "admit; type and bytes are those of the recording. Requests, commands and answers are left "
      "out. "
      "Each message is sent when it is due, or as soon as there is room; the last line says by how "
      "much "
      "the latest one was late.\n"
      "Examples: `atbus replay match.pcap --info`; `atbus replay match.pcap --to 0x2a --rate x2`; "
      "`atbus replay match.pcap --at unix:///run/test/match --type 7 --rate 0`\n"
      "Exit code: 0 all were sent and none was reported as not delivered; 1 otherwise (why is on "
      "standard error).");
  command->callback([options] {
    if (options->info)
      print_info(*options);
    else if (options->print)
      print_recording(*options);
    else
      replay(*options);
  });
}

}  // namespace atbus::tool
