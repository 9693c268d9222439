// Everything most programs need: include this one header. Apart from it stand the binding to libuv
// (atbus/loop.hpp), looking at segments from outside (atbus/inspect.hpp), ranges of
// bus ids (atbus/id_range.hpp) and the buffers (atbus/buffer/).
#pragma once

#include "atbus/address.hpp"
#include "atbus/bus_id.hpp"
#include "atbus/bytes.hpp"
#include "atbus/clock.hpp"
#include "atbus/directory.hpp"
#include "atbus/node.hpp"
#include "atbus/receiver.hpp"
#include "atbus/sender.hpp"
#include "atbus/status.hpp"
