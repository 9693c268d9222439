#include "atbus/shm/shm.h"

#include <fmt/format.h>

#include <memory>

#include "atbus/format.h"
#include "atbus/inspect.hpp"
#include "atbus/shm/json.h"
#include "atbus/shm/show.h"

namespace atbus::tool {
namespace {

using align = table::align;

// --- ls

std::string clean_line(const segment_report& segment, const common_options& options) {
  return "`atbus shm clean " + segment.name +
         (options.directory == common_options{}.directory ? ""
                                                          : " --directory " + options.directory) +
         "`";
}

std::string state_of(const segment_report& segment, const common_options& options) {
  switch (segment.state) {
    case segment_state::live:
      return "live";
    case segment_state::waiting:
      return "waiting for a receiver";
    case segment_state::orphan:
      if (segment.waiting_bytes != 0)
        return "orphan: start its receiver to have what waits, or throw that away: " +
               clean_line(segment, options);
      return "orphan: " + clean_line(segment, options);
    case segment_state::retired:
      return segment.held_lanes != 0 ? "removed, still held"
                                     : "removed: " + clean_line(segment, options);
    case segment_state::invalid:
      break;
  }
  return fmt::format("{}: {}", name(segment.problem.code()), segment.problem.text());
}

std::vector<std::string> row_for(const segment_report& segment, const common_options& options) {
  if (segment.state == segment_state::invalid)
    return {segment.name, "-", "-", "-", "-", state_of(segment, options)};
  const bool live = segment.state == segment_state::live;
  return {segment.name,
          live ? fmt::format("{} {}", segment.receiver.pid, segment.receiver.program) : "(gone)",
          fmt::format("{}/{}", segment.held_lanes, segment.lane_count),
          percent(segment.waiting_bytes, segment.used_lanes * segment.lane_size),
          grouped(segment.stats.messages),
          state_of(segment, options)};
}

void list(const common_options& options) {
  const auto segments = list_segments(options.directory);
  if (!segments)
    fail(segments.error().text());
  if (options.json) {
    auto all = nlohmann::ordered_json::array();
    for (const segment_report& segment : *segments)
      all.push_back(to_json(segment));
    fmt::print("{}\n", all.dump(2));
    return;
  }
  if (segments->empty()) {
    fmt::print(" no segments in {}\n", options.directory);
    return;
  }
  table rows{{{"NAME"},
              {"RECEIVER"},
              {"LANES", align::right},
              {"FILL", align::right},
              {"MESSAGES", align::right},
              {"STATE"}}};
  for (const segment_report& segment : *segments)
    rows.add(row_for(segment, options));
  rows.print();
}

void add_list(CLI::App& shm) {
  CLI::App* const command = shm.add_subcommand("ls", "All segments on this host");
  const auto options = std::make_shared<common_options>();
  options->add_to(*command);
  command->footer(
      "LANES are those held by living senders, of all. FILL is how much of the lanes in use waits "
      "for the receiver. MESSAGES were handled since the segment was made.\n"
      "Exit code: 0; 1 the directory can't be read.");
  command->callback([options] { list(*options); });
}

// --- clean

struct clean_command : common_options {
  std::string name;
  bool force = false;
  bool dry_run = false;
};

void print(const clean_report& report, bool dry_run) {
  if (report.outcome != clean_outcome::removed) {
    fmt::print(" {}: left alone: {}\n", report.name, report.why);
    return;
  }
  std::string with;
  if (!report.counted) {
    with = report.undelivered_messages == 0
               ? ", and whatever was in it"
               : fmt::format(", with at least {} ({})",
                             counted(report.undelivered_messages, "undelivered message"),
                             counted(report.undelivered_bytes, "byte"));
  } else if (report.undelivered_messages != 0) {
    with =
        fmt::format(", with {} ({})", counted(report.undelivered_messages, "undelivered message"),
                    counted(report.undelivered_bytes, "byte"));
  }
  fmt::print(" {}: {}{}\n", report.name, dry_run ? "would be removed" : "removed", with);
  for (const std::string& path : report.removed)
    fmt::print("   {}\n", path);
}

void clean(const clean_command& options) {
  const clean_options how{
      .directory = options.directory, .force = options.force, .dry_run = options.dry_run};
  std::vector<clean_report> reports;
  if (options.name.empty()) {
    auto all = clean_segments(how);
    if (!all)
      fail(all.error().text());
    reports = std::move(*all);
  } else {
    auto one = clean_segment(options.name, how);
    if (!one)
      fail(one.error().text());
    reports.push_back(std::move(*one));
  }
  if (options.json) {
    auto all = nlohmann::ordered_json::array();
    for (const clean_report& report : reports)
      all.push_back(to_json(report));
    fmt::print("{}\n", all.dump(2));
  } else if (reports.empty()) {
    fmt::print(" nothing to clean in {}\n", options.directory);
  }
  bool failed = false;
  for (const clean_report& report : reports) {
    if (!options.json)
      print(report, options.dry_run);
    // Without a name, leaving alone what is in use is what was asked for.
    failed |= report.outcome == clean_outcome::failed ||
              (!options.name.empty() && report.outcome != clean_outcome::removed);
  }
  if (failed)
    throw CLI::RuntimeError(1);
}

void add_clean(CLI::App& shm) {
  CLI::App* const command = shm.add_subcommand(
      "clean", "Remove what no living process holds (the kernel's locks decide)");
  const auto options = std::make_shared<clean_command>();
  options->add_to(*command);
  command->add_option("NAME", options->name, "this segment only; left out: all of them");
  command->add_flag("--force", options->force,
                    "also what is named like a segment and is none; never what is in use");
  command->add_flag("--dry-run", options->dry_run, "only say what would be removed");
  command->footer(
      "Exit code: 0 removed, or without NAME: all that could be; 1 NAME was left alone, or the "
      "system refused (why is printed).");
  command->callback([options] {
    options->name = name_of(options->name);
    clean(*options);
  });
}

}  // namespace

void add_shm(CLI::App& app) {
  CLI::App* const shm = app.add_subcommand(
      "shm", "The shared-memory segments of this host; looking never disturbs who uses them");
  shm->require_subcommand(1);
  add_list(*shm);
  add_shm_show(*shm);
  add_clean(*shm);
}

}  // namespace atbus::tool
