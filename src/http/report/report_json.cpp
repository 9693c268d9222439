#include "http/report/report_json.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "http/report/node_life.h"

namespace atbus::detail {
namespace {

using json = nlohmann::ordered_json;

json histogram_json(const time_histogram& times) {
  return {{"total", times.total()},
          {"p50", times.quantile(0.5).count()},
          {"p99", times.quantile(0.99).count()},
          {"p999", times.quantile(0.999).count()}};
}

}  // namespace

json to_json(const peer_report& peer) {
  json all = {{"id", peer.id.to_string()},
              {"incarnation", peer.incarnation},
              {"relation", name(peer.relation)},
              {"channel", name(peer.channel)},
              {"away", peer.away},
              {"encrypted", peer.encrypted},
              {"wanted", peer.wanted},
              {"address", peer.address},
              {"sent", peer.sent},
              {"sent_bytes", peer.sent_bytes},
              {"received", peer.received},
              {"received_bytes", peer.received_bytes},
              {"would_block", peer.would_block},
              {"undelivered", peer.undelivered},
              {"queued_messages", peer.queued_messages},
              {"queued_bytes", peer.queued_bytes},
              {"queued_bytes_most", peer.queued_bytes_most},
              {"links", peer.links},
              {"links_lost", peer.links_lost}};
  all["last_loss"] = peer.last_loss_at != 0 ? json(name(peer.last_loss)) : json(nullptr);
  all["last_loss_at"] = peer.last_loss_at;
  all["round_trip"] = peer.round_trip.count();
  all["round_trips"] = histogram_json(peer.round_trips);
  return all;
}

json to_json(const node_report_file& file) {
  json all = {{"path", file.path}, {"alive", file.alive}};
  if (!file.problem) {
    all["problem"] = name(file.problem.code());
    all["text"] = file.problem.text();
    return all;
  }
  const node_report& report = file.report;
  all.update(
      {{"id", report.id.to_string()},
       {"incarnation", report.incarnation},
       {"parent", report.parent == bus_id{} ? json(nullptr) : json(report.parent.to_string())},
       {"pid", report.pid},
       {"program", report.program},
       {"version", report.version},
       {"started_at", report.started_at},
       {"updated_at", report.updated_at},
       {"addresses", report.addresses},
       {"message_limit", report.message_limit},
       {"peers_in_all", report.peers_in_all},
       {"connected", connected_of(report)},
       {"queued_bytes", queued_bytes_of(report)},
       {"handling", histogram_json(report.handling)}});
  json& stats = all["stats"];
  for (const node_counter& one : node_counters())
    stats[std::string{one.name}] = one.in(report.stats);
  return all;
}

json to_json_with_peers(const node_report_file& file, std::size_t most) {
  json all = to_json(file);
  json peers = json::array();
  const std::span<const peer_report> known{file.report.peers};
  for (const peer_report& one : known.first(std::min(most, known.size())))
    peers.push_back(to_json(one));
  all["peers"] = std::move(peers);
  return all;
}

}  // namespace atbus::detail
