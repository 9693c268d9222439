#!/usr/bin/env bash
# Builds the zenoh harness into OUT_DIR/compare_zenoh.
set -euo pipefail
# shellcheck source=tools/compare/systems/build_common.sh
source "$(dirname "$0")/../build_common.sh"

cargo_harness zenoh
