#include "atbus/shm/show.h"

#include <fmt/format.h>

#include <optional>

#include "atbus/format.h"
#include "atbus/inspect.hpp"
#include "atbus/shm/json.h"

namespace atbus::tool {
namespace {

using align = table::align;

struct show_options : common_options {
  std::string name;
  std::optional<std::uint32_t> lane;
  bool all = false;
  bool records = false;
  std::size_t count = 8;
};

std::string words_for(const process_note& note) {
  if (note.pid == 0)
    return "nobody yet";
  return fmt::format("{} {}, since {}", note.pid, note.program, date(note.opened_at));
}

bool is_shown(const lane_report& lane, const show_options& options) {
  return options.lane ? lane.index == *options.lane
                      : lane.state != lane_state::unused || options.all;
}

std::string flags_of(const lane_report& lane) {
  std::string flags;
  const auto add = [&](bool set, const char* word) {
    if (set)
      flags += (flags.empty() ? "" : ", ") + std::string{word};
  };
  add(!lane.possible, "impossible");
  add(lane.quarantined, "quarantined");
  add(lane.withdrawn, "withdrawn");
  add(lane.retired, "retired");
  add(lane.wants_space, "waits for space");
  add(lane.parked, "parked");
  add(lane.sender_fences, "fences");
  add(lane.reserved_bytes != 0, "reserved");
  return flags;
}

void print_header(const segment_report& segment) {
  fmt::print(" shm://{}  {}\n", segment.name, name(segment.state));
  fmt::print("   file       {}, {} bytes of which {} are in memory\n", segment.path,
             grouped(segment.file_size), grouped(segment.allocated_bytes));
  fmt::print("   made       {}, id {:016x}\n", date(segment.created_at), segment.segment_id);
  fmt::print("   lanes      {} of {} bytes, messages up to {} bytes; {} held by living senders\n",
             segment.lane_count, grouped(segment.lane_size), grouped(segment.message_limit),
             segment.held_lanes);
  const bool live = segment.state == segment_state::live;
  fmt::print("   receiver   {}{}, generation {}{}{}\n", live ? "" : "(gone) ",
             words_for(segment.receiver), segment.generation,
             live && segment.sleeping ? ", asleep" : "",
             segment.receiver_is_fenceless ? ", without membarrier" : "");
  fmt::print(
      "   sleeps     {}, ended by a bell {}, cut short {}; barriers {}, connections refused "
      "{}\n",
      grouped(segment.sleeps), grouped(segment.receiver_wake_ups), grouped(segment.short_sleeps),
      grouped(segment.barriers), grouped(segment.connections_refused));
  fmt::print("   waiting    {} bytes\n", grouped(segment.waiting_bytes));
}

void print_lanes(const segment_report& segment, const show_options& options) {
  table lanes{{{"LANE", align::right},
               {"STATE"},
               {"SENDER"},
               {"FILL", align::right},
               {"MESSAGES", align::right},
               {"BYTES", align::right},
               {"FULL", align::right},
               {"RINGS", align::right},
               {"SPACE", align::right},
               {"REDELIVERED", align::right},
               {"PADDING", align::right},
               {"HIGH", align::right},
               {"HEAD", align::right},
               {"DONE", align::right},
               {"TAIL", align::right},
               {"FLAGS"}}};
  for (const lane_report& lane : segment.lanes) {
    if (!is_shown(lane, options))
      continue;
    const std::string sender =
        lane.sender.pid == 0 ? "-" : fmt::format("{} {}", lane.sender.pid, lane.sender.program);
    lanes.add({std::to_string(lane.index), std::string{name(lane.state)}, sender,
               percent(lane.waiting_bytes, segment.lane_size), grouped(lane.stats.messages),
               grouped(lane.stats.bytes), grouped(lane.stats.full), grouped(lane.stats.wake_ups),
               grouped(lane.stats.space_rings), grouped(lane.stats.redelivered),
               grouped(lane.stats.padding_bytes), grouped(lane.stats.high_water_mark),
               std::to_string(lane.head), std::to_string(lane.done), std::to_string(lane.tail),
               flags_of(lane)});
  }
  fmt::print("\n");
  if (lanes.empty()) {
    fmt::print(" no lane is in use\n");
  } else {
    lanes.print();
  }
}

void add_records(table& to, const std::vector<record_report>& records) {
  for (const record_report& record : records) {
    to.add({std::to_string(record.position), std::string{record.kind}, grouped(record.length),
            std::string{name(record.state)}, hex_dump(record.first_bytes)});
  }
}

void print_records(std::uint32_t lane, const records_report& records) {
  fmt::print(
      "\n lane {}: {} with {} wait{}{}\n", lane, counted(records.waiting_messages, "message"),
      counted(records.waiting_payload_bytes, "byte"), records.waiting_messages == 1 ? "s" : "",
      records.complete ? "" : " at least; the walk ended before the tail");
  if (records.near_head.empty())
    return;
  const std::vector<table::column> columns{
      {"POSITION", align::right}, {"KIND"}, {"LENGTH", align::right}, {"STATE"}, {"FIRST BYTES"}};
  table head{columns};
  add_records(head, records.near_head);
  if (records.left_out == 0) {
    add_records(head, records.near_tail);
    return head.print("   ");
  }
  head.print("   ");
  fmt::print("   ... {} more\n", grouped(records.left_out));
  table tail{columns};
  add_records(tail, records.near_tail);
  tail.print("   ");
}

// The lanes whose records are asked for, with them. A lane may be gone by now: then it has none.
std::vector<std::pair<std::uint32_t, records_report>> records_of(const segment_report& segment,
                                                                 const show_options& options) {
  std::vector<std::pair<std::uint32_t, records_report>> all;
  if (!options.records)
    return all;
  records_options limits;
  limits.near_head = limits.near_tail = options.count;
  for (const lane_report& lane : segment.lanes) {
    if (options.lane ? lane.index != *options.lane : lane.state == lane_state::unused)
      continue;
    if (auto records = inspect_records(options.name, lane.index, options.directory, limits))
      all.emplace_back(lane.index, std::move(*records));
  }
  return all;
}

void show(const show_options& options) {
  const auto segment = inspect_segment(options.name, options.directory);
  if (!segment)
    fail(segment.error().text());
  if (options.lane && segment->problem && *options.lane >= segment->lane_count)
    fail(fmt::format("shm://{} has {} lanes, 0 to {}", segment->name, segment->lane_count,
                     segment->lane_count - 1));
  const auto records = records_of(*segment, options);
  if (options.json) {
    auto report = to_json(*segment);
    if (segment->problem) {
      report["lanes"] = nlohmann::ordered_json::array();
      for (const lane_report& lane : segment->lanes) {
        if (is_shown(lane, options))
          report["lanes"].push_back(to_json(lane));
      }
    }
    for (const auto& [lane, found] : records) {
      auto entry = to_json(found);
      entry["lane"] = lane;
      report["records"].push_back(std::move(entry));
    }
    fmt::print("{}\n", report.dump(2));
  }
  if (!segment->problem)
    fail(segment->problem.text());
  if (options.json)
    return;
  print_header(*segment);
  print_lanes(*segment, options);
  for (const auto& [lane, found] : records)
    print_records(lane, found);
}

}  // namespace

void common_options::add_to(CLI::App& command) {
  command.add_option("--directory", directory, "where segments and reports lie")
      ->capture_default_str();
  command.add_flag("--json", json, "for programs");
}

std::string name_of(const std::string& typed) {
  constexpr std::string_view scheme = "shm://";
  return typed.starts_with(scheme) ? typed.substr(scheme.size()) : typed;
}

void fail(const std::string& why) {
  fmt::print(stderr, "error: {}\n", why);
  throw CLI::RuntimeError(1);
}

void add_shm_show(CLI::App& shm) {
  CLI::App* const command = shm.add_subcommand("show", "One segment, its lanes and records");
  const auto options = std::make_shared<show_options>();
  options->add_to(*command);
  command->add_option("NAME", options->name, "as in shm://NAME")->required();
  command->add_option("--lane", options->lane, "this lane only");
  command->add_flag("--all", options->all, "unused lanes too");
  command->add_flag("--records", options->records, "records near head and tail of each lane");
  command->add_option("--count", options->count, "how many records at each end")
      ->capture_default_str();
  command->footer(
      "Exit code: 0 shown; 1 there is no such segment, or it is none (why is on "
      "standard error).");
  command->callback([options] {
    options->name = name_of(options->name);
    show(*options);
  });
}

}  // namespace atbus::tool
