#!/usr/bin/env bash
# Builds the iceoryx2 harness into OUT_DIR/compare_iceoryx2 and prints the version of iceoryx2;
# without a way to build it, prints the reason and fails.
#   build.sh OUT_DIR
set -euo pipefail

out=$(mkdir -p "$1" && cd "$1" && pwd)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

missing() {
  echo "$1"
  exit 1
}

command -v cargo > /dev/null || missing 'needs Cargo'

# Not in the folder of the sources, so that they stay clean.
log=$out/iceoryx2-build.log
cargo build --release --locked --manifest-path "$here/Cargo.toml" \
  --target-dir "$out/iceoryx2-build" > "$log" 2>&1 ||
  missing "does not build: $(grep -m 1 '^error' "$log" || tail -n 1 "$log")"

cp "$out/iceoryx2-build/release/compare_iceoryx2" "$out/"
grep -A 1 '^name = "iceoryx2"$' "$here/Cargo.lock" | sed -n 's/version = "\(.*\)"/iceoryx2 \1/p'
