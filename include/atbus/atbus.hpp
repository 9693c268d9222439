// Everything most programs need: include this one header. Apart from it stand the binding to libuv
// (atbus/channel/loop.hpp), looking at segments from outside (atbus/channel/inspect.hpp), ranges of
// bus ids (atbus/core/id_range.hpp) and the buffers (atbus/buffer/).
#pragma once

#include "atbus/channel/receiver.hpp"
#include "atbus/channel/sender.hpp"
#include "atbus/core/address.hpp"
#include "atbus/core/bus_id.hpp"
#include "atbus/core/bytes.hpp"
#include "atbus/core/clock.hpp"
#include "atbus/core/status.hpp"
#include "atbus/node/directory.hpp"
#include "atbus/node/node.hpp"
