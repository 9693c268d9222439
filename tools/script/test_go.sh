#!/usr/bin/env bash
# Builds libatbus_c in build/release, and runs go vet and the tests of the Go package with it, also with the race
# detector. Arguments go to go test. `test.sh --all` runs this too.
set -euo pipefail
# shellcheck source=tools/script/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

heading "the Go package"
configure release
build release atbus_c
export CGO_CFLAGS="-O2 -I$root/include"
export CGO_LDFLAGS="-L$root/build/release/lib -Wl,-rpath,$root/build/release/lib"
cd "$root/bindings/go"
unformatted=$(gofmt -l .)
[ -z "$unformatted" ] || fail "gofmt would change: $unformatted"
go vet ./...
before=$(left_behind)
go test -count=1 -timeout 300s "$@" ./...
# In each of its processes the detector waits a second at the end, unless it is told not to.
GORACE=atexit_sleep_ms=0 go test -race -count=1 -timeout 600s "$@" ./...
left=$(comm -13 <(printf '%s\n' "$before") <(left_behind))
[ -z "$left" ] || fail "the tests have left files behind: $left"
