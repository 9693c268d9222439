// How a node's record stands in a registry: its id as a key, the rest as JSON. doc/design/etcd.md has the format.
//
// Pure functions. Anybody may have written what is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "atbus/directory.hpp"
#include "atbus/status.hpp"

namespace atbus::detail {

inline constexpr int record_version = 1;
inline constexpr std::size_t record_bytes_max = std::size_t{64} << 10U;
// Of one node.
inline constexpr std::size_t record_addresses_max = 16;
inline constexpr std::size_t record_services_max = 256;
inline constexpr std::size_t record_labels_max = 64;
inline constexpr std::size_t service_name_max = 128;

// 16 hexadecimal digits.
[[nodiscard]] std::string to_key(bus_id id);
// Nothing: it is no id of a node.
[[nodiscard]] std::optional<bus_id> from_key(std::string_view key);

// Errors: invalid_argument, when others could not read it.
[[nodiscard]] result<std::string> write_record(const directory_record& record);

struct read_record_result {
  directory_record record;
  std::size_t wrong_addresses = 0;  // which it has not
};
// Errors: malformed; version_mismatch: another version of the format; message_too_large.
[[nodiscard]] result<read_record_result> read_record(bus_id id, std::string_view text);

}  // namespace atbus::detail
