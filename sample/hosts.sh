# Three hosts for samples, 0, 1 and 2: network namespaces where this user may make some (root, with `ip`); else all
# are this one, and its loopback interface the network between them. For scripts, which set
#   dir   where files go: one of each process, its number in "pids", and "namespaces" if there are any
#   tag   begins the namespaces' names

fail() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
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

# on HOST COMMAND...: does not come back.
on() {
  local host=$1 name
  shift
  name=$(grep -- "-$host\$" "$dir/namespaces" 2>/dev/null) || exec "$@"
  exec ip netns exec "$name" "$@"
}

# start_on HOST ID COMMAND...: what it says goes into files of that name.
start_on() {
  local host=$1 id=$2
  shift 2
  (on "$host" "$@") >"$dir/$id.out" 2>"$dir/$id.log" </dev/null &
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
