#!/usr/bin/env bash
# Builds the Lua module for Lua 5.4 and LuaJIT, into build/lua, and runs its tests in each that is here.
# `test.sh --all` runs this too.
set -euo pipefail
# shellcheck source=tools/script/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

compiler=$(find_compiler) || fail "no C++ compiler new enough: GCC 12 or Clang 14 is needed"
heading "the Lua module"
configure release
build release atbus_c
before=$(left_behind)
tested=
for lua in lua5.4 luajit; do
  if ! command -v "$lua" >/dev/null || ! pkg-config --exists "$lua"; then
    continue
  fi
  modules=$root/build/lua/$lua
  mkdir -p "$modules/atbus"
  # The C++ compiler compiles C too, so that no other one is needed.
  # shellcheck disable=SC2046  # a word per flag
  "$compiler" -std=c99 -O2 -fPIC -shared -Wall -Wextra -Wconversion -Werror \
    -I "$root/include" $(pkg-config --cflags "$lua") -x c "$root/bindings/lua/answers.c" \
    -x c "$root/bindings/lua/core.c" -x c "$root/bindings/lua/options.c" -x none \
    -o "$modules/atbus/core.so" -L "$root/build/release/lib" -latbus_c \
    -Wl,-rpath,"$root/build/release/lib"
  LUA_PATH="$root/bindings/lua/?.lua" LUA_CPATH="$modules/?.so" "$lua" "$root/bindings/lua/test/node_test.lua"
  # What is open at the end of a program is closed by its end.
  LUA_PATH="$root/bindings/lua/?.lua" LUA_CPATH="$modules/?.so" "$lua" -e 'kept = assert(require("atbus").node(1))'
  # shellcheck disable=SC2046  # a word per flag
  "$compiler" -std=c99 -O2 -Wall -Wextra -Werror $(pkg-config --cflags "$lua") \
    -x c "$root/bindings/lua/test/memory_test.c" -x none -o "$modules/memory_test" -Wl,-E \
    $(pkg-config --libs "$lua")
  LUA_PATH="$root/bindings/lua/?.lua" LUA_CPATH="$modules/?.so" \
    "$modules/memory_test" "$root/bindings/lua/test/memory_test.lua"
  tested=yes
done
[ -n "$tested" ] || fail "neither Lua 5.4 nor LuaJIT is here; install_dependencies.sh --all installs them"
left=$(comm -13 <(printf '%s\n' "$before") <(left_behind))
[ -z "$left" ] || fail "the tests have left files behind: $left"
