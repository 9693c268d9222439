#!/usr/bin/env bash
# Installs the systems that atbus is compared with, and nothing that is there already. One that can't
# be had is reported with the reason; the comparison goes on without it.
#
# usage: install_rivals.sh [RIVAL...]    by default all: zeromq nng boost nats cyclonedds memcached
#                                        redis grpc plots aeron vertx iceoryx2 zenoh
set -uo pipefail
# shellcheck source=tools/script/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../script/common.sh"
compare=$root/tools/compare
logs=$root/build/compare/install
programs=$root/build/compare/bin
updated=no

# packages NAME...: those of them that dpkg does not know as installed. Lists of packages are
# fetched once at most.
packages() {
  local name lacking=()
  command -v apt-get >/dev/null || { say "no apt-get here"; return 1; }
  for name in "$@"; do
    dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || lacking+=("$name")
  done
  [ ${#lacking[@]} -gt 0 ] || return 0
  if [ "$updated" = no ]; then
    apt_get update
    updated=yes
  fi
  apt_get install -y --no-install-recommends "${lacking[@]}"
}

rival_zeromq() { packages libzmq3-dev; }
rival_nng() { packages libnng-dev; }
rival_boost() { packages libboost-dev; }
rival_nats() { packages nats-server libnats-dev; }
# With its shared memory, which needs the daemon of iceoryx.
rival_cyclonedds() { packages cyclonedds-dev cyclonedds-tools iceoryx; }
rival_memcached() { packages memcached; }
rival_redis() { packages redis-server; }
rival_grpc() { packages libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc; }
# Not a rival, but without it there are tables only.
rival_plots() { packages python3-matplotlib; }

rival_aeron() {
  packages default-jdk-headless maven && "$compare/systems/aeron/build.sh" "$programs"
}

rival_vertx() {
  packages default-jdk-headless maven && "$compare/systems/vertx/build.sh" "$programs"
}

has_cargo() { command -v cargo >/dev/null || packages cargo; }

rival_iceoryx2() {
  has_cargo && packages libclang1 && "$compare/systems/iceoryx2/build.sh" "$programs"
}

rival_zenoh() {
  has_cargo && "$compare/systems/zenoh/build.sh" "$programs"
}

rivals=("$@")
if [ ${#rivals[@]} -eq 0 ]; then
  rivals=(zeromq nng boost nats cyclonedds memcached redis grpc plots aeron vertx iceoryx2 zenoh)
fi
mkdir -p "$logs"
for rival in "${rivals[@]}"; do
  [ "$(type -t "rival_$rival")" = function ] || fail "no rival \"$rival\""
  if "rival_$rival" >"$logs/$rival.log" 2>&1; then
    say "$rival: here"
  else
    say "$rival: missing: $(tail -n 1 "$logs/$rival.log")"
  fi
done
