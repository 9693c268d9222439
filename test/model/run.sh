#!/usr/bin/env bash
# Checks every model of the shared-memory protocol exhaustively, then every mutant of it, which must
# fail. Prints the number of states explored. doc/design/model.md says what is modelled.
#
# usage: run.sh [MODEL]...     all models without arguments
# Environment: WORK_DIR (kept; default: a temporary folder), CC (gcc).
# Exit code: 0 all as expected, 1 not, 77 Spin or a C compiler is missing (for ctest: skipped).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
memory_mib=1200 # most a single check may use
seconds=120     # most a single check may take
depth=200000    # of the search stack

# Model, "holds" or "fails", and its settings. A mutant that holds, or a protocol that fails, is an error.
checks='
sleep holds RECORDS=1 RECORDS_B=1 TIMEOUTS=1 PARKING=1
sleep holds RECORDS=2 RECORDS_B=1
sleep holds RECORDS=3 RECORDS_B=0 TIMEOUTS=1 PARKING=1
sleep holds RECORDS=1 RECORDS_B=1 SENDER_KILLS=1
sleep holds RECORDS=2 RECORDS_B=0 RECEIVER_KILLS=1
sleep holds RECORDS=2 RECORDS_B=0 NO_MEMBARRIER=1
sleep holds RECORDS=1 RECORDS_B=0 NO_MEMBARRIER=1 RECEIVER_KILLS=1
sleep holds RECORDS=4 RECORDS_B=0 SPARSE=1 TIMEOUTS=1 PARKING=1
sleep holds RECORDS=2 RECORDS_B=1 SPARSE=1
sleep holds RECORDS=3 RECORDS_B=0 SPARSE=1 RECEIVER_KILLS=1
sleep holds RECORDS=3 RECORDS_B=0 SPARSE=1 SENDER_KILLS=1
sleep holds RECORDS=3 RECORDS_B=0 SPARSE=1 NO_MEMBARRIER=1
sleep fails RECORDS=3 RECORDS_B=0 TIMEOUTS=1 MUTANT=1
sleep fails RECORDS=1 RECORDS_B=1 MUTANT=2
sleep fails RECORDS=3 RECORDS_B=0 TIMEOUTS=1 MUTANT=3
sleep fails RECORDS=2 RECORDS_B=0 PARKING=1 MUTANT=4
sleep fails RECORDS=1 RECORDS_B=0 SENDER_KILLS=1 MUTANT=5
sleep fails RECORDS=2 RECORDS_B=0 RECEIVER_KILLS=1 MUTANT=6
sleep fails RECORDS=3 RECORDS_B=0 TIMEOUTS=1 MUTANT=7
sleep fails RECORDS=2 RECORDS_B=0 NO_MEMBARRIER=1 RECEIVER_KILLS=1 MUTANT=8
sleep fails RECORDS=2 RECORDS_B=0 NO_MEMBARRIER=1 MUTANT=9
sleep fails RECORDS=2 RECORDS_B=0 NO_MEMBARRIER=1 MUTANT=10
sleep fails RECORDS=4 RECORDS_B=0 SPARSE=1 MUTANT=11
sleep fails RECORDS=4 RECORDS_B=0 SPARSE=1 MUTANT=12
sleep fails RECORDS=4 RECORDS_B=0 SPARSE=1 MUTANT=13
space holds RECORDS=4
space holds RECORDS=3 RECEIVER_KILLS=1
space holds RECORDS=3 NO_MEMBARRIER=1
space holds RECORDS=4 NO_MEMBARRIER=2 PREDECESSOR=1
space holds RECORDS=4 NO_MEMBARRIER=3
space fails RECORDS=4 MUTANT=1
space fails RECORDS=4 MUTANT=2
space fails RECORDS=4 RECEIVER_KILLS=1 MUTANT=3
space fails RECORDS=4 RECEIVER_KILLS=1 MUTANT=4
space fails RECORDS=4 RECEIVER_KILLS=1 MUTANT=5
space fails RECORDS=4 MUTANT=6
space fails RECORDS=4 NO_MEMBARRIER=2 PREDECESSOR=1 MUTANT=7
takeover holds RECORDS=3 RECEIVER_KILLS=1 SENDER_KILLS=1 TAKE_BACKS=1
takeover holds RECORDS=3 RECEIVER_KILLS=2 TAKE_BACKS=1
takeover holds RECORDS=2 RECEIVER_KILLS=2 SENDER_KILLS=1 TAKE_BACKS=1
takeover fails RECORDS=3 RECEIVER_KILLS=1 TAKE_BACKS=1 MUTANT=1
takeover fails RECORDS=3 RECEIVER_KILLS=1 TAKE_BACKS=1 MUTANT=2
takeover fails RECORDS=3 RECEIVER_KILLS=1 TAKE_BACKS=1 MUTANT=3
takeover fails RECORDS=3 RECEIVER_KILLS=1 TAKE_BACKS=1 MUTANT=4
takeover fails RECORDS=3 RECEIVER_KILLS=1 TAKE_BACKS=1 MUTANT=5
takeover fails RECORDS=3 RECEIVER_KILLS=1 TAKE_BACKS=1 MUTANT=6
takeover fails RECORDS=3 RECEIVER_KILLS=1 SENDER_KILLS=1 TAKE_BACKS=1 MUTANT=7
takeover fails RECORDS=3 RECEIVER_KILLS=1 TAKE_BACKS=1 MUTANT=8
takeover fails RECORDS=3 RECEIVER_KILLS=1 SENDER_KILLS=1 TAKE_BACKS=1 MUTANT=9
names holds ROUNDS=3 RECEIVERS=2 CLEANERS=1 SENDERS=0 KILLS=1
names holds ROUNDS=2 RECEIVERS=1 CLEANERS=1 SENDERS=1 KILLS=1
names holds ROUNDS=2 RECEIVERS=2 CLEANERS=0 SENDERS=1 KILLS=1
names fails ROUNDS=3 RECEIVERS=2 CLEANERS=1 SENDERS=0 KILLS=1 MUTANT=1
names fails ROUNDS=2 RECEIVERS=1 CLEANERS=1 SENDERS=1 KILLS=1 MUTANT=2
names fails ROUNDS=3 RECEIVERS=2 CLEANERS=1 SENDERS=0 KILLS=1 MUTANT=3
names fails ROUNDS=2 RECEIVERS=1 CLEANERS=1 SENDERS=1 KILLS=1 MUTANT=4
names fails ROUNDS=2 RECEIVERS=1 CLEANERS=1 SENDERS=1 KILLS=1 MUTANT=5
names fails ROUNDS=2 RECEIVERS=1 CLEANERS=1 SENDERS=1 KILLS=1 MUTANT=6
names fails ROUNDS=3 RECEIVERS=2 CLEANERS=1 SENDERS=0 KILLS=1 MUTANT=7
lanes holds RECORDS=2 KILLS=1
lanes holds RECORDS=1 KILLS=1 RECEIVER_KILLS=1
lanes fails RECORDS=2 MUTANT=1
lanes fails RECORDS=2 MUTANT=2
lanes fails RECORDS=2 MUTANT=3
lanes fails RECORDS=2 MUTANT=4
lanes fails RECORDS=2 MUTANT=5
'

