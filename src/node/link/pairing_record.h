// What the transport itself writes into lanes: two lanes, one in each node's inbox, become one link.
//
//   offset  size  field
//        0     1  0xff: no message of a node begins so
//        1     1  1 call: the first thing in a dialler's lane; 2 answer: the first in the other one
//        2     1  version, 1
//        3     1  flags: 1 the writer's inbox outlives its process; the others are 0
//        4     4  bytes of the address, 1 to 512; 0 in an answer
//        8     8  "atbusPR1"
//       16     8  token: random, not 0; the answer repeats the call's
//       24        the address of the writer's inbox, for the way back
//
// Numbers are little endian. A pure format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "atbus/bytes.hpp"

namespace atbus::detail {

enum class pairing_kind : std::uint8_t { call = 1, answer = 2 };

struct pairing_record {
  pairing_kind kind = pairing_kind::call;
  bool durable = false;  // the writer's inbox outlives its process
  std::uint64_t token = 0;
  std::string address;  // of a call
  friend bool operator==(const pairing_record&, const pairing_record&) = default;
};

// Whether it is no message of a node.
[[nodiscard]] inline bool is_transports_own(bytes_view message) noexcept {
  return !message.empty() && message[0] == std::byte{0xff};
}

[[nodiscard]] std::vector<std::byte> to_bytes(const pairing_record& record);
// Nothing if any byte is not as above.
[[nodiscard]] std::optional<pairing_record> read_pairing_record(bytes_view message);

}  // namespace atbus::detail
