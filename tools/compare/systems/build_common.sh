# Shared by the build.sh of systems that have a build of their own; to be sourced, not run.
#   build.sh OUT_DIR    builds the harness into OUT_DIR and prints the version of its system; without a
#                       way to build it, prints the reason and fails
# shellcheck shell=bash

out=$(mkdir -p "$1" && cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)

missing() {
  echo "$1"
  exit 1
}

# needs COMMAND WHAT
needs() { command -v "$1" >/dev/null || missing "needs $2"; }

# logged LOG ERROR COMMAND...: its output goes to LOG; ERROR is how a line with the reason begins.
logged() {
  local log=$1 error=$2
  shift 2
  "$@" >"$log" 2>&1 || missing "does not build: $(grep -m 1 "$error" "$log" || tail -n 1 "$log")"
}
