// Runs memory_test.lua in a Lua whose memory ends where the script says: memory_test SCRIPT.
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>

static long left = -1;  // allocations that succeed; negative: all

static void* allocate(void* user, void* block, size_t old_size, size_t size) {
  (void)user;
  if (size == 0) {
    free(block);
    return NULL;
  }
  if (block == NULL || size > old_size) {  // Lua relies on the success of what shrinks
    if (left == 0)
      return NULL;
    if (left > 0)
      --left;
  }
  return realloc(block, size);
}

// end_memory_after(n): n more allocations succeed. Nil: all.
static int end_memory_after(lua_State* L) {
  left = lua_isnoneornil(L, 1) ? -1 : (long)lua_tointeger(L, 1);
  return 0;
}

static int take_reference(lua_State* L) {
  lua_pushboolean(L, 1);
  luaL_ref(L, LUA_REGISTRYINDEX);
  return 0;
}

// take_references(): takes those for which there is room. The next one needs memory.
static int take_references(lua_State* L) {
  const long before = left;
  int went = 1;
  while (went) {
    lua_pushcfunction(L, take_reference);
    left = 0;
    went = lua_pcall(L, 0, 0, 0) == 0;
    left = before;
  }
  lua_pop(L, 1);
  return 0;
}

int main(int count, char** arguments) {
  lua_State* const L = lua_newstate(allocate, NULL);
  if (count != 2 || L == NULL)
    return 2;
  luaL_openlibs(L);
  lua_pushcfunction(L, end_memory_after);
  lua_setglobal(L, "end_memory_after");
  lua_pushcfunction(L, take_references);
  lua_setglobal(L, "take_references");
  if (luaL_dofile(L, arguments[1])) {
    left = -1;
    return fprintf(stderr, "%s\n", lua_tostring(L, -1)), 1;
  }
  lua_close(L);
  return 0;
}
