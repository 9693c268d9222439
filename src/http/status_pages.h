// The paths of a status server and their answers.
//
// An answer is made anew if it is 250 ms old, and if making it has taken at most a twentieth of the time since.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "atbus/bus_id.hpp"
#include "atbus/node_report.hpp"
#include "http/http_reply.h"

namespace atbus::detail {

struct status_subject {
  bus_id id;
  std::uint64_t incarnation = 0;
  std::string directory;  // of the reports
  bool needs_parent = false;
  std::size_t peers_max = 0;  // in one answer
};

class status_pages {
 public:
  explicit status_pages(status_subject of) : of_(std::move(of)) {}

  // Stays until the next call. Throws std::bad_alloc.
  const http_reply& at(std::string_view path);

 private:
  using clock = std::chrono::steady_clock;
  using maker = http_reply (status_pages::*)() const;
  struct page {
    std::string_view path;
    maker make;
    std::optional<http_reply> made;
    clock::time_point until;  // then it is too old
  };

  static const http_reply& fresh(page& of, const status_pages& by);
  [[nodiscard]] result<node_report_file> own_report() const;
  [[nodiscard]] http_reply metrics() const;
  [[nodiscard]] http_reply healthz() const;
  [[nodiscard]] http_reply readyz() const;
  [[nodiscard]] http_reply all_nodes() const;

  const status_subject of_;
  page pages_[4] = {{"/metrics", &status_pages::metrics, {}, {}},
                    {"/healthz", &status_pages::healthz, {}, {}},
                    {"/readyz", &status_pages::readyz, {}, {}},
                    {"/status.json", &status_pages::all_nodes, {}, {}}};
  const http_reply for_people_ = page_for_people();
  const http_reply not_found_{404, text_type,
                              "there are /, /metrics, /healthz, /readyz and /status.json\n"};

  static http_reply page_for_people();
};

}  // namespace atbus::detail
