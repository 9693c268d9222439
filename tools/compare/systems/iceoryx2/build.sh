#!/usr/bin/env bash
# Builds the iceoryx2 harness into OUT_DIR/compare_iceoryx2.
set -euo pipefail
# shellcheck source=tools/compare/systems/build_common.sh
source "$(dirname "$0")/../build_common.sh"

cargo_harness iceoryx2
