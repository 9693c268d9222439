#!/usr/bin/env bash
# Runs the tests of Lua, Go and Python, and of all of them together, each language where its tools are here. `.ci/run`
# and `test.sh --all` run this.
set -euo pipefail
# shellcheck source=tools/script/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Its headers, its environments, and an index of packages that answers.
can_build_python() {
  local probe=$1
  has_python && python3 -m venv "$probe" >/dev/null 2>&1 &&
    "$probe/bin/pip" download -q --no-deps --retries 1 --timeout 10 -d "$probe" 'nanobind>=2.0' >/dev/null 2>&1
}

has_lua() { has_command "$1" && pkg-config --exists "$1"; }

probe=$(mktemp -d)
trap 'rm -rf "$probe"' EXIT
left_out=
if has_lua lua5.4 || has_lua luajit; then
  "$root/tools/script/test_lua.sh"
else
  left_out+=" Lua"
fi
if can_build_go; then
  "$root/tools/script/test_go.sh"
else
  left_out+=" Go"
fi
if can_build_python "$probe"; then
  "$root/tools/script/test_python.sh"
  "$root/tools/script/test_interop.sh"
else
  left_out+=" Python"
fi
[ -z "$left_out" ] || say "Left out, because their tools are not here:$left_out"
