#!/usr/bin/env bash
# usage: startup_benchmark_io_stream.sh ADDRESS UNIT_SIZE LIMIT_SIZE STATIC_BLOCKS [SECONDS=10]
#   ADDRESS        where the receiver listens, such as ipv6://::1:16389 (port 0: a free one),
#                  ipv4://127.0.0.1:0 or unix:///tmp/bench.sock
#   UNIT_SIZE      messages are 8 x a random 1..UNIT_SIZE bytes long: 16 gives 8-128, 2048 gives 8-16384
#   LIMIT_SIZE     most bytes in the send buffer
#   STATIC_BLOCKS  blocks of a static send buffer; 0: one that grows with malloc
#   SECONDS        how long to run
# Runs one receiver and one sender over a socket, compares every byte, prints one row. Ends with an
# error if any message was lost, corrupt or out of order.
set -euo pipefail
# shellcheck source=tools/script/benchmark.sh
source "$(dirname "${BASH_SOURCE[0]}")/benchmark.sh"

take_arguments 4 5 "$@"
address=$1 unit_size=$2 limit_size=$3 static_blocks=$4 seconds=${5:-10}
kind=${address%%://*}
case $address in
  ipv4://?* | ipv6://?* | unix://?*) ;;
  *) fail "ADDRESS is \"$address\" but must begin with ipv4://, ipv6:// or unix:// (--help explains)" ;;
esac
whole_number UNIT_SIZE "$unit_size" 1 8388608
whole_number LIMIT_SIZE "$limit_size" 4096 1073741824
whole_number STATIC_BLOCKS "$static_blocks" 0 8388608
whole_number SECONDS "$seconds" 1 86400

buffer=(--buffer malloc)
name="Linux, $kind, malloc"
if [ "$static_blocks" -ne 0 ]; then
  buffer=(--buffer static --send-buffer-blocks "$static_blocks")
  name="Linux, $kind, static"
fi
run_benchmark "$name" "$seconds" stream --address "$address" --unit-size "$unit_size" \
  --send-buffer-bytes "$limit_size" "${buffer[@]}"
