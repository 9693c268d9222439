// What Lua gives and gets.
#pragma once

#include <atbus/atbus.h>
#include <lauxlib.h>
#include <lua.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static inline int fail(lua_State* L, atbus_code code) {
  lua_pushnil(L);
  lua_pushstring(L, atbus_last_error());
  lua_pushstring(L, atbus_code_name((int)code));
  return 3;
}

static inline int done(lua_State* L, atbus_code code) {
  if (code != ATBUS_OK)
    return fail(L, code);
  lua_pushboolean(L, 1);
  return 1;
}

// The text at that place; NULL: it has a zero byte in it, and C would take what is in front of that for all of it.
static inline const char* whole_text(lua_State* L, int at) {
  size_t size = 0;
  const char* const text = lua_tolstring(L, at, &size);
  return text != NULL && strlen(text) == size ? text : NULL;
}

static inline const char* check_text(lua_State* L, int at) {
  luaL_checkstring(L, at);
  const char* const text = whole_text(L, at);
  if (text == NULL)
    luaL_argerror(L, at, "a text has a zero byte in it");
  return text;
}

// Numbers of Lua 5.1 hold 53 bits: larger ids are texts there.
static inline void push_id(lua_State* L, uint64_t id) {
#if LUA_VERSION_NUM >= 503
  lua_pushinteger(L, (lua_Integer)id);
#else
  if (id < UINT64_C(1) << 53) {
    lua_pushnumber(L, (lua_Number)id);
  } else {
    char text[32];
    snprintf(text, sizeof text, "0x%llx", (unsigned long long)id);
    lua_pushstring(L, text);
  }
#endif
}

static inline uint64_t to_id(lua_State* L, int at) {
  uint64_t id = 0;
  if (lua_type(L, at) == LUA_TSTRING) {
    if (atbus_parse_id(check_text(L, at), &id) != ATBUS_OK)
      luaL_argerror(L, at, atbus_last_error());
    return id;
  }
#if LUA_VERSION_NUM >= 503
  return (uint64_t)luaL_checkinteger(L, at);
#else
  const lua_Number number = luaL_checknumber(L, at);
  if (!(number >= 0 && number <= 9007199254740992.0) || number != floor(number))
    luaL_argerror(L, at, "a bus id above 2^53 has to be a text, such as \"0x12340007\"");
  return (uint64_t)number;
#endif
}

static inline uint32_t to_type(lua_State* L, int at) {
  const lua_Number number = luaL_checknumber(L, at);
  if (!(number >= 0 && number <= 4294967295.0) || number != floor(number))
    luaL_argerror(L, at, "a type is a number from 0 to 4294967295");
  return (uint32_t)number;
}

// Seconds, at most 292 years either way.
static inline int64_t to_ns(lua_State* L, int at) {
  const lua_Number seconds = luaL_checknumber(L, at);
  if (seconds != seconds)
    luaL_argerror(L, at, "a time is not a number");
  return seconds >= 9e9    ? ATBUS_FOR_EVER
         : seconds <= -9e9 ? -ATBUS_FOR_EVER
                           : (int64_t)(seconds * 1e9);
}

// A class with these methods.
static inline void new_class(lua_State* L, const char* name, const luaL_Reg* methods,
                             int (*gc)(lua_State*)) {
  luaL_newmetatable(L, name);
  lua_newtable(L);
  for (; methods->name != NULL; ++methods) {
    lua_pushcfunction(L, methods->func);
    lua_setfield(L, -2, methods->name);
  }
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, gc);
  lua_setfield(L, -2, "__gc");
}
