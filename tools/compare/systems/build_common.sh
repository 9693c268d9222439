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

# cargo_harness NAME: compare_NAME, and the version of the crate of that name, which it drives.
cargo_harness() {
  local name=$1
  needs cargo Cargo
  # Not in the folder of the sources, so that they stay clean.
  logged "$out/$name-build.log" '^error' cargo build --release --locked \
    --manifest-path "$here/Cargo.toml" --target-dir "$out/$name-build"
  cp "$out/$name-build/release/compare_$name" "$out/"
  grep -A 1 "^name = \"$name\"\$" "$here/Cargo.lock" | sed -n "s/version = \"\(.*\)\"/$name \1/p"
}
