#!/usr/bin/env bash
# Builds the Python module into an environment of its own, build/python, and runs its tests. Arguments
# go to pytest. `test.sh --all` runs this too.
set -euo pipefail
# shellcheck source=tools/script/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

environment=$root/build/python
heading "the Python module"
[ -x "$environment/bin/pip" ] || python3 -m venv "$environment"
"$environment/bin/pip" install -q 'scikit-build-core>=0.10' 'nanobind>=2.0' pytest numpy mypy
compiler=$(find_compiler) || fail "no C++ compiler new enough: GCC 12 or Clang 14 is needed"
# A build tree that stays compiles only what has changed.
CXX=$compiler "$environment/bin/pip" install -q --no-build-isolation --no-deps \
  -C build-dir="$root/build/python_module" -C cmake.args=-DCMAKE_UNITY_BUILD=ON "$root/bindings/python"
before=$(left_behind)
"$environment/bin/python" -m pytest -q -p no:cacheprovider "$@" "$root/bindings/python/tests"
left=$(comm -13 <(printf '%s\n' "$before") <(left_behind))
[ -z "$left" ] || fail "the tests have left files behind: $left"
