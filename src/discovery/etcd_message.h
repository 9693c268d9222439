// What is said to etcd and by it, in the JSON of its gateway.
//
// Pure functions. What comes from outside is limited by its length (http_loop) and its depth; anything else than
// etcd says is a protocol_error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "atbus/status.hpp"

namespace atbus::detail {

struct etcd_header {
  std::uint64_t cluster = 0;
  std::int64_t revision = 0;
};

struct etcd_pair {
  std::string key;
  std::string value;
  std::int64_t revision = 0;  // of its last change
  std::int64_t lease = 0;
};

struct etcd_page {
  etcd_header header;
  std::vector<etcd_pair> pairs;
  std::uint64_t count = 0;  // in the whole range
  bool has_more = false;
};

struct etcd_event {
  bool is_removal = false;
  etcd_pair pair;
};

// One message of a watch.
struct etcd_news {
  etcd_header header;
  std::vector<etcd_event> events;
  bool is_created = false;
  bool is_canceled = false;
  bool is_fragment = false;    // more of the same revision follows
  std::int64_t compacted = 0;  // canceled, because changes up to this revision are gone
  std::string reason;          // canceled, or a failure of the gateway
};

struct etcd_lease {
  std::int64_t id = 0;
  std::int64_t seconds = 0;  // left; 0: etcd does not know it
};

// Why etcd has not done something: a code of gRPC, and etcd's text for people.
struct etcd_refusal {
  int code = 0;
  std::string text;
};

// A range of keys: from the first up to, but not including, the last.
struct key_range {
  std::string first;
  std::string last;
};
// Of all keys that begin with a prefix.
[[nodiscard]] key_range keys_with(std::string_view prefix);

// At most `most` keys at a revision; 0: the newest.
[[nodiscard]] std::string ask_for_page(const key_range& keys, std::size_t most,
                                       std::int64_t revision, bool without_values);
// How many keys there are, and one that has changed at that revision or later.
[[nodiscard]] std::string ask_for_changes(const key_range& keys, std::int64_t from);
[[nodiscard]] std::string ask_for_watch(const key_range& keys, std::int64_t from);
[[nodiscard]] std::string ask_for_lease(std::int64_t seconds);
// To keep it alive, and to revoke it.
[[nodiscard]] std::string name_lease(std::int64_t id);
[[nodiscard]] std::string ask_to_put(std::string_view key, std::string_view value,
                                     std::int64_t lease);
// If it is on that lease.
[[nodiscard]] std::string ask_to_remove(std::string_view key, std::int64_t lease);
[[nodiscard]] std::string ask_for_token(std::string_view user, std::string_view password);

[[nodiscard]] result<etcd_page> read_page(std::string_view text);
[[nodiscard]] result<etcd_news> read_news(std::string_view line);
[[nodiscard]] result<etcd_lease> read_lease(std::string_view text);
// The answer to the other requests.
[[nodiscard]] result<etcd_header> read_header(std::string_view text);
[[nodiscard]] result<std::string> read_token(std::string_view text);
// Whatever the body is. The text is printable.
[[nodiscard]] etcd_refusal read_refusal(int status, std::string_view body);

}  // namespace atbus::detail
