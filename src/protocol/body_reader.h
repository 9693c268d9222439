// Reads the body of a control message, which a stranger may have made, without trusting a number in
// it: what is announced reserves nothing, and what exceeds a limit of control.h ends the reading.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "atbus/bus_id.hpp"
#include "atbus/bytes.hpp"
#include "atbus/status.hpp"
#include "protocol/relation.h"

namespace atbus::detail {

// Where a value goes; its type says what the value has to be. Bytes have their exact number.
using field_target =
    std::variant<bool*, std::uint8_t*, std::uint16_t*, std::uint64_t*, bus_id*, errc*, relation*,
                 mutable_bytes, std::string*, std::vector<std::string>*>;

struct body_field {
  std::uint64_t key = 0;
  std::string_view name;
  field_target target;
  bool found = false;
};

// Every field has to be there, once; other keys are passed over. The error names the field.
[[nodiscard]] error read_body(bytes_view body, std::span<body_field> fields);

// The number in a body that holds nothing but field 1, written as encode() does. What nodes tell each
// other all the time is read so, because msgpack-c allocates; nothing for any other body.
[[nodiscard]] std::optional<std::uint64_t> read_lone_number(bytes_view body) noexcept;

}  // namespace atbus::detail
