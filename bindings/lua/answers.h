// Requests and commands of other nodes, which have to be answered.
#pragma once

#include "values.h"

#define HIDDEN __attribute__((visibility("hidden")))

HIDDEN void add_answer_classes(lua_State* L);
// Pushes what a callback was given, taken out of the callback.
HIDDEN void push_request(lua_State* L, atbus_request* given);
HIDDEN void push_command(lua_State* L, atbus_command* given);
