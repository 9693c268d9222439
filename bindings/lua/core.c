// The module atbus.core for Lua 5.4 and LuaJIT: the functions of atbus/atbus.h as methods of a node. atbus.lua has what
// can be said in Lua itself.
//
// What fails returns nil, a text and the name of its code; an argument of the wrong type is an error. Errors of handlers
// are kept, and raised by the call that ran the handler.
#include <stdlib.h>

#include "answers.h"
#include "options.h"
#include "values.h"

#define NODE "atbus.node"

// Its handlers are in a table of the registry, under their names.
typedef struct node {
  atbus_node* self;
  lua_State* state;  // that runs handlers now
  int tell;          // tell_protected, so that calling it takes no memory
  int handlers;
  // A table with what the first handler that failed has raised, at 1. The place is there beforehand, because taking one
  // may need memory, and a want of it would jump out of the callback.
  int raised;
  int has_raised;
} node;

// A function that is called once.
typedef struct call {
  node* of;
  int function;
} call;

static node* to_node(lua_State* L) {
  return luaL_checkudata(L, 1, NODE);
}

// Handlers run in this state from now on. Returns the one before: a handler may close its node.
static lua_State* enter(node* of, lua_State* L) {
  lua_State* const before = of->state;
  of->state = L;
  return before;
}

// Raises what a handler has raised.
static void leave(lua_State* L, node* of, lua_State* before) {
  of->state = before;
  if (!of->has_raised)
    return;
  of->has_raised = 0;
  lua_rawgeti(L, LUA_REGISTRYINDEX, of->raised);
  lua_rawgeti(L, -1, 1);
  lua_pushboolean(L, 0);
  lua_rawseti(L, -3, 1);
  lua_error(L);
}

// What a callback of the bus tells Lua.
typedef struct event {
  node* of;
  const char* handler;  // its name; NULL: a call
  call* once;           // that ends
  // Pushes the arguments, and says how many.
  int (*push)(lua_State* L, const struct event* what);
  const void* data;
  size_t size;
  int code;
} event;

// Lua's errors jump: nothing but this function may be between them and the bus.
static int tell_protected(lua_State* L) {
  const event* const what = lua_touserdata(L, 1);
  if (what->once != NULL) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, what->once->function);
  } else {
    lua_rawgeti(L, LUA_REGISTRYINDEX, what->of->handlers);
    lua_getfield(L, -1, what->handler);
    if (!lua_isfunction(L, -1))
      return 0;
  }
  lua_call(L, what->push(L, what), 0);
  return 0;
}

static void tell(const event* what) {
  node* const of = what->of;
  lua_State* const L = of->state;
  lua_rawgeti(L, LUA_REGISTRYINDEX, of->tell);
  lua_pushlightuserdata(L, (void*)what);
  if (lua_pcall(L, 1, 0, 0) == 0)
    return;
  if (of->has_raised) {
    lua_pop(L, 1);
  } else {
    // It may be nil, which in the registry itself would free the place.
    lua_rawgeti(L, LUA_REGISTRYINDEX, of->raised);
    lua_insert(L, -2);
    lua_rawseti(L, -2, 1);
    lua_pop(L, 1);
    of->has_raised = 1;
  }
}

static int push_message(lua_State* L, const event* what) {
  const atbus_message* const m = what->data;
  push_id(L, m->source);
  lua_pushinteger(L, (lua_Integer)m->type);
  lua_pushlstring(L, m->bytes, m->size);
  lua_pushboolean(L, m->redelivered);
  return 4;
}

static void on_message(void* user, const atbus_message* m) {
  const event what = {.of = user, .handler = "message", .push = push_message, .data = m};
  tell(&what);
}

static int push_undelivered(lua_State* L, const event* what) {
  const atbus_undelivered* const u = what->data;
  push_id(L, u->destination);
  lua_pushinteger(L, (lua_Integer)u->type);
  lua_pushlstring(L, u->size != 0 ? u->bytes : "", u->size);
  lua_pushstring(L, atbus_code_name((int)u->outcome));
  lua_pushstring(L, atbus_code_name((int)u->reason));
  lua_pushinteger(L, (lua_Integer)u->count);
  return 6;
}

