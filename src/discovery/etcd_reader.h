// Keeps up with the keys below a prefix: lists them, watches them from there on, and checks now and then that nothing
// was missed. doc/design/etcd.md has the picture.
//
// One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "atbus/etcd.hpp"
#include "discovery/etcd_client.h"
#include "discovery/etcd_keys.h"
#include "discovery/line_splitter.h"

namespace atbus::detail {

class etcd_reader {
 public:
  static constexpr std::size_t page_keys = 256;
  static constexpr std::chrono::nanoseconds relist_interval = std::chrono::minutes{1};

  etcd_reader(etcd_client& client, const etcd_options& options, etcd_stats& stats,
              random_pause& pauses);

  void work(std::chrono::nanoseconds now);
  // When it has something to do, if the client is ready.
  [[nodiscard]] std::chrono::nanoseconds next() const noexcept;
  // All that is known may be incomplete: lists the keys, and after a pause if that was done a moment ago.
  void list_again() noexcept;

  [[nodiscard]] etcd_keys& keys() noexcept { return keys_; }
  // What etcd has of a node; null: nothing, if all that it has is known.
  [[nodiscard]] const etcd_keys::standing* find(bus_id id) const { return keys_.find(id); }
  [[nodiscard]] bool is_whole() const noexcept { return keys_.count().has_value(); }
  // Changes up to this one are in keys(); 0: nothing is known yet.
  [[nodiscard]] std::int64_t revision() const noexcept { return next_ - 1; }
  // When etcd had no other keys than these.
  [[nodiscard]] std::chrono::nanoseconds confirmed() const noexcept { return confirmed_; }

 private:
  using call = etcd_client::call;
  enum class stage : std::uint8_t { list, watch, follow };

  void stop() noexcept;
  void ask_page();
  void take_page(const etcd_answer& answer, bool without_values);
  [[nodiscard]] bool is_in_order(const etcd_page& page) const;
  void watch();
  void take_part(std::string_view bytes);
  [[nodiscard]] bool take_line(std::string_view line);
  [[nodiscard]] bool take_end_of_watch(const etcd_news& news);
  void take_events(const etcd_news& news);
  void check();
  void take_check(const etcd_answer& answer, std::int64_t asked);
  [[nodiscard]] bool is_other_etcd(const etcd_header& header, std::int64_t next) const noexcept;

  etcd_client& client_;
  const etcd_options& options_;
  etcd_stats& stats_;
  random_pause& pauses_;
  const key_range range_;
  etcd_keys keys_;
  stage stage_ = stage::list;
  std::uint64_t generation_ = 0;
  call list_ = 0;
  call watch_ = 0;
  call check_ = 0;

  std::uint64_t cluster_ = 0;
  std::int64_t next_ = 1;  // the revision that comes next

  // Of the list under way.
  std::string from_;
  std::int64_t list_revision_ = 0;
  std::size_t page_limit_ = page_keys;
  bool without_values_ = false;
  std::chrono::nanoseconds list_at_{0};
  std::size_t lists_in_a_row_ = 0;  // without a check between them

  std::optional<line_splitter> lines_;
  bool is_watching_ = false;        // etcd has said so
  std::uint64_t watched_with_ = 0;  // the number of the token
  std::chrono::nanoseconds watched_by_{0};
  std::chrono::nanoseconds check_at_{0};
  std::chrono::nanoseconds relist_at_{0};
  std::optional<std::int64_t> differed_at_;  // the check before this one
  std::chrono::nanoseconds confirmed_{0};
};

}  // namespace atbus::detail
