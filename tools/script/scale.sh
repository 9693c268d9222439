#!/usr/bin/env bash
# Simulates fleets of up to 10,000 nodes, measures what up to 400 directories cost a real etcd, fits models on the
# smaller ones, and writes doc/scale/: tables, plots and the raw figures. About 25 minutes on one core.
#
# The parts: fleet (simulated), etcd; and registry, which is a part of fleet.
#
# usage: scale.sh [--reuse] [PART]
#   --reuse   draws the figures that are there
set -euo pipefail
# shellcheck source=tools/script/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
reuse=()
parts=(fleet etcd)
while [ $# -gt 0 ]; do
  case $1 in
    --reuse) reuse=(--reuse) ;;
    fleet | registry | etcd) parts=("$1") ;;
    -h | --help)
      usage
      exit
      ;;
    *) fail "unknown argument \"$1\"; usage: scale.sh [--reuse] [fleet|registry|etcd]" ;;
  esac
  shift
done
[ -n "${SKIP_INSTALL:-}" ] || "$root/tools/script/install_dependencies.sh"
configure release
build release simulate_fleet etcd_load
# The system's, which has the packages.
/usr/bin/python3 -c 'import matplotlib' 2>/dev/null || apt_get install -y python3-matplotlib
for part in "${parts[@]}"; do
  only=()
  case $part in
    fleet) report=report.py program=simulate_fleet ;;
    registry)
      report=report.py program=simulate_fleet
      [ ${#reuse[@]} -ne 0 ] || only=(--registry)
      ;;
    etcd) report=etcd_report.py program=etcd_load ;;
  esac
  /usr/bin/python3 -B "$root/test/scale/$report" "$root/build/release/bin/$program" "$root/doc/scale" "${reuse[@]}" \
    "${only[@]}"
done
