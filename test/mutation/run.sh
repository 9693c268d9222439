#!/usr/bin/env bash
# Puts one realistic bug after the other into the protocol, and counts how many seeds of each
# simulation find it: the patches beside this script, each with a line that says what is broken.
# A table in Markdown; doc/reliability.md has the latest one.
#
# usage: run.sh [BUG...]    names of patches without their ending; by default all
#
# NODE_SEEDS, TREE_SEEDS and REQUEST_SEEDS in the environment say how many seeds each simulation
# runs. Takes what is committed. About half an hour on two cores.
set -euo pipefail
# shellcheck source=tools/script/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../tools/script/common.sh"
exec </dev/null

case ${1:-} in
  -h | --help)
    usage
    exit 0
    ;;
esac
patches=$root/test/mutation
work=$root/build/mutation
source=$work/source
declare -A seeds=([node]=${NODE_SEEDS:-1000} [tree]=${TREE_SEEDS:-30} [requests]=${REQUEST_SEEDS:-1000})
declare -A tests=([node]=Simulation [tree]=TreeSimulation [requests]=RequestSimulation)
bugs=("$@")
if [ ${#bugs[@]} -eq 0 ]; then
  mapfile -t bugs < <(cd "$patches" && ls ./*.patch | sed 's|^\./||; s|\.patch$||')
fi
for bug in "${bugs[@]}"; do
  [ -f "$patches/$bug.patch" ] || fail "no bug \"$bug\" in $patches"
done

# The times of unchanged files stay, so that each bug builds what it touches.
mkdir -p "$work"
[ -d "$source" ] || git clone -q "$root" "$source"
(cd "$source" && git checkout -q . && git fetch -q "$root" HEAD && git checkout -q --detach FETCH_HEAD)
compiler=$(find_compiler) || fail "no C++ compiler new enough: GCC 12 or Clang 14 is needed"
build_all() {
  cmake --build "$work/build" --parallel "$(nproc)" \
    --target simulation_node_test simulation_tree_test simulation_requests_test
}
(cd "$source" && cmake --preset release -B "$work/build" -D CMAKE_CXX_COMPILER="$compiler" \
  -D CMAKE_UNITY_BUILD=ON) >"$work/log" 2>&1 || fail "cmake fails: see $work/log"
build_all >>"$work/log" 2>&1 || fail "the tree does not build: see $work/log"

# count KIND: how many of its seeds fail, or what else became of the run.
count() {
  local kind=$1 code=0
  ATBUS_SIMULATION_COUNT=1 ATBUS_SIMULATION_SEEDS=${seeds[$kind]} timeout 600 \
    "$work/build/bin/simulation_${kind}_test" \
    --gtest_filter="${tests[$kind]}.KeepsEveryPromiseUnderEveryFault" >"$work/$kind.log" 2>&1 || code=$?
  if grep -q 'seeds fail$' "$work/$kind.log"; then
    sed -n 's/^\([0-9]*\) of [0-9]* seeds fail$/\1/p' "$work/$kind.log"
  elif [ "$code" -eq 124 ]; then
    say "hangs"
  else
    say "ends the process"
  fi
}

say "| bug | of ${seeds[node]} seeds of nodes | of ${seeds[tree]} of trees | of ${seeds[requests]} of requests |"
say "| --- | ---: | ---: | ---: |"
row() { say "| $1 | $(count node) | $(count tree) | $(count requests) |"; }
row "none"
for bug in "${bugs[@]}"; do
  git -C "$source" apply "$patches/$bug.patch"
  if build_all >"$work/log" 2>&1; then
    row "$(head -n 1 "$patches/$bug.patch")"
  else
    say "| $(head -n 1 "$patches/$bug.patch") | does not build | | |"
  fi
  git -C "$source" checkout -q .
done
