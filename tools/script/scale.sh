#!/usr/bin/env bash
# Simulates fleets of up to 10,000 nodes, fits a model on the smaller ones, and writes doc/scale/: tables, plots and the
# raw figures. About 20 minutes on one core.
#
# usage: scale.sh [--reuse]
#   --reuse   draws the figures that are there
set -euo pipefail
# shellcheck source=tools/script/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
case "${1:-}" in
  '' | --reuse) ;;
  -h | --help)
    usage
    exit
    ;;
  *) fail "unknown argument \"$1\"; usage: scale.sh [--reuse]" ;;
esac
[ -n "${SKIP_INSTALL:-}" ] || "$root/tools/script/install_dependencies.sh"
configure release
build release simulate_fleet
# The system's, which has the packages.
/usr/bin/python3 -c 'import matplotlib' 2>/dev/null || apt_get install -y python3-matplotlib
/usr/bin/python3 -B "$root/test/scale/report.py" "$root/build/release/bin/simulate_fleet" "$root/doc/scale" "$@"
