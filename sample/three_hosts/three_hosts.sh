#!/usr/bin/env bash
# A tree of nodes over three hosts: a relay on the first, and on each of the two others a relay with three
# processes below it. Within a host they meet over Unix sockets that hand out shared memory; the two relays
# dial the first one over TCP, and each other when it has told them where. Each of the six processes greets
# the five others.
#
# usage: three_hosts.sh start|show|stop|run       run: all three of them
#        three_hosts.sh on HOST COMMAND...        runs a command on host 0, 1 or 2, while they run
#
# The hosts are network namespaces where this user may make some (root, with `ip`); else all are this
# one, and its loopback interface the network between them.
# MEMBER: the program of the six (build/release/bin/sample_three_hosts_member). ATBUS: the command
# (build/release/bin/atbus). THREE_HOSTS_DIR: where their files go. THREE_HOSTS_HTTP: the port of the first
# relay's status page (9464).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
member=${MEMBER:-$root/build/release/bin/sample_three_hosts_member}
atbus=${ATBUS:-$root/build/release/bin/atbus}
http_port=${THREE_HOSTS_HTTP:-9464}
dir=${THREE_HOSTS_DIR:-${TMPDIR:-/tmp}/atbus-three-hosts-$(id -u)}
leaves=(0x12010001 0x12010002 0x12010003 0x12020001 0x12020002 0x12020003)
patience_s=60
# shellcheck source=sample/hosts.sh
source "$root/sample/hosts.sh"

# start_relay HOST ID RANGE PARENT ADDRESS...
start_relay() {
  local host=$1 id=$2 range=$3 parent=$4
  shift 4
  {
    printf 'id = "%s"\nchildren = "%s"\ntoken_file = ["token"]\n' "$id" "$range"
    printf 'listen = ["%s"' "$1"
    shift
    [ $# -eq 0 ] || printf ', "%s"' "$@"
    printf ']\n'
    [ "$parent" = - ] || printf 'parent = "%s"\n' "$parent"
    [ "$host" != 0 ] || printf '[http]\nlisten = "127.0.0.1:%s"\n' "$http_port"
  } >"$dir/$id.toml"
  start_on "$host" "$id" "$atbus" relay --config "$dir/$id.toml"
}

start() {
  local host leaf port address
  [ -x "$member" ] || fail "$member is not there: build it, or set MEMBER"
  [ -x "$atbus" ] || fail "$atbus is not there: build it, or set ATBUS"
  mkdir "$dir" || fail "it seems to run already: $0 stop"
  if [ "$1" = run ]; then
    trap stop EXIT
  fi
  tag=atbus-$$
  if ! make_hosts 2>"$dir/namespaces.log"; then
    remove_hosts
    echo "This user may make no network namespaces: the three hosts are one, over loopback."
  fi
  (umask 077 && od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$dir/token")
  start_relay 0 0x12000000 0x12000000/40 - ipv4://0.0.0.0:0 "unix://@$tag-0"
  await "$patience_s" grep -q 'listens at ipv4' "$dir/0x12000000.log" || fail "the first relay does not start: $dir"
  port=$(sed -n 's/.*listens at ipv4.*://p' "$dir/0x12000000.log")
  for host in 1 2; do
    address=127.0.0.1
    if [ -e "$dir/namespaces" ]; then
      address=10.77.$host.1
    fi
    start_relay $host "0x120${host}0000" "0x120${host}0000/48" "ipv4://$address:$port" "unix://@$tag-$host" \
      ipv4://0.0.0.0:0
  done
  for leaf in "${leaves[@]}"; do
    host=${leaf:5:1}
    # shellcheck disable=SC2046  # one word per node
    start_on "$host" "$leaf" "$member" "$leaf" "unix://@$tag-$leaf" "unix://@$tag-$host" "$dir/token" \
      $(printf '%s\n' "${leaves[@]}" | grep -v "$leaf")
  done
  echo "$tag" >"$dir/tag"
  echo "Started $(wc -l <"$dir/pids") processes; what they say is in $dir."
}

all_reached() {
  [ "$(cat "$dir"/*.out | grep -c ' reached ')" -ge 30 ] &&
    grep -q "connected to $((0x12020000)) through" "$dir/0x12010000.log" &&
    grep -q "connected to $((0x12010000)) through" "$dir/0x12020000.log"
}

show() {
  [ -e "$dir/pids" ] || fail "nothing runs: $0 start"
  local how=0
  await "$patience_s" all_reached || how=1
  sort "$dir"/*.out
  grep -h 'connected to' "$dir"/0x12??0000.log | sed 's/^[^ ]* //' | sort
  [ $how = 0 ] || fail "not all have reached each other, or the relays are not linked; what they say is in $dir"
  [ "$1" = run ] || look_at_it
}

look_at_it() {
  local tag on="$0 on 0 "
  tag=$(cat "$dir/tag")
  [ -e "$dir/namespaces" ] || on=
  cat <<EOF

All nodes, once:     $atbus top --once
The way of messages: $on$atbus trace unix://@$tag-0 ${leaves[3]} --token-file $dir/token
Metrics:             ${on}curl http://127.0.0.1:$http_port/metrics
The status page:     http://127.0.0.1:$http_port/ on host 0
EOF
}

stop() {
  local pid
  [ -d "$dir" ] || fail "nothing runs"
  while read -r pid; do
    # Not another process that has the number now.
    if [ "/proc/$pid/exe" -ef "$member" ] || [ "/proc/$pid/exe" -ef "$atbus" ]; then
      kill "$pid"
      await "$patience_s" test ! -e "/proc/$pid/fd/0" || fail "process $pid does not end"
    fi
  done < <(cat "$dir/pids" 2>/dev/null)
  remove_hosts
  rm -r "$dir"
}

case ${1:-} in
  start | show | stop) "$1" "$1" ;;
  on)
    shift
    [ $# -ge 2 ] || fail "usage: three_hosts.sh on HOST COMMAND..."
    on "$@"
    ;;
  run)
    start run
    show run
    ;;
  *) fail "usage: three_hosts.sh start|show|stop|run|on" ;;
esac
