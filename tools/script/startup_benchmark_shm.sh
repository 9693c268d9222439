#!/usr/bin/env bash
# usage: startup_benchmark_shm.sh KEY UNIT_SIZE [SENDERS=1] [SECONDS=10]
#   KEY        name of the shared memory segment, such as 12345679
#   UNIT_SIZE  messages are 8 x a random 1..UNIT_SIZE bytes long: 16 gives 8-128, 2048 gives 8-16384
#   SENDERS    sending processes
#   SECONDS    how long to run
# Runs one receiver and SENDERS senders through shm://KEY, compares every byte, prints one row. Ends
# with an error if any message was lost, corrupt or out of order.
set -euo pipefail
# shellcheck source=tools/script/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p;}' "${BASH_SOURCE[0]}"
}

# whole_number NAME VALUE MOST
whole_number() {
  if ! [[ $2 =~ ^[1-9][0-9]{0,8}$ ]] || [ "$2" -gt "$3" ]; then
    fail "$1 is \"$2\" but must be a whole number from 1 to $3 (--help explains)"
  fi
}

case ${1:-} in
  -h | --help)
    usage
    exit 0
    ;;
esac
if [ $# -lt 2 ] || [ $# -gt 4 ]; then
  usage >&2
  exit 2
fi
key=$1 unit_size=$2 senders=${3:-1} seconds=${4:-10}
# The same letters that a segment's name may have: it becomes a file name in /dev/shm.
if ! [[ $key =~ ^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$ ]]; then
  fail "KEY is \"$key\" but must be 1 to 64 letters, digits, '_', '-' or '.', not starting with '-' or '.'"
fi
whole_number UNIT_SIZE "$unit_size" 8388608
whole_number SENDERS "$senders" 1024
whole_number SECONDS "$seconds" 86400

if ! atbus=$(find_release_command); then
  say "No Release build yet; building one."
  "$root/tools/script/install_dependencies.sh"
  configure release
  build release atbus_command
  atbus=$root/build/release/bin/atbus
fi
command -v jq >/dev/null || "$root/tools/script/install_dependencies.sh"

json=$(mktemp)
trap 'rm -f "$json"' EXIT
bench_code=0
say "shm://$key: running for $seconds s ..." >&2
# The run ends by itself; the longer limit is for the case that it does not.
timeout --foreground --kill-after=10 $((seconds + 60)) \
  "$atbus" bench shm --address "shm://$key" --unit-size "$unit_size" --senders "$senders" \
  --seconds "$seconds" --json "$json" </dev/null >/dev/null || bench_code=$?
if [ ! -s "$json" ]; then
  fail "atbus bench shm ended with code $bench_code and left no result"
fi

# The columns of the ancestor's benchmark table.
jq -r '[.senders, .unit_size * 8, .sender.cpu_percent, .receiver.cpu_percent,
        .sender.max_rss_kib, .receiver.max_rss_kib, .bytes_per_second, .messages_per_second]
       | map(. // 0 | tostring) | join(" ")' "$json" | awk '
  function digits(value) {
    return sprintf(value >= 100 ? "%.0f" : value >= 10 ? "%.1f" : "%.2f", value)
  }
  function scaled(value, unit) {
    if (value >= 1e9) return digits(value / 1e9) "G" unit
    if (value >= 1e6) return digits(value / 1e6) "M" unit
    return digits(value / 1e3) "K" unit
  }
  {
    row = "%-22s %11s %15s %21s %24s %12s %12s\n"
    printf row, "test item", "connections", "packet length", "CPU sender/receiver",
           "memory sender/receiver", "throughput", "QPS"
    printf row, "Linux, shared memory", $1, "8-" $2 " bytes", sprintf("%.0f%%/%.0f%%", $3, $4),
           sprintf("%.1fMB/%.1fMB", $5 * 1024 / 1e6, $6 * 1024 / 1e6), scaled($7, "B/s"),
           scaled($8, "/s")
  }'

problems=$(jq -r '[("lost", "corrupt", "reordered") as $what | select(.[$what] != 0)
                   | "\(.[$what]) \($what)"] | join(", ")' "$json")
if [ -n "$problems" ]; then
  fail "messages: $problems"
fi
if [ "$(jq -r '.messages > 0' "$json")" != true ]; then
  fail "no message arrived"
fi
exit "$bench_code"
