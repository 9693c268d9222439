// The keys below the prefix, as etcd has them, and the records that they are. What can't be used is counted and left
// out.
//
// A list that has ended replaces everything, unless it has met the limits: then it adds and changes only, so that
// nobody makes records unknown by writing others.
//
// One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "atbus/etcd.hpp"
#include "atbus/status.hpp"
#include "discovery/etcd_message.h"
#include "node/directory/record_table.h"

namespace atbus::detail {

class etcd_keys {
 public:
  static constexpr std::size_t bytes_max = std::size_t{64} << 20U;
  // What etcd has under a key.
  struct standing {
    std::int64_t revision = 0;
    std::int64_t lease = 0;
    std::uint32_t size = 0;
    bool is_record = false;
    bool is_flawed = false;  // no record, or one without all that it names
  };

  etcd_keys(std::string prefix, std::size_t records_max, etcd_stats& stats)
      : prefix_(std::move(prefix)), records_max_(records_max), stats_(stats) {}

  // Changes, in the order of their revisions. Keys begin with the prefix.
  void put(const etcd_pair& pair);
  void remove(std::string_view key);

  void begin_list();
  // False: no more of them are taken.
  [[nodiscard]] bool list(const etcd_pair& pair);
  // The value was too large to be sent.
  [[nodiscard]] bool list_without_value(const etcd_pair& pair);
  // `is_whole`: all keys were listed.
  void end_list(bool is_whole);

  [[nodiscard]] record_table& records() noexcept { return records_; }
  [[nodiscard]] const record_table& records() const noexcept { return records_; }
  // Null: etcd has no such key, as far as is known.
  [[nodiscard]] const standing* find(bus_id id) const;
  // How many there are; nothing if not all are known.
  [[nodiscard]] std::optional<std::size_t> count() const noexcept {
    return now_.is_complete ? std::optional{now_.keys.size()} : std::nullopt;
  }
  // No error, or that something is left out. The sentence stays while there is.
  [[nodiscard]] const error& problem() const noexcept { return problem_; }

 private:
  struct key_set {
    std::unordered_map<std::string, standing> keys;  // without the prefix
    std::size_t records = 0;
    std::size_t bytes = 0;
    std::size_t flawed = 0;
    bool is_complete = true;
  };

  [[nodiscard]] std::string_view without_prefix(std::string_view key) const noexcept {
    return key.substr(prefix_.size());
  }
  // The record of a key, if it is one and there is room for it.
  std::optional<directory_record> admit(key_set& into, const etcd_pair& pair, bool has_value);
  [[nodiscard]] result<directory_record> read(const etcd_pair& pair, bool has_value,
                                              bool& is_flawed);
  [[nodiscard]] bool has_room_to_list() noexcept { return ++listed_count_ < 2 * records_max_; }
  static void forget(key_set& in, std::string_view name);
  void note_flaw(const etcd_pair& pair, const error& why);
  void settle();

  const std::string prefix_;
  const std::size_t records_max_;
  etcd_stats& stats_;
  record_table records_;
  key_set now_;
  key_set listed_;
  std::size_t listed_count_ = 0;  // with those that are not kept
  record_table::records listed_records_;
  error problem_;
};

}  // namespace atbus::detail
