#include "atbus/inspect.hpp"

#include <sys/stat.h>

#include <algorithm>

#include "channel/shm/segment_view.h"

namespace atbus {
namespace detail {
namespace {

void fill_stats(channel_stats& stats, const slot_copy& slot) noexcept {
  stats.messages = slot.at(offsetof(lane_slot, messages));
  stats.bytes = slot.at(offsetof(lane_slot, bytes));
  stats.full = slot.at(offsetof(lane_slot, full));
  stats.wake_ups = slot.at(offsetof(lane_slot, rings));
  stats.space_rings = slot.at(offsetof(lane_slot, space_rings));
  stats.redelivered = slot.at(offsetof(lane_slot, redelivered));
  stats.quarantined = slot.at(offsetof(lane_slot, quarantines));
  stats.padding_bytes = slot.at(offsetof(lane_slot, padding_bytes));
  stats.high_water_mark = slot.at(offsetof(lane_slot, high_water_mark));
}

void add(channel_stats& sum, const channel_stats& lane) noexcept {
  sum.messages += lane.messages;
  sum.bytes += lane.bytes;
  sum.full += lane.full;
  sum.wake_ups += lane.wake_ups;
  sum.space_rings += lane.space_rings;
  sum.redelivered += lane.redelivered;
  sum.quarantined += lane.quarantined;
  sum.padding_bytes += lane.padding_bytes;
  sum.high_water_mark = std::max(sum.high_water_mark, lane.high_water_mark);
}

lane_report describe_lane(const segment_view& view, std::uint32_t index) {
  lane_report lane;
  lane.index = index;
  slot_copy slot;
  if (!view.read_slot(index, slot)) {
    lane.possible = false;
    return lane;
  }
  const auto session = slot.record_at<open_record>(offsetof(lane_slot, session));
  lane.sender = note_of(session);
  lane.session = session.session;
  lane.head = slot.at(offsetof(lane_slot, head));
  lane.handling = slot.at(offsetof(lane_slot, handling));
  lane.done = slot.at(offsetof(lane_slot, done));
  lane.tail = slot.at(offsetof(lane_slot, tail));
  lane.possible = view.is_possible(slot);
  lane.waiting_bytes = lane.possible ? lane.tail - lane.done : 0;
  lane.reserved_bytes = slot.at(offsetof(lane_slot, reserved_bytes));
  const std::uint64_t alert = slot.at(offsetof(lane_slot, alert));
  lane.parked = (alert & alert_parked) != 0;
  lane.retired = (alert & alert_retired) != 0;
  lane.quarantined = slot.at(offsetof(lane_slot, quarantined)) != 0;
  lane.withdrawn = slot.at(offsetof(lane_slot, withdrawn)) != 0;
  lane.wants_space = (slot.at(offsetof(lane_slot, request)) & request_space) != 0;
  lane.sender_fences = slot.at(offsetof(lane_slot, fence_echo)) != 0;
  fill_stats(lane.stats, slot);
  const bool something = lane.reserved_bytes != 0 || lane.tail != lane.done || lane.quarantined;
  if (view.is_held(lane_lock_byte(index))) {
    lane.state = lane_state::held;
  } else if (something) {
    lane.state = lane_state::orphan;
  }
  return lane;
}

void describe_header(segment_report& report, const segment_view& view, const header_copy& header) {
  report.lane_count = view.geometry().lane_count;
  report.lane_size = view.geometry().lane_size;
  report.message_limit = view.geometry().message_limit;
  report.file_size = view.geometry().file_size();
  struct stat st {};
  if (kernel().fstat(view.descriptor(), &st) == 0)
    report.allocated_bytes = static_cast<std::uint64_t>(st.st_blocks) * 512;
  const auto identity = header.record_at<segment_identity>(offsetof(segment_header, identity));
  report.created_at = identity.created_at;
  report.segment_id = identity.segment_id;
  report.receiver = note_of(header.record_at<receiver_note>(offsetof(segment_header, note)));
  report.generation = header.at(offsetof(segment_header, generation));
  report.sleeping = (header.at(offsetof(segment_header, sleeping)) & 0xffffffff) != 0;
  report.receiver_is_fenceless = header.at(offsetof(segment_header, fence_needed)) != 0;
  report.receiver_wake_ups = header.at(offsetof(segment_header, wake_ups));
  report.sleeps = header.at(offsetof(segment_header, sleeps));
  report.short_sleeps = header.at(offsetof(segment_header, short_sleeps));
  report.connections_refused = header.at(offsetof(segment_header, connections_refused));
  report.barriers = header.at(offsetof(segment_header, barriers));
}

segment_state state_of(const segment_report& report, const segment_view& view,
                       const header_copy& header) noexcept {
  if (header.at(offsetof(segment_header, retired)) != 0)
    return segment_state::retired;
  if (view.is_held(receiver_lock_byte))
    return segment_state::live;
  return report.held_lanes != 0 ? segment_state::waiting : segment_state::orphan;
}

}  // namespace

segment_report describe(const segment_name& wanted) {
  segment_report report;
  report.name = printable(wanted.name.c_str(), wanted.name.size());
  report.path = wanted.directory + "/" + std::string{segment_prefix} + report.name;
  auto view = segment_view::open(wanted);
  if (!view) {
    report.problem = view.error();
    return report;
  }
  header_copy header;
  if (!view->read_header(header)) {
    report.problem = {errc::not_a_segment, wanted.text() + ": it shrank while it was read"};
    return report;
  }
  describe_header(report, *view, header);
  report.lanes.reserve(report.lane_count);
  for (std::uint32_t i = 0; i < report.lane_count; ++i) {
    const lane_report& lane = report.lanes.emplace_back(describe_lane(*view, i));
    report.held_lanes += lane.state == lane_state::held ? 1 : 0;
    report.used_lanes += lane.state != lane_state::unused ? 1 : 0;
    report.waiting_bytes += lane.waiting_bytes;
    add(report.stats, lane.stats);
  }
  report.state = state_of(report, *view, header);
  return report;
}

}  // namespace detail

std::string_view name(segment_state state) noexcept {
  switch (state) {
    case segment_state::live:
      return "live";
    case segment_state::waiting:
      return "waiting";
    case segment_state::orphan:
      return "orphan";
    case segment_state::retired:
      return "retired";
    case segment_state::invalid:
      return "invalid";
  }
  return "unknown";
}

std::string_view name(lane_state state) noexcept {
  switch (state) {
    case lane_state::unused:
      return "unused";
    case lane_state::held:
      return "held";
    case lane_state::orphan:
      return "orphan";
  }
  return "unknown";
}

result<std::vector<segment_report>> list_segments(const std::string& directory) {
  auto names = detail::names_in(directory, detail::segment_prefix);
  if (!names)
    return names.error();
  std::vector<segment_report> reports;
  for (std::string& found : *names) {
    // The file may have a name that is not valid; inspect it all the same.
    detail::segment_name wanted;
    wanted.name = std::move(found);
    wanted.directory = directory;
    auto report = detail::describe(wanted);
    // Skip a segment that was removed after the directory was read.
    if (!(report.problem == errc::not_found))
      reports.push_back(std::move(report));
  }
  return reports;
}

result<segment_report> inspect_segment(std::string_view name, const std::string& directory) {
  auto wanted = detail::named_segment(name, directory);
  if (!wanted)
    return wanted.error();
  auto report = detail::describe(*wanted);
  if (report.problem == errc::not_found)
    return report.problem;
  return report;
}

}  // namespace atbus
