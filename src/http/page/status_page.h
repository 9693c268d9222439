// The page for people, status.html, as the build puts it into the library.
#pragma once

#include <string_view>

namespace atbus::detail {

[[nodiscard]] std::string_view status_page() noexcept;

}  // namespace atbus::detail