static void on_undelivered(void* user, const atbus_undelivered* u) {
  const event what = {.of = user, .handler = "undelivered", .push = push_undelivered, .data = u};
  tell(&what);
}

static int push_endpoint(lua_State* L, const event* what) {
  static const char* const names[] = {"connected",    "moved",   "away",
                                      "disconnected", "refused", "superseded"};
  const atbus_endpoint* const which = what->data;
  const size_t count = sizeof names / sizeof names[0];
  push_id(L, which->id);
  lua_pushstring(L, (size_t)what->code < count ? names[what->code] : "unknown");
  return 2;
}

static void on_endpoint(void* user, const atbus_endpoint* which, atbus_endpoint_event how) {
  const event what = {
      .of = user, .handler = "endpoint", .push = push_endpoint, .data = which, .code = (int)how};
  tell(&what);
}

static int push_writable(lua_State* L, const event* what) {
  push_id(L, *(const uint64_t*)what->data);
  return 1;
}

static void on_writable(void* user, uint64_t id) {
  const event what = {.of = user, .handler = "writable", .push = push_writable, .data = &id};
  tell(&what);
}

static int push_line(lua_State* L, const event* what) {
  lua_pushlstring(L, what->data, what->size);
  return 1;
}

static void on_log(void* user, const char* line, size_t size) {
  const event what = {.of = user, .handler = "log", .push = push_line, .data = line, .size = size};
  tell(&what);
}

static int push_asked(lua_State* L, const event* what) {
  push_request(L, (atbus_request*)what->data);
  return 1;
}

static void on_request(void* user, atbus_request* request) {
  const event what = {.of = user, .handler = "request", .push = push_asked, .data = request};
  tell(&what);
}

static int push_commanded(lua_State* L, const event* what) {
  push_command(L, (atbus_command*)what->data);
  return 1;
}

static void on_command(void* user, atbus_command* command) {
  const event what = {.of = user, .handler = "command", .push = push_commanded, .data = command};
  tell(&what);
}

static call* new_call(lua_State* L, node* of, int function) {
  luaL_checktype(L, function, LUA_TFUNCTION);
  lua_pushvalue(L, function);
  const int kept = luaL_ref(L, LUA_REGISTRYINDEX);
  call* const made = malloc(sizeof *made);
  if (made == NULL) {
    luaL_unref(L, LUA_REGISTRYINDEX, kept);
    luaL_error(L, "out of memory");
  }
  made->of = of;
  made->function = kept;
  return made;
}

static void end_call(lua_State* L, call* what) {
  luaL_unref(L, LUA_REGISTRYINDEX, what->function);
  free(what);
}

static void tell_once(call* once, event* what) {
  what->of = once->of;
  what->once = once;
  tell(what);
  end_call(what->of->state, once);
}

// The reply; or nil, a text and the name of the code.
static int push_response(lua_State* L, const event* what) {
  const atbus_response* const r = what->data;
  if (r->code == ATBUS_OK) {
    lua_pushlstring(L, r->size != 0 ? r->bytes : "", r->size);
    return 1;
  }
  lua_pushnil(L);
  if (r->size != 0)
    lua_pushlstring(L, r->bytes, r->size);
  else
    lua_pushstring(L, atbus_code_text((int)r->code));
  lua_pushstring(L, atbus_code_name((int)r->code));
  return 3;
}

static void on_response(void* user, const atbus_response* r) {
  event what = {.push = push_response, .data = r};
  tell_once(user, &what);
}

// A table of the values; or nil, a text and the name of the code.
static int push_reply(lua_State* L, const event* what) {
  const char* const* const values = what->data;
  if (what->code == ATBUS_OK) {
    lua_createtable(L, (int)what->size, 0);
    for (size_t i = 0; i != what->size; ++i) {
      lua_pushstring(L, values[i]);
      lua_rawseti(L, -2, (int)i + 1);
    }
    return 1;
  }
  lua_pushnil(L);
  lua_pushstring(L, what->size != 0 ? values[0] : atbus_code_text(what->code));
  lua_pushstring(L, atbus_code_name(what->code));
  return 3;
}

static void on_reply(void* user, atbus_code code, const char* const* values, size_t count) {
  event what = {.push = push_reply, .data = values, .size = count, .code = (int)code};
  tell_once(user, &what);
}

