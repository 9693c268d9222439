#!/usr/bin/env bash
# Builds the container of the relay from the Debian packages in build/package/debian (package.sh makes them), on a base
# image that is made here, and runs it: it checks its configuration, answers, and ends on SIGTERM. Needs root rights,
# buildah and mmdebstrap. `test.sh --all` runs this too.
set -euo pipefail
# shellcheck source=tools/script/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
case "${1:-}" in
  '') ;;
  -h | --help)
    usage
    exit
    ;;
  *) fail "unknown argument \"$1\"; usage: test_container.sh" ;;
esac

heading "the container of the relay"
if [ "$(id -u)" -ne 0 ] || ! command -v buildah >/dev/null || ! unshare --mount true 2>/dev/null; then
  say "no root rights, no buildah or no mounts: skipped"
  exit
fi
packages=$root/build/package/debian
base=$root/build/package/kept/root.tar
[ -f "$base" ] || fail "$base is missing: test_package.sh makes it"
work=$(mktemp -d)
relay=
finish() {
  [ -z "$relay" ] || kill "$relay" 2>/dev/null || true
  buildah_here rm --all >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap finish EXIT

# Images of this test alone, and no need of an overlay.
buildah_here() {
  buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"
}

empty=$(buildah_here from scratch)
buildah_here add -q "$empty" "$base" / >/dev/null
buildah_here commit -q "$empty" base >/dev/null
buildah_here rm "$empty" >/dev/null
buildah_here build -q --isolation chroot --network host --build-arg BASE=localhost/base \
  -f "$root/packaging/container/Containerfile" -t relay "$packages" >/dev/null

mkdir "$work/relay" "$work/shared"
chmod 777 "$work/shared"
head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$work/relay/token"
cat >"$work/relay/relay.toml" <<'EOF'
id = 1
token_file = ["token"]
listen = ["ipv4://127.0.0.1:0"]
EOF
chmod -R a+rX "$work/relay"
# end_below PID: asks the relay among its descendants to end.
end_below() {
  local below
  for below in $(pgrep -P "$1"); do
    if [ "$(cat "/proc/$below/comm")" = atbus ]; then
      kill -TERM "$below"
    else
      end_below "$below"
    fi
  done
}

container=$(buildah_here from relay)
# run_relay ARGUMENT...: as the container's entry does.
run_relay() {
  buildah_here run --isolation chroot --network host --user atbus -v "$work/relay:/etc/atbus:ro" "$container" -- \
    /usr/bin/atbus relay --config /etc/atbus/relay.toml "$@"
}
run_relay --check
run_relay 2>"$work/log" &
relay=$!
for _ in $(seq 100); do
  grep -q 'listens at' "$work/log" && break
  sleep 0.1
done
address=$(sed -n 's/.*listens at //p' "$work/log")
[ -n "$address" ] || fail "the relay does not start: $(cat "$work/log")"
"$root/build/package/bin/atbus" ping "$address" --token-file "$work/relay/token" --count 1
end_below "$relay"
wait "$relay" || fail "the relay does not end well: $(cat "$work/log")"
relay=
grep -q 'have their outcome' "$work/log" || fail "the relay says nothing of its end: $(cat "$work/log")"
say "the container works"
