// What the clients and the service of a request benchmark agree on.
#pragma once

#include <cstdint>
#include <string_view>

namespace atbus::bench {

inline constexpr std::uint32_t type_of_requests = 1;
// Why a request fails that a service has no memory to begin.
inline constexpr std::string_view busy_text = "busy";

}  // namespace atbus::bench