static int new_node(lua_State* L) {
  const uint64_t id = to_id(L, 1);
  option_lists lists;
  atbus_node_options o;
  atbus_node_options_init(&o);
  if (!lua_isnoneornil(L, 2))
    read_options(L, &o, &lists);
  node* const made = lua_newuserdata(L, sizeof *made);
  made->self = NULL;
  made->state = L;
  made->tell = made->handlers = made->raised = LUA_NOREF;
  made->has_raised = 0;
  luaL_getmetatable(L, NODE);
  lua_setmetatable(L, -2);
  lua_newtable(L);
  made->handlers = luaL_ref(L, LUA_REGISTRYINDEX);
  lua_pushcfunction(L, tell_protected);
  made->tell = luaL_ref(L, LUA_REGISTRYINDEX);
  lua_createtable(L, 1, 0);
  lua_pushboolean(L, 0);
  lua_rawseti(L, -2, 1);
  made->raised = luaL_ref(L, LUA_REGISTRYINDEX);
  const atbus_code how = atbus_node_new(id, &o, &made->self);
  return how == ATBUS_OK ? 1 : fail(L, how);
}

static int node_gc(lua_State* L) {
  node* const of = luaL_checkudata(L, 1, NODE);
  (void)enter(of, L);
  if (of->self != NULL)
    atbus_node_adopt(of->self);
  atbus_node_free(of->self);
  of->self = NULL;
  luaL_unref(L, LUA_REGISTRYINDEX, of->tell);
  luaL_unref(L, LUA_REGISTRYINDEX, of->handlers);
  luaL_unref(L, LUA_REGISTRYINDEX, of->raised);
  of->tell = of->handlers = of->raised = LUA_NOREF;
  return 0;
}

static int node_close(lua_State* L) {
  node* const of = to_node(L);
  lua_State* const before = enter(of, L);
  const atbus_code how = atbus_node_close(of->self);
  if (how == ATBUS_OK) {  // they may have references to the node, which would keep each other
    lua_newtable(L);
    lua_rawseti(L, LUA_REGISTRYINDEX, of->handlers);
  }
  leave(L, of, before);
  return done(L, how);
}

static int node_is_open(lua_State* L) {
  lua_pushboolean(L, atbus_node_is_open(to_node(L)->self));
  return 1;
}

static int node_id(lua_State* L) {
  push_id(L, atbus_node_id(to_node(L)->self));
  return 1;
}

static int node_parent(lua_State* L) {
  push_id(L, atbus_node_parent(to_node(L)->self));
  return 1;
}

static int node_listen(lua_State* L) {
  return done(L, atbus_node_listen(to_node(L)->self, check_text(L, 2)));
}

static int node_addresses(lua_State* L) {
  node* const of = to_node(L);
  lua_newtable(L);
  for (int i = 0;; ++i) {
    const char* const one = atbus_node_address(of->self, (size_t)i);
    if (one == NULL)
      return 1;
    lua_pushstring(L, one);
    lua_rawseti(L, -2, i + 1);
  }
}

static int node_connect(lua_State* L) {
  return done(L, atbus_node_connect(to_node(L)->self, to_id(L, 2), check_text(L, 3)));
}

static int node_disconnect(lua_State* L) {
  return done(L, atbus_node_disconnect(to_node(L)->self, to_id(L, 2)));
}

static int node_send(lua_State* L) {
  size_t size = 0;
  const char* const bytes = luaL_checklstring(L, 4, &size);
  return done(L, atbus_node_send(to_node(L)->self, to_id(L, 2), to_type(L, 3), bytes, size));
}

static int node_send_required(lua_State* L) {
  size_t size = 0;
  const char* const bytes = luaL_checklstring(L, 4, &size);
  return done(L,
              atbus_node_send_required(to_node(L)->self, to_id(L, 2), to_type(L, 3), bytes, size));
}