cc=${CC:-gcc}
for tool in spin "$cc"; do
  if ! command -v "$tool" >/dev/null; then
    echo "skipped: $tool is missing (tools/script/install_dependencies.sh --with-dev installs Spin)"
    exit 77
  fi
done

work=${WORK_DIR:-}
if [ -z "$work" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
fi
mkdir -p "$work"

# build MODEL: its checker. WEAK: stores may overtake one another, see memory.pml.
built=' '
build() {
  local model=$1
  [[ $built != *" $model "* ]] || return 0
  built+="$model "
  mkdir -p "$work/$model"
  cp "$here"/*.pml "$work/$model"
  (
    cd "$work/$model"
    rm -f pan.*
    spin -a -DWEAK "$model.pml" >spin.log 2>&1 || { cat spin.log; exit 1; }
    [ -f pan.c ] || { cat spin.log; exit 1; }
    "$cc" -O2 -w -DSAFETY -DMEMLIM=$memory_mib -DVECTORSZ=1024 -o pan pan.c
  )
}

# check MODEL EXPECTED SETTING...
check() {
  local model=$1 expected=$2 output outcome states
  shift 2
  output=$(cd "$work/$model" && rm -f ./*.trail &&
    env "$@" timeout "$seconds" ./pan -m$depth 2>&1) || true
  states=$(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' <<<"$output")
  if grep -q 'errors: 0' <<<"$output" && ! grep -q 'Search not completed\|too small' <<<"$output"; then
    outcome=holds
  elif grep -q 'errors: 1' <<<"$output" && grep -q '^pan:1: \(assertion violated\|invalid end state\)' <<<"$output"; then
    outcome=fails
  else
    outcome=unfinished
  fi
  total=$((total + ${states:-0}))
  printf '%-9s %-10s %10s states  %s\n' "$model" "$outcome" "${states:-?}" "$*"
  if [ "$outcome" != "$expected" ]; then
    printf '%-9s expected: %s\n%s\n' "$model" "$expected" "$output"
    return 1
  fi
}

failed=0
total=0
while read -r model expected settings; do
  [ -n "$model" ] || continue
  if [ $# -ne 0 ] && [[ " $* " != *" $model "* ]]; then
    continue
  fi
  build "$model" || exit 1
  # shellcheck disable=SC2086  # one word per setting
  check "$model" "$expected" $settings || failed=$((failed + 1))
done <<<"$checks"

echo "$total states in all, $failed unexpected outcomes"
[ "$failed" -eq 0 ] && [ "$total" -ne 0 ]
