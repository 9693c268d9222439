#include "options.h"

#include <string.h>

// The text on top of the stack.
static const char* text_of(lua_State* L, const char* name) {
  const char* const text = whole_text(L, -1);
  if (text == NULL)
    luaL_error(L, "the option %s has a zero byte in it", name);
  return text;
}

// Texts stay on the stack, because the table may be one that makes them when it is asked.
static const char* text_option(lua_State* L, const char* name) {
  lua_getfield(L, 2, name);
  if (!lua_isnil(L, -1) && lua_type(L, -1) != LUA_TSTRING)
    luaL_error(L, "the option %s has to be a text", name);
  return lua_isnil(L, -1) ? NULL : text_of(L, name);
}

static lua_Number number_option(lua_State* L, const char* name) {
  lua_getfield(L, 2, name);
  if (!lua_isnil(L, -1) && lua_type(L, -1) != LUA_TNUMBER)
    luaL_error(L, "the option %s has to be a number", name);
  const lua_Number number = lua_isnil(L, -1) ? 0 : lua_tonumber(L, -1);
  lua_pop(L, 1);
  return number;
}

static int64_t time_option(lua_State* L, const char* name) {
  const lua_Number seconds = number_option(L, name);
  if (!(seconds > -9e9 && seconds < 9e9))
    luaL_error(L, "the option %s has to be a time in seconds", name);
  return (int64_t)(seconds * 1e9);
}

static uint64_t amount_option(lua_State* L, const char* name, lua_Number most) {
  const lua_Number amount = number_option(L, name);
  if (!(amount >= 0 && amount <= most))
    luaL_error(L, "the option %s has to be from 0 to %f", name, most);
  return (uint64_t)amount;
}

static int flag_option(lua_State* L, const char* name) {
  lua_getfield(L, 2, name);
  const int flag = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return flag;
}

// The number of a word; -1: it is none of them.
static int word_option(lua_State* L, const char* name, const char* const* words) {
  const char* const text = text_option(L, name);
  if (text == NULL)
    return 0;
  for (int i = 0; words[i] != NULL; ++i) {
    if (strcmp(words[i], text) == 0)
      return i;
  }
  return -1;
}

// A text, or a table of at most 15, into an array that ends with NULL.
static const char* const* list_option(lua_State* L, const char* name, const char* texts[16]) {
  lua_getfield(L, 2, name);
  const int list = lua_gettop(L);
  int count = 0;
  if (lua_type(L, -1) == LUA_TSTRING) {
    texts[count++] = text_of(L, name);
  } else if (lua_istable(L, -1)) {
    for (;; ++count) {
      lua_rawgeti(L, list, count + 1);
      if (lua_isnil(L, -1))
        break;
      if (count == 15 || lua_type(L, -1) != LUA_TSTRING)
        luaL_error(L, "the option %s has to be at most 15 texts", name);
      texts[count] = text_of(L, name);
    }
  } else if (!lua_isnil(L, -1)) {
    luaL_error(L, "the option %s has to be a text or a table of texts", name);
  }
  texts[count] = NULL;
  return texts;
}

static void check_names(lua_State* L) {
  static const char* const known[] = {"token",
                                      "circuit_secret",
                                      "certificate_chain",
                                      "certificate_key",
                                      "access",
                                      "directory",
                                      "report_directory",
                                      "no_built_in_commands",
                                      "allow_tap",
                                      "certificate_authority",
                                      "parent",
                                      "children",
                                      "message_limit",
                                      "allow_unauthenticated",
                                      "allow_unencrypted",
                                      "overflow",
                                      "restart",
                                      "first_idle_timeout",
                                      "ping_interval",
                                      "fault_tolerance",
                                      "connections",
                                      "unconfirmed",
                                      "retry_first",
                                      "retry_longest",
                                      "message_deadline",
                                      "drain",
                                      "write_delay",
                                      "send_buffer_size",
                                      "send_buffer_number",
                                      "strangers_per_address",
                                      "strangers_first_byte_timeout",
                                      "strangers_bytes",
                                      "strangers_handshakes_per_second",
                                      "sessions",
                                      "clients",
                                      "requests"};
  for (lua_pushnil(L); lua_next(L, 2) != 0; lua_pop(L, 1)) {
    int found = 0;
    const char* const name =
        lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "that is no text";
    for (size_t i = 0; i != sizeof known / sizeof known[0]; ++i)
      found = found || strcmp(known[i], name) == 0;
    if (!found)
      luaL_error(L, "there is no option %s", name);
  }
}

