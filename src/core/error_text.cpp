#include "core/error_text.h"

#include <string>

namespace atbus::detail {

error error_at(errc code, std::string_view where, std::string_view what, int system_code) noexcept {
  try {
    std::string text{where};
    return {code, text.append(": ").append(what), system_code};
  } catch (const std::bad_alloc&) {
    return {code, {}, system_code};
  }
}

error error_at(std::string_view where, const error& why) noexcept {
  try {
    std::string text{where};
    return why.with_text(text.append(": ").append(why.text()));
  } catch (const std::bad_alloc&) {
    return why;
  }
}

}  // namespace atbus::detail
