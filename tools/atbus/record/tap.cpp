// `atbus tap ID`
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

#include "atbus/format.h"
#include "atbus/record/entry_text.h"
#include "atbus/record/node_tap.h"
#include "atbus/record/record.h"
#include "atbus/stop_signal.h"

namespace atbus::tool {

using detail::entry_kind;
using detail::recording_entry;

namespace {

struct tap_command_options : tap_options {
  message_filter filter;
  std::uint64_t count = 0;
  bool json = false;
};

// Prints what comes, and counts.
class tap_printer {
 public:
  explicit tap_printer(const tap_command_options& options)
      : options_(options), choice_(options.filter) {}

  void print(std::chrono::nanoseconds at, const recording_entry& entry, bytes_view payload) {
    if (entry.kind == entry_kind::lost)
      lost_ += entry.count;
    else if (entry.kind == entry_kind::end)
      ended_as_ = words_for_end(entry);
    if (is_over() || (entry.kind == entry_kind::message && !choice_.takes(entry)))
      return;
    seen_ += entry.kind == entry_kind::message ? 1 : 0;
    if (options_.json)
      fmt::print("{}\n", json_of(at, entry, payload));
    else if (entry.kind == entry_kind::message)
      fmt::print("{}\n", text_of(entry, payload));
    else if (entry.kind == entry_kind::lost)
      fmt::print(stderr, "{} found no room and are not shown\n", counted(entry.count, "message"));
  }
  [[nodiscard]] bool is_over() const noexcept {
    return options_.count != 0 && seen_ == options_.count;
  }
  void print_sum() const {
    fmt::print(stderr, "{}; {} lost for lack of room; {}\n", counted(seen_, "message"),
               grouped(lost_), ended_as_);
  }

 private:
  const tap_command_options& options_;
  const message_choice choice_;
  std::uint64_t seen_ = 0;
  std::uint64_t lost_ = 0;
  std::string ended_as_;
};

void flush_output() {
  std::fflush(stdout);
  if (std::ferror(stdout) != 0)
    throw std::runtime_error("can't write to standard output");
}

void tap(const tap_command_options& options) {
  tap_printer printer{options};
  const node_tap::entry_handler each = [&](std::chrono::nanoseconds at,
                                           const recording_entry& entry, bytes_view payload) {
    printer.print(at, entry, payload);
  };
  const stop_signal signal;
  node_tap source{options};
  fmt::print(stderr, "watching node {}\n", source.id().to_string());
  while (!signal.seen() && !source.has_ended() && !printer.is_over()) {
    source.poll(each);
    flush_output();
  }
  source.end(each);
  flush_output();
  printer.print_sum();
}

}  // namespace

void add_tap(CLI::App& app) {
  CLI::App* const command = app.add_subcommand(
      "tap", "Prints what a node of this host receives, until Ctrl-C, without disturbing it");
  const auto options = std::make_shared<tap_command_options>();
  command->add_option("ID", options->id, "bus id of the node, such as 0x2a or 42");
  options->add_to(*command);
  options->filter.add_to(*command);
  command->add_option("--count", options->count, "end after so many; default: never");
  command->add_flag("--json", options->json, "for programs: a line for each, bytes as hex");
  command->footer(
      "The node has to allow it (node_options::allow_tap, allow_tap = true in relay.toml), and has "
      "to "
      "run as this user on this host. Its access rules hold for the commands atbus.tap and "
      "atbus.untap.\n"
      "Prints a line for each message: its source, its type, and its bytes, those that are not "
      "printable as \\xNN. A node never waits for this command: what finds no room is counted.\n"
      "Examples: `atbus tap 0x2a`; `atbus tap 42 --type 7 --json | jq .bytes`; `atbus tap --at "
      "unix:///run/game/match --count 10`\n"
      "Exit code: 0; 1 the node can't be watched (why is on standard error).");
  command->callback([options] { tap(*options); });
}

void add_recordings(CLI::App& app) {
  add_tap(app);
  add_record(app);
  add_replay(app);
}

}  // namespace atbus::tool