// Whether the program gives 0, which C takes for the default.
static int is_zero(lua_State* L, const char* name) {
  lua_getfield(L, 2, name);
  const int zero = lua_type(L, -1) == LUA_TNUMBER && lua_tonumber(L, -1) == 0;
  lua_pop(L, 1);
  return zero;
}

// 0 is none, or no limit; the number that C takes for that is one below.
static uint64_t none_or_amount(lua_State* L, const char* name, lua_Number most) {
  const uint64_t amount = amount_option(L, name, most);
  if (amount == ATBUS_NONE)
    return amount - 1;
  return is_zero(L, name) ? ATBUS_NONE : amount;
}

void read_options(lua_State* L, atbus_node_options* to, option_lists* lists) {
  static const char* const overflows[] = {"would_block", "drop_newest", "drop_oldest", "disconnect",
                                          NULL};
  static const char* const restarts[] = {"redeliver", "report", NULL};
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checkstack(L, 64, "the options of a node");
  check_names(L);
  to->tokens = list_option(L, "token", lists->tokens);
  to->parents = list_option(L, "parent", lists->parents);
  to->circuit_secret = text_option(L, "circuit_secret");
  to->certificate_chain = text_option(L, "certificate_chain");
  to->certificate_key = text_option(L, "certificate_key");
  to->certificate_authority = text_option(L, "certificate_authority");
  to->access = text_option(L, "access");
  to->directory = text_option(L, "directory");
  to->report_directory = text_option(L, "report_directory");
  to->no_built_in_commands = flag_option(L, "no_built_in_commands");
  to->allow_tap = flag_option(L, "allow_tap");
  to->children = text_option(L, "children");
  to->allow_unauthenticated = flag_option(L, "allow_unauthenticated");
  to->allow_unencrypted = flag_option(L, "allow_unencrypted");
  to->overflow = word_option(L, "overflow", overflows);
  to->restart = word_option(L, "restart", restarts);
  to->first_idle_timeout_ns = time_option(L, "first_idle_timeout");
  to->ping_interval_ns = time_option(L, "ping_interval");
  to->retry_first_ns = time_option(L, "retry_first");
  to->retry_longest_ns = time_option(L, "retry_longest");
  to->message_deadline_ns = time_option(L, "message_deadline");
  to->drain_ns = is_zero(L, "drain") ? -1 : time_option(L, "drain");
  to->write_delay_ns = time_option(L, "write_delay");
  to->message_limit = amount_option(L, "message_limit", 1e15);
  to->send_buffer_size = amount_option(L, "send_buffer_size", 1e15);
  to->send_buffer_number = amount_option(L, "send_buffer_number", 1e15);
  to->strangers_per_address = (uint32_t)amount_option(L, "strangers_per_address", 4294967295.0);
  to->strangers_first_byte_timeout_ns = is_zero(L, "strangers_first_byte_timeout")
                                            ? ATBUS_FOR_EVER
                                            : time_option(L, "strangers_first_byte_timeout");
  to->strangers_bytes = none_or_amount(L, "strangers_bytes", 1e15);
  to->strangers_handshakes_per_second =
      (uint32_t)none_or_amount(L, "strangers_handshakes_per_second", 4294967295.0);
  to->sessions = amount_option(L, "sessions", 1e15);
  to->clients = none_or_amount(L, "clients", 1e15);
  to->requests = amount_option(L, "requests", 1e15);
  to->fault_tolerance = (uint32_t)amount_option(L, "fault_tolerance", 4294967295.0);
  to->connections = (uint32_t)amount_option(L, "connections", 4294967295.0);
  to->unconfirmed = (uint32_t)amount_option(L, "unconfirmed", 4294967295.0);
}