// type, data, prefix, length
static int node_broadcast(lua_State* L) {
  size_t size = 0;
  const char* const bytes = luaL_checklstring(L, 3, &size);
  const uint64_t prefix = lua_isnoneornil(L, 4) ? 0 : to_id(L, 4);
  const lua_Number length = luaL_optnumber(L, 5, 0);
  if (!(length >= 0 && length <= 64))
    luaL_argerror(L, 5, "a range has from 0 to 64 bits in front");
  return done(L, atbus_node_broadcast(to_node(L)->self, prefix, (unsigned)length, to_type(L, 2),
                                      bytes, size));
}

// to, type, data, timeout, function
static int node_request(lua_State* L) {
  node* const of = to_node(L);
  size_t size = 0;
  const char* const bytes = luaL_checklstring(L, 4, &size);
  const uint64_t to = to_id(L, 2);
  const uint32_t type = to_type(L, 3);
  const int64_t timeout = to_ns(L, 5);
  call* const outcome = new_call(L, of, 6);
  const atbus_code how =
      atbus_node_request(of->self, to, type, bytes, size, timeout, on_response, outcome, NULL);
  if (how != ATBUS_OK)
    end_call(L, outcome);
  return done(L, how);
}

// to, table of words, timeout, function
static int node_command(lua_State* L) {
  enum { most = 1024 };
  node* const of = to_node(L);
  const uint64_t to = to_id(L, 2);
  const int64_t timeout = to_ns(L, 4);
  luaL_checktype(L, 3, LUA_TTABLE);
  const char** const words = lua_newuserdata(L, most * sizeof *words);
  size_t count = 0;
  for (; count != most; ++count) {
    lua_rawgeti(L, 3, (int)count + 1);
    const int is_text = lua_type(L, -1) == LUA_TSTRING;
    if (!is_text && !lua_isnil(L, -1))
      luaL_error(L, "word %d is no text", (int)count + 1);
    words[count] = is_text ? whole_text(L, -1) : NULL;
    if (is_text && words[count] == NULL)
      luaL_error(L, "word %d has a zero byte in it", (int)count + 1);
    lua_pop(L, 1);
    if (!is_text)
      break;
  }
  lua_rawgeti(L, 3, most + 1);
  if (!lua_isnil(L, -1))
    luaL_error(L, "a command has at most %d words", (int)most);
  lua_pop(L, 1);
  call* const outcome = new_call(L, of, 5);
  const atbus_code how = atbus_node_command(of->self, to, words, count, timeout, on_reply, outcome);
  if (how != ATBUS_OK)
    end_call(L, outcome);
  return done(L, how);
}

static atbus_code set_callback(node* of, const char* name, int is_set) {
  atbus_node* const self = of->self;
  switch (name[0]) {
    case 'm':
      return atbus_node_on_message(self, is_set ? on_message : NULL, of);
    case 'u':
      return atbus_node_on_undelivered(self, is_set ? on_undelivered : NULL, of);
    case 'e':
      return atbus_node_on_endpoint(self, is_set ? on_endpoint : NULL, of);
    case 'w':
      return atbus_node_on_writable(self, is_set ? on_writable : NULL, of);
    case 'l':
      return atbus_node_on_log(self, is_set ? on_log : NULL, of);
    case 'r':
      return atbus_node_on_any_request(self, is_set ? on_request : NULL, of);
    default:
      return atbus_node_on_command(self, NULL, is_set ? on_command : NULL, of);
  }
}

// The name of what happens, and a function or nil.
static int node_on(lua_State* L) {
  static const char* const names[] = {"message", "undelivered", "endpoint", "writable",
                                      "log",     "request",     "command",  NULL};
  node* const of = to_node(L);
  const char* const name = names[luaL_checkoption(L, 2, NULL, names)];
  lua_settop(L, 3);
  if (!lua_isnoneornil(L, 3))
    luaL_checktype(L, 3, LUA_TFUNCTION);
  const atbus_code how = set_callback(of, name, !lua_isnil(L, 3));
  if (how == ATBUS_OK) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, of->handlers);
    lua_pushvalue(L, 3);
    lua_setfield(L, -2, name);
  }
  return done(L, how);
}

// How many messages were delivered.
static int node_poll(lua_State* L) {
  node* const of = to_node(L);
  const lua_Number most = luaL_optnumber(L, 2, 0);
  size_t delivered = 0;
  lua_State* const before = enter(of, L);
  const atbus_code how =
      atbus_node_poll(of->self, most > 0 && most < 1e9 ? (size_t)most : 0, 0, &delivered);
  leave(L, of, before);
  if (how != ATBUS_OK)
    return fail(L, how);
  lua_pushinteger(L, (lua_Integer)delivered);
  return 1;
}

