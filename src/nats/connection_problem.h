// What libnats says of the latest failure of this thread.
#pragma once

#include <nats/nats.h>

#include <string>

namespace atbus::detail {

inline std::string last_problem(natsStatus status) {
  const char* const text = nats_GetLastError(nullptr);
  return text != nullptr && *text != '\0' ? text : natsStatus_GetText(status);
}

}  // namespace atbus::detail
