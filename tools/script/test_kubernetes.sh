#!/usr/bin/env bash
# Checks the manifests of packaging/kubernetes against the schemas of Kubernetes, and runs what they run with the real
# relay. Arguments go to unittest. `test.sh --all` runs this too.
set -euo pipefail
# shellcheck source=tools/script/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

heading "the manifests for Kubernetes"
configure release
build release atbus_command
environment=$root/build/kubernetes
[ -x "$environment/bin/pip" ] || python3 -m venv "$environment"
"$environment/bin/pip" install -q kubernetes-validate==1.37.0 PyYAML
before=$(left_behind) reports=$(node_reports)
ATBUS=$root/build/release/bin/atbus "$environment/bin/python" -B "$root/test/kubernetes/manifests_test.py" "$@"
remove_reports "$reports"
left=$(comm -13 <(printf '%s\n' "$before") <(left_behind))
[ -z "$left" ] || fail "the tests have left files behind: $left"
