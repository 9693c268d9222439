#!/usr/bin/env bash
# From a fresh clone to two processes that exchange messages through shared memory: installs what is
# missing, builds the Release build and runs the main job for a few seconds.
set -euo pipefail
# shellcheck source=tools/script/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
case "${1:-}" in
  "") ;;
  -h | --help)
    say "usage: quickstart.sh    installs what is missing, builds, and measures for a few seconds"
    exit
    ;;
  *) fail "unknown argument \"$1\"; quickstart.sh takes none" ;;
esac

"$root/tools/script/install_dependencies.sh"
heading "build"
configure release
build release atbus_command
atbus=$root/build/release/bin/atbus

heading "messages of 8 to 128 bytes, one sender, one receiver, every byte checked"
"$atbus" bench shm --unit-size 16 --seconds 3 </dev/null
heading "messages of 8 to 16384 bytes"
"$atbus" bench shm --unit-size 2048 --seconds 3 </dev/null

cat <<END

That was two processes on this machine, through /dev/shm. Where to go next:
  build/release/bin/atbus bench shm --help     more senders, other sizes, sleeping receivers
  build/release/bin/atbus bench shm --limit    what this machine allows, and our share of it
  sample/channel/                              a sender and a receiver to copy from
  doc/guide.md                                 how to use the library
  tools/script/test.sh                         builds and runs all tests
END
