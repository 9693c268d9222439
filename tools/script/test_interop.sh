#!/usr/bin/env bash
# Lets peers in each language talk to peers in each other one. `test.sh --all` runs this, behind the scripts
# that build the modules.
set -euo pipefail
# shellcheck source=tools/script/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

compiler=$(find_compiler) || fail "no C++ compiler new enough: GCC 12 or Clang 14 is needed"
heading "every language to every other"
python=$root/build/python/bin/python
[ -x "$python" ] || fail "run tools/script/test_python.sh first"
configure release
build release atbus_c
mkdir -p "$root/build/interop"
"$compiler" -x c -std=c99 -O2 -Wall -Wextra -Wconversion -Werror -I "$root/include" \
  "$root/bindings/interop/peer.c" -x none -o "$root/build/interop/peer_c" -L "$root/build/release/lib" -latbus_c \
  -Wl,-rpath,"$root/build/release/lib"
peers="C $root/build/interop/peer_c
Python $python $root/bindings/interop/peer.py"
for lua in lua5.4 luajit; do
  if [ -f "$root/build/lua/$lua/atbus/core.so" ]; then
    peers+="
$lua env LUA_PATH=$root/bindings/lua/?.lua LUA_CPATH=$root/build/lua/$lua/?.so $lua $root/bindings/interop/peer.lua"
  fi
done
with_go=no
if can_build_go; then
  with_go=yes
  export CGO_CFLAGS="-O2 -I$root/include"
  export CGO_LDFLAGS="-L$root/build/release/lib -Wl,-rpath,$root/build/release/lib"
  (cd "$root/bindings/go" && go build -o "$root/build/interop/peer_go" ./internal/peer)
  peers+="
Go $root/build/interop/peer_go"
fi
before=$(left_behind) reports=$(node_reports)
trap 'remove_reports "$reports"' EXIT
INTEROP_PEERS=$peers INTEROP_GO=$with_go "$python" -m pytest -q -p no:cacheprovider "$@" "$root/bindings/interop"
left=$(comm -13 <(printf '%s\n' "$before") <(left_behind))
[ -z "$left" ] || fail "the tests have left files behind: $left"
