// What systemd wants to hear of a service: sd_notify(3), without its library.
#pragma once

#include <string_view>

namespace atbus::tool {

// "READY=1" and the like, to the socket that $NOTIFY_SOCKET names. Does nothing without one.
void tell_service_manager(std::string_view what) noexcept;

}  // namespace atbus::tool
