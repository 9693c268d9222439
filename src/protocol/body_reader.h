// Reads the body of a control message without trusting it, because an unproven peer may have made it. An
// announced length reserves no memory, and a value above a limit of control.h ends the reading.
#pragma once

#include <cstdint>
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

// The destination of a value; its type is the type of the value. Byte arrays must have the exact size.
using field_target =
    std::variant<bool*, std::uint8_t*, std::uint16_t*, std::uint64_t*, bus_id*, errc*, relation*,
                 mutable_bytes, std::string*, std::vector<std::string>*>;

struct body_field {
  std::uint64_t key = 0;
  std::string_view name;
  field_target target;
  bool found = false;
};

// Each field has to occur exactly once; unknown keys are skipped. The error names the field.
[[nodiscard]] error read_body(bytes_view body, std::span<body_field> fields);

// The numbers in a body that holds only the fields 1, 2 and so on, written as by encode(). False for any other
// body. For frequent messages, and for those whose effect must not depend on memory: msgpack-c allocates.
[[nodiscard]] bool read_numbers(bytes_view body, std::span<std::uint64_t> numbers) noexcept;

}  // namespace atbus::detail
