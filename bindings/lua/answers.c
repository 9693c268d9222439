#include "answers.h"

#define REQUEST "atbus.request"
#define COMMAND "atbus.command"

typedef struct kept_request {
  atbus_request* self;
} kept_request;

typedef struct kept_command {
  atbus_command* self;
} kept_command;

static atbus_request* to_request(lua_State* L) {
  kept_request* const of = luaL_checkudata(L, 1, REQUEST);
  if (of->self == NULL)
    luaL_error(L, "the request is answered already");
  return of->self;
}

static int request_gc(lua_State* L) {
  kept_request* const of = luaL_checkudata(L, 1, REQUEST);
  atbus_request_free(of->self);
  of->self = NULL;
  return 0;
}

static int answered(lua_State* L, atbus_code how, int (*end)(lua_State*)) {
  if (how == ATBUS_OK)
    end(L);
  return done(L, how);
}

static int request_reply(lua_State* L) {
  size_t size = 0;
  atbus_request* const of = to_request(L);
  const char* const bytes = luaL_optlstring(L, 2, "", &size);
  return answered(L, atbus_request_reply(of, bytes, size), request_gc);
}

static int request_fail(lua_State* L) {
  size_t size = 0;
  atbus_request* const of = to_request(L);
  const char* const why = luaL_optlstring(L, 2, "", &size);
  return answered(L, atbus_request_fail(of, why, size), request_gc);
}

static int request_source(lua_State* L) {
  push_id(L, atbus_request_source(to_request(L)));
  return 1;
}

static int request_type(lua_State* L) {
  lua_pushinteger(L, (lua_Integer)atbus_request_type(to_request(L)));
  return 1;
}

static int request_data(lua_State* L) {
  size_t size = 0;
  const void* const bytes = atbus_request_bytes(to_request(L), &size);
  lua_pushlstring(L, size != 0 ? bytes : "", size);
  return 1;
}

static int request_is_wanted(lua_State* L) {
  lua_pushboolean(L, atbus_request_is_wanted(to_request(L)));
  return 1;
}

static atbus_command* to_command(lua_State* L) {
  kept_command* const of = luaL_checkudata(L, 1, COMMAND);
  if (of->self == NULL)
    luaL_error(L, "the command is answered already");
  return of->self;
}

static int command_gc(lua_State* L) {
  kept_command* const of = luaL_checkudata(L, 1, COMMAND);
  atbus_command_free(of->self);
  of->self = NULL;
  return 0;
}

static int command_source(lua_State* L) {
  push_id(L, atbus_command_source(to_command(L)));
  return 1;
}

static int command_words(lua_State* L) {
  atbus_command* const of = to_command(L);
  lua_newtable(L);
  for (int i = 0;; ++i) {
    const char* const word = atbus_command_word(of, (size_t)i);
    if (word == NULL)
      return 1;
    lua_pushstring(L, word);
    lua_rawseti(L, -2, i + 1);
  }
}

// The texts behind the command.
static int answer_command(lua_State* L,
                          atbus_code (*answer)(atbus_command*, const char* const*, size_t)) {
  atbus_command* const of = to_command(L);
  const int count = lua_gettop(L) - 1;
  const char** const values = lua_newuserdata(L, (size_t)(count + 1) * sizeof *values);
  for (int i = 0; i != count; ++i)
    values[i] = check_text(L, i + 2);
  return answered(L, answer(of, values, (size_t)count), command_gc);
}

static int command_reply(lua_State* L) {
  return answer_command(L, atbus_command_reply);
}

static int command_fail(lua_State* L) {
  return answer_command(L, atbus_command_fail);
}

void push_request(lua_State* L, atbus_request* given) {
  kept_request* const made = lua_newuserdata(L, sizeof *made);
  made->self = NULL;
  luaL_getmetatable(L, REQUEST);
  lua_setmetatable(L, -2);
  made->self = atbus_request_detach(given);
}

void push_command(lua_State* L, atbus_command* given) {
  kept_command* const made = lua_newuserdata(L, sizeof *made);
  made->self = NULL;
  luaL_getmetatable(L, COMMAND);
  lua_setmetatable(L, -2);
  made->self = atbus_command_detach(given);
}

void add_answer_classes(lua_State* L) {
  static const luaL_Reg request_methods[] = {{"reply", request_reply},
                                             {"fail", request_fail},
                                             {"source", request_source},
                                             {"type", request_type},
                                             {"data", request_data},
                                             {"is_wanted", request_is_wanted},
                                             {NULL, NULL}};
  static const luaL_Reg command_methods[] = {{"reply", command_reply},
                                             {"fail", command_fail},
                                             {"source", command_source},
                                             {"words", command_words},
                                             {NULL, NULL}};
  new_class(L, REQUEST, request_methods, request_gc);
  new_class(L, COMMAND, command_methods, command_gc);
}
