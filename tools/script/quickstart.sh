#!/usr/bin/env bash
# From a fresh clone to processes that exchange messages: installs what is missing, builds the Release
# build, kills a receiver in mid traffic and shows that nothing is lost, and measures for a few seconds.
set -euo pipefail
# shellcheck source=tools/script/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
case "${1:-}" in
  "") ;;
  -h | --help)
    say "usage: quickstart.sh    installs what is missing, builds, and runs for a few seconds"
    exit
    ;;
  *) fail "unknown argument \"$1\"; quickstart.sh takes none" ;;
esac

"$root/tools/script/install_dependencies.sh"
heading "build"
configure release
build release atbus_command sample_hot_restart_producer sample_hot_restart_worker
atbus=$root/build/release/bin/atbus

# Node 1 sends orders to node 2, which writes a line for each. Node 2 is killed and started again.
orders=1000000
kills=5
address=shm://quickstart-$$
work=$(mktemp -d)
start_worker() {
  "$root/build/release/bin/sample_hot_restart_worker" "$address" >>"$work/handled" &
  worker=$!
}
end_restart() {
  kill -9 "$worker" "$producer" 2>/dev/null || true
  wait "$worker" "$producer" 2>/dev/null || true
  "$atbus" shm clean "quickstart-$$" >/dev/null 2>&1 || true
  rm -rf "$work"
  remove_reports "$reports"
}
heading "two nodes, $orders messages, kill -9 of the receiver $kills times"
producer=
reports=$(node_reports)
start_worker
trap end_restart EXIT
"$root/build/release/bin/sample_hot_restart_producer" "$address" "$orders" &
producer=$!
for ((i = 0; i < kills; ++i)); do
  sleep 0.1
  kill -9 "$worker"
  wait "$worker" 2>/dev/null || true
  start_worker
done
wait "$producer" || fail "the sender was told that messages were lost"
awk -v orders="$orders" '
  $2 == "again" { ++marked }
  $1 in seen { if ($2 == "") ++unmarked; next }
  { seen[$1]; ++handled; if ($1 < last) ++late; last = $1 }
  END {
    printf "%-34s%9d\n", "sent", orders
    printf "%-34s%9d\n", "handled", handled
    printf "%-34s%9d\n", "missing", orders - handled
    printf "%-34s%9d\n", "marked: the receiver died in it", marked
    printf "%-34s%9d\n", "repeated without a mark", unmarked
    printf "%-34s%9d\n", "out of order", late
    exit handled != orders || unmarked != 0 || late != 0
  }' "$work/handled" || fail "messages were lost or repeated"
trap - EXIT
end_restart

heading "messages of 8 to 128 bytes, one sender, one receiver, every byte checked"
"$atbus" bench shm --unit-size 16 --seconds 3 </dev/null
heading "messages of 8 to 16384 bytes"
"$atbus" bench shm --unit-size 2048 --seconds 3 </dev/null

cat <<END

Those were processes on this machine, through /dev/shm. Where to go next:
  sample/hello/, sample/hot_restart/           the programs to begin with
  build/release/bin/atbus bench shm --help     more senders, other sizes, sleeping receivers
  build/release/bin/atbus bench shm --limit    what this machine allows, and our share of it
  doc/nodes.md, doc/guide.md                   how to use nodes, and the channels below them
  tools/script/test.sh                         builds and runs all tests
END
