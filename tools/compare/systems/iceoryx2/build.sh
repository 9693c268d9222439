#!/usr/bin/env bash
# Builds the iceoryx2 harness into OUT_DIR/compare_iceoryx2.
set -euo pipefail
# shellcheck source=tools/compare/systems/build_common.sh
source "$(dirname "$0")/../build_common.sh"

needs cargo Cargo

# Not in the folder of the sources, so that they stay clean.
logged "$out/iceoryx2-build.log" '^error' cargo build --release --locked \
  --manifest-path "$here/Cargo.toml" --target-dir "$out/iceoryx2-build"

cp "$out/iceoryx2-build/release/compare_iceoryx2" "$out/"
grep -A 1 '^name = "iceoryx2"$' "$here/Cargo.lock" | sed -n 's/version = "\(.*\)"/iceoryx2 \1/p'