// Seconds, or nil for no limit. True: there is something to do; false: the time is over.
static int node_wait(lua_State* L) {
  node* const of = to_node(L);
  const int64_t limit = lua_isnoneornil(L, 2) ? -1 : to_ns(L, 2);
  const atbus_code how = atbus_node_wait(of->self, limit);
  if (how != ATBUS_OK && how != ATBUS_TIMED_OUT)
    return fail(L, how);
  lua_pushboolean(L, how == ATBUS_OK);
  return 1;
}

// How run ends once stop was called: waits for the outcomes of all messages, at most as long as the option `drain` says.
static int node_settle(lua_State* L) {
  node* const of = to_node(L);
  lua_State* const before = enter(of, L);
  atbus_code how = atbus_node_stop(of->self);
  if (how == ATBUS_OK)
    how = atbus_node_run(of->self);
  leave(L, of, before);
  return done(L, how);
}

static int node_flush(lua_State* L) {
  return done(L, atbus_node_flush(to_node(L)->self));
}

static int node_shutdown(lua_State* L) {
  node* const of = to_node(L);
  const int64_t deadline = to_ns(L, 2);
  lua_State* const before = enter(of, L);
  const atbus_code how = atbus_node_shutdown(of->self, deadline);
  leave(L, of, before);
  return done(L, how);
}

static int node_descriptor(lua_State* L) {
  lua_pushinteger(L, atbus_node_descriptor(to_node(L)->self));
  return 1;
}

static int node_stats(lua_State* L) {
  atbus_node_stats s;
  s.size = sizeof s;
  const atbus_code how = atbus_node_get_stats(to_node(L)->self, &s);
  if (how != ATBUS_OK)
    return fail(L, how);
  const struct {
    const char* name;
    uint64_t value;
  } all[] = {{"accepted", s.accepted},
             {"delivered", s.delivered},
             {"redelivered", s.redelivered},
             {"requests", s.requests},
             {"responses", s.responses},
             {"would_block", s.would_block},
             {"refused", s.refused},
             {"not_delivered", s.not_delivered},
             {"outcome_unknown", s.outcome_unknown},
             {"registrations", s.registrations},
             {"registrations_failed", s.registrations_failed},
             {"links_lost", s.links_lost},
             {"access_denied", s.access_denied}};
  lua_newtable(L);
  for (size_t i = 0; i != sizeof all / sizeof all[0]; ++i) {
    lua_pushinteger(L, (lua_Integer)all[i].value);
    lua_setfield(L, -2, all[i].name);
  }
  return 1;
}

__attribute__((visibility("default"))) int luaopen_atbus_core(lua_State* L) {
  static const luaL_Reg node_methods[] = {{"close", node_close},
                                          {"is_open", node_is_open},
                                          {"id", node_id},
                                          {"parent", node_parent},
                                          {"listen", node_listen},
                                          {"addresses", node_addresses},
                                          {"connect", node_connect},
                                          {"disconnect", node_disconnect},
                                          {"send", node_send},
                                          {"send_required", node_send_required},
                                          {"broadcast", node_broadcast},
                                          {"start_request", node_request},
                                          {"start_command", node_command},
                                          {"on", node_on},
                                          {"poll", node_poll},
                                          {"wait", node_wait},
                                          {"settle", node_settle},
                                          {"flush", node_flush},
                                          {"shutdown", node_shutdown},
                                          {"descriptor", node_descriptor},
                                          {"stats", node_stats},
                                          {NULL, NULL}};
  new_class(L, NODE, node_methods, node_gc);
  add_answer_classes(L);
  lua_newtable(L);
  luaL_getmetatable(L, NODE);
  lua_getfield(L, -1, "__index");
  lua_setfield(L, -3, "methods");
  lua_pop(L, 1);
  lua_pushcfunction(L, new_node);
  lua_setfield(L, -2, "node");
  lua_pushstring(L, atbus_version());
  lua_setfield(L, -2, "version");
  return 1;
}
