#!/usr/bin/env bash
# usage: soak.sh SECONDS [SEED=1] [NODES=40]
#   SECONDS  how long to go on
#   SEED     of the first round; each round has the next one
#   NODES    most processes of a tree, 8 to 64
# Installs what is missing, builds, and runs rounds of test/stress/tree for that long: random trees of
# processes that are killed, stopped, restarted and cut off in mid traffic; from 300 SECONDS on also
# one of a relay that is stopped for a minute. Prints a line per round; ends with an error at the first
# round that breaks a promise.
set -euo pipefail
# shellcheck source=tools/script/benchmark.sh
source "$(dirname "${BASH_SOURCE[0]}")/benchmark.sh"

take_arguments 1 3 "$@"
seconds=$1 seed=${2:-1} nodes=${3:-40}
whole_number SECONDS "$seconds" 1 604800
whole_number SEED "$seed" 0 1000000000
whole_number NODES "$nodes" 8 64

"$root/tools/script/install_dependencies.sh"
heading "build"
configure release -D ATBUS_BUILD_TESTS=ON
build release stress_tree_test

# run TEST NAME=VALUE...: prints the line that it says of its round.
run() {
  local filter=--gtest_filter=Trees.$1 output code=0
  shift
  output=$(env "$@" "$root/build/release/bin/stress_tree_test" "$filter" 2>&1) || code=$?
  if [ "$code" -ne 0 ]; then
    say "$output"
    fail "broken after $rounds good rounds; again: $* build/release/bin/stress_tree_test $filter"
  fi
  grep '^seed ' <<<"$output"
}

heading "rounds"
end=$((SECONDS + seconds))
rounds=0
if [ "$seconds" -ge 300 ]; then
  run GoOnBesideARelayThatIsStopped ATBUS_SEED="$seed" ATBUS_TEST_SECONDS=60
  rounds=1
fi
while [ "$SECONDS" -lt "$end" ]; do
  run LeaveEveryMessageWithOneOutcome ATBUS_SEED="$seed" ATBUS_ROUNDS=1 ATBUS_NODES="$nodes"
  rounds=$((rounds + 1))
  seed=$((seed + 1))
done
say "$rounds rounds, all promises kept"
