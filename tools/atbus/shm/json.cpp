#include "atbus/shm/json.h"

#include "atbus/format.h"

namespace atbus::tool {
namespace {

using json = nlohmann::ordered_json;

json process_json(const process_note& note) {
  if (note.pid == 0)
    return nullptr;
  return {{"pid", note.pid}, {"program", note.program}, {"opened_at", note.opened_at}};
}

json record_json(const record_report& record) {
  return {{"position", record.position},
          {"kind", record.kind},
          {"length", record.length},
          {"state", name(record.state)},
          {"first_bytes", hex(record.first_bytes)}};
}

json list(const std::vector<record_report>& records) {
  json all = json::array();
  for (const record_report& record : records)
    all.push_back(record_json(record));
  return all;
}

}  // namespace

json to_json(const channel_stats& stats) {
  return {{"messages", stats.messages},
          {"bytes", stats.bytes},
          {"full", stats.full},
          {"wake_ups", stats.wake_ups},
          {"space_rings", stats.space_rings},
          {"redelivered", stats.redelivered},
          {"quarantined", stats.quarantined},
          {"padding_bytes", stats.padding_bytes},
          {"high_water_mark", stats.high_water_mark}};
}

json to_json(const lane_report& lane) {
  return {{"index", lane.index},
          {"state", name(lane.state)},
          {"sender", process_json(lane.sender)},
          {"session", lane.session},
          {"head", lane.head},
          {"handling", lane.handling},
          {"done", lane.done},
          {"tail", lane.tail},
          {"possible", lane.possible},
          {"waiting_bytes", lane.waiting_bytes},
          {"reserved_bytes", lane.reserved_bytes},
          {"parked", lane.parked},
          {"retired", lane.retired},
          {"quarantined", lane.quarantined},
          {"withdrawn", lane.withdrawn},
          {"wants_space", lane.wants_space},
          {"sender_fences", lane.sender_fences},
          {"stats", to_json(lane.stats)}};
}

json to_json(const segment_report& segment) {
  json report{{"name", segment.name}, {"path", segment.path}, {"state", name(segment.state)}};
  if (segment.state == segment_state::invalid) {
    report["problem"] = {{"code", name(segment.problem.code())}, {"text", segment.problem.text()}};
    return report;
  }
  report.update({{"lane_count", segment.lane_count},
                 {"lane_size", segment.lane_size},
                 {"message_limit", segment.message_limit},
                 {"file_size", segment.file_size},
                 {"allocated_bytes", segment.allocated_bytes},
                 {"created_at", segment.created_at},
                 {"segment_id", segment.segment_id},
                 {"receiver", process_json(segment.receiver)},
                 {"generation", segment.generation},
                 {"sleeping", segment.sleeping},
                 {"receiver_is_fenceless", segment.receiver_is_fenceless},
                 {"receiver_wake_ups", segment.receiver_wake_ups},
                 {"sleeps", segment.sleeps},
                 {"short_sleeps", segment.short_sleeps},
                 {"connections_refused", segment.connections_refused},
                 {"barriers", segment.barriers},
                 {"held_lanes", segment.held_lanes},
                 {"used_lanes", segment.used_lanes},
                 {"waiting_bytes", segment.waiting_bytes},
                 {"stats", to_json(segment.stats)}});
  return report;
}

json to_json(const records_report& records) {
  return {{"near_head", list(records.near_head)},
          {"left_out", records.left_out},
          {"near_tail", list(records.near_tail)},
          {"waiting_messages", records.waiting_messages},
          {"waiting_payload_bytes", records.waiting_payload_bytes},
          {"complete", records.complete}};
}

json to_json(const clean_report& report) {
  return {{"name", report.name},
          {"outcome", name(report.outcome)},
          {"why", report.why},
          {"removed", report.removed},
          {"undelivered_messages", report.undelivered_messages},
          {"undelivered_bytes", report.undelivered_bytes},
          {"counted", report.counted}};
}

}  // namespace atbus::tool
