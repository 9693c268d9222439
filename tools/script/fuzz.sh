#!/usr/bin/env bash
# Runs every fuzzer for so many seconds, as many at a time as there are cores, and prints what each
# has executed and reached. A find stops it: the input is in build/asan/fuzz/PROGRAM/.
#
# usage: fuzz.sh SECONDS [PROGRAM...]
#
# inputs    executed in this run
# edges     branches of the code that were reached, the corpus included (libFuzzer's `cov`)
# features  edges with how often they were taken (libFuzzer's `ft`)
# corpus    inputs that reach something new; those found here are in build/asan/fuzz/PROGRAM/found/
set -euo pipefail
# shellcheck source=tools/script/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
exec </dev/null

case ${1:-} in
  -h | --help)
    usage
    exit 0
    ;;
esac
[[ ${1:-} =~ ^[1-9][0-9]{0,5}$ ]] || fail "usage: fuzz.sh SECONDS [PROGRAM...], of 1 to 999999 seconds"
seconds=$1
shift

if [ "${SKIP_INSTALL:-}" != 1 ]; then
  "$root/tools/script/install_dependencies.sh" --with-dev
fi
configure_asan
build asan fuzz_programs
targets=$root/build/asan/fuzz_targets.txt
for program in "$@"; do
  grep -q "^$program " "$targets" ||
    fail "no fuzzer \"$program\"; there are: $(cut -d ' ' -f 1 "$targets" | xargs)"
done

# fuzz_one PROGRAM CORPUS: new finds go to a folder of the build, not into the corpus.
fuzz_one() {
  local runs=$root/build/asan/fuzz/$1
  mkdir -p "$runs/found"
  (cd "$runs" && "$root/build/asan/bin/$1" -max_total_time="$seconds" -timeout=10 \
    -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$runs/" found "$2" >log 2>&1) || {
    tail -n 60 "$runs/log"
    fail "$1: the input that broke it is in $runs"
  }
  # The last line that says how far it came.
  local reached
  reached=$(grep -E '^#[0-9]+' "$runs/log" | tail -n 1)
  printf '%-16s %12s %8s %9s %7s\n' "$1" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$runs/log")" \
    "$(sed -n 's/.* cov: \([0-9]*\).*/\1/p' <<<"$reached")" \
    "$(sed -n 's/.* ft: \([0-9]*\).*/\1/p' <<<"$reached")" \
    "$(sed -n 's/.* corp: \([0-9]*\).*/\1/p' <<<"$reached")"
}

printf '%-16s %12s %8s %9s %7s\n' fuzzer inputs edges features corpus
running=0
while read -r program corpus; do
  if [ $# -gt 0 ] && ! grep -qw -- "$program" <<<"$*"; then
    continue
  fi
  fuzz_one "$program" "$corpus" &
  running=$((running + 1))
  if [ "$running" -ge "$(nproc)" ]; then
    wait -n
    running=$((running - 1))
  fi
done <"$targets"
while [ "$running" -gt 0 ]; do
  wait -n
  running=$((running - 1))
done
