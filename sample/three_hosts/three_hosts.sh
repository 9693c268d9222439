#!/usr/bin/env bash
# A tree of nodes over three hosts: a parent on the first, and on each of the two others a router with
# three processes below it. Within a host they meet over Unix sockets that hand out shared memory; the
# routers dial the parent over TCP, and each other when the parent has told them where. Each of the six
# processes greets the five others.
#
# usage: three_hosts.sh start|show|stop|run       run: all three of them
#
# The hosts are network namespaces where this user may make some (root, with `ip`); else all are this
# one, and its loopback interface the network between them.
# MEMBER: the program (build/release/bin/sample_three_hosts_member). THREE_HOSTS_DIR: where its files go.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
member=${MEMBER:-$root/build/release/bin/sample_three_hosts_member}
dir=${THREE_HOSTS_DIR:-${TMPDIR:-/tmp}/atbus-three-hosts-$(id -u)}
leaves=(0x12010001 0x12010002 0x12010003 0x12020001 0x12020002 0x12020003)
patience_s=60

fail() {
  printf 'three_hosts.sh: %s\n' "$*" >&2
  exit 1
}

# Three namespaces, and a cable from the first to each of the others, between which it forwards.
make_hosts() {
  local host
  for host in 0 1 2; do
    ip netns add "$tag-$host" || return 1
    echo "$tag-$host" >>"$dir/namespaces"
    ip -n "$tag-$host" link set lo up || return 1
  done
  for host in 1 2; do
    ip -n "$tag-0" link add "to$host" type veth peer name cable netns "$tag-$host" &&
      ip -n "$tag-0" addr add "10.77.$host.1/24" dev "to$host" &&
      ip -n "$tag-0" link set "to$host" up &&
      ip -n "$tag-$host" addr add "10.77.$host.2/24" dev cable &&
      ip -n "$tag-$host" link set cable up &&
      ip -n "$tag-$host" route add default via "10.77.$host.1" || return 1
  done
  ip netns exec "$tag-0" sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
}

remove_hosts() {
  local name
  [ -e "$dir/namespaces" ] || return 0
  while read -r name; do
    ip netns del "$name"
  done <"$dir/namespaces"
  rm "$dir/namespaces"
}

# start_member HOST ID ARGUMENT...
start_member() {
  local host=$1 on=()
  shift
  if [ -e "$dir/namespaces" ]; then
    on=(ip netns exec "$tag-$host")
  fi
  "${on[@]}" "$member" "$@" >"$dir/$1.out" 2>"$dir/$1.log" </dev/null &
  echo $! >>"$dir/pids"
}

# await SECONDS COMMAND...: until it succeeds.
await() {
  local until=$((SECONDS + $1))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$until" ] || return 1
    sleep 0.1
  done
}

start() {
  local host leaf port address
  [ -x "$member" ] || fail "$member is not there: build it, or set MEMBER"
  mkdir "$dir" || fail "it seems to run already: $0 stop"
  if [ "$1" = run ]; then
    trap stop EXIT
  fi
  tag=atbus-$$
  if ! make_hosts 2>"$dir/namespaces.log"; then
    remove_hosts
    echo "This user may make no network namespaces: the three hosts are one, over loopback."
  fi
  start_member 0 0x12000000 ipv4://0.0.0.0:0 - 0x12000000/40
  await "$patience_s" grep -q listens "$dir/0x12000000.out" || fail "the parent does not start: $dir"
  port=$(sed -n 's/.*listens at .*://p' "$dir/0x12000000.out")
  for host in 1 2; do
    address=127.0.0.1
    if [ -e "$dir/namespaces" ]; then
      address=10.77.$host.1
    fi
    start_member $host 0x120${host}0000 "unix://@$tag-$host,ipv4://0.0.0.0:0" "ipv4://$address:$port" \
      "0x120${host}0000/48"
  done
  for leaf in "${leaves[@]}"; do
    host=${leaf:5:1}
    # shellcheck disable=SC2046  # one word per node
    start_member "$host" "$leaf" "unix://@$tag-$leaf" "unix://@$tag-$host" - \
      $(printf '%s\n' "${leaves[@]}" | grep -v "$leaf")
  done
  echo "Started $(wc -l <"$dir/pids") processes; what they say is in $dir."
}

all_reached() {
  [ "$(cat "$dir"/*.out | grep -c ' reached ')" -ge 30 ] &&
    grep -q 'is linked to 0x12020000' "$dir/0x12010000.out" &&
    grep -q 'is linked to 0x12010000' "$dir/0x12020000.out"
}

show() {
  [ -e "$dir/pids" ] || fail "nothing runs: $0 start"
  local how=0
  await "$patience_s" all_reached || how=1
  sort "$dir"/*.out
  [ $how = 0 ] || fail "not all have reached each other, or the routers are not linked; what they say is in $dir"
}

stop() {
  local pid
  [ -d "$dir" ] || fail "nothing runs"
  while read -r pid; do
    # Not another process that has the number now.
    if [ "/proc/$pid/exe" -ef "$member" ]; then
      kill "$pid"
      await "$patience_s" test ! -e "/proc/$pid/fd/0" || fail "process $pid does not end"
    fi
  done < <(cat "$dir/pids" 2>/dev/null)
  remove_hosts
  rm -r "$dir"
}

case ${1:-} in
  start | show | stop) "$1" "$1" ;;
  run)
    start run
    show
    ;;
  *) fail "usage: three_hosts.sh start|show|stop|run" ;;
esac
