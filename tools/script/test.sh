#!/usr/bin/env bash
# Installs what is missing, builds everything and runs all tests. Arguments go to ctest, so
# `test.sh -R channel` runs only the tests whose names contain "channel". `test.sh --all` also installs
# what other languages and packages need, and runs their tests.
set -euo pipefail
# shellcheck source=tools/script/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
case "${1:-}" in
  -h | --help)
    say "usage: test.sh [--all] [CTEST-ARGUMENT...]    installs what is missing, builds everything, runs all tests"
    exit
    ;;
esac
all=()
if [ "${1:-}" = --all ]; then
  all=(--all)
  shift
fi

"$root/tools/script/install_dependencies.sh" "${all[@]}"
heading "build"
configure release -D ATBUS_BUILD_TESTS=ON -D ATBUS_BUILD_TOOLS=ON -D ATBUS_BUILD_SAMPLES=ON
build release
heading "test"
cd "$root/build/release"
run_ctest "$PWD" ctest --output-on-failure --no-tests=error --parallel "$test_jobs" "$@" </dev/null
if [ ${#all[@]} -ne 0 ]; then
  "$root/tools/script/test_languages.sh"
  "$root/tools/script/test_page.sh"
  "$root/tools/script/abi.sh"
  "$root/tools/script/test_package.sh"
  "$root/tools/script/test_container.sh"
  "$root/tools/script/test_kubernetes.sh"
fi
