#!/usr/bin/env bash
# usage: startup_benchmark_shm.sh KEY UNIT_SIZE [SENDERS=1] [SECONDS=10]
#   KEY        name of the shared memory segment, such as 12345679
#   UNIT_SIZE  messages are 8 x a random 1..UNIT_SIZE bytes long: 16 gives 8-128, 2048 gives 8-16384
#   SENDERS    sending processes
#   SECONDS    how long to run
# Runs one receiver and SENDERS senders through shm://KEY, compares every byte, prints one row. Ends
# with an error if any message was lost, corrupt or out of order.
set -euo pipefail
# shellcheck source=tools/script/benchmark.sh
source "$(dirname "${BASH_SOURCE[0]}")/benchmark.sh"

take_arguments 2 4 "$@"
key=$1 unit_size=$2 senders=${3:-1} seconds=${4:-10}
# The same letters that a segment's name may have: it becomes a file name in /dev/shm.
if ! [[ $key =~ ^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$ ]]; then
  fail "KEY is \"$key\" but must be 1 to 64 letters, digits, '_', '-' or '.', not starting with '-' or '.'"
fi
whole_number UNIT_SIZE "$unit_size" 1 8388608
whole_number SENDERS "$senders" 1 1024
whole_number SECONDS "$seconds" 1 86400

run_benchmark "Linux, shared memory" "$seconds" shm --address "shm://$key" \
  --unit-size "$unit_size" --senders "$senders"
