// Base64 of RFC 4648, with padding: how keys and values of etcd are written in JSON.
//
// Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace atbus::detail {

[[nodiscard]] std::string to_base64(std::string_view bytes);
// Nothing: it is none.
[[nodiscard]] std::optional<std::string> from_base64(std::string_view text);

}  // namespace atbus::detail
