#include "http/status_pages.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "http/health.h"
#include "http/metrics.h"
#include "http/page/status_page.h"
#include "http/report/node_life.h"
#include "http/report/report_json.h"

namespace atbus::detail {
namespace {

using json = nlohmann::ordered_json;

constexpr std::chrono::milliseconds kept_at_least{250};
constexpr int kept_times_as_long_as_made = 20;

constexpr const char* json_type = "application/json";
constexpr const char* page_type = "text/html; charset=utf-8";
// The page has its script and its style within it, and asks this server alone.
constexpr const char* page_policy =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

http_reply to_reply(const health& of) {
  return {of.good ? 200U : 503U, text_type, of.text};
}

http_reply without_report(const error& why) {
  return {503, text_type, why.text() + '\n'};
}

}  // namespace

const http_reply& status_pages::at(std::string_view path) {
  if (path == "/")
    return for_people_;
  for (page& one : pages_) {
    if (one.path == path)
      return fresh(one, *this);
  }
  return not_found_;
}

const http_reply& status_pages::fresh(page& of, const status_pages& by) {
  const auto begin = clock::now();
  if (!of.made || begin >= of.until) {
    of.made.reset();
    of.made.emplace((by.*of.make)());
    const auto end = clock::now();
    of.until =
        end + std::max<clock::duration>(kept_at_least, (end - begin) * kept_times_as_long_as_made);
  }
  return *of.made;
}

result<node_report_file> status_pages::own_report() const {
  return find_node_report(of_.id, of_.incarnation, of_.directory);
}

http_reply status_pages::metrics() const {
  const auto file = own_report();
  if (!file)
    return without_report(file.error());
  const std::uint64_t now = now_since_1970();
  if (!file->problem)
    return to_reply(health_of(*file, now));
  return {200, metrics_type, metrics_text(*file, of_.peers_max, now)};
}

http_reply status_pages::healthz() const {
  const auto file = own_report();
  return file ? to_reply(health_of(*file, now_since_1970())) : without_report(file.error());
}

http_reply status_pages::readyz() const {
  const auto file = own_report();
  return file ? to_reply(readiness_of(*file, of_.needs_parent, now_since_1970()))
              : without_report(file.error());
}

http_reply status_pages::all_nodes() const {
  const auto found = list_node_reports(of_.directory);
  const std::uint64_t now = now_since_1970();
  json all = {{"at", now}, {"self", of_.id.to_string()}};
  json& nodes = all["nodes"] = json::array();
  if (!found) {
    all["text"] = found.error().text();
    return {503, json_type, all.dump(-1, ' ', true, json::error_handler_t::replace)};
  }
  std::size_t peers_left = of_.peers_max;
  for (const node_report_file& file : *found) {
    json one = to_json_with_peers(file, peers_left);
    one["life"] = name(life_of(file, now));
    peers_left -= one["peers"].size();
    nodes.push_back(std::move(one));
  }
  return {200, json_type, all.dump(-1, ' ', true, json::error_handler_t::replace)};
}

http_reply status_pages::page_for_people() {
  return http_reply{200, page_type, status_page()}.with("Content-Security-Policy", page_policy);
}

}  // namespace atbus::detail
