// The options of C as those of C++.
#pragma once

#include "atbus/atbus.h"
#include "atbus/channel_options.hpp"
#include "atbus/node_options.hpp"
#include "atbus/status.hpp"

namespace atbus::c_api {

// `from` may be null. Errors: invalid_argument (its size is none that any version has had).
result<node_options> to_node_options(const atbus_node_options* from);
result<receiver_options> to_receiver_options(const atbus_channel_options* from);
result<sender_options> to_sender_options(const atbus_channel_options* from);

}  // namespace atbus::c_api
