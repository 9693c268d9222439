#!/usr/bin/env bash
# A fleet over three hosts, whose processes find each other in etcd. Two servers on each host offer the service
# "chat"; on each host a program with a hundred players talks to them. Then each server is restarted, one after
# another, while the players go on. In the end all that was said has been answered, once.
#
# usage: fleet.sh run
#
# The hosts are network namespaces where this user may make some (root, with `ip`); else all are this
# one, and its loopback interface the network between them.
# PROGRAMS: where the programs are (build/release/bin). FLEET_DIR: where their files go.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
programs=${PROGRAMS:-$root/build/release/bin}
dir=${FLEET_DIR:-${TMPDIR:-/tmp}/atbus-fleet-$(id -u)}
tag=atbus-fleet-$$
servers=(0x100 0x101 0x110 0x111 0x120 0x121) # the second digit is the host
players=(0x200 0x210 0x220)
patience_s=60
# shellcheck source=sample/hosts.sh
source "$root/sample/hosts.sh"
declare -A pid_of=() starts_of=()

# Where processes on that host listen.
address_of() {
  if [ ! -e "$dir/namespaces" ]; then
    echo 127.0.0.1
  elif [ "$1" = 0 ]; then
    echo 10.77.1.1
  else
    echo "10.77.$1.2"
  fi
}

start_etcd() {
  local port
  port=$(free_port)
  etcd=http://$(address_of 0):$port
  start_on 0 etcd etcd --data-dir "$dir/etcd" --log-level error --listen-client-urls "http://0.0.0.0:$port" \
    --advertise-client-urls "$etcd" --listen-peer-urls http://127.0.0.1:0
}

# One that nobody listens at: the kernel says so at once.
free_port() {
  local port
  for port in $(shuf -i 20000-30000 -n 20); do
    if ! (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
      echo "$port"
      return
    fi
  done
}

# start_one ID PROGRAM ARGUMENT...: each start has files of its own.
start_one() {
  local id=$1 program=$2
  shift 2
  starts_of[$id]=$((${starts_of[$id]:-0} + 1))
  start_on "${id:3:1}" "$id.${starts_of[$id]}" "$programs/sample_fleet_$program" "$id" "$etcd" "$dir/token" "$@"
  pid_of[$id]=$!
}
start_server() { start_one "$1" server "ipv4://$(address_of "${1:3:1}"):0" "unix://@$tag-$1"; }

end_one() {
  kill "${pid_of[$1]}"
  wait "${pid_of[$1]}" || fail "$1 ends with an error: $dir/$1.${starts_of[$1]}.log"
}

# all_know COUNT: how many servers each player has heard of, at last.
all_know() {
  local player
  for player in "${players[@]}"; do
    [ "$(grep '^chat has' "$dir/$player.1.out" | tail -1)" = "chat has $1 servers" ] || return 1
  done
}

# sum WORD FILE...: of the numbers behind that word.
sum() {
  local word=$1
  shift
  cat "$@" | grep -o "\b$word [0-9]*" | awk '{ all += $2 } END { print all + 0 }'
}

run() {
  local id said answered handled
  command -v etcd >/dev/null || fail "etcd is not installed"
  [ -x "$programs/sample_fleet_server" ] || fail "$programs/sample_fleet_server is not there: build it, or set PROGRAMS"
  mkdir "$dir" || fail "it seems to run already, or did not end: kill its processes, and remove $dir"
  trap stop EXIT
  if ! make_hosts 2>"$dir/namespaces.log"; then
    remove_hosts
    echo "This user may make no network namespaces: the three hosts are one, over loopback."
  fi
  (umask 077 && od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$dir/token")
  start_etcd
  for id in "${servers[@]}"; do start_server "$id"; done
  for id in "${players[@]}"; do start_one "$id" player; done
  await "$patience_s" all_know ${#servers[@]} || fail "not all servers are known; what the programs say is in $dir"
  echo "${#servers[@]} servers and ${#players[@]} programs with 100 players each know each other by etcd."
  for id in "${servers[@]}"; do
    end_one "$id"
    await "$patience_s" all_know $((${#servers[@]} - 1)) || fail "$id has left, and not all have heard of it"
    start_server "$id"
    await "$patience_s" all_know ${#servers[@]} || fail "$id is back, and not all have heard of it"
    echo "Server $id has been restarted."
  done
  for id in "${players[@]}" "${servers[@]}"; do end_one "$id"; done
  tail -qn1 "$dir"/0x2??.1.out
  said=$(sum said "$dir"/0x2??.1.out)
  answered=$(sum answered "$dir"/0x2??.1.out)
  handled=$(sum answered "$dir"/0x1??.?.out)
  echo "$said said, $answered answered; the servers have answered $handled."
  [ "$said" -gt 0 ] && [ "$said" = "$answered" ] && [ "$said" = "$handled" ] || fail "something was lost or came twice"
}

stop() {
  local pid
  while read -r pid; do
    if [ -e "/proc/$pid" ] && [ "$(ps -o ppid= -p "$pid" | tr -d ' ')" = $$ ]; then
      kill -KILL "$pid"
      wait "$pid" 2>/dev/null || true
    fi
  done < <(cat "$dir/pids" 2>/dev/null)
  remove_hosts
  [ -n "${KEEP:-}" ] || rm -r "$dir"
}

case ${1:-} in
  run) run ;;
  *) fail "usage: fleet.sh run" ;;
esac
