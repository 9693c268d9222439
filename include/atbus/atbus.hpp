/// @file
/// Everything most programs need: include this one header. Not included: the libuv binding
/// (atbus/loop.hpp), connections (atbus/connection.hpp), inspection of segments
/// (atbus/inspect.hpp), the memory pool (atbus/block_pool.hpp) and the simulator
/// (atbus/testing.hpp).
#pragma once

#include "atbus/address.hpp"
#include "atbus/blob.hpp"
#include "atbus/bus_id.hpp"
#include "atbus/bytes.hpp"
#include "atbus/clock.hpp"
#include "atbus/directory.hpp"
#include "atbus/node.hpp"
#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "atbus/service.hpp"
#include "atbus/status.hpp"
#include "atbus/subscription.hpp"
#include "atbus/task.hpp"
#include "atbus/topic.hpp"

/// All of the library. Names in atbus::detail are its own, and may change at any time.
namespace atbus {}
