// The options of a node, from a table.
#pragma once

#include "values.h"

// Texts of options that are lists, and the NULL behind them.
typedef struct option_lists {
  const char* tokens[16];
  const char* parents[16];
} option_lists;

// Reads the table at 2, and leaves what has to stay on the stack as long as the options are used. Raises an error of Lua
// if an option is unknown, or has a value of the wrong type.
__attribute__((visibility("hidden"))) void read_options(lua_State* L, atbus_node_options* to,
                                                        option_lists* lists);
